package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/store"
)

// Handle refers to a run by its ID or by a workflow ID.
type Handle struct {
	c          *client
	id         RunID
	workflowID string
	access     atomic.Int32 // a value of type access
}

// Target is the recipient of messages and other requests: a *Handle or a *Run.
type Target interface{ target() *Handle }

func (h *Handle) target() *Handle { return h }

// ID returns the run ID. It returns "" for a handle by workflow ID.
func (h *Handle) ID() RunID { return h.id }

// resolve returns the ID of the run to which the handle currently refers.
func (h *Handle) resolve(ctx context.Context) (RunID, error) {
	if err := h.c.Check(); err != nil {
		return "", err
	}
	if h.workflowID != "" {
		id, err := h.c.store.Resolve(ctx, h.workflowID)
		if err != nil {
			return "", fmt.Errorf("find run of workflow id %q: %w", h.workflowID, err)
		}
		return id, nil
	}
	if _, err := event.ParseRunID(string(h.id)); err != nil {
		return "", fmt.Errorf("%w: for a workflow id use GetByID or RunByID", err)
	}
	return h.id, nil
}

// find is like resolve, but waits during an outage of the store.
func (h *Handle) find(ctx context.Context) (RunID, error) {
	if h.workflowID == "" {
		return h.resolve(ctx)
	}
	return persist(ctx, h.c, "find run", func() (RunID, error) { return h.resolve(ctx) })
}

// RunInfo describes the current state of a run.
type RunInfo struct {
	Identity
	Status  Status
	EndedAt time.Time // zero: the run has not ended
	Due     time.Time // due time of its next timer; zero: it has no timer, or a worker executes it
	Events  uint64    // number of events in its log
	Group   string    // failure group of the run, see ops.FailureGroup; empty: none
	// RetriedAs is the last rerun of this run, made by [Handle.Retry] or another kind of rerun
	// after the run failed or was canceled. It is empty if there is none. A run with a rerun
	// belongs to no failure group. The rerun may have been deleted.
	RetriedAs RunID
	// Blocked describes why the run is blocked and how to fix the cause. It is only set by
	// [Handle.Info], and only for status StatusBlocked.
	Blocked string
	// Mismatch describes the difference between the log and the code. It is nil if the run is
	// blocked for another reason, or if a worker of an older release has blocked it. It is only set
	// by [Handle.Info].
	Mismatch *Mismatch
	// Retries are the open steps whose last finished attempt has failed, in order of creation. They
	// are only set by [Handle.Info], and only if the run has a Group. To find them, Info reads the
	// part of the log that was added since it last did.
	Retries []StepRetry
	// Paused reports that the code of the run is suspended until the run is resumed. It is
	// independent of Status, because held and blocked runs can also be paused. Lists set it only
	// for runs with status StatusPaused.
	Paused bool
	// Delayed reports that the run is an automatic rerun whose code continues at Due or when it is
	// resumed. While an item waits to be recorded, possibly in a limiter queue, Due is zero.
	// Delayed is only set by [Handle.Info].
	Delayed bool
	// Collects reports that several starts share the run. Such a run has no input until a worker
	// claims it. Collects is only set by [Handle.Info].
	Collects bool
	// RerunOf is the run that this run reruns, see [Handle.Retry]. It is empty if there is none. It
	// is only set by [Handle.Info].
	RerunOf RunID
	// Chain is the first of the runs that continue each other with ContinueAsNew. It is the run
	// itself if the run continues no other run. It is only set by [Handle.Info].
	Chain RunID
	// Debug reports that the run was started with [WithDebug]. It is only set by [Handle.Info].
	Debug bool
	// Recoveries is the number of times that the run was recovered from a lost worker since its
	// last progress, see ops.Client.LastRecovery.
	Recoveries int
	// Pin is the build to which the run is pinned. It is empty if the run is not pinned.
	Pin string
	// Attributes are the attributes of the run, see [WithAttribute]. They are only set by
	// [Handle.Info]. Their keys include "build" and "principal" if these are known.
	Attributes map[string]string
	// Worker is the name of the worker that has claimed the run. It is empty if there is none. It
	// is only set by [Handle.Info].
	Worker string
	// Unserved reports that the run waits for a worker, and that no live worker has registered its
	// workflow and serves its queue. It is only set by [Handle.Info].
	Unserved bool
	// Waits lists the limits for whose permits the run waits, as name or name/key.
	Waits []string
	// WaitsSince is the time since which these limits have had no free capacity for the run. It is
	// zero if they had free capacity when the run arrived, so that the run waits only for a worker.
	WaitsSince time.Time
	// WaitsFor lists the limits for which the run or its steps wait, in order of creation. For each
	// waiting run or step it contains the limit that prevents it from beginning. It has at most 20
	// entries. Lists set it only with [Filter].Waits.
	WaitsFor []LimitWait
	// Holds are the permits that the run holds. If a run executes a step for another run, it holds
	// the permits of the step.
	Holds []LimitHold
	// StartBy is the time at which the run fails if it has not begun, see [WithStartBy]. It is zero
	// if there is no such time, or if the run has begun or is held. It is only set by
	// [Handle.Info].
	StartBy time.Time
}

