package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Column is a column of a list. The command flowctl, its live view and the console draw their lists
// from the columns in this file. A new column is added here. It needs a change in a template of the
// console only if the console draws the column in a special way.
type Column[T any] struct {
	Name  string // name of the JSON field, or of the combination of several fields; unique in the list
	Title string
	Kind  ColumnKind
	Width Width
	// Value returns the value of the column for a row. Its type is string, []string, int, uint64,
	// [About], time.Time or time.Duration. Zero values are drawn as empty cells, except for
	// numbers.
	Value func(row *T, now time.Time) any
}

// ColumnKind determines how the values of a column are drawn.
type ColumnKind int

// The kinds of columns.
const (
	KindText   ColumnKind = iota
	KindCode              // an ID or another text for machines
	KindNumber            // aligned to the right
	KindTime              // an instant
	KindSpan              // a duration
)

// Width determines in which outputs a column appears.
type Width int

// The values of Width.
const (
	WidthAlways    Width = iota
	WidthMedium          // in the console except on phones
	WidthWide            // in the console on wide screens only
	WidthTable           // not in the console, where another column or the page of the row contains the value
	WidthWideTable       // in the output of the command with -o wide only
	WidthPage            // in the console on wide screens only, not in the output of the command
)

// About is a lower bound of a number.
type About int

// RunColumns are the columns of lists of runs.
var RunColumns = []Column[Run]{
	{Name: "status", Title: "Status", Value: func(r *Run, _ time.Time) any { return r.Status }},
	{Name: "workflow", Title: "Workflow", Value: func(r *Run, _ time.Time) any { return r.Workflow }},
	{Name: "workflowId", Title: "ID", Kind: KindCode, Width: WidthWide, Value: func(r *Run, _ time.Time) any { return cmp.Or(r.WorkflowID, r.ID) }},
	{Name: "createdAt", Title: "Created", Kind: KindTime, Value: func(r *Run, _ time.Time) any { return r.CreatedAt }},
	{Name: "took", Title: "Took", Kind: KindSpan, Width: WidthMedium, Value: func(r *Run, now time.Time) any { return r.Took(now) }},
	{Name: "events", Title: "Events", Kind: KindNumber, Width: WidthWide, Value: func(r *Run, _ time.Time) any { return r.Events }},
	{Name: "id", Title: "Run", Kind: KindCode, Width: WidthWideTable, Value: func(r *Run, _ time.Time) any { return r.ID }},
	{Name: "queue", Title: "Queue", Width: WidthWideTable, Value: func(r *Run, _ time.Time) any { return r.Queue }},
	{Name: "tags", Title: "Tags", Width: WidthWideTable, Value: func(r *Run, _ time.Time) any { return tagList(r.Tags) }},
	{Name: "now", Title: "Now", Width: WidthWide, Value: func(r *Run, _ time.Time) any { return r.doing() }},
}

// Took returns the duration of a run until its end, or until now if the run is open.
func (r *Run) Took(now time.Time) time.Duration {
	if r.EndedAt.IsZero() {
		return now.Sub(r.CreatedAt)
	}
	return r.EndedAt.Sub(r.CreatedAt)
}

