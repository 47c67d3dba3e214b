package workflow

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// None is the type of an input or result of a workflow that has none.
type None struct{}

// Outcome is a result or an error.
type Outcome[T any] struct {
	Value T
	Err   error
}

// Failed reports whether Err is not nil.
func (o Outcome[T]) Failed() bool { return o.Err != nil }

// failer is the value of a resolved promise: an Outcome, or the end of a child.
type failer interface{ Failed() bool }

// Future is the result of a branch or of a child. It becomes available when the branch or child has
// ended.
type Future[T any] struct {
	p    *replay.Promise
	path string
	// read converts the end of a child into its outcome. It is nil for a branch.
	read func(*replay.Op) Outcome[T]
}

// Go starts f in a new branch and returns its future result. f receives the context of that branch
// and must not use another context. Only one branch of a run executes at a time. A branch executes
// until it waits for a durable operation.
//
// If a branch is open when the workflow returns, the branch is canceled, and the run does not wait
// for it. Later results of its steps are dropped. A panic in a branch fails the run.
func Go[T any](ctx Context, f func(Context) (T, error)) *Future[T] {
	return open(ctx, ctx.branch().Key("go"), replay.Here(1), f)
}

func open[T any](ctx Context, path string, at *replay.Trace, f func(Context) (T, error)) *Future[T] {
	return &Future[T]{path: path, p: flow.Context(ctx).Open(path, at, func(ctx flow.Context) any {
		v, err := f(Context(ctx))
		return Outcome[T]{v, err}
	})}
}

// GoErr is [Go] for a function that returns only an error.
func GoErr(ctx Context, f func(Context) error) *Future[None] {
	return Go(ctx, func(ctx Context) (None, error) { return None{}, f(ctx) })
}

// Get waits for the result. It may be called several times and from any branch. If ctx ends first,
// Get returns the error of ctx. If the branch or child is being canceled, Get waits until it has
// ended.
func (f *Future[T]) Get(ctx Context) (T, error) {
	var zero T
	if _, err := ctx.branch().Await(ctx.scope(), f.p, f.what()); err != nil {
		return zero, err
	}
	o := f.outcome()
	return o.Value, o.Err
}

// Done reports whether the result is available.
func (f *Future[T]) Done() bool { return f.p.Done() }

// gather waits until all futures have ended, or until stop returns true for one of them. It returns
// the index of that future, or -1.
func gather[T any](ctx Context, fs []*Future[T], stop func(failed bool) bool) (int, error) {
	promises := make([]*replay.Promise, len(fs))
	for i, f := range fs {
		promises[i] = f.p
	}
	g := replay.NewGather(promises, func(_ int, v any) bool {
		return stop != nil && stop(v.(failer).Failed())
	})
	v, err := ctx.branch().Await(ctx.scope(), &g.Promise, strconv.Itoa(len(fs))+" branches")
	if err != nil {
		return -1, err
	}
	return v.(int), nil
}

func (f *Future[T]) outcome() Outcome[T] {
	if op, child := f.p.Value().(*replay.Op); child {
		return f.read(op)
	}
	return f.p.Value().(Outcome[T])
}

func (f *Future[T]) what() string {
	if f.read != nil {
		return "child " + f.path
	}
	return "branch " + f.path
}

// All waits for all futures and returns their results in order. If a future fails, All returns its
// error at once. If several have failed, it returns the error of the first in the order of the log.
// All does not cancel the other futures.
func All[T any](ctx Context, fs ...*Future[T]) ([]T, error) {
	i, err := gather(ctx, fs, func(failed bool) bool { return failed })
	if err != nil {
		return nil, err
	}
	if i >= 0 {
		return nil, fs[i].outcome().Err
	}
	all := make([]T, len(fs))
	for i, f := range fs {
		all[i] = f.outcome().Value
	}
	return all, nil
}

// Settled waits until all futures have ended, with or without an error. It returns their outcomes
// in order. If ctx ends first, the outcome of each open future is the error of ctx.
func Settled[T any](ctx Context, fs ...*Future[T]) []Outcome[T] {
	_, err := gather(ctx, fs, nil)
	all := make([]Outcome[T], len(fs))
	for i, f := range fs {
		if f.Done() {
			all[i] = f.outcome()
		} else {
			all[i].Err = err
		}
	}
	return all
}

var errNoFutures = errors.New("workflow: no futures were given")

// First waits for the first future to end, with or without an error, and returns its outcome. Every
// replay returns the same outcome.
//
// The other futures continue. If the branch of such a future waits for a message or payload, it
// receives the next one, and no caller receives its result. Package workflowtest reports such
// branches. To wait for several topics, hooks and times at once, use [Select], whose other cases
// receive nothing. Or end the other branches with the CancelFunc of [WithCancel].
func First[T any](ctx Context, fs ...*Future[T]) (T, error) {
	var zero T
	if len(fs) == 0 {
		return zero, errNoFutures
	}
	i, err := gather(ctx, fs, func(bool) bool { return true })
	if err != nil {
		return zero, err
	}
	o := fs[i].outcome()
	return o.Value, o.Err
}

// Any waits for the first future to succeed and returns its result. If all futures fail, the error
// joins their errors in order.
func Any[T any](ctx Context, fs ...*Future[T]) (T, error) {
	var zero T
	if len(fs) == 0 {
		return zero, errNoFutures
	}
	i, err := gather(ctx, fs, func(failed bool) bool { return !failed })
	if err != nil {
		return zero, err
	}
	if i >= 0 {
		return fs[i].outcome().Value, nil
	}
	errs := make([]error, len(fs))
	for i, f := range fs {
		errs[i] = f.outcome().Err
	}
	return zero, errors.Join(errs...)
}

