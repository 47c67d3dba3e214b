package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
)

// ErrNotDebug is the error of [Handle.Step] for a run that was started without [WithDebug].
var ErrNotDebug = errors.New("workflow: run was started without WithDebug")

// WithHold creates the run without starting it. The run begins when [Handle.Release] is called, so
// that readers which follow the run before its release miss nothing. If the run is not released
// within 5 minutes, it fails with the code "notreleased". WithHold does not apply to children,
// and cannot be combined with WithDelay or WithStartAt.
func WithHold() StartOption { return WithHoldFor(event.DefaultHold) }

// WithHoldFor is like [WithHold], but the run must be released within d, which must be positive.
func WithHoldFor(d time.Duration) StartOption {
	return startOption(func(r *runOptions) { r.hold = r.positive("WithHoldFor", d) })
}

// WithDebug starts the run in debug mode: its code stops before its first durable operation. Each
// [Handle.Step] allows one operation. [Handle.Resume] lets the run continue without stops.
func WithDebug() StartOption { return startOption(func(r *runOptions) { r.debug = true }) }

// Release starts a run that was created with [WithHold]. Releasing a released run does nothing. The
// error is a *[StatusError] if the run was not created with WithHold. It matches ErrRunTerminal if
// the run has ended, for example because it was not released in time.
func (h *Handle) Release(ctx context.Context, opts ...CommandOption) error {
	const verb = "release"
	if _, err := h.commandable(ctx, verb); err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	id, spec, status, err := h.spec(ctx, verb)
	if err != nil {
		return err
	}
	if spec.Hold == 0 && !status.Terminal() {
		return &StatusError{Run: id, Verb: verb, Status: status, Fix: "it was not started with WithHold, and begins without a release"}
	}
	return h.order(ctx, verb, event.RunReleased, opts)
}

// Pause suspends the code of the run at its next durable operation. A running attempt finishes and
// its result is recorded, but no other attempt and no other step starts. A run that executes a step
// with limits or its own queue is notified, and begins no attempt after the pause is in its log.
// Children continue.
//
// A paused run that waits for permits keeps its position in the limiter queue while other runs are
// admitted. A run whose code has begun keeps its permits until it ends. Items that arrive during
// the pause are recorded. When the run is resumed, they take effect in order of arrival. Timers
// that became due take effect afterwards, in order of their times. Pausing a paused run does
// nothing. If a paused run is canceled, its code continues in order to clean up, and the run cannot
// be paused again.
//
// When Pause returns nil, the request is durable, and a worker that serves the run applies it. The
// error matches ErrRunTerminal if the run has ended. It is a *[StatusError] if the run was asked to
// end.
func (h *Handle) Pause(ctx context.Context, opts ...CommandOption) error {
	run, err := h.commandable(ctx, "pause")
	if err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	l, err := h.c.load(ctx, store.Load{Run: run, Inbox: true})
	if state := readable(l.Frames); err == nil && (state.Ending() || asksToEnd(l.Inbox)) && l.Record.QueueState != store.StateEnded {
		return fmt.Errorf("pause: %w", &StatusError{Run: run, Verb: "pause", Status: l.Record.Status, Fix: "cancellation was requested, and its code cleans up: wait for its end, or terminate it"})
	}
	if err := h.order(ctx, "pause", event.RunPaused, opts); err != nil {
		return err
	}
	h.c.SetAside(ctx, run)
	return nil
}

// SetAside applies the pause requests in the inbox of a run that waits for permits. The run parks
// without permits and keeps its position in the limiter queue. If SetAside fails, the run parks
// when it is admitted, before it begins any operation.
func (c *client) SetAside(ctx context.Context, run RunID) {
	l, err := c.load(ctx, store.Load{Run: run, Limit: -1})
	if err == nil && l.Record.Waits() && c.seizer() != nil {
		_, err = c.endAlone(ctx, c.partitionOf(run), []RunID{run}, takeLined, c.pausing)
	}
	if err != nil {
		c.logger.Debug("a paused run was left in its limiter queue", "run", run, "error", err)
	}
}

