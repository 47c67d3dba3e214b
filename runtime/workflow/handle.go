package workflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/store"
)

// Handle addresses a run by its ID or by a workflow ID.
type Handle struct {
	c          *Client
	id         RunID
	workflowID string
	access     atomic.Int32 // an access value
}

// Target is the recipient of messages and other requests: a *Handle or a *Run.
type Target interface{ target() *Handle }

func (h *Handle) target() *Handle { return h }

// ID returns the run ID, or "" for a handle by workflow ID.
func (h *Handle) ID() RunID { return h.id }

// resolve returns the ID of the run that the handle currently addresses.
func (h *Handle) resolve(ctx context.Context) (RunID, error) {
	if err := h.c.check(); err != nil {
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

// find is like resolve, but waits out an outage of the store.
func (h *Handle) find(ctx context.Context) (id RunID, err error) {
	if h.workflowID == "" {
		return h.resolve(ctx)
	}
	err = h.c.persist(ctx, "find run", func() error {
		id, err = h.resolve(ctx)
		return err
	})
	return id, err
}

// RunInfo describes the current state of a run.
type RunInfo struct {
	Identity
	Status  Status
	EndedAt time.Time // zero: it has not ended
	Due     time.Time // when the next of its timers is due; zero: no timer, or a worker is processing the run
	Events  uint64    // length of its log
	Group   string    // failure group of the run, see ops.FailureGroup; empty: none
	// RetriedAs is the last rerun that was made of this run after it failed or was canceled, by
	// [Handle.Retry] or another kind of rerun; empty: none. A run with a rerun belongs to no
	// failure group. The rerun may have been deleted since.
	RetriedAs RunID
	// Blocked describes why the run is blocked and how to fix that. It is only set by
	// [Handle.Info], and only for status StatusBlocked.
	Blocked string
	// Mismatch describes the difference between the log and the code. It is only set by
	// [Handle.Info]. It is nil if the run is blocked for another reason, or was blocked by a worker
	// of an older release.
	Mismatch *Mismatch
	// Retries are the open steps whose last completed attempt has failed, in order of creation. It
	// is only set by [Handle.Info], and only if the run has a Group. Info reads the part of the log
	// that was added since the last call for it.
	Retries []StepRetry
	// Paused reports that the code of the run is suspended until it is resumed, independent of
	// Status: held and blocked runs can be paused as well. Lists set it only for runs with status
	// StatusPaused.
	Paused bool
	// Delayed reports that the run is an automatic rerun by the policy of its workflow, which
	// continues at Due or when it is resumed. While an item waits to be recorded, possibly in the
	// queue of a limit, Due is zero. It is only set by [Handle.Info].
	Delayed bool
	// Collects reports that several starts share the run: it has no input until a worker claims it.
	// It is only set by [Handle.Info].
	Collects bool
	// RerunOf is the run of which this one is a rerun, see [Handle.Retry]. It is only set by
	// [Handle.Info].
	RerunOf RunID
	// Debug reports that the run was started with [WithDebug]. It is only set by [Handle.Info].
	Debug bool
	// Recoveries is how often the run was recovered from a lost worker since its last progress; see
	// ops.Client.LastRecovery.
	Recoveries int
	// Worker is the name of the worker that has claimed the run; empty: none. It is only set by
	// [Handle.Info].
	Worker string
	// Unserved reports that the run waits for a worker, and that no live worker has registered its
	// workflow and serves its queue. It is only set by [Handle.Info].
	Unserved bool
	// Waits lists the limits, as name or name/key, for whose permits the run waits.
	Waits []string
	// WaitsSince is since when these limits have no free capacity for the run. It is zero if they
	// had free capacity when the run arrived, so that it only waits for a worker.
	WaitsSince time.Time
	// WaitsFor lists the limits for which the run or steps of it wait, in order of creation: for
	// each waiting run or step the limit that prevents it from beginning now. It has at most 20
	// entries. Lists set it only with [Filter].Waits.
	WaitsFor []LimitWait
	// Holds are the permits that the run holds. Permits for an attempt of a step are held by the
	// run that executes the step.
	Holds []LimitHold
	// StartBy is the time at which the run fails if it has not begun, see [WithStartBy]; zero:
	// there is no such time, or the run has begun or is still held. It is only set by
	// [Handle.Info].
	StartBy time.Time
}

// Mismatch describes where the code of a blocked run does not fit its log.
type Mismatch struct {
	Event    uint64 // number of the event in the log
	Recorded string // the operation in the log
	Asked    string // the operation that the code requests; empty: none
	Position string // position of the call, as file:line; empty: unknown
	Diff     string // difference if only the contents differ: lines with - are recorded, lines with + requested; up to 16 KiB
	Build    string // build of the code that recorded the event; empty: unknown
	Here     string // build of the code that does not fit; empty: unknown
}

// StepRetry describes a step that is being retried.
type StepRetry struct {
	Step    string // stored name
	Key     string // within the run
	Attempt int    // number of the last attempt that was started
	Failed  string // error of the last failed attempt
	Code    string // as in [StepError]
	// Next is the earliest time of the next attempt; zero: an attempt is running.
	Next time.Time
}

func infoOf(r *store.Record) RunInfo {
	root := r.Root
	if root == "" {
		root = r.Run
	}
	return RunInfo{
		Waits: waitsOf(r), WaitsSince: waitsSince(r),
		Identity: Identity{
			ID: r.Run, WorkflowID: r.WorkflowID, Workflow: r.Route.Workflow, Queue: r.Route.Queue, Tags: maps.Clone(r.Tags),
			Parent: r.Parent, Root: root, CreatedAt: r.CreatedAt,
		},
		Holds: holdsOf(r), Paused: r.Status == StatusPaused, Recoveries: r.Recoveries,
		Status: r.Status, EndedAt: r.EndedAt, Due: r.Due, Events: r.Seq, Group: r.Group, RetriedAs: r.Rerun,
	}
}

// Info returns the state of the run in the store. If the run is blocked because its log is damaged,
// Info returns the data that is available without the log, with the reason in Blocked.
func (h *Handle) Info(ctx context.Context) (RunInfo, error) {
	id, err := h.resolve(ctx)
	if err != nil {
		return RunInfo{}, err
	}
	l, err := h.c.load(ctx, store.Load{Run: id, Limit: 1})
	if err != nil {
		return RunInfo{}, fmt.Errorf("get info of run %s: %w", id, err)
	}
	info := infoOf(&l.Record)
	info.Worker = workerOf(l.Record.Owner)
	if info.Status == StatusBlocked {
		if info.Blocked, info.Mismatch, err = h.c.whyBlocked(ctx, id); err != nil {
			return info, fmt.Errorf("get info of run %s: %w", id, err)
		}
	}
	if info.Unserved, err = h.c.unserved(ctx, &l.Record); err != nil {
		return info, fmt.Errorf("get info of run %s: %w", id, err)
	}
	if len(l.Frames) == 0 {
		return info, nil
	}
	f, err := event.DecodeFrame(l.Frames[0])
	switch {
	case err != nil && info.Blocked != "":
		return info, nil // Blocked has the reason, which an operator must be able to read
	case err != nil:
		return info, &EventError{Run: id, Frame: 1, Err: err}
	}
	if info.Delayed, err = h.c.delays(ctx, f, &l.Record); err != nil {
		return info, fmt.Errorf("get info of run %s: %w", id, err)
	}
	spec := f.Events[0].Spec
	if spec != nil {
		info.Identity = identityOf(id, spec, l.Record.CreatedAt) // as in lists
		waits, err := h.c.waits(ctx, &l.Record, spec)
		if err != nil {
			return info, fmt.Errorf("get info of run %s: %w", id, err)
		}
		info.Waits, info.WaitsSince, info.Debug = waitsOf(waits), waitsSince(waits), spec.Debug
		info.RerunOf, info.Collects = spec.RerunOf, spec.Collect != event.CollectNone
		info.Holds = holdsOf(waits)
		if waits.Waits() {
			one := []RunInfo{info}
			if err := h.c.fillWaits(ctx, one, []*store.Record{waits}, nil); err != nil {
				return info, fmt.Errorf("get info of run %s: %w", id, err)
			}
			info = one[0]
		}
	}
	return h.c.withSteps(ctx, info, &l.Record, spec)
}

// workerOf returns the name of the worker that has opened a session; the session ID begins with it.
func workerOf(s store.SessionID) string {
	if at := strings.LastIndexByte(string(s), '/'); at >= 0 {
		return string(s[:at])
	}
	return string(s)
}

// withSteps adds data from the log of a run, and from the runs that execute its steps, to its info.
func (c *Client) withSteps(ctx context.Context, info RunInfo, r *store.Record, spec *event.Spec) (RunInfo, error) {
	var err error
	if isFollowed(r, spec) {
		if info.Retries, info.StartBy, err = c.followed(ctx, r); err != nil {
			return info, err
		}
	}
	steps, paused, err := c.stepsOf(ctx, r)
	info.Paused = info.Paused || paused
	if err != nil || len(steps) == 0 {
		return info, err
	}
	retries, err := c.remoteRetries(ctx, steps)
	if info.Retries = append(info.Retries, retries...); err != nil {
		return info, err
	}
	one := []RunInfo{info}
	if err := c.fillWaits(ctx, one, []*store.Record{r}, map[RunID][]remoteStep{r.Run: steps}); err != nil {
		return info, fmt.Errorf("get info of run %s: %w", r.Run, err)
	}
	return one[0], nil
}

// MaxReason is the maximum length of the reason of a command, in bytes.
const MaxReason = 4 << 10

// Cancel requests the cancellation of the run. When it returns nil the request is durable. The
// run's context ends at its next suspension point, and the code decides the outcome: code that
// ignores the cancellation may still complete. Canceling again does nothing and returns nil, even
// after the run has ended, because the response to an earlier call may have been lost. The error of
// a run that ends canceled contains the reason of the first cancel. A run that has not begun ends
// before Cancel returns, even if no worker serves it. A run that has begun needs a worker that
// serves it, because only the worker has the code that cleans up; a blocked run is canceled once
// compatible code is available. The error matches ErrRunTerminal if the run has ended without a
// cancel request, and is an *[InvalidError] for a reason that is longer than [MaxReason] bytes or
// not UTF-8.
func (h *Handle) Cancel(ctx context.Context, reason string) error {
	run, err := h.commandable(ctx, "cancel")
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return h.c.cancelMany(ctx, reason, []RunID{run}, make([]error, 1))[0]
}

// deliverWindow is the maximum time between sending and executing a delivery.
const deliverWindow = time.Minute

// deliver puts an item into the inbox of a run or of its chain, and retries while the run is about
// to end. e becomes the body of the item.
func (c *Client) deliver(ctx context.Context, run RunID, item store.Item, e *event.Event) error {
	return c.deliverBy(ctx, run, item, e, time.Time{})
}

// deliverBy is like deliver, but the store accepts the item only until by; zero: at any time. After
// that the error matches store.ErrStale.
func (c *Client) deliverBy(ctx context.Context, run RunID, item store.Item, e *event.Event, by time.Time) error {
	e.By = engine.Behalf(ctx)
	var err error
	if item.Body, err = event.AppendItem(nil, e); err != nil {
		return err
	}
	return c.put(ctx, run, item, e.Type == event.CancelRequested, by)
}

// put is like deliverBy, for an item that has its body. If urgent is set, a run that waits for
// permits continues without them.
func (c *Client) put(ctx context.Context, run RunID, item store.Item, urgent bool, by time.Time) error {
	_, err := c.accept(ctx, run, item, urgent, by)
	return err
}

// accept is like put, and returns the run that has accepted the item, which may be a later run of
// the chain.
func (c *Client) accept(ctx context.Context, run RunID, item store.Item, urgent bool, by time.Time) (RunID, error) {
	d := store.Deliver{Run: run, Item: item, Urgent: urgent}
	for delay := time.Millisecond; ; delay = min(2*delay, 100*time.Millisecond) {
		if d.Deadline = c.store.Clock().Now().Add(deliverWindow); !by.IsZero() && by.Before(d.Deadline) {
			d.Deadline = by
		}
		accepted, err := c.store.Deliver(ctx, d)
		var ended *store.TerminalError
		switch {
		case err == nil:
			return accepted, nil
		case errors.As(err, &ended):
			return run, fmt.Errorf("%w", terminalError{ended})
		case !errors.Is(err, store.ErrLater):
			return run, fmt.Errorf("run %s: %w", run, err)
		}
		if err := c.pause(ctx, delay); err != nil {
			return run, fmt.Errorf("run %s: %w", run, err)
		}
	}
}

// deliverAgain is like deliver, but waits out an outage of the store. Repeated delivery of an item
// has no effect.
func (c *Client) deliverAgain(ctx context.Context, run RunID, item store.Item, e *event.Event) error {
	return c.persist(ctx, "deliver", func() error { return c.deliver(ctx, run, item, e) })
}

// loadAgain is like load, but waits out an outage of the store.
func (c *Client) loadAgain(ctx context.Context, want store.Load) (l store.Loaded, err error) {
	err = c.persist(ctx, "read log", func() error {
		l, err = c.load(ctx, want)
		return err
	})
	return l, err
}

// Run is a handle with the type of the run's result.
type Run[T any] struct {
	*Handle
	def     *definition
	created bool
	same    bool
	known   bool // the run is known to belong to the workflow def
}

// Created reports whether the Start that returned this handle created the run. It is false if the
// workflow ID already had an active run, and for a handle from Get.
func (r *Run[T]) Created() bool { return r.created }

// SameInput reports whether the run has the input passed to the Start that returned this handle:
// either that Start created the run, or the run was started with an equal input. For a run that
// continues others, the input of the first run of its chain counts. Inputs are equal if their JSON
// encodings are equal except for white space, escapes in strings and the order of object members.
// So 1 and 1.0 differ, as do values whose encodings are not reproducible, such as encrypted ones,
// or that were encoded by another version of the type with other fields.
//
// It is false if the input is unknown: the first run of the chain was deleted or its log cannot be
// read; the run is shared by several starts and gets its input only when it begins; or the handle
// comes from Get, GetByID or a rerun.
func (r *Run[T]) SameInput() bool { return r.same }

// Result waits until the run has ended and returns its result, or a *RunError. It follows a run
// that continues as new to the last run. If the run does not exist, the error matches
// ErrRunNotFound; if it belongs to another workflow, ErrWrongWorkflow. Both are returned at once.
// Result waits for blocked runs and waits out an outage of the store. If the deadline of ctx passes
// first, the error for a blocked run also matches ErrRunBlocked and contains the reason, and the
// error for a run that no worker serves matches ErrRunUnserved.
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
		end, err := r.c.awaitEnd(ctx, id, r.def.name, known)
		if err != nil {
			return v, fmt.Errorf("wait for the result of run %s: %w", id, r.c.stillBlocked(ctx, id, err))
		}
		if end.Workflow != r.def.name {
			return v, wrongWorkflow(id, end.Workflow, r.def.name)
		}
		if end.Last.Type != event.RunContinued {
			return result[T](id, end)
		}
		id = end.Last.Next
	}
}