// MapOption is an option of Map, MapSettled and ForEach.
type MapOption func(*mapOptions)

type mapOptions struct{ limit int }

// Limit sets the maximum number of items that are processed at the same time. 0 means no maximum.
// Limit panics if n is negative.
func Limit(n int) MapOption {
	if n < 0 {
		panic(fmt.Sprintf("workflow: Limit(%d): the number must not be negative", n))
	}
	return func(o *mapOptions) { o.limit = n }
}

// Map calls f for each item, each in its own branch, and returns the results in the order of the
// items. If a call of f fails, Map cancels the other branches, waits for them and returns the first
// error. f may be a generated step function.
func Map[A, B any](ctx Context, items []A, f func(Context, A) (B, error), opts ...MapOption) ([]B, error) {
	ctx, cancel := WithCancel(ctx)
	defer cancel()
	var first error
	results := fan(ctx, items, f, func(o Outcome[B]) bool {
		if o.Err != nil && first == nil {
			first = o.Err
			cancel()
		}
		return first == nil
	}, opts)
	if first != nil {
		return nil, first
	}
	all := make([]B, len(results))
	for i, o := range results {
		if o.Err != nil {
			return nil, o.Err
		}
		all[i] = o.Value
	}
	return all, nil
}

// MapSettled is like [Map], but it cancels no branch and returns the outcome of each item.
func MapSettled[A, B any](ctx Context, items []A, f func(Context, A) (B, error), opts ...MapOption) []Outcome[B] {
	return fan(ctx, items, f, func(Outcome[B]) bool { return true }, opts)
}

// ForEach is like [Map], for a function that returns only an error.
func ForEach[A any](ctx Context, items []A, f func(Context, A) error, opts ...MapOption) error {
	_, err := Map(ctx, items, func(ctx Context, a A) (None, error) { return None{}, f(ctx, a) }, opts...)
	return err
}

// fan calls f for each item and waits for all branches that were begun. After each item it calls
// next, which reports whether another item may begin.
func fan[A, B any](ctx Context, items []A, f func(Context, A) (B, error), next func(Outcome[B]) bool, opts []MapOption) []Outcome[B] {
	if len(items) == 0 {
		return nil
	}
	base := ctx.branch().Key("map") + "."
	results := make([]Outcome[B], len(items))
	futures := make([]*Future[None], 0, len(items))
	more, at := true, replay.Here(0)
	// A lane processes one item at a time. When the branch of an item ends, it opens the next
	// branch of its lane. Therefore each item has its own path and key.
	var begin func(ctx Context)
	begin = func(ctx Context) {
		i := len(futures)
		futures = append(futures, open(ctx, base+strconv.Itoa(i+1), at, func(ctx Context) (None, error) {
			v, err := f(ctx, items[i])
			results[i] = Outcome[B]{v, err}
			more = next(results[i]) && more
			if more && len(futures) < len(items) {
				begin(ctx)
			}
			return None{}, nil
		}))
	}
	for range min(cmp.Or(optionsOf(opts).limit, len(items)), len(items)) {
		begin(ctx)
	}
	// All branches end at the latest when ctx ends, so this loop waits for all of them.
	for i := 0; i < len(futures); i++ { //nolint:intrange // futures grows while the loop waits
		_, _ = futures[i].Get(ctx)
	}
	for i := len(futures); i < len(items); i++ {
		results[i].Err = ErrCanceled
	}
	return results
}

// Case is an event for which [Select] can wait: a *Future, a *ReceiveCase or a *TimerCase.
type Case interface {
	replayCase(now time.Time) (replay.Case, error)
	won(ctx Context, message *event.Event) error
}

// Select waits until one of the cases is ready and returns that case. Compare the result with the
// cases in a switch. If several cases are ready, Select returns the first one of the arguments. The
// other cases receive nothing. The error is the error of ctx if ctx ends first, or reports a
// received message that cannot be decoded.
func Select(ctx Context, cases ...Case) (Case, error) {
	b := ctx.gate()
	now := b.Now()
	rc := make([]replay.Case, len(cases))
	for i, c := range cases {
		var err error
		if rc[i], err = c.replayCase(now); err != nil {
			return nil, err
		}
	}
	i, message, err := b.Select(ctx.scope(), rc)
	if err != nil {
		return nil, err
	}
	return cases[i], cases[i].won(ctx, message)
}

func (f *Future[T]) replayCase(time.Time) (replay.Case, error) { //nolint:unparam // the shape of a Case
	return replay.Case{Promise: f.p}, nil
}

func (f *Future[T]) won(Context, *event.Event) error { return nil }

// TimerCase is a case of a [Select] that is ready at a due time.
type TimerCase struct {
	d   time.Duration
	due time.Time
}

// After returns a case that is ready d after the first Select that uses it. The due time stays the
// same until a Select returns the case. The next Select sets a new due time.
func After(d time.Duration) *TimerCase { return &TimerCase{d: d} }

func (t *TimerCase) replayCase(now time.Time) (replay.Case, error) {
	if t.due.IsZero() {
		t.due = now.Add(t.d)
	}
	return replay.Case{Due: t.due}, nil
}

func (t *TimerCase) won(Context, *event.Event) error {
	t.due = time.Time{}
	return nil
}