// Mismatch describes where the code of a blocked run does not match its log.
type Mismatch struct {
	Event    uint64 // number of the event in the log
	Recorded string // operation in the log
	Asked    string // operation that the code requests; empty: none
	Position string // position of the call in the code, as file:line; empty: unknown
	Diff     string // difference if only the contents differ: lines with - are recorded, lines with + are requested; at most 16 KiB
	Build    string // build of the code that recorded the event; empty: unknown
	Here     string // build of the code that does not match; empty: unknown
}

// StepRetry describes a step that is being retried.
type StepRetry struct {
	Step    string // stored name of the step
	Key     string // key of the step within the run
	Attempt int    // number of the last attempt that was started
	Failed  string // error of the last failed attempt
	Code    string // code of that error, as in [StepError]
	// Next is the earliest time of the next attempt. It is zero if an attempt is running.
	Next time.Time
}

func infoOf(r *store.Record) RunInfo {
	queue, pin := event.SplitQueue(r.Route.Queue)
	info := RunInfo{
		Identity: Identity{
			ID: r.Run, WorkflowID: r.WorkflowID, Workflow: r.Route.Workflow, Queue: queue, Tags: maps.Clone(r.Tags),
			Parent: r.Parent, Root: cmp.Or(r.Root, r.Run), CreatedAt: r.CreatedAt,
		},
		Status: r.Status, EndedAt: r.EndedAt, Due: r.Due, Events: r.Seq, Group: r.Group, RetriedAs: r.Rerun,
		Paused: r.Status == StatusPaused, Recoveries: r.Recoveries, Pin: pin,
	}
	info.setPermits(r)
	return info
}

// setPermits sets the limits for which the run waits and the permits that it holds. r is the record
// of the run that takes the permits.
func (i *RunInfo) setPermits(r *store.Record) {
	i.Waits, i.WaitsSince, i.Holds = nil, time.Time{}, nil
	if r.Waits() {
		i.WaitsSince = r.WaitsSince
	}
	for _, u := range r.Uses {
		if r.Waits() {
			i.Waits = append(i.Waits, u.LimitID.String())
		}
		if r.Permits {
			i.Holds = append(i.Holds, LimitHold{Limit: u.Name, Key: u.Key, Weight: u.Weight})
		}
	}
}

// Info returns the state of the run in the store. If the run is blocked because its log is damaged,
// Info returns the data that is available without the log. Blocked then contains the reason.
func (h *Handle) Info(ctx context.Context) (RunInfo, error) {
	id, err := h.resolve(ctx)
	if err != nil {
		return RunInfo{}, err
	}
	info, err := h.c.info(ctx, id)
	if err != nil {
		return info, fmt.Errorf("get info of run %s: %w", id, err)
	}
	return info, nil
}

