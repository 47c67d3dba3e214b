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
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// StatusError reports that the status of a run does not allow a request, for example to delete or
// rerun the run.
type StatusError struct {
	Run    RunID
	Verb   string // requested operation
	Status Status
	Fix    string
	Undone []string // compensations that have undone work which the rerun would copy
}

// Error returns a text that contains the run, its status and the fix.
func (e *StatusError) Error() string {
	undone := ""
	if len(e.Undone) > 0 {
		undone = " and has undone its steps (" + strings.Join(e.Undone, "; ") + ")"
	}
	return fmt.Sprintf("%s run %s: it is %s%s: %s", e.Verb, e.Run, e.Status, undone, e.Fix)
}

// ErrStepNotFound means that the log of a run does not contain the step.
var ErrStepNotFound = errors.New("workflow: step not found")

// maxKept is the maximum size of the data that a rerun copies, in bytes.
const maxKept = 64 << 20

// earlier is a run of which a rerun is made.
type earlier struct {
	record store.Record
	log    []event.Event
	last   *event.Event
	key    RunID // ID of the new run, derived from the idempotency key of the request; empty: there is no key
	asked  retryRequest
	policy policyRequest
}

// retryRequest contains the options of Retry or RetryCanceled. The first event of the new run
// records them.
type retryRequest struct {
	reason string
	item   event.ItemID // derived from the run and the idempotency key; empty: there is no key
}

// Restart makes a rerun: a new run with the input of this run, which may be open. Nothing else is
// copied. If this run has ended, the new run has its workflow ID. Otherwise the new run has no
// workflow ID.
//
// The following applies to all reruns, including those of [Handle.Fork], [Handle.Retry] and
// [Handle.RetryCanceled]. The old run does not change. The new run has the queue, tags, priority,
// retention and timeout of the old run, and the timeout starts anew. The new run has no parent.
// Errors: ErrRunNotFound; or an *ActiveRunError if the workflow ID is in use.
//
// Each call of Restart or Fork makes another run. With an [IdempotencyKey], all calls for the same
// run with the same key return the same new run, as long as that run is kept. If a call with the
// key requests a different rerun, the error is a *[KeyConflictError].
func (h *Handle) Restart(ctx context.Context, opts ...SendOption) (*Handle, error) {
	const verb = "restart"
	old, err := h.unretried(ctx, verb, opts)
	if err != nil {
		return nil, err
	}
	first := old.log[0]
	var known bool
	if first.Payload, known = event.InputOf(old.log); !known {
		return nil, &StatusError{Run: old.record.Run, Verb: verb, Status: old.record.Status, Fix: "it shares its input with other starts, and has no input until a worker has claimed it"}
	}
	id := old.keyed(opts)
	if id == "" {
		id = old.fresh(h.c.store.Clock().Now())
	}
	return h.rerun(ctx, verb, old, id, []event.Event{first}, 0)
}

