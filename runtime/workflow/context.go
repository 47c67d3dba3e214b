package workflow

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// Context is the first parameter of workflow code. It identifies the branch, reports cancellation,
// and carries values and step options. It is not a context.Context.
//
// A Context is valid only in the branch for which it was created, and only while that branch runs.
// Operations with the zero Context panic with the reason.
type Context flow.Context

// CancelFunc ends a context with ErrCanceled. Further calls do nothing.
type CancelFunc func()

// The reasons why a context ends.
var (
	// ErrCanceled means that the context was canceled. It matches context.Canceled.
	ErrCanceled = replay.ErrCanceled
	// ErrTimeout means that a time limit set by the caller has passed. It matches
	// context.DeadlineExceeded. If a called function reports that its own time limit has passed,
	// its error does not match ErrTimeout.
	ErrTimeout = replay.ErrTimeout
)

func (ctx Context) branch() *replay.Branch { return flow.Context(ctx).Branch() }
func (ctx Context) scope() *replay.Scope   { return flow.Context(ctx).Scope() }
func (ctx Context) env() *flow.Env         { return flow.Context(ctx).Env() }

// gate begins a durable operation, see replay.Branch.Gate. It returns the branch.
func (ctx Context) gate() *replay.Branch {
	b := ctx.branch()
	b.Gate(ctx.scope())
	return b
}

func (ctx Context) encode(what string, v any) ([]byte, error) {
	return flow.Context(ctx).Encode(what, v)
}

func (ctx Context) within(s *replay.Scope) Context { return Context(flow.Context(ctx).Within(s)) }

// Err returns nil if the context has not ended, and ErrCanceled or ErrTimeout if it has.
func (ctx Context) Err() error { return flow.Context(ctx).Err() }

// Value returns the value that [WithValue] has set for key, or nil.
func (ctx Context) Value(key any) any { return flow.Context(ctx).Value(key) }

// WithValue returns a context that carries a value. Values do not reach steps or children. The key
// must be comparable and should have its own type.
func WithValue(ctx Context, key, val any) Context {
	return Context(flow.Context(ctx).WithValue(key, val))
}

// WithCancel returns a context that ends when ctx does or when cancel is called.
func WithCancel(ctx Context) (Context, CancelFunc) {
	s := ctx.branch().NewScope(ctx.scope())
	return ctx.within(s), s.Cancel
}

// WithTimeout returns a context that ends with ErrTimeout after d, with the error of ctx when ctx
// ends, or with ErrCanceled when cancel is called. The errors of operations that it ends contain d.
// The context uses one timer, so call cancel as soon as the operations under it have ended.
func WithTimeout(ctx Context, d time.Duration) (Context, CancelFunc) {
	s := ctx.branch().NewTimeout(ctx.scope(), d)
	return ctx.within(s), s.Cancel
}

// WithDeadline is like [WithTimeout], but the context ends at the time t. The errors of operations
// contain the duration from the call of WithDeadline to t.
func WithDeadline(ctx Context, t time.Time) (Context, CancelFunc) {
	s := ctx.branch().NewDeadline(ctx.scope(), t)
	return ctx.within(s), s.Cancel
}

// Detached returns a context with the values of ctx that does not end when ctx ends. Use it for
// cleanup after a cancel: steps under this context run even if the run was canceled.
func Detached(ctx Context) Context {
	return ctx.within(ctx.branch().NewScope(nil))
}

// WithStepOptions returns a context whose steps are executed with the given options instead of
// those of their directives. Branches inherit the options.
func WithStepOptions(ctx Context, opts ...StepOption) Context {
	return Context(flow.Context(ctx).WithSteps(func(o *flow.StepOptions) {
		for _, opt := range opts {
			opt((*stepOptions)(o))
		}
	}))
}

// StepOption changes how steps are executed, see [WithStepOptions].
type StepOption func(*stepOptions)

type stepOptions flow.StepOptions

// Retry replaces the whole retry policy of the directive. Zero fields of p have the defaults of
// [RetryPolicy].
func Retry(p RetryPolicy) StepOption {
	return func(o *stepOptions) { o.Retry = (*flow.Retry)(&p) }
}

// AttemptTimeout sets the timeout of an attempt. It replaces the timeout of the directive, or the
// default of 10 minutes. It panics if d is not positive.
func AttemptTimeout(d time.Duration) StepOption {
	if d <= 0 {
		panic(fmt.Sprintf("workflow: AttemptTimeout(%v): the duration must be positive", d))
	}
	return func(o *stepOptions) { o.Timeout = d }
}