func tagList(tags map[string]string) string {
	var all []string
	for name, value := range tags {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return strings.Join(all, ",")
}

// Waiting lists the limits that a run waits for. It returns the empty string if there are none.
func (r *Run) Waiting() string {
	switch {
	case len(r.Waits) == 0:
		return ""
	case r.WaitsSince.IsZero():
		return "for a worker, and for " + strings.Join(r.Waits, ", ")
	}
	return "for " + strings.Join(r.Waits, ", ") + " since " + r.WaitsSince.Format(time.RFC3339)
}

// doing describes the event that a run waits for, based on the fields that lists contain.
func (r *Run) doing() string {
	switch {
	case len(r.WaitsFor) > 0:
		text := r.WaitsFor[0].String()
		if more := len(r.WaitsFor) - 1; more > 0 {
			text += fmt.Sprintf(", and %d more", more)
		}
		return text
	case len(r.Waits) > 0:
		return "waits " + r.Waiting()
	case !r.Due.IsZero():
		return strings.TrimSpace("due " + r.Due.Format(time.RFC3339) + " " + r.Group)
	case r.Status == string(workflow.StatusBlocked):
		return strings.TrimSpace("see flowctl show " + r.Group)
	case r.RetriedAs != "":
		return "retried as " + r.RetriedAs
	}
	return r.Group
}

// FailureColumns are the columns of lists of failure groups.
var FailureColumns = []Column[FailureGroup]{
	{Name: "group", Title: "Group", Kind: KindCode, Width: WidthWide, Value: func(g *FailureGroup, _ time.Time) any { return g.Group }},
	{Name: "kind", Title: "Kind", Value: func(g *FailureGroup, _ time.Time) any { return g.Kind }},
	{Name: "runs", Title: "Runs", Kind: KindNumber, Width: WidthWide, Value: func(g *FailureGroup, _ time.Time) any { return g.Runs }},
	{Name: "open", Title: "Open", Kind: KindNumber, Value: func(g *FailureGroup, _ time.Time) any { return g.Open }},
	{Name: "first", Title: "First", Kind: KindTime, Width: WidthTable, Value: func(g *FailureGroup, _ time.Time) any { return g.First }},
	{Name: "last", Title: "Last", Kind: KindTime, Width: WidthWide, Value: func(g *FailureGroup, _ time.Time) any { return g.Last }},
	{Name: "place", Title: "Workflow/step", Value: func(g *FailureGroup, _ time.Time) any { return g.Place() }},
	{Name: "message", Title: "Message", Width: WidthTable, Value: func(g *FailureGroup, _ time.Time) any { return g.Message }},
}

// Place returns the workflow in which the runs of the group failed, and the step if there is one.
func (g *FailureGroup) Place() string { return strings.TrimSuffix(g.Workflow+"/"+g.Step, "/") }

// ScheduleColumns are the columns of lists of schedules.
var ScheduleColumns = []Column[Schedule]{
	{Name: "name", Title: "Name", Value: func(s *Schedule, _ time.Time) any { return s.Name }},
	{Name: "state", Title: "State", Value: func(s *Schedule, _ time.Time) any { return s.State() }},
	{Name: "when", Title: "When", Kind: KindCode, Value: func(s *Schedule, _ time.Time) any { return s.When }},
	{Name: "workflow", Title: "Workflow", Kind: KindCode, Width: WidthWide, Value: func(s *Schedule, _ time.Time) any { return s.Workflow }},
	{Name: "next", Title: "Next", Kind: KindTime, Value: func(s *Schedule, _ time.Time) any { return s.Next }},
	{Name: "started", Title: "Started", Kind: KindNumber, Width: WidthWide, Value: func(s *Schedule, _ time.Time) any { return s.Started }},
	{Name: "skipped", Title: "Skipped", Kind: KindNumber, Width: WidthWide, Value: func(s *Schedule, _ time.Time) any { return s.Skipped }},
	{Name: "missed", Title: "Missed", Kind: KindNumber, Width: WidthWide, Value: func(s *Schedule, _ time.Time) any { return s.Missed }},
	{Name: "note", Title: "Note", Width: WidthTable, Value: func(s *Schedule, _ time.Time) any { return cmp.Or(s.Problem, s.Note) }},
}

// State returns paused, unserved, problem or active.
func (s *Schedule) State() string {
	switch {
	case s.Paused:
		return "paused"
	case s.Unserved:
		return "unserved"
	case s.Problem != "":
		return "problem"
	}
	return "active"
}

// PoolColumns are the columns of lists of limits.
var PoolColumns = []Column[Pool]{
	{Name: "name", Title: "Name", Kind: KindCode, Value: func(p *Pool, _ time.Time) any { return p.Name }},
	{Name: "key", Title: "Key", Kind: KindCode, Value: func(p *Pool, _ time.Time) any { return p.Key }},
	{Name: "inUse", Title: "In use", Kind: KindNumber, Value: func(p *Pool, _ time.Time) any { return p.InUse }},
	{Name: "atOnce", Title: "Limit", Kind: KindNumber, Width: WidthTable, Value: func(p *Pool, _ time.Time) any { return p.atOnce() }},
	{Name: "rate", Title: "Rate", Kind: KindNumber, Width: WidthTable, Value: func(p *Pool, _ time.Time) any { return p.rate() }},
	{Name: "allows", Title: "Allows", Width: WidthPage},
	{Name: "waits", Title: "Waits", Kind: KindNumber, Value: func(p *Pool, _ time.Time) any { return p.Waits }},
	{Name: "next", Title: "Next", Kind: KindTime, Width: WidthTable, Value: func(p *Pool, _ time.Time) any { return p.Next }},
	{Name: "state", Title: "State", Width: WidthMedium, Value: func(p *Pool, _ time.Time) any { return p.state() }},
	{Name: "holders", Title: "Held by", Width: WidthWide, Value: func(p *Pool, _ time.Time) any { return p.heldBy() }},
}

// StepRateColumns are the columns of lists of the rates of steps.
var StepRateColumns = []Column[StepRate]{
	{Name: "step", Title: "Step", Kind: KindCode, Value: func(r *StepRate, _ time.Time) any { return r.name() }},
	{Name: "perSecond", Title: "Per second", Kind: KindNumber, Value: func(r *StepRate, _ time.Time) any { return PerSecond(r.PerSecond) }},
	{Name: "p50", Title: "p50", Kind: KindNumber, Value: func(r *StepRate, _ time.Time) any { return latency(r.P50Ms) }},
	{Name: "p95", Title: "p95", Kind: KindNumber, Width: WidthMedium, Value: func(r *StepRate, _ time.Time) any { return latency(r.P95Ms) }},
	{Name: "p99", Title: "p99", Kind: KindNumber, Value: func(r *StepRate, _ time.Time) any { return latency(r.P99Ms) }},
}

func (c *PoolConfig) atOnce() string {
	if c.AtOnce == 0 {
		return ""
	}
	return fmt.Sprint(c.AtOnce)
}

func (c *PoolConfig) rate() string {
	switch {
	case c.Rate == 0:
		return ""
	case c.PerMs == 0:
		return fmt.Sprintf("%d/1s", c.Rate)
	}
	return fmt.Sprintf("%d/%v", c.Rate, time.Duration(c.PerMs)*time.Millisecond)
}

func (p *Pool) state() string {
	switch {
	case p.Paused:
		return "paused"
	case p.Set:
		return "set"
	}
	return "declared"
}

// shownHolders is the maximum number of holders of a limit that a list names.
const shownHolders = 3

// heldBy names the holders of a limit, and adds the status of holders that are not running.
func (p *Pool) heldBy() string {
	var all []string
	for i := range p.Holders[:min(len(p.Holders), shownHolders)] {
		h := &p.Holders[i]
		state := h.Status
		if h.Paused && state != string(workflow.StatusPaused) {
			state += ", paused"
		}
		if h.Step != "" {
			state = "step " + h.Step
		}
		all = append(all, h.Run+" ("+state+")")
	}
	if more := len(p.Holders) - shownHolders; more > 0 {
		all = append(all, fmt.Sprintf("%d more", more))
	}
	return strings.Join(all, ", ")
}

// HookColumns are the columns of lists of hooks.
var HookColumns = []Column[Hook]{
	{Name: "name", Title: "Name", Value: func(h *Hook, _ time.Time) any { return h.Name }},
	{Name: "run", Title: "Run", Kind: KindCode, Value: func(h *Hook, _ time.Time) any { return h.Run }},
	{Name: "token", Title: "Token", Kind: KindCode, Width: WidthTable, Value: func(h *Hook, _ time.Time) any { return h.Token }},
	{Name: "answerers", Title: "Answered by", Width: WidthPage, Value: func(h *Hook, _ time.Time) any { return h.Answerers }},
	{Name: "opened", Title: "Opened", Kind: KindTime, Width: WidthWide, Value: func(h *Hook, _ time.Time) any { return h.Opened }},
	{Name: "due", Title: "Due", Kind: KindTime, Width: WidthTable, Value: func(h *Hook, _ time.Time) any { return h.Due }},
	{Name: "title", Title: "Title", Width: WidthTable, Value: func(h *Hook, _ time.Time) any { return h.Title }},
}

// WorkerColumns are the columns of lists of workers.
var WorkerColumns = []Column[Worker]{
	{Name: "name", Title: "Worker", Kind: KindCode, Value: func(w *Worker, _ time.Time) any { return w.Name }},
	{Name: "live", Title: "State", Value: func(w *Worker, _ time.Time) any { return w.state() }},
	{Name: "build", Title: "Build", Kind: KindCode, Width: WidthMedium, Value: func(w *Worker, _ time.Time) any { return ops.BuildOf(w.Build) }},
	{Name: "running", Title: "Running", Kind: KindNumber, Value: func(w *Worker, _ time.Time) any { return w.Running }},
	{Name: "lease", Title: "Lease", Kind: KindTime, Width: WidthMedium, Value: func(w *Worker, _ time.Time) any { return w.Lease }},
	{Name: "serves", Title: "Serves", Width: WidthWide, Value: func(w *Worker, _ time.Time) any { return w.serves(false) }},
	{Name: "buildId", Title: "Build ID", Kind: KindCode, Width: WidthWideTable, Value: func(w *Worker, _ time.Time) any { return w.Build }},
	{Name: "workflows", Title: "Workflows", Width: WidthWideTable, Value: func(w *Worker, _ time.Time) any { return w.serves(true) }},
}

// DeployColumns are the columns of lists of builds.
var DeployColumns = []Column[Deploy]{
	{Name: "build", Title: "Build", Kind: KindCode, Value: func(d *Deploy, _ time.Time) any { return d.Build }},
	{Name: "state", Title: "State", Value: func(d *Deploy, _ time.Time) any { return d.State() }},
	{Name: "workers", Title: "Workers", Kind: KindNumber, Width: WidthMedium, Value: func(d *Deploy, _ time.Time) any { return len(d.Workers) }},
	{Name: "percent", Title: "Percent", Kind: KindNumber, Width: WidthMedium, Value: func(d *Deploy, _ time.Time) any { return d.Percent }},
	{Name: "needs", Title: "Needs", Kind: KindNumber, Value: func(d *Deploy, _ time.Time) any { return d.Needs }},
	{Name: "blockedRuns", Title: "Blocked", Kind: KindNumber, Width: WidthMedium, Value: func(d *Deploy, _ time.Time) any { return d.BlockedRuns }},
	{Name: "started", Title: "Started", Kind: KindNumber, Width: WidthMedium, Value: func(d *Deploy, _ time.Time) any { return d.Started }},
	{Name: "lastSeen", Title: "Last seen", Kind: KindTime, Width: WidthMedium, Value: func(d *Deploy, _ time.Time) any { return d.LastSeen }},
	{Name: "firstSeen", Title: "First seen", Kind: KindTime, Width: WidthWide, Value: func(d *Deploy, _ time.Time) any { return d.FirstSeen }},
}

// State describes a build in one or two words.
func (d *Deploy) State() string {
	switch {
	case !d.Retired.IsZero() && d.Claims:
		return "retiring"
	case !d.Retired.IsZero():
		return "retired"
	case len(d.Workers) > 0:
		return "live"
	}
	return "gone"
}

func (w *Worker) state() string {
	if w.Live {
		return "live"
	}
	return "silent"
}

// serves returns the queues that a worker serves. If whole is true, it returns each combination of
// queue and workflow.
func (w *Worker) serves(whole bool) []string {
	var all []string
	for _, s := range w.Serves {
		if whole {
			all = append(all, s.Queue+"/"+s.Workflow)
		} else {
			all = append(all, s.Queue)
		}
	}
	return slices.Compact(all)
}

// QueueColumns are the columns of lists of queues.
var QueueColumns = []Column[Queue]{
	{Name: "queue", Title: "Queue", Kind: KindCode, Width: WidthMedium, Value: func(q *Queue, _ time.Time) any { return q.Queue }},
	{Name: "workflow", Title: "Workflow", Value: func(q *Queue, _ time.Time) any { return q.work() }},
	{Name: "ready", Title: "Ready", Kind: KindNumber, Value: func(q *Queue, _ time.Time) any { return q.number(q.Ready) }},
	{Name: "oldest", Title: "Oldest", Kind: KindSpan, Width: WidthWide, Value: func(q *Queue, now time.Time) any { return since(now, q.Oldest) }},
	{Name: "running", Title: "Running", Kind: KindNumber, Width: WidthMedium, Value: func(q *Queue, _ time.Time) any { return q.number(q.Running) }},
	{Name: "waiting", Title: "Waiting", Kind: KindNumber, Width: WidthWide, Value: func(q *Queue, _ time.Time) any { return q.number(q.Waiting) }},
	{Name: "parked", Title: "Parked", Kind: KindNumber, Width: WidthWide, Value: func(q *Queue, _ time.Time) any { return q.number(q.Parked) }},
	{Name: "blocked", Title: "Blocked", Kind: KindNumber, Width: WidthWide, Value: func(q *Queue, _ time.Time) any { return q.number(q.Blocked) }},
	{Name: "limits", Title: "Limits", Kind: KindCode, Width: WidthWide, Value: func(q *Queue, _ time.Time) any { return q.Limits }},
	{Name: "workers", Title: "Served by", Kind: KindNumber, Value: func(q *Queue, _ time.Time) any { return q.servedBy() }},
}

// number returns n, as a lower bound if the numbers of the queue are not exact.
func (q *Queue) number(n int) any {
	if !q.Exact {
		return About(n)
	}
	return n
}

func (q *Queue) work() string {
	if q.Step != "" {
		return "step " + q.Step
	}
	return q.Workflow
}

func (q *Queue) servedBy() string {
	by := fmt.Sprintf("%d workers", q.Workers)
	switch q.Workers {
	case 0:
		by = "nobody"
	case 1:
		by = "1 worker"
	}
	if q.Fix != "" {
		by += "! " + q.Fix
	}
	return by
}

// since returns the duration from t to now, but at least 1 ns. It returns 0 if t is zero.
func since(now, t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(now.Sub(t), 1)
}

// BulkColumns are the columns of lists of bulk actions.
var BulkColumns = []Column[Bulk]{
	{Name: "status", Title: "Status", Value: func(b *Bulk, _ time.Time) any { return b.Status }},
	{Name: "id", Title: "Bulk", Kind: KindCode, Width: WidthTable, Value: func(b *Bulk, _ time.Time) any { return b.ID }},
	{Name: "action", Title: "Action", Value: func(b *Bulk, _ time.Time) any { return b.Action.Verb }},
	{Name: "filter", Title: "Runs that match", Kind: KindCode, Width: WidthPage},
	{Name: "by", Title: "By", Width: WidthWide, Value: func(b *Bulk, _ time.Time) any { return cmp.Or(b.By, "-") }},
	{Name: "createdAt", Title: "Created", Kind: KindTime, Value: func(b *Bulk, _ time.Time) any { return b.Created }},
	{Name: "total", Title: "Runs", Kind: KindNumber, Width: WidthTable, Value: func(b *Bulk, _ time.Time) any { return b.Total }},
	{Name: "done", Title: "Done", Kind: KindNumber, Value: func(b *Bulk, _ time.Time) any { return b.Done }},
	{Name: "failed", Title: "Failed", Kind: KindNumber, Width: WidthWide, Value: func(b *Bulk, _ time.Time) any { return b.Failed }},
	{Name: "refused", Title: "Refused", Kind: KindNumber, Width: WidthWide, Value: func(b *Bulk, _ time.Time) any { return b.Refused }},
	{Name: "skipped", Title: "Skipped", Kind: KindNumber, Width: WidthTable, Value: func(b *Bulk, _ time.Time) any { return b.Skipped }},
	{Name: "remaining", Title: "Remain", Kind: KindNumber, Width: WidthTable, Value: func(b *Bulk, _ time.Time) any { return b.Left }},
	{Name: "rate", Title: "Rate", Kind: KindNumber, Width: WidthTable, Value: func(b *Bulk, _ time.Time) any { return fmt.Sprintf("%g/s of %d/s", b.Speed, b.Rate) }},
}

// JournalColumns are the columns of lists of entries of the journal.
var JournalColumns = []Column[JournalEntry]{
	{Name: "time", Title: "Time", Kind: KindTime, Value: func(e *JournalEntry, _ time.Time) any { return e.Time }},
	{Name: "principal", Title: "Principal", Value: func(e *JournalEntry, _ time.Time) any { return e.Principal }},
	{Name: "face", Title: "Face", Width: WidthWide, Value: func(e *JournalEntry, _ time.Time) any { return e.Face }},
	{Name: "action", Title: "Action", Value: func(e *JournalEntry, _ time.Time) any { return e.Action }},
	{Name: "target", Title: "Target", Kind: KindCode, Value: func(e *JournalEntry, _ time.Time) any { return cmp.Or(e.Target, e.Run, e.Detail) }},
	{Name: "outcome", Title: "Outcome", Value: func(e *JournalEntry, _ time.Time) any { return e.Outcome }},
	{Name: "reason", Title: "Reason", Width: WidthWide, Value: func(e *JournalEntry, _ time.Time) any { return e.Reason }},
	{Name: "run", Title: "Run", Kind: KindCode, Width: WidthWideTable, Value: func(e *JournalEntry, _ time.Time) any { return e.Run }},
	{Name: "new", Title: "New", Kind: KindCode, Width: WidthWideTable, Value: func(e *JournalEntry, _ time.Time) any { return e.New }},
	{Name: "detail", Title: "Detail", Width: WidthWideTable, Value: func(e *JournalEntry, _ time.Time) any { return e.Detail }},
	{Name: "key", Title: "Key", Kind: KindCode, Width: WidthWideTable, Value: func(e *JournalEntry, _ time.Time) any { return e.Key }},
	{Name: "id", Title: "ID", Kind: KindCode, Width: WidthWideTable, Value: func(e *JournalEntry, _ time.Time) any { return e.ID }},
}
