package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ErrNotDebug says that a run is not to be executed step by step: it was started
// without [WithDebug].
var ErrNotDebug = errors.New("workflow: run was started without WithDebug")

// DefaultHold is how long a held run waits to be released.
const DefaultHold = event.DefaultHold

// WithHold creates the run without starting it: it begins once [Handle.Release] is
// called, so that readers who follow it before that miss nothing. A run that
// is not released within [DefaultHold] fails with the code "notreleased". It is not
// for children, and not together with WithDelay or WithStartAt.
func WithHold() StartOption { return WithHoldFor(DefaultHold) }

// WithHoldFor is [WithHold] with another time to wait, which must be positive.
func WithHoldFor(d time.Duration) StartOption {
	return startOption(func(r *runOptions) {
		if d <= 0 {
			r.err = fmt.Errorf("WithHoldFor(%v): the duration must be positive", d)
		}
		r.hold = d
	})
}

// WithDebug starts the run in debug mode: its code stands still in front of its
// first durable operation, and goes on by one operation with each [Handle.Step],
// or freely after [Handle.Resume].
func WithDebug() StartOption { return startOption(func(r *runOptions) { r.debug = true }) }

// Release lets a run begin that was started with [WithHold]. Releasing it again does nothing. The error is a *[StatusError] if the
// run was not started so, and matches ErrRunTerminal if the run has ended, for example because it was not released in time.
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
		return &StatusError{Run: id, Verb: verb, Status: status, Fix: "it was not started with WithHold, and begins by itself"}
	}
	return h.order(ctx, verb, event.RunReleased, opts)
}

// Pause makes the code of the run stand still from its next suspension point on. A
// step that is under way is finished, and its result kept; no other one is started, and no other attempt.
// Where a step with limits or a queue of its own is executed by a run of its own, that is told, and begins no attempt once
// its log has the pause. Children go on. A paused run that waits for permits keeps its place, and others pass it;
// one whose code has begun keeps the permits that it has to its end.
// Items that come meanwhile are recorded: when the run is resumed they take effect in
// the order in which they came, and after that the timers fire that fell due
// meanwhile, in the order of their times. Pausing a paused run does nothing. A
// paused run that is canceled goes on, to clean up, and is not paused again.
//
// When it returns nil the request is durable; a worker that serves the run carries it
// out. The error matches ErrRunTerminal if the run has ended, and is a *[StatusError] if it was asked to.
func (h *Handle) Pause(ctx context.Context, opts ...CommandOption) error {
	run, err := h.commandable(ctx, "pause")
	if err != nil {
		return fmt.Errorf("pause: %w", err)
	}
	l, err := h.c.load(ctx, store.Load{Run: run, Inbox: true})
	if state := readable(l.Frames); err == nil && (state.Ending() || asksToEnd(l.Inbox)) && l.Record.QueueState != store.StateEnded {
		return fmt.Errorf("pause: %w", &StatusError{Run: run, Verb: "pause", Status: l.Record.Status, Fix: "it was asked to end, and its code cleans up: wait for its end, or terminate it"})
	}
	if err := h.order(ctx, "pause", event.RunPaused, opts); err != nil {
		return err
	}
	h.c.setAside(ctx, run)
	return nil
}

// setAside carries out the pause in the inbox of a run that is in line for permits: it leaves the line without them, where it keeps its place,
// and parks. If that fails the run parks when its turn comes, before it begins anything.
func (c *Client) setAside(ctx context.Context, run RunID) {
	l, err := c.load(ctx, store.Load{Run: run, Limit: -1})
	if err == nil && l.Record.Waits() && c.seizer() != nil {
		_, err = c.endAlone(ctx, c.partitionOf(run), []RunID{run}, takeLined, c.pausing)
	}
	if err != nil {
		c.logger.Debug("a paused run was left in its line", "run", run, "error", err)
	}
}

