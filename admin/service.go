package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Service does with runs what operators ask for. Its errors are turned into a [Problem] by [ProblemOf].
//
// A run is named by its id, or as id:ORDER-17 by its workflow id: then it is the active run of that
// id, or the newest one.
type Service interface {
	// Runs returns a page of runs, the newest first unless the filter says otherwise. It looks at
	// no more runs than the budget of the filter allows, whatever is stored.
	Runs(ctx context.Context, f Filter) (RunPage, error)
	// Count returns how many runs match; Cursor, Limit and Oldest are not looked at.
	Count(ctx context.Context, f Filter) (Counts, error)
	// Failures returns a page of groups of runs to which the same has happened: they have failed, a step of them is being
	// retried, or they are blocked.
	Failures(ctx context.Context, f FailureFilter) (FailurePage, error)
	// Workers returns a page of the workers, by name.
	Workers(ctx context.Context, f FleetFilter) (WorkerPage, error)
	// Queues returns a page of the work on the queues, by queue and workflow, also while no worker is at work.
	Queues(ctx context.Context, f FleetFilter) (QueuePage, error)
	// Depth returns how much work there is on a queue, also while no worker is at work. Of a queue that nobody has used it is nothing.
	Depth(ctx context.Context, queue string) (Depth, error)
	// Run returns a run with its input and outcome, and why it does not go on.
	Run(ctx context.Context, ref string) (Run, error)
	// Events returns up to limit events of a run, those from number from on; limit 0: 1,000, which is the most. It does not wait.
	Events(ctx context.Context, ref string, from uint64, limit int) (EventPage, error)
	// Entities returns a page of what a run has begun, such as its steps, each as it stands.
	Entities(ctx context.Context, ref string, f EntityFilter) (EntityPage, error)
	// Inbox returns what was sent to a run that it has not taken yet, such as messages to one that is paused, blocked, or not served.
	Inbox(ctx context.Context, ref string) (Inbox, error)
	// Graph returns how far a run has come in a graph: the one at a path, or the first one if path is empty. A run that executes none is not found.
	Graph(ctx context.Context, ref, path string) (Graph, error)
	// Tree returns a run and those below it, up to 1,000.
	Tree(ctx context.Context, ref string) (Tree, error)
	// Follow delivers the events of a run that the filter selects, and waits for more until it has ended. An
	// outage of the store is waited for.
	Follow(ctx context.Context, ref string, f EventFilter) iter.Seq2[Event, error]
	// Act controls a run.
	Act(ctx context.Context, ref string, a Action) (Acted, error)
	// Catalog returns a page of what workers have said of their workflows.
	Catalog(ctx context.Context, f CatalogFilter) (CatalogPage, error)
	// Start creates a run. When it returns nil the run is durable.
	Start(ctx context.Context, s Start) (Started, error)
	// Wait waits until a run, or what it has continued as, has ended, but no longer than that, and
	// returns what it is then.
	Wait(ctx context.Context, ref string, most time.Duration) (Run, error)
	// Send puts a message of a topic into a run. When it returns nil the message is durable.
	Send(ctx context.Context, ref, topic string, m Message) (Sent, error)
	// Ask asks a run something, and waits for the answer as long as ctx allows.
	Ask(ctx context.Context, ref, name string, m Message) (Answer, error)
	// Value returns the newest value of a name that a run has published. It does not wait.
	Value(ctx context.Context, ref, name string) (Value, error)

	// Journal returns a page of what operators have asked for, the newest entry first. It is there for operators; those
	// with an owner have their own entries.
	Journal(ctx context.Context, f JournalFilter) (JournalPage, error)

	Streaming
	Hooking
	Scheduling
	Limiting
	Viewing
	Bulking
	Checking
	Exporting
}