// Fork makes a rerun that repeats this run from a step on. stepID is the ID or the key of the step.
// This run may be open, and does not change. The events before the step are copied, including
// messages, so completed steps are not executed again. Steps that were running begin again, even if
// they are not idempotent. Children, sends and hooks belong to the old run. If they had ended, they
// are copied with their outcomes. The copied events end before the first one that had not ended, so
// that the new run requests it again.
//
// For the copied events, the code must request the same operations with the same keys in the same
// order. Arguments are not compared. Times are those of the old run, so timers that became due
// since then are due at once. After the copied events, random numbers differ from those of the old
// run. The new run is never in debug mode. See [Handle.Restart] for its other properties.
//
// Errors: those of Restart; an error that matches [ErrStepNotFound]; or a *[PayloadError] if more
// than 64 MiB would be copied.
func (h *Handle) Fork(ctx context.Context, stepID string, opts ...SendOption) (*Handle, error) {
	const verb = "fork"
	old, err := h.unretried(ctx, verb, opts)
	if err != nil {
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

// Retry makes a rerun of a failed run that continues where the run failed. Completed operations and
// messages are copied. The step or child whose error made the run fail is retried with all its
// attempts. Steps, children and sends that other branches began and completed after the failure are
// not executed again if the code requests them with the same key and contents. If the code itself
// returned an error, it continues after its last operation, and fails again unless the code was
// changed. The rules of [Handle.Fork] for copied events apply, but random numbers continue as in
// the old run.
//
// A retried run leaves its failure group (see ops.FailureGroup), and its [RunInfo].RetriedAs is the
// new run. Another call of Retry returns the new run if that run is open or has completed, retries
// it if it has failed, and makes another run if it was deleted.
//
// With an [IdempotencyKey], all calls for the same run with a key that has made a run return that
// run as long as it is kept, even if it has failed. If a call returns a run that an earlier call
// has made, its key is not associated with that run. The first event of the new run contains the
// [Reason].
//
// Errors: a *[StatusError] if the run, or its last rerun, has not failed; a *StatusError with
// Undone if the run has undone its work; those of Fork; or a *[KeyConflictError] if Restart or Fork
// has made a run with the key.
func (h *Handle) Retry(ctx context.Context, opts ...CommandOption) (*Handle, error) {
	return h.retryLast(ctx, event.RunFailed, opts)
}

// retryLast retries the run, or its last rerun, which must have ended with an event of type end.
func (h *Handle) retryLast(ctx context.Context, end event.Type, opts []CommandOption) (*Handle, error) {
	const verb = "retry"
	old, made, err := h.lastRerun(ctx, verb, end, opts)
	if err != nil || made != nil {
		return made, err
	}
	if f := old.last.Failure; f != nil && len(f.Undone) > 0 {
		return nil, &StatusError{Run: old.record.Run, Verb: verb, Status: old.record.Status, Undone: f.Undone, Fix: "Restart it"}
	}
	return h.retry(ctx, verb, old)
}

// retry makes the run that continues where a failed or canceled run ended.
func (h *Handle) retry(ctx context.Context, verb string, old *earlier) (*Handle, error) {
	cut, failed := old.canceledAt(), ""
	if old.last.Type == event.RunFailed {
		cut, failed = old.failedAt()
	}
	return h.rerunFrom(ctx, verb, old, old.next(), replay.Kept{Cut: cut, Until: old.last.Seq, Failed: failed, Seed: replay.Seed(old.record.Run, old.log)})
}

// RetryCanceled makes a rerun that continues the work of a canceled run, which stays canceled.
// Completed operations and messages are copied, including operations that completed after the
// cancel request. Operations that the cancel request ended continue. Another call follows the
// reruns of the run, as [Handle.Retry] does. RetryCanceled takes the same options as Retry, and the
// rules of Retry for copied events apply.
//
// Errors: a *[StatusError] if the run was not canceled; a *StatusError with Undone if the run has
// undone its work; or those of Fork.
func (h *Handle) RetryCanceled(ctx context.Context, opts ...CommandOption) (*Handle, error) {
	return h.retryLast(ctx, event.RunCanceled, opts)
}

// lastRerun returns the run to retry: this run, or its last rerun if that rerun has failed or was
// canceled. Each run on the way must have ended with an event of type end. If made is not nil, no
// run must be made, because the idempotency key has already made it, or because the last rerun is
// open or has completed.
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
		case asked.item != "" && old.log[0].Item == asked.item: // a concurrent request with the same key has made the run
			return nil, h.c.handle(old.record.Run), nil
		case old.last.Type != end:
			return nil, nil, &StatusError{Run: old.record.Run, Verb: verb, Status: old.record.Status, Fix: "Retry is for a run that failed, RetryCanceled for a run that was cancelled"}
		case chain.Closed(old.record.Run):
			return nil, nil, fmt.Errorf("%s: run %s is recorded as a rerun of itself: delete it; it was imported in this state", verb, old.record.Run)
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
		next := h.c.handle(old.record.Rerun)
		info, err := next.Info(ctx)
		switch {
		case errors.Is(err, ErrRunNotFound): // the last rerun was deleted
			return old, nil, nil
		case err != nil:
			return nil, nil, fmt.Errorf("%s run %s: look at run %s, as which it was retried: %w", verb, old.record.Run, next.ID(), err)
		case info.Status != StatusFailed && info.Status != StatusCanceled:
			return nil, next, nil
		}
		h = next
	}
}

