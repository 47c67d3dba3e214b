package workflow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/store"
)

// Handle addresses a run, by its id or by a workflow id.
type Handle struct {
	c          *Client
	id         RunID
	workflowID string
	access     atomic.Int32 // an access
}

// Target is a run that something is sent to: a *Handle or a *Run.
type Target interface{ target() *Handle }

func (h *Handle) target() *Handle { return h }

// ID returns the run id, or "" for a handle by workflow id.
func (h *Handle) ID() RunID { return h.id }

// resolve returns the id of the run that the handle means now.
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

// find is resolve, and waits for an outage of the store to end.
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

// RunInfo describes a run as it is now.
type RunInfo struct {
	Identity
	Status  Status
	EndedAt time.Time // zero: it has not ended
	Due     time.Time // when something in it is due next; zero: nothing, or it is being worked on
	Events  uint64    // length of its log
	Group   string    // of the [Trouble] that it is in; empty: it is in none
	// RetriedAs is the last run that was made of this one after it had failed or was cancelled, by [Handle.Retry] or as
	// another rerun; empty: there is none. Such a run is in no Trouble any more. It may have been deleted since.
	RetriedAs RunID
	// Blocked says why the run is blocked, and what to do; only [Handle.Info]
	// sets it, and only if the status is StatusBlocked.
	Blocked string
	// Mismatch says what the log has and what the code asks for instead; only [Handle.Info] sets it. Nil: the run is not
	// blocked because its code does not fit, or a worker of an older release has blocked it.
	Mismatch *Mismatch
	// Retries are the steps of which the last attempt that ended has failed, and that have not ended, in order
	// of their creation; only [Handle.Info] sets it, and only if the run has a Group. For it Info reads the log: what has
	// come into that since it was asked last.
	Retries []StepRetry
	// Paused says that the code of the run stands still until it is resumed, whatever its Status is: a held or blocked run may be
	// paused, too. Lists know it of runs whose status is StatusPaused only.
	Paused bool
	// Delayed says that the run is a rerun by the policy of its workflow, and its code goes on when it is Due, or resumed; only
	// [Handle.Info] sets it.
	Delayed bool
	// Collects says that several starts share the run: it has no input before a worker has claimed it. Only [Handle.Info] sets it.
	Collects bool
	// RerunOf is the run of which this one was made, see [Handle.Retry]; only [Handle.Info] sets it.
	RerunOf RunID
	// Debug says that the run was started with [WithDebug]; only [Handle.Info] sets it.
	Debug bool
	// Recoveries is how often the run was taken from a worker that was lost, since it has last made progress: see [Handle.LastRecovery].
	Recoveries int
	// Worker is the name of the worker that has the run, which executes it or keeps it for a moment; empty: none has. Only [Handle.Info] sets it.
	Worker string
	// Unserved says that the run waits for a worker, and that none that lives has its
	// workflow registered and serves its queue: start one. Only [Handle.Info] sets it.
	Unserved bool
	// Waits are the limits, as name or name/key, of which the run waits for permits.
	Waits []string
	// WaitsSince is since when there is no room for it in them; zero: there was room when it
	// came, and it waits for a worker.
	WaitsSince time.Time
	// WaitsFor are the limits at which the run waits, or steps of it that use limits, in the order of their creation: for each the
	// one limit that lets it not begin now. Up to 20 are reported. Lists set it only if [Filter].Waits is set.
	WaitsFor []LimitWait
	// Holds are the permits that the run has: those for each attempt of a step are held by the run that executes it.
	Holds []LimitHold
	// StartBy is when a run fails that has not begun by then, see [WithStartBy]; zero: never, or it
	// has begun, or is still held. Only [Handle.Info] sets it.
	StartBy time.Time
}

// Mismatch is where the code of a blocked run does not fit its log.
type Mismatch struct {
	Event    uint64 // number of the event in the log
	Recorded string // what the log has
	Asked    string // what the code asks for; empty: nothing
	Position string // of the call, as file:line; empty: there is none
	Diff     string // between the two, if only their contents differ: lines with - are recorded, those with + asked for; up to 16 KiB
	Build    string // of the code that has recorded it; empty: it is not known
	Here     string // of the code that does not fit; empty: it is not known
}

