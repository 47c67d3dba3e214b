package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// StatusError says that a run is not in a status in which it can be deleted, or in
// which a new run can be made of it in this way.
type StatusError struct {
	Run    RunID
	Verb   string // what was asked for
	Status Status
	Fix    string
	Undone []string // the compensations that have undone what would be taken over
}

// Error names the run, its status and what to do instead.
func (e *StatusError) Error() string {
	undone := ""
	if len(e.Undone) > 0 {
		undone = " and has undone what it did (" + strings.Join(e.Undone, "; ") + ")"
	}
	return fmt.Sprintf("%s run %s: it is %s%s: %s", e.Verb, e.Run, e.Status, undone, e.Fix)
}

// ErrStepNotFound says that the log of a run has no such step.
var ErrStepNotFound = errors.New("workflow: step not found")

// maxKept bounds what a new run takes over, in bytes.
const maxKept = 64 << 20

// earlier is a run of which a new one is made.
type earlier struct {
	record store.Record
	log    []event.Event
	last   *event.Event
	key    RunID // the id of the new run, by the idempotency key of the request; empty: there is none
	asked  retryRequest
	policy policyRequest
}

// retryRequest is what a call of Retry or RetryCanceled gives. The first event of the run that it makes has it.
type retryRequest struct {
	reason string
	item   event.ItemID // the idempotency key, for one run; empty: there is none
}

// Restart makes a rerun, a new run, with the input of this one, which may still be
// running. Nothing else is copied. The new run has the workflow id of this one if
// that has ended, or else none.
//
// This holds for all reruns, which [Handle.Fork], [Handle.Retry] and
// [Handle.RetryCanceled] make, too: the old run stays as it is; the new run has the queue,
// tags, priority, retention and time limit of the old one, the limit begins anew; it has
// no parent. Errors: ErrRunNotFound; an *ActiveRunError if the workflow id is in use by
// now.
//
// Each call of Restart or Fork makes another run. With an [IdempotencyKey] calls for the same run with the same key
// return the same new run, as long as that is kept, whoever makes them and whenever; if they ask for something else, the
// error is a *[KeyConflictError].
func (h *Handle) Restart(ctx context.Context, opts ...SendOption) (*Handle, error) {
	const verb = "restart"
	old, err := h.earlier(ctx, verb)
	if err != nil {
		return nil, err
	}
	first := old.log[0]
	var known bool
	if err := h.c.refuseRetryKey(ctx, verb, old, opts); err != nil {
		return nil, err
	}
	if first.Payload, known = event.InputOf(old.log); !known {
		return nil, &StatusError{Run: old.record.Run, Verb: verb, Status: old.record.Status, Fix: "it shares its input with other starts, and has none before a worker has claimed it"}
	}
	id := old.keyed(opts)
	if id == "" {
		id = old.fresh(h.c.store.Clock().Now())
	}
	return h.rerun(ctx, verb, old, id, []event.Event{first}, 0)
}

// Fork makes a rerun that repeats this one from a step on, which is named by its id or
// its key. The run may have ended or still be running; it does not change. The events
// before the step are copied, messages included: steps that had completed are not
// executed again. Steps that were under way begin again, even those that are not
// idempotent. Children, sends and hooks belong to the old run: those that had ended are
// copied with their outcomes, and if one had not, the copied prefix ends before it, so
// that the new run asks for it again.
//
// In the copied prefix the code must issue the same operations with the same keys in the
// same order; arguments are not compared. Times are those of the old run: timers that
// fell due meanwhile are due at once. After the prefix random numbers differ.
// See [Handle.Restart] for the other properties of the new run; it is never in debug mode.
// Errors: those of Restart; one that matches [ErrStepNotFound]; a *[PayloadError] if
// there are more than 64 MiB to copy.
func (h *Handle) Fork(ctx context.Context, stepID string, opts ...SendOption) (*Handle, error) {
	const verb = "fork"
	old, err := h.earlier(ctx, verb)
	if err != nil {
		return nil, err
	}
	if err := h.c.refuseRetryKey(ctx, verb, old, opts); err != nil {
		return nil, err
	}
	cut := uint64(0)
	for i := range old.log {
		if e := &old.log[i]; isStep(e) && (e.Key == stepID || e.Correlation(old.record.Run) == stepID) {
			cut = e.Seq
		}
	}
	if cut == 0 {
		return nil, fmt.Errorf("fork run %s at %q: %w", old.record.Run, stepID, ErrStepNotFound)
	}
	return h.rerunFrom(ctx, verb, old, old.keyed(opts), replay.Kept{Cut: cut, Until: cut})
}

