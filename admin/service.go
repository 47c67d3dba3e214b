package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Service finds, reads, follows and controls the runs of a store on behalf of a [Principal].
// [ProblemOf] converts its errors to a [Problem].
//
// A run is named by its run ID, or by its workflow ID with the prefix id:, as in id:ORDER-17. A
// workflow ID names its active run or, if there is none, the newest run.
//
// Each operation is one method. The method checks the rights of the principal, writes the journal
// if it makes a change, and then executes the operation. Unexported methods ignore the principal
// unless their documentation differs.
type Service struct {
	client  *workflow.Client
	ops     *ops.Client
	keep    store.JournalKeep
	used    *usedLimits
	denials *denials

	who    Principal
	behalf bool // set by As and AsLocal: changes are recorded in the journal
	local  bool // set by AsLocal: the process has opened the store itself, and idempotency keys of starts are not specific to a principal
}

// Option configures a [Service].
type Option func(*Service)

// KeepJournal limits the number of entries in the journal and their age relative to the newest
// entry. Zero means DefaultJournalMost and DefaultJournalFor. All processes that write the journal
// of a store should use the same limits, because each process drops entries according to its own
// limits.
func KeepJournal(most int, age time.Duration) Option {
	return func(s *Service) {
		s.keep = store.JournalKeep{Most: cmp.Or(max(most, 0), DefaultJournalMost), For: cmp.Or(max(age, 0), DefaultJournalFor)}
	}
}

// New returns a service without restrictions and without a journal. [Service.As] and
// [Service.AsLocal] return services with a principal and a journal. The caller must close the
// client.
func New(client *workflow.Client, opts ...Option) *Service {
	s := &Service{client: client, ops: ops.New(client), used: &usedLimits{}, denials: &denials{}, who: Principal{Role: RoleAdmin}, local: true}
	KeepJournal(0, 0)(s)
	for _, o := range opts {
		o(s)
	}
	return s
}

// byID is the prefix that marks the name of a run as a workflow ID.
const byID = "id:"

// handle returns the handle of a named run.
func (s *Service) handle(ref string) (*workflow.Handle, error) {
	if id, ok := strings.CutPrefix(ref, byID); ok {
		if id == "" {
			return nil, &InputError{What: "the workflow id is empty", Fix: "name the run by its id, or as id:WORKFLOWID"}
		}
		return s.client.RunByID(id), nil
	}
	id, err := event.ParseRunID(ref)
	if err != nil {
		return nil, &InputError{What: fmt.Sprintf("%q is not the id of a run", ref), Fix: "if it is a workflow id, name the run as id:" + ref}
	}
	return s.client.Run(id), nil
}

// runID returns the ID of a named run. It reads the store only if the name is a workflow ID.
func (s *Service) runID(ctx context.Context, ref string) (workflow.RunID, error) {
	h, err := s.handle(ref)
	if err != nil {
		return "", err
	}
	if id := h.ID(); id != "" {
		return id, nil
	}
	id, err := s.client.Store().Resolve(ctx, strings.TrimPrefix(ref, byID))
	if err != nil {
		return "", fmt.Errorf("find run %s: %w", ref, err)
	}
	return id, nil
}

// find returns the handle and the present state of an existing run. The handle refers to the run by
// its run ID.
func (s *Service) find(ctx context.Context, ref string) (*workflow.Handle, workflow.RunInfo, error) {
	h, err := s.handle(ref)
	if err != nil {
		return nil, workflow.RunInfo{}, err
	}
	info, err := h.Info(ctx)
	if err != nil {
		return nil, info, fmt.Errorf("find run %s: %w", ref, err)
	}
	return s.client.Run(info.ID), info, nil
}

// Runs returns a page of runs, the newest first unless the filter requests otherwise. It reads at
// most as many runs as the budget of the filter allows.
func (s *Service) Runs(ctx context.Context, f Filter) (RunPage, error) {
	f, err := s.owned(f)
	if err != nil {
		return RunPage{}, err
	}
	page, err := s.runs(ctx, f)
	for i := range page.Runs {
		s.hide(&page.Runs[i])
	}
	return page, err
}

// runs is like [Service.Runs], but does not check the rights of the principal.
func (s *Service) runs(ctx context.Context, f Filter) (RunPage, error) {
	asked, err := f.filter()
	if err != nil {
		return RunPage{}, err
	}
	asked.Waits = true
	page, err := s.client.Page(ctx, asked, f.Limit)
	if err != nil {
		return RunPage{}, err
	}
	got := RunPage{Runs: make([]Run, len(page.Runs)), Cursor: page.Cursor, Partial: page.Partial, Looked: page.Looked}
	for i := range page.Runs {
		got.Runs[i] = runOf(&page.Runs[i])
	}
	return got, nil
}

// Count returns the number of matching runs. It ignores Cursor, Limit and Oldest of the filter.
func (s *Service) Count(ctx context.Context, f Filter) (Counts, error) {
	f, err := s.owned(f)
	if err != nil {
		return Counts{}, err
	}
	asked, err := f.filter()
	if err != nil {
		return Counts{}, err
	}
	counts, err := s.client.Count(ctx, asked)
	if err != nil {
		return Counts{}, err
	}
	return countsOf(counts), nil
}

// Run returns a run with its input and outcome. If the run does not progress, the result contains
// the reason.
func (s *Service) Run(ctx context.Context, ref string) (Run, error) {
	r, err := s.visible(ctx, ref)
	s.show(&r)
	return r, err
}

