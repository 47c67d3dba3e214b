package console

import (
	"slices"
	"strconv"

	"github.com/flowgen/flowgen/admin"
)

// fleetPage is a page of a list of queues, workers or schedules.
type fleetPage struct {
	Workers   []admin.Worker
	Queues    []admin.Queue
	Pools     []admin.Pool
	NoPools   *admin.Problem
	Rates     admin.Rates
	NoRates   *admin.Problem
	Schedules []admin.Schedule
	Next      string
	Command   string
}

func workersPage(q *request) (*view, error) {
	page, err := q.service.Workers(q.ctx(), admin.FleetFilter{Cursor: q.query.Get("cursor")})
	if err != nil {
		return nil, err
	}
	l := &fleetPage{Workers: page.Workers, Next: nextPage(q, page.Cursor), Command: q.h.command("workers")}
	return &view{name: "workers", Title: "Workers", Nav: "workers", Live: true, Data: l}, nil
}

// servedQueue contains the workflows that a worker serves on a queue.
type servedQueue struct {
	Queue     string
	Workflows []string
}

// byQueue groups the workflows that a worker serves by queue.
func byQueue(served []admin.Served) []servedQueue {
	var all []servedQueue
	for _, s := range served {
		i := slices.IndexFunc(all, func(q servedQueue) bool { return q.Queue == s.Queue })
		if i < 0 {
			i = len(all)
			all = append(all, servedQueue{Queue: s.Queue})
		}
		all[i].Workflows = append(all[i].Workflows, s.Workflow)
	}
	return all
}

func queuesPage(q *request) (*view, error) {
	page, err := q.service.Queues(q.ctx(), admin.FleetFilter{Cursor: q.query.Get("cursor")})
	if err != nil {
		return nil, err
	}
	l := &fleetPage{Queues: page.Queues, Next: nextPage(q, page.Cursor), Command: q.h.command("queues")}
	pools, err := q.service.Pools(q.ctx(), admin.PoolFilter{Holders: true})
	l.Pools, l.NoPools = pools.Pools, admin.ProblemOf(err) // the queues are shown even if the limits cannot be read
	rates, err := q.service.Rates(q.ctx())
	l.Rates, l.NoRates = rates, admin.ProblemOf(err)
	return &view{name: "queues", Title: "Queues and limits", Nav: "queues", Live: true, Data: l}, nil
}

func schedulesPage(q *request) (*view, error) {
	page, err := q.service.Schedules(q.ctx(), admin.ScheduleFilter{Cursor: q.query.Get("cursor")})
	if err != nil {
		return nil, err
	}
	l := &fleetPage{Schedules: page.Schedules, Next: nextPage(q, page.Cursor), Command: q.h.command("schedules")}
	return &view{name: "schedules", Title: "Schedules", Nav: "schedules", Live: true, Data: l}, nil
}

// nextPage returns the URL of the page after a cursor. It returns the empty string if the cursor is
// empty.
func nextPage(q *request, cursor string) string {
	if cursor == "" {
		return ""
	}
	return changed(q, "cursor", cursor)
}

// runsPerTree is the number of rows on a page of a tree.
const runsPerTree = 100

// treeView is a page of the tree of a run.
type treeView struct {
	admin.Tree
	First, Of   int
	Older, Next string // URLs of the neighboring pages
}

func treeTab(q *request, v *runView) (any, error) {
	tree, err := q.service.Tree(q.ctx(), v.ID)
	if err != nil {
		return nil, err
	}
	t := &treeView{Tree: tree, Of: len(tree.Runs)}
	first := int(number64(q.query.Get("row"), 0))
	if first < 0 || first >= t.Of {
		first = 0
	}
	last := min(first+runsPerTree, t.Of)
	if t.First = first + 1; first > 0 {
		t.Older = changed(q, "row", strconv.Itoa(max(first-runsPerTree, 0)))
	}
	if last < t.Of {
		t.Next = changed(q, "row", strconv.Itoa(last))
	}
	t.Runs = tree.Runs[first:last]
	return t, nil
}

// scheduleView is a schedule with the actions that it accepts at present.
type scheduleView struct {
	admin.Schedule
	Acts    []string
	Recent  []admin.ScheduleStart // started runs, the newest first
	Command string
}

func schedulePage(q *request) (*view, error) {
	s, err := q.service.Schedule(q.ctx(), q.path("name"))
	if err != nil {
		return nil, err
	}
	v := &scheduleView{Schedule: s, Command: q.h.command("schedules show", shell(s.Name)), Recent: slices.Clone(s.Recent)}
	slices.Reverse(v.Recent)
	for _, name := range []string{"trigger", "pause", "resume", "backfill", "delete"} {
		if q.mayActOnSchedule(name) && !(name == "pause" && s.Paused) && !(name == "resume" && !s.Paused) {
			v.Acts = append(v.Acts, name)
		}
	}
	return &view{name: "schedule", Title: s.Name, Nav: "schedules", Live: true, Data: v}, nil
}

func (q *request) mayActOnSchedule(verb string) bool {
	return q.who.Role.Allows(admin.RoleAdmin) || verb != "delete" && q.who.Role.Allows(admin.RoleOperator)
}

// deploysView is the list of builds.
type deploysView struct {
	admin.Deploys
	Drained *admin.Drained // the answer about one build, if it was asked for
	Command string
}

// deploysPage lists the builds. It reads the logs of open runs, so an open page is not drawn again by
// itself.
func deploysPage(q *request) (*view, error) {
	l := &deploysView{Command: q.h.command("deploys")}
	if build := oneLine(q.query.Get("drained")); build != "" {
		d, err := q.service.Drained(q.ctx(), build)
		if err != nil {
			return nil, err
		}
		l.Drained, l.Command = &d, l.Command+" drained "+shell(build)
	}
	var err error
	if l.Deploys, err = q.service.Deploys(q.ctx()); err != nil {
		return nil, err
	}
	return &view{name: "deploys", Title: "Deployments", Nav: "deploys", Data: l}, nil
}
