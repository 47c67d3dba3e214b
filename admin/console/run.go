package console

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// runView contains the parts that all pages of a run show.
type runView struct {
	admin.Run
	Tab     string
	Tabs    []tab
	Why     *why
	Took    time.Duration
	Main    []string // actions next to the name of the run
	More    []string // the other actions
	Did     *did
	Hooks   []hookButton // open hooks of the run, for readers that may send to them
	Command string
	Body    any            // contents of the tab
	Err     *admin.Problem // reason why the log cannot be read; nil if it is readable
}

type tab struct {
	Name, Text, Count string
}

// why describes the reason why a run does not progress.
type why struct {
	Kind    string // a status, which determines the color
	Title   string
	Text    string
	Frees   string // condition under which the run continues
	Failure *admin.Failure
	Group   string
	Retries []admin.Retry
	Sides   *sides
	Limits  []admin.LimitWait
	Checks  bool      // whether the page of checks may show more
	Since   time.Time // time since which the run has not progressed; zero if unknown
	now     time.Time
}

// For returns the time for which the run has not progressed.
func (w *why) For() time.Duration { return w.now.Sub(w.Since) }

// sides contains the operation in the log of a blocked run, and the operation that the code
// requests instead.
type sides struct {
	admin.Mismatch
	Event string // URL of the recorded event
	Diff  []diffLine
}

// did describes the action that the reader has just executed on the run.
type did struct {
	Verb, From string
}

// A runTab returns the part of a page of a run below the header.
type runTab func(q *request, v *runView) (any, error)

// mainActions are shown next to the name of a run if the run accepts them.
var mainActions = []string{"resume", "release", "retry", "resume-new", "pause", "cancel"}

// runPage returns a page that shows a tab of a run.
func runPage(name string, body runTab) page {
	return func(q *request) (*view, error) {
		r, err := q.service.Run(q.ctx(), q.path("id"))
		if err != nil {
			return nil, err
		}
		q.locate(&r)
		v := &runView{Run: r, Tab: name, Took: r.Took(q.now), Why: q.why(&r), Command: q.h.command("show", r.ID)}
		v.Tabs = []tab{{"timeline", "Timeline", ""}, {"events", "Events", number(r.Events)}, {"data", "Input & result", ""}, {"talk", "Talk", ""}, {"tree", "Tree", ""}, {"audit", "Audit", ""}}
		v.Hooks = q.hookButtons(&r)
		for _, verb := range mainActions {
			if contains(r.Actions, verb) && len(v.Main) < 2 {
				v.Main = append(v.Main, verb)
			}
		}
		for _, verb := range r.Actions {
			if !contains(v.Main, verb) && verb != "fork" { // fork requires a step, so the page of the step offers it
				v.More = append(v.More, verb)
			}
		}
		if verb := q.query.Get("did"); contains(admin.Actions(), verb) {
			v.Did = &did{Verb: verb, From: q.query.Get("of")}
		}
		shown, err := body(q, v)
		if p := admin.ProblemOf(err); p.Unreadable() {
			v.Err = p
		} else if err != nil {
			return nil, err
		} else {
			v.Body = shown
		}
		title := r.WorkflowID
		if title == "" {
			title = r.Workflow
		}
		return &view{name: name, Title: title + " · " + r.Status, Nav: "runs", Live: r.EndedAt.IsZero() && name != "event", Run: r.ID, Data: v}, nil
	}
}

func contains(all []string, one string) bool {
	return slices.Contains(all, one)
}

// whyOf describes the reason why a run does not progress, or why it did not complete. It returns
// nil for other runs.
func whyOf(r *admin.Run) *why {
	w := &why{Kind: r.Status, Group: r.Group, Failure: r.Failure, Retries: r.Retries}
	switch {
	case r.Damaged != "", r.Newer != "":
		w.Kind = "blocked"
		w.Title, w.Text = "Its log is damaged", r.Damaged
		if r.Damaged == "" {
			w.Title, w.Text = "A newer release has written its log", r.Newer
		}
		w.Frees = "The page shows the other data of the store, and the readable part of the log."
	case r.Status == "blocked":
		w.Title = "Blocked: the code of the workers does not match the log of this run"
		if r.Mismatch == nil {
			w.Title = "Blocked"
		}
		w.Text = r.Blocked
		w.Frees = "It continues by itself once a worker with matching code serves it. No data is lost. Terminate ends it without its code."
	case r.Status == "failed":
		w.Title = "Failed"
		w.Frees = "Retry continues in a new run where this one has failed: completed operations are not repeated."
	case r.Status == "cancelled" && r.Failure != nil:
		w.Title = "Cancelled"
		w.Frees = "Resume new continues in a new run where this one was stopped."
	case r.Unserved:
		w.Kind = "blocked"
		w.Title = "No worker serves it"
		w.Text = "No live worker serves workflow " + r.Workflow + " on queue " + r.Queue + "."
		w.Frees = "Start a worker that registers this workflow and serves this queue."
		if r.Pin != "" {
			w.Text = "No live worker of build " + r.Pin + ", to which the run is pinned, serves workflow " + r.Workflow + " on queue " + r.Queue + "."
			w.Frees = "Start a worker of this build, or retire the build: its pinned runs then move to another one."
		}
	case len(r.Retries) > 0:
		w.Kind = "retrying"
		w.Title = "Retrying " + plural(len(r.Retries), "step", "steps")
		w.Frees = "It continues by itself: each step is retried as its policy declares."
	case r.Status == "paused":
		w.Text = r.PauseReason
		w.Title = "Paused"
		w.Frees = "Resume continues it."
	case r.Status == "held":
		w.Title = "On hold: it was started to be released by an operator"
		w.Frees = "Release starts it."
	case len(r.WaitsFor) > 0:
		first := &r.WaitsFor[0]
		w.Kind, w.Since = "waiting", first.Since
		w.Title = "Waits for limit " + first.Place()
		if first.Step != "" {
			w.Title = "Step " + first.Step + " waits for limit " + first.Place()
		}
		w.Limits = r.WaitsFor
		w.Frees = "It continues by itself once it is first in the limiter queue and there is free capacity."
		if first.Paused {
			w.Frees = "It continues once the limit is resumed: see Queues."
		}
	case (r.Status == "waiting" || r.Status == "sleeping") && len(r.Waits) > 0:
		w.Title = "Waits for " + enumerate(r.Waits)
		w.Since = r.WaitsSince
	default:
		return nil
	}
	return w
}