// goesRound returns the error for a run that continues as itself or as an earlier run.
func goesRound(run RunID) error {
	return &EventError{Run: run, Err: fmt.Errorf("it continues as a run before it: %w", event.ErrCorrupt)}
}

// stillBlocked returns err. If a time limit has passed and the run is blocked or not served by any
// worker, it adds that fact and the reason, which the caller could not see otherwise.
func (c *Client) stillBlocked(ctx context.Context, id RunID, err error) error {
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
		return c.explainUnserved(ctx, id, err)
	}
	why, _, _ := c.whyBlocked(ctx, id) // report the blocked run even if the reason cannot be read
	return fmt.Errorf("%w: %w: %s: %s", err, ErrRunBlocked, id, why)
}

// blockedPatience bounds how long stillBlocked runs after the time limit.
const blockedPatience = time.Second

// whyBlocked returns the reason that the worker recorded when it blocked the run. It is empty if
// the store keeps no step data.
func (c *Client) whyBlocked(ctx context.Context, id RunID) (why string, differs *Mismatch, err error) {
	n, ok := store.As[store.StepDataStore](c.store)
	if !ok {
		return "", nil, nil
	}
	data, err := n.StepData(ctx, id)
	why = string(data[engine.BlockedKey])
	if m := engine.DecodeMismatch(data[engine.MismatchKey], why); m != nil {
		differs = &Mismatch{Event: m.Event, Recorded: m.Recorded, Asked: m.Asked, Position: m.Position, Diff: m.Diff, Build: m.Build, Here: m.Here}
	}
	return why, differs, err
}