// pausing returns the commit that records the pause requests in the inbox of a run and parks it. If
// it returns nil, a worker must record the items, because the inbox contains items that only a
// worker can apply.
func (c *client) pausing(claimed *store.ClaimedRun, l *store.Loaded) (*store.Commit, error) {
	state := readable(l.Frames)
	if l.Err != nil || state.Seq != claimed.Seq || state.Spec.Debug || state.Ending() {
		return nil, l.Err
	}
	var events []event.Event
	for _, item := range l.Inbox {
		e, err := event.DecodeItem(item.Body)
		endsDelay := err == nil && e.Type == event.RunResumed && !state.Paused && !state.Delayed.IsZero()
		if err != nil || e.Type != event.RunPaused && e.Type != event.RunResumed || endsDelay {
			return nil, err
		}
		if (e.Type == event.RunPaused) == state.Paused {
			continue // the request has no effect
		}
		e.Item, e.Seq, e.Time = item.ID, state.Seq+1, later(event.Instant(c.store.Clock().Now()), state.Time)
		if err := state.Apply(e); err != nil {
			return nil, err
		}
		events = append(events, *e)
	}
	if !state.Paused || len(events) == 0 {
		return nil, nil
	}
	req, err := commitAlone(claimed, state, events, l.Inbox, store.EffectPark)
	if req != nil {
		req.Due, req.Unused = state.Due(), store.UnusedInQueue
		if state.Delayed.After(c.store.Clock().Now()) { // the run entered the limiter queue before the time of its rerun
			req.Unused = store.UnusedBack
		}
	}
	return req, err
}

// Resume ends a pause, or lets a run in debug mode continue without stops. If the run is not paused
// and waits for the time of its automatic rerun, its code continues at once. For any other run
// Resume does nothing. For a run that has ended, see [Handle.Retry] and [Handle.RetryCanceled].
func (h *Handle) Resume(ctx context.Context, opts ...CommandOption) error {
	return h.order(ctx, "resume", event.RunResumed, opts)
}

// Step lets the code of a run in debug mode execute exactly one durable operation: a step, sleep,
// receive, select, child, send or recorded value. The operation executes and ends as usual, and the
// code stops before the next one. Two calls allow two operations. If the run is paused, or was
// resumed, Step stops its code after one operation. The error matches [ErrNotDebug] if the run was
// not started with [WithDebug], and ErrRunTerminal if the run has ended.
func (h *Handle) Step(ctx context.Context, opts ...CommandOption) error {
	id, spec, _, err := h.spec(ctx, "step")
	if err != nil {
		return err
	}
	if !spec.Debug {
		return fmt.Errorf("step: run %s: %w", id, ErrNotDebug)
	}
	return h.order(ctx, "step", event.RunStepped, opts)
}

// spec returns the Spec with which the run was created, and the status of the run.
func (h *Handle) spec(ctx context.Context, verb string) (RunID, *event.Spec, Status, error) {
	id, err := h.resolve(ctx)
	if err != nil {
		return "", nil, "", fmt.Errorf("%s: %w", verb, err)
	}
	l, err := h.c.load(ctx, store.Load{Run: id, Limit: 1})
	if err != nil {
		return id, nil, "", fmt.Errorf("%s: run %s: %w", verb, id, err)
	}
	events, err := (&logReader{run: id}).events(l.Frames)
	if err != nil {
		return id, nil, "", fmt.Errorf("%s: %w", verb, err)
	}
	return id, events[0].Spec, l.Record.Status, nil
}

