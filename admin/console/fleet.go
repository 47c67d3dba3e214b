package console

import (
	"slices"
	"strconv"

	"github.com/flowgen/flowgen/admin"
)

// fleetPage is the list of a part of the fleet, one page of it.
type fleetPage struct {
	Workers   []admin.Worker
	Queues    []admin.Queue
	Pools     []admin.Pool
	NoPools   *admin.Problem
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

// servedQueue has the workflows of a queue that a worker serves.
type servedQueue struct {
	Queue     string
	Workflows []string
}

// byQueue returns what a worker serves, queue by queue.
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
	l.Pools, l.NoPools = pools.Pools, admin.ProblemOf(err) // queues are shown without them
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

// nextPage returns the address of the page after a cursor; empty: there is none.
func nextPage(q *request, cursor string) string {
	if cursor == "" {
		return ""
	}
	return changed(q, "cursor", cursor)
}

// runsPerTree is how many rows a page of a tree has.
const runsPerTree = 100

// treeView is a run and those below it, one page of them.
type treeView struct {
	admin.Tree
	First, Of   int
	Older, Next string // addresses of other pages
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