// Key sets the key of the steps to k. Without this option the key contains the number of earlier
// calls. A further call with the same key is another step, whose key also contains an ordinal.
func Key(k string) StepOption { return func(o *stepOptions) { o.Key = &k } }

// Queue makes workers that serve this queue execute the steps, instead of the queue= of the
// directive. Steps on the queue of the run are executed by the worker of the run. Workers serve a
// queue that no directive names if worker.Config.Queues contains it. While no worker serves the
// queue, the step waits. Queue panics if the name is empty or contains "@build:".
func Queue(name string) StepOption {
	if name == "" {
		panic("workflow: Queue: the name is empty")
	}
	if err := event.CheckQueue(name); err != nil {
		panic("workflow: Queue: " + err.Error())
	}
	return func(o *stepOptions) { o.Queue = name }
}

// RunID identifies a run. It is a distinct type, so that a workflow ID in a variable cannot be used
// as a run ID.
type RunID = event.RunID

// ParseRunID returns s as a run ID. It returns an error if s does not have the form of a run ID.
func ParseRunID(s string) (RunID, error) { return event.ParseRunID(s) }

// Status is the state of a run as users see it in lists, filters and commands.
type Status = event.Status

// The statuses. A run is pending until a worker starts it, and ends as completed, failed, canceled
// or continued. The other statuses are details of runs that have not ended.
const (
	StatusPending   = event.StatusPending
	StatusRunning   = event.StatusRunning
	StatusCompleted = event.StatusCompleted
	StatusFailed    = event.StatusFailed
	StatusCanceled  = event.StatusCanceled
	StatusContinued = event.StatusContinued
	StatusHeld      = event.StatusHeld
	StatusPaused    = event.StatusPaused
	StatusSleeping  = event.StatusSleeping
	StatusWaiting   = event.StatusWaiting
	StatusBlocked   = event.StatusBlocked
)

// Identity contains the properties of a run that never change.
type Identity struct {
	ID         RunID
	WorkflowID string // empty: none
	Workflow   string // stored name
	Queue      string
	Tags       map[string]string
	Parent     RunID // empty: none
	Root       RunID // the run itself if it has no parent
	Depth      int   // 0: no parent
	// CreatedAt is when the store created the run. For code of the run it is the time of the first
	// event of the log, which may be some milliseconds earlier.
	CreatedAt time.Time
}

// Singleton reports whether the run belongs to a workflow that allows one active run per key.
func (i *Identity) Singleton() bool { return strings.HasPrefix(i.WorkflowID, i.Workflow+":") }

func identityOf(id RunID, spec *event.Spec, created time.Time) Identity {
	return Identity{
		ID: id, WorkflowID: spec.WorkflowID, Workflow: spec.Workflow, Queue: spec.Queue, Tags: maps.Clone(spec.Tags),
		Parent: spec.Parent, Root: cmp.Or(spec.Root, id), Depth: spec.Depth, CreatedAt: created,
	}
}

// Info returns the identity of the run that executes the code.
func Info(ctx Context) Identity {
	r := ctx.branch().Run()
	return identityOf(r.ID(), r.State().Spec, r.State().CreatedAt)
}

// LogLength returns the current number of events in the log. Every replay receives the same number
// at the same place. Of the events recorded before the code began, such as messages that the
// previous run has not received, LogLength counts at most a thousand. Therefore code that continues
// as new at a certain length makes progress even if many messages wait.
func LogLength(ctx Context) int { return ctx.branch().LogLength() }

// Logger returns the logger of the client, with the ID and the workflow of the run. It is silent
// during a replay, so that each line appears once. If the worker crashes before its next commit, a
// line may be lost or repeated.
func Logger(ctx Context) *slog.Logger {
	b := ctx.branch()
	return slog.New(&replaySilent{Handler: ctx.env().Logger.Handler(), replaying: b.Replaying}).
		With("run", string(b.Run().ID()), "workflow", b.Spec().Workflow)
}

// replaySilent drops records during a replay.
type replaySilent struct {
	slog.Handler
	replaying func() bool
}

func (h *replaySilent) Enabled(ctx context.Context, l slog.Level) bool {
	return !h.replaying() && h.Handler.Enabled(ctx, l)
}