// why is whyOf, but adds the difference between the log and the code.
func (q *request) why(r *admin.Run) *why {
	if len(r.Waits)+len(r.WaitsFor) == 0 && (r.Status == "waiting" || r.Status == "sleeping") {
		q.h.logs.with(q.ctx(), q, r.ID, r.Events, func(s *skeleton, _ error) { r.Waits, r.WaitsSince = s.waits(q.now) })
	}
	w := whyOf(r)
	if w != nil {
		w.now = q.now
	}
	if r.Damaged == "" && r.Newer == "" && r.Status == "paused" {
		q.paused(r, w)
	}
	if r.Damaged != "" {
		w.Checks = q.who.Role.Allows(admin.RoleOperator) && q.who.Owner == ""
	}
	if w == nil || r.Mismatch == nil {
		return w
	}
	w.Sides = &sides{Mismatch: *r.Mismatch, Event: q.eventLink(r.ID, r.Mismatch.Event), Diff: diffLines(r.Mismatch.Diff)}
	if _, advice, ok := strings.Cut(w.Text, "\n"); ok { // the page shows the rest in two columns
		w.Text = advice[strings.LastIndexByte(advice, '\n')+1:]
	}
	return w
}

// paused adds the reason and the time of the pause from the log.
func (q *request) paused(r *admin.Run, w *why) {
	var last []uint64
	q.h.logs.with(q.ctx(), q, r.ID, r.Events, func(s *skeleton, _ error) { last, _ = s.at(1, "run_paused") })
	if len(last) == 0 {
		return
	}
	page, err := q.service.Events(q.ctx(), r.ID, last[0], 1)
	if err != nil || len(page.Events) == 0 {
		return // the page of the log shows the error
	}
	w.Text, w.Since = page.Events[0].Reason, page.Events[0].Time
}

// maxWaits is the maximum number of operations that waits names.
const maxWaits = 4

// waits describes the operations that a run waits for. since is the time since which the run has
// waited; it is zero if the run does not wait.
func (s *skeleton) waits(now time.Time) (all []string, since time.Time) {
	left := s.lanes.root.open
	hooks, ofHooks := map[string]bool{}, 0
	for _, o := range s.ops {
		if o.state == stateOpen && o.kind == "hook" {
			hooks[o.name] = true
		}
	}
	for _, o := range slices.Backward(s.ops) {
		if left == 0 {
			break
		}
		if o.state != stateOpen && o.state != stateRetrying {
			continue
		}
		left--
		since = time.UnixMilli(o.begin).UTC()
		switch {
		case o.kind == "wait" && hooks[o.name]: // the wait is for a payload of a hook, which is described separately
			ofHooks++
		case len(all) < maxWaits:
			all = append(all, o.waitedFor(now))
		}
	}
	if more := s.lanes.root.open - ofHooks - len(all); more > 0 {
		all = append(all, number(more)+" more")
	}
	return all, since
}

// waitedFor describes an operation that a run waits for.
func (o *operation) waitedFor(now time.Time) string {
	name := cut(60, firstOf(o.name, o.lane.label))
	switch {
	case o.kind == "child":
		return "a run of " + name
	case o.kind == "wait" && o.name != "":
		return "a message of " + name
	case o.kind == "wait" && o.note.due != 0:
		return "a timer due " + ago(now, time.UnixMilli(o.note.due))
	case o.kind == "hook", o.kind == "step", o.kind == "ask":
		return o.kind + " " + name
	}
	return name
}

// enumerate joins texts with commas and a final "and".
func enumerate(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// seqOf parses the number of an event. It returns 0 for invalid numbers.
func seqOf(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0
	}
	return n
}

// dataView contains the input and the result of a run.
type dataView struct {
	Input, Result *payloadView
	Last          uint64 // number of the last event
}

func dataTab(_ *request, v *runView) (any, error) {
	d := &dataView{Input: payloadOf(v.Input), Result: payloadOf(v.Result), Last: v.Events}
	return d, nil
}