func result[T any](id RunID, end *localstart.End) (T, error) {
	var v T
	if end.Last.Type == event.RunCompleted {
		err := decode(fmt.Sprintf("result of run %s of %s", id, end.Workflow), end.Last.Payload, &v)
		return v, err
	}
	e := &RunError{Run: id, Workflow: end.Workflow, Status: StatusFailed, failure: end.Last.Failure}
	if end.Last.Type == event.RunCanceled {
		e.Status = StatusCanceled
	}
	if f := end.Last.Failure; f != nil {
		e.Code, e.Reason, e.Undone, e.NotUndone = f.Code, f.Message, f.Undone, f.NotUndone
	}
	return v, e
}

// awaitEnd waits until the run has ended. If a worker of this process executes the run, that worker
// reports the end. Otherwise awaitEnd watches the store, and then reads the record with the latest
// frames in one request, usually including the last one. For a run of another workflow it returns
// the name of that workflow at once; unless known is set, it reads the run before it waits for a
// worker.
func (c *Client) awaitEnd(ctx context.Context, id RunID, workflow string, known bool) (*localstart.End, error) {
	const few = 4
	request := store.Load{Run: id, Limit: -1}
	for {
		if err := c.check(); err != nil {
			return nil, err
		}
		if known {
			if end, ok := c.hosts.follow(ctx, id); ok {
				return end, nil
			}
		}
		var l store.Loaded
		err := c.persist(ctx, "look at a run", func() (err error) {
			l, err = c.load(ctx, request)
			return err
		})
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
		err = c.persist(ctx, "wait for the end of a run", func() error { return c.store.Watch(ctx, id, store.UntilEnd) })
		if err != nil {
			return nil, err
		}
	}
}

// endOf returns the last event of a run that has ended. l contains frames after number after,
// possibly including the last one.
func (c *Client) endOf(ctx context.Context, id RunID, after uint64, l *store.Loaded) (last *event.Event, err error) {
	if n := len(l.Frames); n > 0 && after+uint64(n) == l.Record.N {
		return lastOf(id, l.Frames[n-1], l.Record.N)
	}
	err = c.persist(ctx, "read the end of a run", func() (err error) {
		last, err = c.lastEvent(ctx, id, l.Record.N)
		return err
	})
	return last, err
}