// retryItem returns the item ID that identifies a retry of run with an idempotency key, or "" if
// there is no key. The first event of the new run contains it.
func retryItem(run RunID, opts []SendOption) event.ItemID {
	if item, keyed := itemOf("retry of "+string(run), opts); keyed {
		return item
	}
	return ""
}

// madeByKey returns the run that an earlier retry with the same idempotency key has made, or nil if
// there is none. It returns an error if another kind of request has used the key.
func (c *client) madeByKey(ctx context.Context, verb string, old *earlier, opts []SendOption) (*Handle, error) {
	other := old.keyed(opts)
	if other == "" {
		return nil, nil
	}
	switch _, err := c.handle(other).Info(ctx); {
	case err == nil:
		return nil, &KeyConflictError{Verb: verb, Run: old.record.Run, New: other}
	case !errors.Is(err, ErrRunNotFound):
		return nil, fmt.Errorf("%s run %s: look for a run of the key: %w", verb, old.record.Run, err)
	}
	return c.retriedByKey(ctx, verb, old, opts)
}

// unretried reads the run of the handle. It returns an error if a retry has used the idempotency
// key.
func (h *Handle) unretried(ctx context.Context, verb string, opts []SendOption) (*earlier, error) {
	old, err := h.earlier(ctx, verb)
	if err != nil {
		return nil, err
	}
	made, err := h.c.retriedByKey(ctx, verb, old, opts)
	if err == nil && made != nil {
		err = &KeyConflictError{Verb: verb, Run: old.record.Run, New: made.ID()}
	}
	return old, err
}

// retriedByKey returns the run that a retry with an idempotency key has made of a run or of its
// reruns, or nil if there is none. It follows the reruns in the records. It also follows the IDs of
// first retries, because the record of a run that was also restarted contains only the last rerun.
func (c *client) retriedByKey(ctx context.Context, verb string, old *earlier, opts []SendOption) (*Handle, error) {
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
			next, err := c.handle(id).earlier(ctx, verb)
			switch {
			case errors.Is(err, ErrRunNotFound):
			case err != nil:
				return nil, err
			case next.log[0].Item == item:
				return c.handle(id), nil
			case next.tried():
				left = append(left, next)
			}
		}
	}
	return nil, nil
}

// earlier reads the run of the handle.
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
	if err := cmp.Or(l.Sealed, checkOpen(old.log)); err != nil {
		return nil, fmt.Errorf("%s run %s: its data are copied to another run, but cannot be opened: %w", verb, id, err)
	}
	old.last = &old.log[len(old.log)-1]
	return old, nil
}

// checkOpen returns an error if user data in a log are sealed.
func checkOpen(log []event.Event) error {
	for i := range log {
		if err := log[i].CheckOpen(); err != nil {
			return err
		}
	}
	return nil
}

// workflowID returns the workflow ID of the new run. It is the ID of the old run if that run has
// released it.
func (o *earlier) workflowID() string {
	if o.record.QueueState != store.StateEnded || o.last.Type == event.RunContinued {
		return ""
	}
	return o.log[0].Spec.WorkflowID
}

// fresh returns a new random ID for a rerun.
func (o *earlier) fresh(now time.Time) RunID {
	slot := event.RandomSlot()
	switch id := o.workflowID(); {
	case o.tried():
		slot = o.record.Run.Slot() // the record of the old run is in the partition of this slot, and must contain its last rerun
	case id != "":
		slot = event.SlotOf(id)
	case len(o.log[0].Spec.Uses) > 0 && o.log[0].Spec.PermitSlot == 0:
		slot = o.record.Run.Slot() // slot of the limits of the run
	}
	return event.NewRunID(now, slot)
}