// Scheduling is the part of a [Service] that is about schedules. A store that cannot be searched has no list of them.
type Scheduling interface {
	// Schedules returns a page of schedules.
	Schedules(ctx context.Context, f ScheduleFilter) (SchedulePage, error)
	// Schedule returns a schedule with its next ten ticks.
	Schedule(ctx context.Context, name string) (Schedule, error)
	// PutSchedule makes a schedule, or replaces what the one of its name does; then a pause stays. When it returns nil the
	// schedule is durable.
	PutSchedule(ctx context.Context, n NewSchedule) (ScheduleActed, error)
	// ActOnSchedule controls a schedule. When it returns nil the request is durable. To delete one waits
	// until a worker has ended it.
	ActOnSchedule(ctx context.Context, name string, a ScheduleAction) (ScheduleActed, error)
}

// Limiting is the part of a [Service] that is about limits.
type Limiting interface {
	// Pools returns the parts of limits that are busiest.
	Pools(ctx context.Context, f PoolFilter) (PoolPage, error)
	// ActOnPool configures a limit at run time, for all workers at once, or a part of it. A limit that is each
	// worker's own is not found.
	ActOnPool(ctx context.Context, name string, a PoolAction) (PoolActed, error)
}

// Direct is the Service that works with the store itself.
type Direct struct {
	client  *workflow.Client
	journal store.JournalKeep
	used    usedLimits

	denials denials
}

var _ Service = (*Direct)(nil)

// Option configures a [Direct].
type Option func(*Direct)

// KeepJournal limits the journal: most is how many entries are kept, and by how much they may be older than the
// newest. 0: DefaultJournalMost and DefaultJournalFor. All processes that write the journal of a store should say the same: what
// one of them lets go is gone.
func KeepJournal(most int, age time.Duration) Option {
	return func(d *Direct) {
		d.journal = store.JournalKeep{Most: cmp.Or(max(most, 0), DefaultJournalMost), For: cmp.Or(max(age, 0), DefaultJournalFor)}
	}
}

// New returns the service of a client, which stays the caller's.
func New(client *workflow.Client, opts ...Option) *Direct {
	d := &Direct{client: client}
	KeepJournal(0, 0)(d)
	for _, o := range opts {
		o(d)
	}
	return d
}

// byID begins a name of a run that is its workflow id.
const byID = "id:"

// handle returns the handle of a run.
func (d *Direct) handle(ref string) (*workflow.Handle, error) {
	if id, ok := strings.CutPrefix(ref, byID); ok {
		if id == "" {
			return nil, &InputError{What: "the workflow id is empty", Fix: "name the run by its id, or as id:WORKFLOWID"}
		}
		return d.client.RunByID(id), nil
	}
	id, err := event.ParseRunID(ref)
	if err != nil {
		return nil, &InputError{What: fmt.Sprintf("%q is no id of a run", ref), Fix: "if it is a workflow id, name the run as id:" + ref}
	}
	return d.client.Run(id), nil
}

// find returns the handle of a run that is there, by its own id, and what it is now.
func (d *Direct) find(ctx context.Context, ref string) (*workflow.Handle, workflow.RunInfo, error) {
	h, err := d.handle(ref)
	if err != nil {
		return nil, workflow.RunInfo{}, err
	}
	info, err := h.Info(ctx)
	if err != nil {
		return nil, info, fmt.Errorf("find run %s: %w", ref, err)
	}
	return d.client.Run(info.ID), info, nil
}

// Runs is part of Service.
func (d *Direct) Runs(ctx context.Context, f Filter) (RunPage, error) {
	asked, err := f.filter()
	if err != nil {
		return RunPage{}, err
	}
	asked.Waits = true
	page, err := d.client.Page(ctx, asked, f.Limit)
	if err != nil {
		return RunPage{}, err
	}
	got := RunPage{Runs: make([]Run, len(page.Runs)), Cursor: page.Cursor, Partial: page.Partial, Looked: page.Looked}
	for i := range page.Runs {
		got.Runs[i] = runOf(&page.Runs[i])
	}
	return got, nil
}

// Count is part of Service.
func (d *Direct) Count(ctx context.Context, f Filter) (Counts, error) {
	asked, err := f.filter()
	if err != nil {
		return Counts{}, err
	}
	counts, err := d.client.Count(ctx, asked)
	if err != nil {
		return Counts{}, err
	}
	return countsOf(counts), nil
}