// pausing returns the commit that lets a run park as its inbox asks; nil: that is for a worker, as only that can take the
// other items in the inbox.
func (c *Client) pausing(claimed *store.ClaimedRun, l *store.Loaded) (*store.Commit, error) {
	state := readable(l.Frames)
	if l.Err != nil || state.Seq != claimed.Seq || state.Spec.Debug || state.Ending() || !state.Delayed.IsZero() {
		return nil, l.Err
	}
	var events []event.Event
	for _, item := range l.Inbox {
		e, err := event.DecodeItem(item.Body)
		if err != nil || e.Type != event.RunPaused && e.Type != event.RunResumed {
			return nil, err
		}
		if (e.Type == event.RunPaused) == state.Paused {
			continue // it changes nothing
		}
		e.Item, e.Seq, e.Time = item.ID, state.Seq+1, event.Instant(c.store.Clock().Now())
		if e.Time.Before(state.Time) {
			e.Time = state.Time
		}
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
		req.Due, req.Unused = state.Due(), store.UnusedInLine
	}
	return req, err
}

// Resume ends a pause, and lets a run in debug mode run freely. A rerun by the policy of its workflow that waits for its time, and is not
// paused, goes on at once. Resuming any other run that is not executed step by step does nothing. For a run that has ended
// see [Handle.Retry] and [Handle.RetryCanceled].
func (h *Handle) Resume(ctx context.Context, opts ...CommandOption) error {
	return h.order(ctx, "resume", event.RunResumed, opts)
}

// Step lets the code of a run in debug mode do exactly one durable operation: a
// step, sleep, receive, select, child, send or recorded value. The operation is
// executed and ends as always; the code then stands still in front of the next one.
// Each call counts: two of them allow two operations. A run that is paused or runs
// freely is executed step by step from then on. The error matches [ErrNotDebug] if
// the run was not started with [WithDebug], and ErrRunTerminal if it has ended.
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

// spec returns what the run was created with, and its status.
func (h *Handle) spec(ctx context.Context, verb string) (RunID, *event.Spec, Status, error) {
	id, err := h.resolve(ctx)
	if err != nil {
		return "", nil, "", fmt.Errorf("%s: %w", verb, err)
	}
	l, err := h.c.load(ctx, store.Load{Run: id, Limit: 1})
	if err != nil {
		return id, nil, "", fmt.Errorf("%s: run %s: %w", verb, id, err)
	}
	if len(l.Frames) == 0 {
		return id, nil, "", fmt.Errorf("%s: %w", verb, &EventError{Run: id, Frame: 1, Err: event.ErrCorrupt})
	}
	f, err := event.DecodeFrame(l.Frames[0])
	if err == nil && f.Events[0].Spec == nil {
		err = event.ErrCorrupt
	}
	if err != nil {
		return id, nil, "", fmt.Errorf("%s: %w", verb, &EventError{Run: id, Frame: 1, Err: err})
	}
	return id, f.Events[0].Spec, l.Record.Status, nil
}

// order puts a command into the inbox of the run.
func (h *Handle) order(ctx context.Context, verb string, typ event.Type, opts []CommandOption) error {
	o, err := commandOf(verb, opts)
	if err != nil {
		return err
	}
	id, _ := itemOf("command "+verb, o.sends)
	if typ == event.RunReleased {
		id = "release" // once, whoever asks for it
	}
	run, err := h.commandable(ctx, verb)
	if err == nil {
		err = h.c.deliver(ctx, run, store.Item{ID: id, Scope: store.ScopeChain}, &event.Event{Type: typ, Reason: o.reason})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", verb, err)
	}
	return nil
}

// commandOf returns what the options of a command say.
func commandOf(verb string, opts []CommandOption) (o commandOptions, err error) {
	for _, opt := range opts {
		opt.command(&o)
	}
	if err := store.CheckText("reason", o.reason, MaxReason); err != nil {
		return o, fmt.Errorf("%s: %w", verb, err)
	}
	return o, nil
}

// CommandOption says more of a command for a run: [Handle.Pause], [Handle.Resume], [Handle.Step],
// [Handle.Release], [Handle.Retry] or [Handle.RetryCanceled]. There are [Reason] and, which makes commands with the same key one, [IdempotencyKey].
type CommandOption interface{ command(o *commandOptions) }

type commandOptions struct {
	reason string
	sends  []SendOption
}

type reasonOption string

func (r reasonOption) command(o *commandOptions) { o.reason = string(r) }

func (s SendOption) command(o *commandOptions) { o.sends = append(o.sends, s) }

// Reason says why a command is given. It stands in the log, with the event of the command, unless that changes
// nothing. A reason of more than [MaxReason] bytes, or one that is not UTF-8, is an *[InvalidError] of the command.
func Reason(text string) CommandOption { return reasonOption(text) }