// keyed returns the ID of the rerun for an idempotency key, or "" if there is no key.
//
// The ID makes the creation idempotent: a repeated request, concurrent or after a crash, creates a
// run that the store already has. Therefore it is derived only from the old run and the key, and
// not from data that changes while the old run continues. It has the slot of the old run, which is
// the slot of its workflow ID and its limits.
func (o *earlier) keyed(opts []SendOption) RunID {
	item, given := itemOf("rerun", opts)
	if !given {
		return ""
	}
	o.key = event.DerivedRunID(o.record.Run, string(item), o.record.Run.Slot())
	return o.key
}

// next returns the ID of the retry of this run. If an earlier retry was deleted, the next retry has
// another ID.
func (o *earlier) next() RunID {
	if gone := o.record.Rerun; gone != "" {
		return event.DerivedRunID(o.record.Run, "rerun instead of "+string(gone), o.record.Run.Slot())
	}
	return o.following()
}

// following returns the ID of the first retry of this run.
func (o *earlier) following() RunID { return event.NextRunID(o.record.Run, o.last.Seq+1, o.last.Time) }

// executedBy returns the build that has executed the run last. It returns "" if the rerun with the
// given events copies only the creation of the run.
func (o *earlier) executedBy(events []event.Event) (build string) {
	if len(events) == 1 {
		return ""
	}
	for i := range o.log {
		build = cmp.Or(o.log[i].Build, build)
	}
	return build
}

// tried reports whether a rerun of the run is a retry, because the run has failed or was canceled.
func (o *earlier) tried() bool {
	return o.record.QueueState == store.StateEnded && (o.last.Type == event.RunFailed || o.last.Type == event.RunCanceled)
}

// guardSingleton returns an error if the run is open and must be the only active run of its key.
func (o *earlier) guardSingleton(verb string) error {
	spec := identityOf(o.record.Run, o.log[0].Spec, o.record.CreatedAt)
	if o.record.QueueState == store.StateEnded || !spec.Singleton() {
		return nil
	}
	return &StatusError{Run: o.record.Run, Verb: verb, Status: o.record.Status,
		Fix: "its workflow is a singleton, and another run of " + spec.WorkflowID + " would be active beside it: cancel it first, or wait for its end"}
}

// canceledAt returns the number of the first cancel request.
func (o *earlier) canceledAt() uint64 {
	for i := range o.log {
		if o.log[i].Type == event.CancelRequested {
			return o.log[i].Seq
		}
	}
	return o.last.Seq
}

// failedAt returns the number of the event that made the run fail: the end of a step or child, the
// timeout of the run, or the log limit. If a step or child made the run fail, key is its key.
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
			guilty = e.Failure != nil // the log became too long
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

// isStep reports whether the event creates a step, which this run or another run executes.
func isStep(e *event.Event) bool {
	_, remote := event.StepOfRun(e.Name)
	return e.Type == event.StepCreated || e.Type == event.ChildCreated && remote
}

// timeLimit reports whether an event has created the timer for the timeout of the whole run.
func (o *earlier) timeLimit(e *event.Event) bool {
	return o.log[0].Spec.Timeout > 0 && e.Type == event.WaitCreated && e.Wait == event.WaitDeadline &&
		e.Key == replay.TimeLimitKey(flow.LastName(o.record.Route.Workflow))
}

// causes adds the steps and children that appear in a failure to the given maps. steps contains
// keys of steps of the run.
func causes(run RunID, f *event.Failure, steps map[string]bool, children map[RunID]bool) {
	if f == nil {
		return
	}
	if s := flow.StepErrorOf(f); s != nil && s.Run == run {
		steps[s.Key] = true
	}
	var s storedRunError
	if f.Type == wireRunError && json.Unmarshal(f.Data, &s) == nil {
		children[s.Run] = true
	}
	for _, c := range f.Causes {
		causes(run, c, steps, children)
	}
}