func (c *client) info(ctx context.Context, id RunID) (RunInfo, error) {
	l, err := c.load(ctx, store.Load{Run: id, Limit: 1})
	if err != nil {
		return RunInfo{}, err
	}
	info := infoOf(&l.Record)
	info.Worker, info.Chain = workerOf(l.Record.Owner), l.Record.Chain
	if info.Status == StatusBlocked {
		if info.Blocked, info.Mismatch, err = c.whyBlocked(ctx, id); err != nil {
			return info, err
		}
	}
	if info.Unserved, err = c.Unserved(ctx, &l.Record); err != nil || len(l.Frames) == 0 {
		return info, err
	}
	f, err := event.DecodeFrame(l.Frames[0])
	switch {
	case err != nil && info.Blocked != "":
		return info, nil // no error, so that an operator can read the reason in Blocked
	case err != nil:
		return info, &EventError{Run: id, Frame: 1, Err: err}
	}
	if info.Delayed, err = c.delays(ctx, f, &l.Record); err != nil {
		return info, err
	}
	spec, waits := f.Events[0].Spec, &l.Record
	if spec != nil {
		info.Identity = identityOf(id, spec, l.Record.CreatedAt) // the time of the record, which lists also use
		if waits, err = c.waits(ctx, &l.Record, spec); err != nil {
			return info, err
		}
		info.setPermits(waits)
		info.Debug, info.RerunOf, info.Collects = spec.Debug, spec.RerunOf, spec.Collect != event.CollectNone
		info.Attributes = spec.Origin()
	}
	return c.withSteps(ctx, info, &l.Record, waits, spec)
}

// workerOf returns the name of the worker that has opened a session. The session ID begins with
// that name.
func workerOf(s store.SessionID) string {
	if at := strings.LastIndexByte(string(s), '/'); at >= 0 {
		return string(s[:at])
	}
	return string(s)
}

// withSteps adds to info the data that it reads from the log of the run, from the runs that execute
// its steps, and about the limits for which it waits. waits is the record of the run that takes the
// permits.
func (c *client) withSteps(ctx context.Context, info RunInfo, r, waits *store.Record, spec *event.Spec) (RunInfo, error) {
	var err error
	if isFollowed(r, spec) {
		if info.Retries, info.StartBy, err = c.followed(ctx, r); err != nil {
			return info, err
		}
	}
	steps, paused, err := c.stepsOf(ctx, r)
	if info.Paused = info.Paused || paused; err != nil {
		return info, err
	}
	retries, err := c.remoteRetries(ctx, steps)
	if info.Retries = append(info.Retries, retries...); err != nil {
		return info, err
	}
	one := []RunInfo{info}
	err = c.fillWaits(ctx, one, []*store.Record{waits}, map[RunID][]remoteStep{info.ID: steps})
	return one[0], err
}

// Cancel requests the cancellation of the run. When it returns nil, the request is durable. The
// context of the run ends at the next suspension point of the code. The code determines the
// outcome: code that ignores the cancellation may complete. Canceling a canceled run does nothing
// and returns nil, even after the run has ended, because the response to an earlier call may have
// been lost. The error of a run that ends canceled contains the reason of the first cancel request.
//
// A run that has not begun ends before Cancel returns, even if no worker serves it. A run that has
// begun needs a worker that serves it, because only a worker has the code that cleans up. A blocked
// run is canceled when a worker with compatible code is available. The error matches ErrRunTerminal
// if the run has ended and was not canceled. It is an *[InvalidError] if the reason is longer than
// [store.MaxReason] bytes or is not UTF-8.
func (h *Handle) Cancel(ctx context.Context, reason string) error {
	run, err := h.commandable(ctx, "cancel")
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return h.c.cancelMany(ctx, reason, []RunID{run}, make([]error, 1))[0]
}

// deliverWindow is the time after sending a delivery within which the store may execute it.
const deliverWindow = time.Minute

// deliver puts an item into the inbox of a run or of its chain. It retries while the run is about
// to end. e becomes the body of the item. The store accepts the item only until by. After that, the
// error matches store.ErrStale. If by is zero, there is no such limit.
func (c *client) deliver(ctx context.Context, run RunID, item store.Item, e *event.Event, by time.Time) error {
	e.By = flow.Behalf(ctx)
	var err error
	if item.Body, err = event.AppendItem(nil, e); err != nil {
		return err
	}
	_, err = c.accept(ctx, run, item, e.Type == event.CancelRequested, by)
	return err
}