// StepRetry is a step that is tried again.
type StepRetry struct {
	Step    string // stored name
	Key     string // within the run
	Attempt int    // the last one that was started
	Failed  string // what the last attempt that failed returned
	Code    string // that of a [StepError]
	// Next is when the next attempt may begin; zero: it is under way.
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

// Info returns the state of the run in the store. If the run is blocked because its log is
// damaged, Info returns what is known without the log, with the reason in Blocked.
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
		return info, nil // which says why: an operator must be able to read it
	case err != nil:
		return info, &EventError{Run: id, Frame: 1, Err: err}
	}
	info.Delayed = delays(f, &l.Record)
	spec := f.Events[0].Spec
	if spec != nil {
		info.Identity = identityOf(id, spec, l.Record.CreatedAt) // as lists have it
		waits, err := h.c.waits(ctx, &l.Record, spec)
		if err != nil {
			return info, fmt.Errorf("get info of run %s: %w", id, err)
		}
		info.Waits, info.WaitsSince, info.Debug = waitsOf(waits), waitsSince(waits), spec.Debug
		info.RerunOf, info.Collects = spec.RerunOf, spec.Gather != event.GatherNone
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

// workerOf returns the name of the worker that has opened a session: its id begins with it.
func workerOf(s store.SessionID) string {
	if at := strings.LastIndexByte(string(s), '/'); at >= 0 {
		return string(s[:at])
	}
	return string(s)
}

// Recovery is that a run was taken from a worker that was lost.
type Recovery struct {
	Time   time.Time
	Reason string // such as expired_claim, process_ended or session_closed
	From   string // the worker that was lost
	By     string // the worker that has noticed
}

// LastRecovery returns the last recovery of the run, as far as the store remembers it; nil: there was none, or the store remembers none.
func (h *Handle) LastRecovery(ctx context.Context) (*Recovery, error) {
	id, err := h.resolve(ctx)
	if err != nil {
		return nil, err
	}
	auditor, ok := store.As[store.Auditor](h.c.store)
	if !ok {
		return nil, nil
	}
	trail, err := auditor.Audit(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read the recoveries of run %s: %w", id, err)
	}
	for _, e := range slices.Backward(trail) {
		if e.Reason != store.ReasonImported {
			return &Recovery{Time: e.Time, Reason: string(e.Reason), From: workerOf(e.Owner), By: workerOf(e.By)}, nil
		}
	}
	return nil, nil
}

// withSteps adds to the info of a run what its log, and the runs that execute its steps, report of them.
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

// MaxReason bounds the reason of a command, in bytes.
const MaxReason = 4 << 10

// Cancel asks the run to end. When it returns nil the request is durable; the
// run's context ends at its next suspension point, wherever it is, and the code decides
// the outcome: code that swallows the cancel may still complete. Asking again does
// nothing and returns nil, even once the run has ended: an answer may have been lost.
// The reason of the first cancel is in the error of a run that ends canceled. A run that
// has not begun ends before Cancel returns, even if no worker serves it; one that has
// begun needs a worker that serves it, because only that has the code that cleans up, and
// a blocked run is canceled once compatible code is back. The error matches ErrRunTerminal
// if the run has ended and was never asked, and is an *[InvalidError] for a reason of more
// than [MaxReason] bytes or one that is not UTF-8.
func (h *Handle) Cancel(ctx context.Context, reason string) error {
	run, err := h.commandable(ctx, "cancel")
	if err != nil {
		return fmt.Errorf("cancel: %w", err)
	}
	return h.c.cancelMany(ctx, reason, []RunID{run}, make([]error, 1))[0]
}

// deliverWindow bounds how late a delivery may be executed after it was sent.
const deliverWindow = time.Minute

// deliver puts an item into the inbox of a run or of its chain, and sends it again while the run
// is about to end. The item gets its body from e.
func (c *Client) deliver(ctx context.Context, run RunID, item store.Item, e *event.Event) error {
	return c.deliverBy(ctx, run, item, e, time.Time{})
}

// deliverBy is deliver, but nothing is accepted after a moment; zero: at any time. Then the error
// matches store.ErrStale.
func (c *Client) deliverBy(ctx context.Context, run RunID, item store.Item, e *event.Event, by time.Time) error {
	e.By = behalf(ctx)
	var err error
	if item.Body, err = event.AppendItem(nil, e); err != nil {
		return err
	}
	return c.put(ctx, run, item, e.Type == event.CancelRequested, by)
}

// put is deliver for an item that has its body. A run that waits for permits goes without
// them if it is urgent.
func (c *Client) put(ctx context.Context, run RunID, item store.Item, urgent bool, by time.Time) error {
	_, err := c.accept(ctx, run, item, urgent, by)
	return err
}

// accept is put, and returns the run that has the item: the last one of the chain, perhaps.
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

// deliverAgain is deliver, and waits for an outage of the store to end: an item that
// is there already is not put there again.
func (c *Client) deliverAgain(ctx context.Context, run RunID, item store.Item, e *event.Event) error {
	return c.persist(ctx, "deliver", func() error { return c.deliver(ctx, run, item, e) })
}

// loadAgain is load, and waits for an outage of the store to end.
func (c *Client) loadAgain(ctx context.Context, want store.Load) (l store.Loaded, err error) {
	err = c.persist(ctx, "read log", func() error {
		l, err = c.load(ctx, want)
		return err
	})
	return l, err
}

// Run is a handle that knows the type of the result.
type Run[T any] struct {
	*Handle
	def     *definition
	created bool
	same    bool
	known   bool // the run is of the workflow def
}

// Created reports whether the Start that returned this handle created the run;
// false if the workflow id had an active run already, or for a handle from Get.
func (r *Run[T]) Created() bool { return r.created }

// SameInput reports whether the run has the input of the Start that returned this handle: that Start has created it, or it was
// started with an equal input before. Of a run that continues others this is the input of the first run of its chain. Inputs are
// equal if their JSON encodings are, except for white space, escapes in strings and the order of the members of objects. So 1 and
// 1.0 differ, and so do values that are not encoded alike twice, such as encrypted ones, or that another version of the type
// has encoded with other fields.
//
// It is false if the input is not known: the first run of the chain was deleted, or its log cannot be read; starts share the run,
// which has its input only when it begins; or the handle comes from Get, GetByID or a rerun.
func (r *Run[T]) SameInput() bool { return r.same }

// Result waits until the run has ended and returns its result, or a *RunError.
// It follows a run that continued as a new one to the end. A run that does not
// exist is an error that matches ErrRunNotFound, one of another workflow one that matches
// ErrWrongWorkflow, at once. A run that is blocked is waited for, and so is the end of an
// outage of the store; if the deadline of ctx comes first, the error of a blocked run
// matches ErrRunBlocked as well, and says why it is; that of a run that no worker serves
// matches ErrRunUnserved.
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

// goesRound says that a run continues as itself, or as one before it.
func goesRound(run RunID) error {
	return &EventError{Run: run, Err: fmt.Errorf("it continues as a run before it: %w", event.ErrCorrupt)}
}

// stillBlocked returns err, and if that is the end of a time limit and the run is blocked, or
// nobody serves it, says so and why: whoever waits for such a run would not learn that otherwise.
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
	why, _, _ := c.whyBlocked(ctx, id) // that it is blocked is worth more than nothing
	return fmt.Errorf("%w: %w: %s: %s", err, ErrRunBlocked, id, why)
}

// blockedPatience bounds how long stillBlocked takes beyond the time limit.
const blockedPatience = time.Second

// whyBlocked returns what the worker that has blocked the run has noted; empty if the store
// keeps no step data.
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

func result[T any](id RunID, end *handover.End) (T, error) {
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

// awaitEnd waits until the run has ended. A worker of this process that works on the
// run tells. Else the store does: when that has been waited for, the frames that came
// meanwhile are read with the record: mostly the last one is among them. Of a run of another workflow it returns the name of that
// at once; unless known is set it looks at the run before it waits for a worker.
func (c *Client) awaitEnd(ctx context.Context, id RunID, workflow string, known bool) (*handover.End, error) {
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
			return &handover.End{Workflow: l.Record.Route.Workflow}, nil
		}
		if l.Record.QueueState == store.StateEnded {
			last, err := c.endOf(ctx, id, request.After, &l)
			if err != nil {
				return nil, err
			}
			return &handover.End{Workflow: l.Record.Route.Workflow, Last: *last}, nil
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

// endOf returns the last event of a run that has ended, whose frames behind after
// were read, or some of them.
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