// Retry makes a rerun that continues where this one, which failed, has failed: completed
// operations and messages are copied, and the step or child that the run failed with is
// tried again, with all its attempts. Steps, children and sends that other branches began and
// completed after the failure are not executed again, as long as the code asks for them with the same key and the same contents. If the run
// failed by itself its code continues after everything that it had done: with the same code it will fail again. The rules of
// [Handle.Fork] for the copied prefix hold here, but random numbers go on as those of the old run.
//
// A run that was retried leaves its group of [Trouble], and names the new run as [RunInfo].RetriedAs. Retrying it again
// returns that run while it is open or if it has completed; if that has failed, it retries that one; if that was
// deleted, it makes another one. With an [IdempotencyKey] calls for the same run with the key of one that has made a run
// return that run as long as it is kept, even if it has failed meanwhile. A call that returns a run which is there already makes none, and its key names none. A [Reason] stands in
// the first event of the new run.
//
// Errors: a *[StatusError] if the run, or the one that it was retried as, has not failed; one with
// Undone if it has undone what it did; those of Fork; a *[KeyConflictError] if the key has made a run by Restart or Fork.
func (h *Handle) Retry(ctx context.Context, opts ...CommandOption) (*Handle, error) {
	const verb = "retry"
	old, made, err := h.lastRerun(ctx, verb, event.RunFailed, opts)
	if err != nil || made != nil {
		return made, err
	}
	if err := old.refuseUndone(verb); err != nil {
		return nil, err
	}
	return h.retry(ctx, verb, old)
}

// retry makes the run that goes on where one that has failed did.
func (h *Handle) retry(ctx context.Context, verb string, old *earlier) (*Handle, error) {
	cut, failed := old.failedAt()
	return h.rerunFrom(ctx, verb, old, old.next(), replay.Kept{Cut: cut, Until: old.last.Seq, Failed: failed, Seed: replay.Seed(old.record.Run, old.log)})
}

// RetryCanceled makes a rerun that continues the work of this one, which was
// cancelled and stays so: completed operations, even those that completed after the
// cancel, and messages are copied, and operations that the cancel ended continue. A
// second call follows what was made of it as that of [Handle.Retry] does, and takes the same options. The rules of Retry for what
// is copied hold here, too.
//
// Errors: a *[StatusError] if the run was not cancelled; one with
// Undone if it has undone what it did; those of Fork.
func (h *Handle) RetryCanceled(ctx context.Context, opts ...CommandOption) (*Handle, error) {
	const verb = "retry"
	old, made, err := h.lastRerun(ctx, verb, event.RunCanceled, opts)
	if err != nil || made != nil {
		return made, err
	}
	if err := old.refuseUndone(verb); err != nil {
		return nil, err
	}
	cut := old.last.Seq
	for i := range old.log {
		if old.log[i].Type == event.CancelRequested {
			cut = old.log[i].Seq
			break
		}
	}
	return h.rerunFrom(ctx, verb, old, old.next(), replay.Kept{Cut: cut, Until: old.last.Seq, Seed: replay.Seed(old.record.Run, old.log)})
}