// Run is part of Service.
func (d *Direct) Run(ctx context.Context, ref string) (Run, error) {
	h, info, err := d.find(ctx, ref)
	r := runOf(&info)
	facts := runFacts{RunInfo: &info}
	if r.unreadable(err) { // the record says the rest
		r.Actions = actionsFor(&facts)
		return r, nil
	}
	if err != nil {
		return Run{}, err
	}
	if err := d.readBeginning(ctx, h, &r, &facts); err != nil && !r.unreadable(err) {
		return Run{}, err
	}
	if err := d.readEnd(ctx, h, &r, &facts); err != nil && !r.unreadable(err) {
		return Run{}, err
	}
	if err := d.readLastTry(ctx, &facts); err != nil && !ProblemOf(err).Unreadable() {
		return Run{}, err
	}
	if err := d.readOrders(ctx, h, &facts); err != nil {
		return Run{}, err
	}
	r.Canceling, r.CancelReason = facts.orders.Canceling, facts.orders.CancelReason
	if err := d.readMore(ctx, h, &r, &info); err != nil {
		return Run{}, err
	}
	r.Actions = actionsFor(&facts)
	return r, nil
}

// readBeginning reads the log of a run as far as the first step that it can be forked from. Most logs have one near their beginning.
func (d *Direct) readBeginning(ctx context.Context, h *workflow.Handle, r *Run, f *runFacts) error {
	const first, rest = 64, maxLimit
	for from, limit := uint64(1), first; from <= f.Events && !f.step; limit = rest {
		page, err := d.read(ctx, h, *f.RunInfo, from, limit)
		if err != nil {
			return err
		}
		for i := range page {
			e := &page[i]
			switch _, remote := event.StepOfRun(e.Name); {
			case e.Seq == 1:
				r.Input, f.input = e.Payload, len(e.Payload) > 0 || !f.Collects
			case e.Type == event.InputReceived.String():
				f.input = true
			case e.Type == event.RunStarted.String() && r.StartedAt.IsZero():
				r.StartedAt = e.Time
			case e.Type == event.StepCreated.String(), e.Creates && remote:
				f.step = true
			}
		}
		if len(page) == 0 {
			return nil
		}
		from += uint64(len(page))
	}
	return nil
}

// lastEvents is how many of the last events tell since when and why a run is paused.
const lastEvents = 16

// readEnd reads the end of the log of a run.
func (d *Direct) readEnd(ctx context.Context, h *workflow.Handle, r *Run, f *runFacts) error {
	if f.Events == 0 {
		return nil
	}
	from := f.Events
	if f.Paused {
		from = max(f.Events, lastEvents) - lastEvents + 1
	}
	page, err := d.read(ctx, h, *f.RunInfo, from, lastEvents)
	if err != nil {
		return err
	}
	for i := range page {
		e := &page[i]
		if r.UpdatedAt = e.Time; e.Type == event.RunPaused.String() {
			r.PauseReason = e.Reason
		}
	}
	if f.EndedAt.IsZero() || len(page) == 0 {
		return nil
	}
	last := &page[len(page)-1]
	r.Result, r.Failure, r.Next = last.Payload, last.Failure, last.Next
	f.undone = last.Failure != nil && len(last.Failure.Undone) > 0
	return nil
}

// readLastTry reads what a retry of a run that was retried before depends on.
func (d *Direct) readLastTry(ctx context.Context, f *runFacts) (err error) {
	if f.RetriedAs == "" {
		return nil
	}
	if f.last, err = d.lastTry(ctx, f.RunInfo); err != nil || f.last.ID == f.ID || f.last.EndedAt.IsZero() {
		return err
	}
	page, err := d.read(ctx, d.client.Run(f.last.ID), *f.last, f.last.Events, 1)
	if err != nil {
		f.last = nil
		return err
	}
	f.undone = len(page) > 0 && page[0].Failure != nil && len(page[0].Failure.Undone) > 0
	return nil
}

// maxBelow bounds how many runs the store looks at to count those below a run.
const maxBelow = 1000