func (h *replaySilent) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &replaySilent{h.Handler.WithAttrs(attrs), h.replaying}
}

func (h *replaySilent) WithGroup(name string) slog.Handler {
	return &replaySilent{h.Handler.WithGroup(name), h.replaying}
}

// Now returns the time of the event to which the code reacts, by the clock of the store, in UTC and
// in milliseconds. It does not change between durable operations, and is the same in every replay.
func Now(ctx Context) time.Time { return ctx.branch().Now() }

// Sleep blocks for d. The due time is stored, so that a crash or a shutdown of all workers does not
// change it. Sleep returns at once if d is not positive. If ctx ends first, Sleep returns
// ErrCanceled or ErrTimeout.
func Sleep(ctx Context, d time.Duration) error {
	b := ctx.gate() // before the current time is read, because it may advance the time
	return b.Sleep(ctx.scope(), b.Until(d))
}

// SleepUntil blocks until t, like [Sleep].
func SleepUntil(ctx Context, t time.Time) error {
	return ctx.gate().Sleep(ctx.scope(), t)
}

// Rand returns the random number generator of the branch. Its seed is derived from the ID of the
// run and the branch, so every replay receives the same numbers. The numbers are not suitable for
// secrets. If changed code draws an additional number, all later numbers of the branch change. Open
// runs are not blocked by such a change, but may decide differently. To keep a number on which a
// decision depends, use [Record].
func Rand(ctx Context) *rand.Rand { return ctx.branch().Rand() }

// UUID returns a version 4 UUID that is the same in every replay. It depends on the run, the branch
// and the number of earlier UUIDs of the branch, but not on [Rand]. It is not suitable for secrets.
func UUID(ctx Context) string { return ctx.branch().UUID() }

// Record calls f once, in the calling branch, and records its result in the log. Every replay
// returns the recorded value, decoded from its stored form, or the recorded error. f must not block
// or call durable operations. Code that can fail or that takes time belongs in a step.
func Record[T any](ctx Context, f func() (T, error)) (T, error) {
	var v T
	payload, failed := ctx.gate().Record(func() ([]byte, *event.Failure) {
		v, err := f()
		if err != nil {
			return nil, failure.Encode(err, event.CodeError)
		}
		b, err := ctx.encode("recorded value", v)
		if err != nil {
			return nil, failure.Encode(err, event.CodePayload)
		}
		return b, nil
	})
	if failed != nil {
		return v, &failure.StoredError{F: failed}
	}
	err := flow.Decode("recorded value", payload, &v)
	return v, err
}

// VersionOption is an option of [Version].
type VersionOption func(*versionOptions)

type versionOptions struct{ min int }

// AtLeast declares that the code does not contain the versions below n. A run that uses such a
// version is blocked until a worker whose code contains the version claims it. Without this option,
// the code contains all versions from 0.
func AtLeast(n int) VersionOption { return func(o *versionOptions) { o.min = n } }

// Version lets open runs finish with the old code after a change. It returns the version of the
// change that this run uses:
//
//	if workflow.Version(ctx, "fraud-check", 1) >= 1 {
//		… // the new way
//	} else {
//		… // the old way
//	}
//
// If the code of a run passed this place before the call of Version was added, the run uses version
// 0, which needs no event. If a run reaches this place for the first time, it uses latest, and the
// next commit records the version in one event. The first call for a change determines the version
// for the whole run, including calls in loops and in other branches. For a later change at the same
// place, increment latest.
//
// When no run uses an old version, remove the old code. Keep the call, with [AtLeast], as long as
// there are runs that have recorded a version. If a run uses a version that the code does not
// contain, because the version is too old or the code was rolled back, the run is blocked. Version
// panics if latest is less than 1 or less than the argument of AtLeast.
func Version(ctx Context, change string, latest int, opts ...VersionOption) int {
	b, o := ctx.branch(), optionsOf(opts)
	switch {
	case change == "":
		panic(&replay.MisuseError{Text: "workflow: Version: the name of the change is empty"})
	case latest < 1 || o.min < 0 || o.min > latest:
		panic(&replay.MisuseError{Text: fmt.Sprintf("workflow: Version(%q, %d) with AtLeast(%d): "+
			"the latest version is 1 or more, and not less than the oldest one", change, latest, o.min)})
	}
	return b.Version(change, o.min, latest)
}