// lastRerun returns the run that is to be tried again for this one: itself, or, if it was tried again and the last rerun has
// ended badly, that one. Each of them must have ended with an event of type end. made is not nil if there is nothing to do: the
// idempotency key has made it before, or the last rerun is open, or has completed.
func (h *Handle) lastRerun(ctx context.Context, verb string, end event.Type, opts []CommandOption) (old *earlier, made *Handle, err error) {
	o, err := commandOf(verb, opts)
	if err != nil {
		return nil, nil, err
	}
	asked := retryRequest{reason: o.reason}
	var chain event.Loop
	for first := true; ; first = false {
		switch old, err = h.earlier(ctx, verb); {
		case err != nil:
			return nil, nil, err
		case asked.item != "" && old.log[0].Item == asked.item: // the same request has made it since the key was looked for
			return nil, h.c.Run(old.record.Run), nil
		case old.last.Type != end:
			return nil, nil, &StatusError{Run: old.record.Run, Verb: verb, Status: old.record.Status, Fix: "Retry is for a run that failed, RetryCanceled for one that was cancelled"}
		case chain.Closed(old.record.Run):
			return nil, nil, fmt.Errorf("%s: run %s is a rerun of itself: delete it, it was imported so", verb, old.record.Run)
		}
		if first {
			asked.item = retryItem(old.record.Run, o.sends)
			if made, err = h.c.madeByKey(ctx, verb, old, o.sends); err != nil || made != nil {
				return nil, made, err
			}
		}
		old.asked = asked
		if old.record.Rerun == "" {
			return old, nil, nil
		}
		next := h.c.Run(old.record.Rerun)
		info, err := next.Info(ctx)
		switch {
		case errors.Is(err, ErrRunNotFound): // it was deleted
			return old, nil, nil
		case err != nil:
			return nil, nil, fmt.Errorf("%s run %s: look at run %s, as which it was tried again: %w", verb, old.record.Run, next.ID(), err)
		case info.Status != StatusFailed && info.Status != StatusCanceled:
			return nil, next, nil
		}
		h = next
	}
}

// retryItem returns what the first event of a run has that a retry of an earlier run with an idempotency key has made; empty: there
// is no key.
func retryItem(run RunID, opts []SendOption) event.ItemID {
	if item, keyed := itemOf("retry of "+string(run), opts); keyed {
		return item
	}
	return ""
}

// madeByKey returns the run that a retry with the same idempotency key has made before; nil: none. It refuses the key of another
// request.
func (c *Client) madeByKey(ctx context.Context, verb string, old *earlier, opts []SendOption) (*Handle, error) {
	other := old.keyed(opts)
	if other == "" {
		return nil, nil
	}
	switch _, err := c.Run(other).Info(ctx); {
	case err == nil:
		return nil, &KeyConflictError{Verb: verb, Run: old.record.Run, New: other}
	case !errors.Is(err, ErrRunNotFound):
		return nil, fmt.Errorf("%s run %s: look for a run of the key: %w", verb, old.record.Run, err)
	}
	return c.retriedByKey(ctx, verb, old, opts)
}

// refuseRetryKey refuses the idempotency key of a retry for another request.
func (c *Client) refuseRetryKey(ctx context.Context, verb string, old *earlier, opts []SendOption) error {
	made, err := c.retriedByKey(ctx, verb, old, opts)
	if err == nil && made != nil {
		err = &KeyConflictError{Verb: verb, Run: old.record.Run, New: made.ID()}
	}
	return err
}

// retriedByKey returns the run that a retry with an idempotency key has made of a run, or of a rerun of that; nil: none. It looks at
// the reruns that the runs name, and at those that their first retries have made: a run that was also restarted names the last rerun
// only.
func (c *Client) retriedByKey(ctx context.Context, verb string, old *earlier, opts []SendOption) (*Handle, error) {
	item := retryItem(old.record.Run, opts)
	if item == "" || !old.tried() {
		return nil, nil
	}
	seen := map[RunID]bool{"": true, old.record.Run: true}
	for left := []*earlier{old}; len(left) > 0; left = left[1:] {
		for _, id := range []RunID{left[0].following(), left[0].record.Rerun} {
			if seen[id] {
				continue
			}
			seen[id] = true
			next, err := c.Run(id).earlier(ctx, verb)
			switch {
			case errors.Is(err, ErrRunNotFound):
			case err != nil:
				return nil, err
			case next.log[0].Item == item:
				return c.Run(id), nil
			case next.tried():
				left = append(left, next)
			}
		}
	}
	return nil, nil
}