// readMore reads what neither the record of a run nor its log has: its last recovery, and how many runs are below it.
func (d *Direct) readMore(ctx context.Context, h *workflow.Handle, r *Run, info *workflow.RunInfo) error {
	last, err := h.LastRecovery(ctx)
	if err != nil {
		return err
	}
	if last != nil {
		r.Recovery = &Recovery{Time: last.Time.UTC(), Reason: last.Reason, From: last.From, By: last.By}
	}
	if s := workflow.FailedStepOf(r.Failure); s != nil {
		r.FailedStep = &FailedStep{Run: string(s.Run), Step: s.Step, Key: s.Key, Attempts: s.Attempts}
	}
	if event.Internal(info.Workflow) {
		return nil
	}
	f := workflow.Filter{Parent: info.ID, From: info.CreatedAt, Budget: maxBelow}
	own := 0
	if info.Parent == "" {
		f.Parent, f.Root, own = "", info.ID, 1
	}
	counts, err := d.client.Count(ctx, f)
	if errors.Is(err, workflow.ErrNotSupported) {
		return nil
	}
	if err != nil {
		return err
	}
	b := &Below{Statuses: map[string]int{}, Exact: counts.Exact}
	for k, n := range counts.Runs {
		status := cmp.Or(string(k.Status), "open")
		b.Statuses[status] += n
		b.Total += n
	}
	if own > 0 && b.Total > 0 { // the run counts itself
		b.Total--
		for _, status := range []string{r.Status, "open"} {
			if b.Statuses[status] > 0 {
				if b.Statuses[status]--; b.Statuses[status] == 0 {
					delete(b.Statuses, status)
				}
				break
			}
		}
	}
	if b.Total > 0 {
		r.Below = b
	}
	return nil
}

// readOrders reads what an open run was asked for, and of one that has ended whether another one has its workflow id now.
func (d *Direct) readOrders(ctx context.Context, h *workflow.Handle, f *runFacts) (err error) {
	if open(f.RunInfo) {
		f.orders, err = h.Orders(ctx)
		return err
	}
	if f.WorkflowID == "" || f.Status == workflow.StatusContinued || event.Internal(f.Workflow) {
		return nil
	}
	active, err := d.client.RunByID(f.WorkflowID).Info(ctx)
	if errors.Is(err, workflow.ErrRunNotFound) {
		return nil
	}
	f.taken = active.EndedAt.IsZero() && active.ID != f.ID
	if ProblemOf(err).Unreadable() {
		err = nil
	}
	return err
}

// unreadable reports whether an error says that the log cannot be read, and takes it in: an operator must see the run all the same.
func (r *Run) unreadable(err error) bool {
	p := ProblemOf(err)
	if !p.Unreadable() {
		return false
	}
	why := &r.Damaged
	if p.Code == CodeNewer {
		why = &r.Newer
	}
	*why = cmp.Or(*why, p.Detail+"; "+p.Fix)
	return true
}

// Events is part of Service.
func (d *Direct) Events(ctx context.Context, ref string, from uint64, limit int) (EventPage, error) {
	if limit < 0 || limit > maxLimit {
		return EventPage{}, &InputError{What: fmt.Sprintf("a page of %d events", limit), Fix: fmt.Sprintf("ask for 1 to %d, and for the next page by its number", maxLimit)}
	}
	h, info, err := d.find(ctx, ref)
	if err != nil {
		return EventPage{}, err
	}
	limit = cmp.Or(limit, maxLimit)
	from = max(from, 1)
	all, err := d.read(ctx, h, info, from, limit)
	page := EventPage{Events: all}
	if next := from + uint64(len(all)); err == nil && len(all) > 0 && next <= info.Events {
		page.Next = next
	}
	return page, err
}

// read returns what is in the log of a run, as it is known, from a number on.
func (d *Direct) read(ctx context.Context, h *workflow.Handle, info workflow.RunInfo, from uint64, limit int) ([]Event, error) {
	all := []Event{}
	if from > info.Events {
		return all, nil
	}
	events, err := h.ReadEvents(ctx, from, int(min(uint64(limit), info.Events-from+1)))
	if err != nil {
		return nil, err
	}
	for i := range events {
		all = append(all, eventOf(&events[i]))
	}
	return all, nil
}