// accept is like deliver, for an item that has its body. If urgent is set and the run waits for
// permits, a worker can claim the run without them. accept also returns the run that has accepted
// the item, which may be a later run of the chain.
func (c *client) accept(ctx context.Context, run RunID, item store.Item, urgent bool, by time.Time) (RunID, error) {
	d := store.Deliver{Run: run, Item: item, Urgent: urgent}
	for delay := time.Millisecond; ; delay = min(2*delay, 100*time.Millisecond) {
		if d.Deadline = c.store.Clock().Now().Add(deliverWindow); !by.IsZero() && by.Before(d.Deadline) {
			d.Deadline = by
		}
		accepted, err := c.store.Deliver(ctx, d)
		switch ended, is := errors.AsType[*store.TerminalError](err); {
		case err == nil:
			return accepted, nil
		case is:
			return run, fmt.Errorf("%w", terminalError{ended})
		case !errors.Is(err, store.ErrLater):
			return run, fmt.Errorf("run %s: %w", run, err)
		}
		if err := c.pause(ctx, delay); err != nil {
			return run, fmt.Errorf("run %s: %w", run, err)
		}
	}
}

// deliverAgain is like deliver, but it retries during an outage of the store. Delivering an item
// twice has the same effect as delivering it once.
func (c *client) deliverAgain(ctx context.Context, run RunID, item store.Item, e *event.Event) error {
	return c.Persist(ctx, "deliver", func() error { return c.deliver(ctx, run, item, e, time.Time{}) })
}

// loadAgain is like load, but it retries during an outage of the store.
func (c *client) loadAgain(ctx context.Context, want store.Load) (store.Loaded, error) {
	return persist(ctx, c, "read log", func() (store.Loaded, error) { return c.load(ctx, want) })
}

// Run is a handle with the type of the run's result.
type Run[T any] struct {
	*Handle
	def     definition
	created bool
	same    bool
	known   bool // the run is known to belong to workflow def
}

// Created reports whether the Start that returned this handle created the run. It is false if the
// Start returned an active run with the same workflow ID, and for a handle from Get.
func (r *Run[T]) Created() bool { return r.created }

// SameInput reports whether the run has the input that was passed to the Start that returned this
// handle. That is so if the Start created the run, or if the run was started with an equal input.
// For a run that continues others, the input of the first run of its chain is compared.
//
// Inputs are equal if their JSON encodings are equal except for white space, escapes in strings and
// the order of object members. Therefore 1 and 1.0 differ. Values also differ if their encodings
// are not reproducible, such as encrypted ones, or if another version of the type with other fields
// encoded them.
//
// SameInput is false if the input is unknown: the first run of the chain was deleted or its log
// cannot be read; several starts share the run, which receives its input only when it begins; or
// the handle comes from Get, GetByID or a rerun.
func (r *Run[T]) SameInput() bool { return r.same }

// Result waits until the run has ended and returns its result, or a *RunError. If the run continues
// as new, Result waits for the last run of the chain. If the run does not exist, Result returns at
// once with an error that matches ErrRunNotFound. If the run belongs to another workflow, it
// returns at once with an error that matches ErrWrongWorkflow.
//
// Result waits for blocked runs, and during an outage of the store. If the deadline of ctx passes,
// the error for a blocked run also matches ErrRunBlocked and contains the reason. The error for a
// run that no worker serves then also matches ErrRunUnserved.
func (r *Run[T]) Result(ctx context.Context) (T, error) {
	var v T
	id, err := r.resolve(ctx)
	if err != nil {
		return v, err
	}
	var chain event.Loop
	for known := r.known; ; known = true {
		if chain.Closed(id) {
			return v, goesRound(id)
		}
		end, err := r.c.awaitEnd(ctx, id, r.def.Name, known)
		if err != nil {
			return v, fmt.Errorf("wait for the result of run %s: %w", id, r.c.stillBlocked(ctx, id, err))
		}
		if end.Workflow != r.def.Name {
			return v, wrongWorkflow(id, end.Workflow, r.def.Name)
		}
		if end.Last.Type != event.RunContinued {
			return result[T](id, end)
		}
		id = end.Last.Next
	}
}

// goesRound returns the error for a chain of runs that contains a cycle.
func goesRound(run RunID) error {
	return &EventError{Run: run, Err: fmt.Errorf("it continues as an earlier run of its chain: %w", event.ErrCorrupt)}
}

// stillBlocked returns err. If the deadline of ctx has passed and the run is blocked or no worker
// serves it, the error also contains that fact and the reason. The caller has no time to read them.
func (c *client) stillBlocked(ctx context.Context, id RunID, err error) error {
	if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), blockedPatience)
	defer cancel()
	l, failed := c.load(ctx, store.Load{Run: id, Limit: -1})
	if failed != nil {
		return err
	}
	if l.Record.Status != StatusBlocked {
		return c.ExplainUnserved(ctx, id, err)
	}
	why, _, _ := c.whyBlocked(ctx, id) // report that the run is blocked even if the reason cannot be read
	return fmt.Errorf("%w: %w: %s: %s", err, ErrRunBlocked, id, why)
}

