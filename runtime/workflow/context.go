package workflow

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// Context is the first parameter of workflow code. It identifies the branch, reports cancellation,
// and carries values and step options. It is not a context.Context.
//
// A Context is valid only in the branch for which it was created, and only while that branch runs.
// The zero Context panics with the reason.
type Context struct {
	b      *replay.Branch
	s      *replay.Scope
	env    *env
	values *value
	steps  *stepOptions
}

// CancelFunc ends a context with ErrCanceled. Further calls do nothing.
type CancelFunc func()

// The reasons why a context ends.
var (
	// ErrCanceled means that the context was canceled. It matches context.Canceled.
	ErrCanceled = replay.ErrCanceled
	// ErrTimeout means that the caller's time limit has passed. It matches
	// context.DeadlineExceeded. A timeout that a callee reports for its own time limit does not
	// match ErrTimeout.
	ErrTimeout = replay.ErrTimeout
)

// value is an element of a linked list, newest first.
type value struct {
	key, val any
	next     *value
}

func (ctx Context) branch() *replay.Branch {
	if ctx.b == nil {
		panic(&replay.MisuseError{Text: "workflow: zero Context: workflow code gets its Context from the runtime; " +
			"start a run with its definition's Start, and branches with workflow.Go"})
	}
	return ctx.b
}

// on returns a copy of the context for another branch, under the same scope.
func (ctx Context) on(b *replay.Branch) Context {
	ctx.b = b
	return ctx
}

// Err returns nil while the context has not ended, then ErrCanceled or
// ErrTimeout.
func (ctx Context) Err() error {
	ctx.branch()
	return ctx.s.Err()
}

// Value returns the value that [WithValue] has set for key, or nil.
func (ctx Context) Value(key any) any {
	for v := ctx.values; v != nil; v = v.next {
		if v.key == key {
			return v.val
		}
	}
	return nil
}

// WithValue returns a context that carries a value. Values do not reach steps or children. The key
// must be comparable and should have its own type.
func WithValue(ctx Context, key, val any) Context {
	ctx.branch()
	ctx.values = &value{key: key, val: val, next: ctx.values}
	return ctx
}

// WithCancel returns a context that ends when ctx does or when cancel is called.
func WithCancel(ctx Context) (Context, CancelFunc) {
	s := ctx.branch().NewScope(ctx.s)
	ctx.s = s
	return ctx, s.Cancel
}

// WithTimeout returns a context that ends with ErrTimeout after d, with the error of ctx when ctx
// ends, or with ErrCanceled when cancel is called. The errors of the operations that it ends
// contain d. The context costs one timer: call cancel as soon as the work under it is done.
func WithTimeout(ctx Context, d time.Duration) (Context, CancelFunc) {
	s := ctx.branch().NewTimeout(ctx.s, d)
	ctx.s = s
	return ctx, s.Cancel
}

// WithDeadline is like [WithTimeout] with a point in time. The errors contain the duration from the
// call until t.
func WithDeadline(ctx Context, t time.Time) (Context, CancelFunc) {
	s := ctx.branch().NewDeadline(ctx.s, t)
	ctx.s = s
	return ctx, s.Cancel
}

// Detached returns a context with the values of ctx that does not end when ctx ends, for cleanup
// after a cancel. Steps under it run even if the run was canceled.
func Detached(ctx Context) Context {
	ctx.s = ctx.branch().NewScope(nil)
	return ctx
}

// WithStepOptions returns a context under which steps are executed with the given options instead
// of those of their directive. Branches inherit the options.
func WithStepOptions(ctx Context, opts ...StepOption) Context {
	ctx.branch()
	merged := stepOptions{}
	if ctx.steps != nil {
		merged = *ctx.steps
	}
	for _, o := range opts {
		o(&merged)
	}
	ctx.steps = &merged
	return ctx
}

// StepOption changes how steps are executed; see [WithStepOptions].
type StepOption func(*stepOptions)

type stepOptions struct {
	retry   *RetryPolicy
	timeout time.Duration
	key     *string
	queue   string // empty: the queue of the directive
}

// Retry replaces the whole retry policy of the directive: zero fields of p have the defaults of
// [RetryPolicy].
func Retry(p RetryPolicy) StepOption { return func(o *stepOptions) { o.retry = &p } }

// AttemptTimeout sets the timeout of an attempt. It panics if d is not positive.
func AttemptTimeout(d time.Duration) StepOption {
	if d <= 0 {
		panic(fmt.Sprintf("workflow: AttemptTimeout(%v): the duration must be positive", d))
	}
	return func(o *stepOptions) { o.timeout = d }
}

// Key replaces the ordinal in the keys of the steps: k identifies the call instead of the number of
// calls before it. A further call with the same key is another step, with an ordinal after the key.
func Key(k string) StepOption { return func(o *stepOptions) { o.key = &k } }

// Queue executes the steps on workers that serve this queue, overriding queue= in the directive.
// Steps on the run's own queue are executed in place. Workers serve a queue that no directive names
// if it is in worker.Config.Queues; while no worker serves it, the step waits. Queue panics if the
// name is empty.
func Queue(name string) StepOption {
	if name == "" {
		panic("workflow: Queue: the name is empty")
	}
	return func(o *stepOptions) { o.queue = name }
}