// run is like [Service.Run], but does not check the rights of the principal.
func (s *Service) run(ctx context.Context, ref string) (Run, error) {
	h, info, err := s.find(ctx, ref)
	r := runOf(&info)
	facts := runFacts{RunInfo: &info}
	if r.unreadable(err) { // data outside the log remain readable
		r.Actions = actionsFor(&facts)
		return r, nil
	}
	if err != nil {
		return Run{}, err
	}
	if err := s.readBeginning(ctx, h, &r, &facts); err != nil && !r.unreadable(err) {
		return Run{}, err
	}
	if err := s.readEnd(ctx, h, &r, &facts); err != nil && !r.unreadable(err) {
		return Run{}, err
	}
	if err := s.readLastTry(ctx, &facts); err != nil && !ProblemOf(err).Unreadable() {
		return Run{}, err
	}
	if err := s.readOrders(ctx, &facts); err != nil {
		return Run{}, err
	}
	r.Canceling, r.CancelReason = facts.orders.Canceling, event.ShownText(facts.orders.CancelReason)
	if err := s.readMore(ctx, &r, &info); err != nil {
		return Run{}, err
	}
	r.Actions = actionsFor(&facts)
	return r, nil
}

// readBeginning reads the log of a run up to the first step from which the run can be forked. Most
// logs contain such a step near their beginning.
func (s *Service) readBeginning(ctx context.Context, h *workflow.Handle, r *Run, f *runFacts) error {
	const first, rest = 64, maxLimit
	for from, limit := uint64(1), first; from <= f.Events && !f.step; limit = rest {
		page, err := s.read(ctx, h, *f.RunInfo, from, limit)
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

// lastEvents is the number of events that readEnd reads from the end of the log of a paused run. It
// finds the time and the reason of the pause in them.
const lastEvents = 16

// readEnd reads the outcome of an ended run, or the reason why a run is paused, from the end of its
// log.
func (s *Service) readEnd(ctx context.Context, h *workflow.Handle, r *Run, f *runFacts) error {
	if f.Events == 0 {
		return nil
	}
	from := f.Events
	if f.Paused {
		from = max(f.Events, lastEvents) - lastEvents + 1
	}
	page, err := s.read(ctx, h, *f.RunInfo, from, lastEvents)
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

// readLastTry reads the run that a retry would repeat, for a run that has been retried.
func (s *Service) readLastTry(ctx context.Context, f *runFacts) (err error) {
	if f.RetriedAs == "" {
		return nil
	}
	if f.last, err = s.lastTry(ctx, f.RunInfo); err != nil || f.last.ID == f.ID || f.last.EndedAt.IsZero() {
		return err
	}
	page, err := s.read(ctx, s.client.Run(f.last.ID), *f.last, f.last.Events, 1)
	if err != nil {
		f.last = nil
		return err
	}
	f.undone = len(page) > 0 && page[0].Failure != nil && len(page[0].Failure.Undone) > 0
	return nil
}

// maxBelow is the maximum number of runs that the store reads to count the descendants of a run.
const maxBelow = 1000

// readMore reads the last recovery of a run and the number of runs below it. These data are neither
// in the record of the run nor in its log.
func (s *Service) readMore(ctx context.Context, r *Run, info *workflow.RunInfo) error {
	last, err := s.ops.LastRecovery(ctx, info.ID)
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
	counts, err := s.client.Count(ctx, f)
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
	if own > 0 && b.Total > 0 { // the count includes the run itself
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

// readOrders reads the pending requests of an open run. For an ended run, it reads whether another
// run is active under the same workflow ID.
func (s *Service) readOrders(ctx context.Context, f *runFacts) (err error) {
	if open(f.RunInfo) {
		f.orders, err = s.ops.Orders(ctx, f.ID)
		return err
	}
	if f.WorkflowID == "" || f.Status == workflow.StatusContinued || event.Internal(f.Workflow) {
		return nil
	}
	active, err := s.client.RunByID(f.WorkflowID).Info(ctx)
	if errors.Is(err, workflow.ErrRunNotFound) {
		return nil
	}
	f.taken = active.EndedAt.IsZero() && active.ID != f.ID
	if ProblemOf(err).Unreadable() {
		err = nil
	}
	return err
}

// unreadable reports whether err means that the log cannot be read. If so, it records the problem
// in r, so that operators can still read the other data of the run.
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

// Events returns up to limit events of a run, beginning with the event number from. A limit of 0
// means 1,000, which is the maximum. Events does not wait for further events.
func (s *Service) Events(ctx context.Context, ref string, from uint64, limit int) (EventPage, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return EventPage{}, err
	}
	page, err := s.events(ctx, ref, from, limit)
	for i := range page.Events {
		s.hideEvent(&page.Events[i])
	}
	return page, err
}

// events is like [Service.Events], but does not check the rights of the principal.
func (s *Service) events(ctx context.Context, ref string, from uint64, limit int) (EventPage, error) {
	if limit < 0 || limit > maxLimit {
		return EventPage{}, &InputError{What: fmt.Sprintf("a page of %d events", limit), Fix: fmt.Sprintf("request 1 to %d, and the next page by its number", maxLimit)}
	}
	h, info, err := s.find(ctx, ref)
	if err != nil {
		return EventPage{}, err
	}
	limit = cmp.Or(limit, maxLimit)
	from = max(from, 1)
	all, err := s.read(ctx, h, info, from, limit)
	page := EventPage{Events: all}
	if next := from + uint64(len(all)); err == nil && len(all) > 0 && next <= info.Events {
		page.Next = next
	}
	return page, err
}

// read returns events from the log of a run, beginning with the event number from. It does not wait
// for further events.
func (s *Service) read(ctx context.Context, h *workflow.Handle, info workflow.RunInfo, from uint64, limit int) ([]Event, error) {
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