// earlier reads the run.
func (h *Handle) earlier(ctx context.Context, verb string) (*earlier, error) {
	id, err := h.resolve(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	l, err := h.c.load(ctx, store.Load{Run: id})
	if err != nil {
		return nil, fmt.Errorf("%s run %s: %w", verb, id, err)
	}
	if err := refuseInternal(verb, &l.Record); err != nil {
		return nil, err
	}
	old := &earlier{record: l.Record}
	if old.log, err = (&logReader{run: id}).all(&l); err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	old.last = &old.log[len(old.log)-1]
	return old, nil
}

// workflowID is that of the new run: the old one's, if it has left it.
func (o *earlier) workflowID() string {
	if o.record.QueueState != store.StateEnded || o.last.Type == event.RunContinued {
		return ""
	}
	return o.log[0].Spec.WorkflowID
}

// fresh returns an id for one of many runs that may be made of this one.
func (o *earlier) fresh(now time.Time) RunID {
	slot := event.RandomSlot()
	switch id := o.workflowID(); {
	case o.tried():
		slot = o.record.Run.Slot() // where it names its last rerun

	case id != "":
		slot = event.SlotOf(id)
	case len(o.log[0].Spec.Uses) > 0 && o.log[0].Spec.PermitSlot == 0:
		slot = o.record.Run.Slot() // where its limits are
	}
	return event.NewRunID(now, slot)
}

// keyed returns the id of the run that is made of this one under an idempotency key; empty: there is no key.
//
// The id is the key of the creation: whoever asks again, also at the same time or after a crash, asks the store to
// create a run that it has. So it is derived from the old run and the key alone, and from nothing that changes while the
// old run goes on. It has the slot of the old run: that of its workflow id, and where its limits are.
func (o *earlier) keyed(opts []SendOption) RunID {
	item, given := itemOf("rerun", opts)
	if !given {
		return ""
	}
	o.key = event.DerivedRunID(o.record.Run, string(item), o.record.Run.Slot())
	return o.key
}

// next is the id of the one run that goes on where this one has ended. There is another one once that was deleted.
func (o *earlier) next() RunID {
	if gone := o.record.Rerun; gone != "" {
		return event.DerivedRunID(o.record.Run, "rerun instead of "+string(gone), o.record.Run.Slot())
	}
	return o.following()
}

// following is the id of the first run that goes on where this one has ended.
func (o *earlier) following() RunID { return event.NextRunID(o.record.Run, o.last.Seq+1, o.last.Time) }

// tried reports whether a rerun of the run is that run, tried again.
func (o *earlier) tried() bool {
	return o.record.QueueState == store.StateEnded && (o.last.Type == event.RunFailed || o.last.Type == event.RunCanceled)
}

// guardSingleton refuses a rerun of an open run that must be the only active one of its key.
func (o *earlier) guardSingleton(verb string) error {
	spec := identityOf(o.record.Run, o.log[0].Spec, o.record.CreatedAt)
	if o.record.QueueState == store.StateEnded || !spec.Singleton() {
		return nil
	}
	return &StatusError{Run: o.record.Run, Verb: verb, Status: o.record.Status,
		Fix: "its workflow is a singleton, and another run of " + spec.WorkflowID + " would be active beside it: cancel it first, or wait for its end"}
}

func (o *earlier) refuseUndone(verb string) error {
	if f := o.last.Failure; f != nil && len(f.Undone) > 0 {
		return &StatusError{Run: o.record.Run, Verb: verb, Status: o.record.Status, Undone: f.Undone, Fix: "Restart it"}
	}
	return nil
}

// failedAt returns the number of the first event that made the run fail: the end of
// a step or child whose error it failed with, that its time was up, or its log too long; and the key of that step or child.
func (o *earlier) failedAt() (at uint64, key string) {
	at = o.last.Seq
	steps, children := map[string]bool{}, map[RunID]bool{}
	causes(o.record.Run, o.last.Failure, steps, children)
	created := map[uint64]*event.Event{}
	for i := range o.log {
		e := &o.log[i]
		if e.Type.Creates() {
			created[e.Ref] = e
		}
		guilty := false
		switch by := created[e.Ref]; e.Type {
		case event.StepFailed:
			guilty = steps[by.Key]
		case event.ChildFailed, event.ChildCanceled:
			guilty = children[e.Next] || children[by.Next] || isStep(by) && steps[by.Key]
		case event.WaitCompleted:
			guilty = o.timeLimit(by) && e.Outcome == event.OutcomeDue
		case event.CancelRequested:
			guilty = e.Failure != nil // the log was too long
		}
		if guilty {
			if at = e.Seq; created[e.Ref] != nil && e.Type != event.WaitCompleted {
				key = created[e.Ref].Key
			}
			break
		}
	}
	return at, key
}

// isStep reports whether the event asks for a step, here or on a queue of its own.
func isStep(e *event.Event) bool {
	_, remote := event.StepOfRun(e.Name)
	return e.Type == event.StepCreated || e.Type == event.ChildCreated && remote
}

// timeLimit reports whether an event has created the limit of the whole run.
func (o *earlier) timeLimit(e *event.Event) bool {
	return o.log[0].Spec.Timeout > 0 && e.Type == event.WaitCreated && e.Wait == event.WaitDeadline &&
		e.Key == replay.TimeLimitKey(lastName(o.record.Route.Workflow))
}

// causes gathers the steps of the run, by key, and the children that a failure is
// about.
func causes(run RunID, f *event.Failure, steps map[string]bool, children map[RunID]bool) {
	if f == nil {
		return
	}
	switch f.Type {
	case wireStepError:
		var s storedStepError
		if json.Unmarshal(f.Data, &s) == nil && s.Run == run {
			steps[s.Key] = true
		}
	case wireRunError:
		var s storedRunError
		if json.Unmarshal(f.Data, &s) == nil {
			children[s.Run] = true
		}
	}
	for _, c := range f.Causes {
		causes(run, c, steps, children)
	}
}

// rerunFrom makes a run that takes over a part of the log. An empty id asks for a new one, an empty seed for random numbers of
// its own.
func (h *Handle) rerunFrom(ctx context.Context, verb string, old *earlier, id RunID, part replay.Kept) (*Handle, error) {
	if old.log[0].Spec.PermitSlot != 0 {
		// The run that held its permits belongs to it, so that nothing after its start is taken over as it was: the new run has its
		// code begin once it has permits of its own, and gets the results of what was done. For that it needs the same random numbers.
		part.Seed = replay.Seed(old.record.Run, old.log)
	}
	now := h.c.store.Clock().Now()
	if id == "" {
		id = old.fresh(now)
	}
	part.Next, part.Now, part.Due, part.Seed = id, now, old.policy.due, cmp.Or(part.Seed, id)
	events, kept := replay.Keep(old.log, part)
	begins := now
	if part.Due.After(now) {
		begins = part.Due
	}
	for i := range events {
		if e := &events[i]; old.timeLimit(e) {
			e.Due = begins.Add(old.log[0].Spec.Timeout)
		}
	}
	return h.rerun(ctx, verb, old, id, events, kept)
}

// rerun creates the new run.
func (h *Handle) rerun(ctx context.Context, verb string, old *earlier, id RunID, events []event.Event, kept int) (*Handle, error) {
	if err := old.guardSingleton(verb); err != nil {
		return nil, err
	}
	run, now := old.record.Run, h.c.store.Clock().Now()
	spec := *old.log[0].Spec
	spec.RerunOf, spec.Kept, spec.Reruns, spec.ContinuedOf = run, kept, old.policy.reruns, ""
	spec.Parent, spec.ParentKey, spec.Root, spec.Depth = "", "", "", 0
	spec.StartAt, spec.Hold, spec.Debug = time.Time{}, 0, spec.Debug && kept > 0
	if kept > 0 {
		spec.Seed, spec.StartWithin = cmp.Or(spec.Seed, run), 0 // it had begun in time
	}
	if kept == 0 {
		spec.Gather = event.GatherNone
		spec.Seed, events[0].Time = "", now
	}
	spec.WorkflowID = old.workflowID()
	events[0].Spec, events[0].By, events[0].Reason, events[0].Item = &spec, behalf(ctx), old.asked.reason, old.asked.item
	last := &events[len(events)-1]
	c := store.Create{
		Run: id, WorkflowID: spec.WorkflowID, Active: FailActive, Route: old.record.Route, Priority: old.record.Priority,
		Tags: spec.Tags, CommitID: event.NewCommitID(), Seq: last.Seq, Retention: spec.Retention,
		At: old.policy.due, Deadline: old.policy.deadline,
	}
	if !c.At.IsZero() {
		c.Status = StatusSleeping
	}
	if permits.Take(&c, &spec); old.tried() {
		c.RerunOf = run
	}
	var err error
	if c.Frame, err = event.AppendFrame(nil, &event.Frame{CommitID: c.CommitID, Time: last.Time, Events: events}); err != nil {
		return nil, fmt.Errorf("%s run %s: %w", verb, run, err)
	}
	if len(c.Frame) > maxKept {
		return nil, fmt.Errorf("%s: %w", verb, &PayloadError{What: "what is taken over of run " + string(run), Size: len(c.Frame), Limit: maxKept})
	}
	created, err := h.c.store.Create(ctx, []store.Create{c})
	if err == nil {
		err = created[0].Err
	}
	if err != nil {
		return nil, fmt.Errorf("%s run %s: %w", verb, run, err)
	}
	if id == old.key {
		if err := h.sameRerun(ctx, verb, run, id, kept, len(events)); err != nil {
			return nil, err
		}
	}
	return h.c.Run(created[0].Run), nil
}

// KeyConflictError says that an idempotency key was used for a request that asked for something else.
type KeyConflictError struct {
	Verb string // what was asked for now
	Run  RunID  // of which
	New  RunID  // that the key has made
}

// Error names the runs, and the fix.
func (e *KeyConflictError) Error() string {
	return fmt.Sprintf("%s run %s: the idempotency key was used before for another request, which has made run %s: use another key", e.Verb, e.Run, e.New)
}

// sameRerun returns a *KeyConflictError if a run that the store has was made otherwise than by what is taken over of the old
// one now. Two requests that take over the same are the same.
func (h *Handle) sameRerun(ctx context.Context, verb string, old, made RunID, kept, events int) error {
	l, err := h.c.loadAgain(ctx, store.Load{Run: made, Limit: 1})
	if err != nil {
		return fmt.Errorf("%s run %s: look at run %s, which was made: %w", verb, old, made, err)
	}
	f, err := event.DecodeFrame(l.Frames[0])
	if err != nil {
		return fmt.Errorf("%s run %s: %w", verb, old, &EventError{Run: made, Frame: 1, Err: err})
	}
	if spec := f.Events[0].Spec; spec == nil || spec.RerunOf != old || spec.Kept != kept || len(f.Events) != events {
		return &KeyConflictError{Verb: verb, Run: old, New: made}
	}
	return nil
}

// Restart is that of the Handle.
func (r *Run[T]) Restart(ctx context.Context, opts ...SendOption) (*Run[T], error) {
	return r.typed(r.Handle.Restart(ctx, opts...))
}

// Fork is that of the Handle.
func (r *Run[T]) Fork(ctx context.Context, stepID string, opts ...SendOption) (*Run[T], error) {
	return r.typed(r.Handle.Fork(ctx, stepID, opts...))
}

// Retry is that of the Handle.
func (r *Run[T]) Retry(ctx context.Context, opts ...CommandOption) (*Run[T], error) {
	return r.typed(r.Handle.Retry(ctx, opts...))
}

// RetryCanceled is that of the Handle.
func (r *Run[T]) RetryCanceled(ctx context.Context, opts ...CommandOption) (*Run[T], error) {
	return r.typed(r.Handle.RetryCanceled(ctx, opts...))
}

func (r *Run[T]) typed(h *Handle, err error) (*Run[T], error) {
	if err != nil {
		return nil, err
	}
	return &Run[T]{Handle: h, def: r.def, created: true}, nil
}