// blockedPatience is the maximum time that stillBlocked takes after the deadline.
const blockedPatience = time.Second

// whyBlocked returns the reason that the worker recorded when it blocked the run. It is empty if
// the store keeps no step data.
func (c *client) whyBlocked(ctx context.Context, id RunID) (why string, differs *Mismatch, err error) {
	n, ok := store.As[store.StepDataStore](c.store)
	if !ok {
		return "", nil, nil
	}
	data, err := n.StepData(ctx, id)
	why = string(data[flow.BlockedKey])
	if m := flow.DecodeMismatch(data[flow.MismatchKey], why); m != nil {
		differs = &Mismatch{Event: m.Event, Recorded: m.Recorded, Asked: m.Asked, Position: m.Position, Diff: m.Diff, Build: m.Build, Here: m.Here}
	}
	return why, differs, err
}

func result[T any](id RunID, end *localstart.End) (T, error) {
	var v T
	if end.Last.Type == event.RunCompleted {
		err := flow.Decode(fmt.Sprintf("result of run %s of %s", id, end.Workflow), end.Last.Payload, &v)
		return v, err
	}
	if err := end.Last.CheckOpen(); err != nil {
		return v, fmt.Errorf("failure of run %s of %s: %w", id, end.Workflow, err)
	}
	return v, newRunError(id, end.Workflow, end.Last.Failure, end.Last.Type == event.RunCanceled)
}

// awaitEnd waits until the run has ended. If a worker of this process executes the run, that worker
// reports the end. Otherwise awaitEnd watches the store, and then reads the record and the latest
// frames in one request. They usually include the last frame. If the run belongs to another
// workflow, awaitEnd returns the name of that workflow at once. If known is not set, it reads the
// run before it waits for a worker.
func (c *client) awaitEnd(ctx context.Context, id RunID, workflow string, known bool) (*localstart.End, error) {
	const few = 4
	request := store.Load{Run: id, Limit: -1}
	for {
		if err := c.Check(); err != nil {
			return nil, err
		}
		if known {
			if end, ok := c.hosts.follow(ctx, id); ok {
				return end, nil
			}
		}
		l, err := persist(ctx, c, "look at a run", func() (store.Loaded, error) { return c.load(ctx, request) })
		if err != nil {
			return nil, err
		}
		if l.Record.Route.Workflow != workflow {
			return &localstart.End{Workflow: l.Record.Route.Workflow}, nil
		}
		if l.Record.QueueState == store.StateEnded {
			last, err := c.endOf(ctx, id, request.After, &l)
			if err != nil {
				return nil, err
			}
			return &localstart.End{Workflow: l.Record.Route.Workflow, Last: *last}, nil
		}
		request.After, request.Limit = l.Record.N, few
		if !known {
			known = true
			if end, ok := c.hosts.follow(ctx, id); ok {
				return end, nil
			}
		}
		err = c.Persist(ctx, "wait for the end of a run", func() error { return c.store.Watch(ctx, id, store.UntilEnd) })
		if err != nil {
			return nil, err
		}
	}
}

// endOf returns the last event of a run that has ended. l contains the frames after number after.
// If these do not include the last frame, endOf reads it.
func (c *client) endOf(ctx context.Context, id RunID, after uint64, l *store.Loaded) (*event.Event, error) {
	n, frames := l.Record.N, l.Frames
	if len(frames) == 0 || after+uint64(len(frames)) != n {
		tail, err := c.loadAgain(ctx, store.Load{Run: id, After: n - 1, Limit: 1})
		if err != nil {
			return nil, err
		}
		frames, l = tail.Frames, &tail
	}
	if l.Sealed != nil {
		return nil, l.Sealed
	}
	if len(frames) == 0 {
		return nil, &EventError{Run: id, Frame: n, Err: event.ErrCorrupt}
	}
	f, err := event.DecodeFrame(frames[len(frames)-1])
	if err != nil {
		return nil, &EventError{Run: id, Frame: n, Err: err}
	}
	return &f.Events[len(f.Events)-1], nil
}