// rerunFrom makes a run that copies a part of the log. If id is empty, the new run has a random ID.
// If part.Seed is empty, the new run has its own random numbers.
func (h *Handle) rerunFrom(ctx context.Context, verb string, old *earlier, id RunID, part replay.Kept) (*Handle, error) {
	if old.log[0].Spec.PermitSlot != 0 {
		// The child that holds the permits belongs to the old run. Therefore no event after the
		// start can be copied unchanged. The code of the new run begins when the new run has its
		// own permits, and receives the results of completed operations. It needs the same random
		// numbers to request the same operations.
		part.Seed = replay.Seed(old.record.Run, old.log)
	}
	now := h.c.store.Clock().Now()
	if id == "" {
		id = old.fresh(now)
	}
	part.Next, part.Now, part.Due, part.Seed = id, now, old.policy.due, cmp.Or(part.Seed, id)
	events, kept := replay.Keep(old.log, part)
	for i := range events {
		if e := &events[i]; old.timeLimit(e) {
			e.Due = later(now, part.Due).Add(old.log[0].Spec.Timeout)
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
		spec.Seed, spec.StartWithin = cmp.Or(spec.Seed, run), 0 // StartWithin does not apply, because the old run has begun
	} else {
		spec.Seed, spec.Collect, events[0].Time = "", event.CollectNone, now
	}
	spec.WorkflowID, spec.Build = old.workflowID(), h.c.thisBuild()
	var err error
	if spec.Pin, err = h.c.repin(ctx, id, &spec, old.executedBy(events)); err != nil {
		return nil, fmt.Errorf("%s run %s: %w", verb, run, err)
	}
	events[0].Spec, events[0].By, events[0].Reason, events[0].Item = &spec, flow.Behalf(ctx), old.asked.reason, old.asked.item
	last := &events[len(events)-1]
	c := store.Create{
		Run: id, WorkflowID: spec.WorkflowID, Active: FailActive, Route: store.Route{Queue: spec.RouteQueue(), Workflow: spec.Workflow}, Priority: old.record.Priority,
		Tags: spec.Tags, CommitID: event.NewCommitID(), Seq: last.Seq, Retention: spec.Retention,
		At: old.policy.due, Deadline: old.policy.deadline,
	}
	if !c.At.IsZero() {
		c.Status = StatusSleeping
	}
	if permits.Take(&c, &spec); old.tried() {
		c.RerunOf = run
	}
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
	return h.c.handle(created[0].Run), nil
}

// sameRerun returns a *KeyConflictError if a different request has made the existing run with the
// ID made. Requests are equal if they copy the same part of the old run.
func (h *Handle) sameRerun(ctx context.Context, verb string, old, made RunID, kept, events int) error {
	l, err := h.c.loadAgain(ctx, store.Load{Run: made, Limit: 1})
	if err != nil {
		return fmt.Errorf("%s run %s: look at run %s, which was made: %w", verb, old, made, err)
	}
	log, err := (&logReader{run: made}).events(l.Frames)
	if err != nil {
		return fmt.Errorf("%s run %s: %w", verb, old, err)
	}
	if spec := log[0].Spec; spec.RerunOf != old || spec.Kept != kept || len(log) != events {
		return &KeyConflictError{Verb: verb, Run: old, New: made}
	}
	return nil
}

// Restart is like [Handle.Restart].
func (r *Run[T]) Restart(ctx context.Context, opts ...SendOption) (*Run[T], error) {
	return r.typed(r.Handle.Restart(ctx, opts...))
}

// Fork is like [Handle.Fork].
func (r *Run[T]) Fork(ctx context.Context, stepID string, opts ...SendOption) (*Run[T], error) {
	return r.typed(r.Handle.Fork(ctx, stepID, opts...))
}

// Retry is like [Handle.Retry].
func (r *Run[T]) Retry(ctx context.Context, opts ...CommandOption) (*Run[T], error) {
	return r.typed(r.Handle.Retry(ctx, opts...))
}

// RetryCanceled is like [Handle.RetryCanceled].
func (r *Run[T]) RetryCanceled(ctx context.Context, opts ...CommandOption) (*Run[T], error) {
	return r.typed(r.Handle.RetryCanceled(ctx, opts...))
}

func (r *Run[T]) typed(h *Handle, err error) (*Run[T], error) {
	if err != nil {
		return nil, err
	}
	return &Run[T]{Handle: h, def: r.def, created: true}, nil
}