func (h *Handle) order(ctx context.Context, verb string, typ event.Type, opts []CommandOption) error {
	o, err := commandOf(verb, opts)
	if err != nil {
		return err
	}
	id, _ := itemOf("command "+verb, o.sends)
	if typ == event.RunReleased {
		id = "release" // a fixed ID, so that the run is released once, however many callers release it
	}
	run, err := h.commandable(ctx, verb)
	if err == nil {
		err = h.c.deliver(ctx, run, store.Item{ID: id, Scope: store.ScopeChain}, &event.Event{Type: typ, Reason: o.reason}, time.Time{})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

func commandOf(verb string, opts []CommandOption) (o commandOptions, err error) {
	for _, opt := range opts {
		opt.command(&o)
	}
	if err := store.CheckText("reason", o.reason, store.MaxReason); err != nil {
		return o, fmt.Errorf("%s: %w", verb, err)
	}
	return o, nil
}

// CommandOption is an option of a command for a run: [Handle.Pause], [Handle.Resume],
// [Handle.Step], [Handle.Release], [Handle.Retry] or [Handle.RetryCanceled]. The options are
// [Reason] and [IdempotencyKey]. Commands with the same key take effect once.
type CommandOption interface{ command(o *commandOptions) }

type commandOptions struct {
	reason string
	sends  []SendOption
}

type reasonOption string

func (r reasonOption) command(o *commandOptions) { o.reason = string(r) }

func (s SendOption) command(o *commandOptions) { o.sends = append(o.sends, s) }

// Reason sets the reason of a command. The log contains it in the event of the command, unless the
// command has no effect. If the text is longer than [store.MaxReason] bytes or not UTF-8, the command
// fails with an *[InvalidError].
func Reason(text string) CommandOption { return reasonOption(text) }

// terminateItem is the ID of all requests to terminate a run, so that only the first one is
// recorded.
const terminateItem event.ItemID = "terminate"

// Terminate ends a run without executing its code, see ops.Client.Terminate.
func (c *client) Terminate(ctx context.Context, run RunID, reason string) error {
	err := store.CheckText("reason", reason, store.MaxReason)
	if err == nil {
		run, err = c.handle(run).commandable(ctx, "terminate")
	}
	if err == nil {
		err = c.terminate(ctx, run, &event.Event{Type: event.CancelRequested, Name: event.Terminate, Reason: reason})
	}
	if err != nil {
		return fmt.Errorf("terminate: %w", err)
	}
	return nil
}

// obedience is the time within which a worker that has claimed a run must end it after a request to
// terminate it.
//
// After that time, the client takes the run from the worker, in one action of the store. The action
// changes the fence, as a recovery does. It does not depend on the worker or on the code of the
// run. If the worker has committed before the action, the client reads that commit from the log. If
// the worker commits later, its commit writes nothing. Therefore the run ends once, with the
// contents of its log. The worker detects the loss of the run by its next commit or by its session.
const obedience = time.Second

// terminate first puts the request into the inbox of the run. Therefore a worker that has claimed
// the run, or claims it later, can end it. If this client crashes, another client can end the run.
func (c *client) terminate(ctx context.Context, run RunID, request *event.Event) error {
	item := store.Item{ID: terminateItem, Scope: store.ScopeChain}
	request.By = flow.Behalf(ctx)
	var err error
	if item.Body, err = event.AppendItem(nil, request); err != nil {
		return err
	}
	how := takeLined
	for delay := time.Millisecond; ; delay = min(2*delay, obedience) {
		if delay == obedience {
			how = takeOwned
		}
		// Deliver the item in each iteration: if the run has continued as new, the continuation
		// receives it. The store recognizes a repeated item.
		if run, err = c.accept(ctx, run, item, true, time.Time{}); err != nil {
			return err
		}
		l, err := c.load(ctx, store.Load{Run: run, Limit: -1})
		if err == nil && l.Record.QueueState == store.StateEnded && l.Record.Next == "" {
			return nil
		}
		ended, err := c.endAlone(ctx, c.partitionOf(run), []RunID{run}, how, func(claimed *store.ClaimedRun, l *store.Loaded) (*store.Commit, error) {
			return c.terminating(ctx, claimed, l)
		})
		switch {
		case len(ended) > 0:
			return nil
		case err != nil && !errors.Is(err, store.ErrFenced):
			return fmt.Errorf("run %s: %w", run, err)
		}
		if err := c.pause(ctx, delay); err != nil {
			return fmt.Errorf("run %s: cancellation was requested, but it has not ended: %w", run, err)
		}
	}
}

// terminating returns the commit that ends a run because of the request in its inbox. It returns
// nil if the inbox contains no request. It needs only the length of the log, which is in the record
// of the run. It reads references to children and to the parent from the readable part of the log.
func (c *client) terminating(ctx context.Context, claimed *store.ClaimedRun, l *store.Loaded) (*store.Commit, error) {
	if _, damaged := errors.AsType[*store.DamagedError](l.Err); damaged {
		record, err := c.load(ctx, store.Load{Run: claimed.Run, Limit: -1, Inbox: true})
		if err != nil {
			return nil, err
		}
		l = &record
	}
	if l.Err != nil {
		return nil, l.Err
	}
	state := readable(l.Frames)
	state.Seq = claimed.Seq
	now := later(c.store.Clock().Now(), state.Time)
	var end *event.Event
	var late []event.ItemID
	for _, item := range l.Inbox {
		if item.ID != terminateItem {
			late = append(late, item.ID)
			continue
		}
		asked, err := event.DecodeItem(item.Body)
		if err != nil {
			return nil, err
		}
		asked.Item = item.ID
		e := effects.Termination(asked)
		end = &e
	}
	if end == nil {
		return nil, nil
	}
	end.Seq, end.Time, end.By, end.Unread = claimed.Seq+1, now, cmp.Or(end.By, "client"), late
	if err := state.Apply(end); err != nil {
		return nil, err
	}
	return endCommit(claimed, state, []event.Event{*end}, l.Inbox)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// readable returns the state of a log up to the first frame that cannot be read.
func readable(frames [][]byte) *event.LogState {
	state := &event.LogState{}
	for _, b := range frames {
		f, err := event.DecodeFrame(b)
		for i := 0; err == nil && i < len(f.Events); i++ {
			err = state.Apply(&f.Events[i])
		}
		if err != nil {
			break
		}
	}
	if state.Spec == nil {
		state.Run, state.Spec = event.StatePending, &event.Spec{}
	}
	return state
}
