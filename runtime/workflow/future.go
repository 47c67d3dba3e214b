package workflow

import (
	"errors"
	"strconv"

	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// None stands for no input or no result.
type None struct{}

// Outcome is a result or an error.
type Outcome[T any] struct {
	Value T
	Err   error
}

// Failed reports whether there is an error.
func (o Outcome[T]) Failed() bool { return o.Err != nil }

// failer is the value of a resolved promise: an Outcome, or the end of a child.
type failer interface{ Failed() bool }

// Future is the result of a branch or child that may not have ended yet.
type Future[T any] struct {
	p    *replay.Promise
	path string
	// read converts the end of a child into its outcome; nil for a branch.
	read func(*replay.Op) Outcome[T]
}

// Go starts f in a new branch and returns its future result. f gets the context of that branch and
// must use no other. Only one branch of a run executes at a time: a branch runs until it waits for
// something durable.
//
// A branch that is still open when the workflow returns is canceled without waiting for it: later
// results of its steps are dropped. A panic in a branch fails the run.
func Go[T any](ctx Context, f func(Context) (T, error)) *Future[T] {
	b := ctx.branch()
	return open(ctx, b.Key("go"), replay.Here(1), f)
}

func open[T any](ctx Context, path string, at *replay.Trace, f func(Context) (T, error)) *Future[T] {
	fut := &Future[T]{p: replay.NewPromise(ctx.s), path: path}
	ctx.branch().Open(path, at, func(nb *replay.Branch) {
		nb.Makes(fut.p)
		v, err := f(ctx.on(nb))
		fut.p.Resolve(Outcome[T]{v, err})
	})
	return fut
}

// GoErr is [Go] for a function that returns only an error.
func GoErr(ctx Context, f func(Context) error) *Future[None] {
	return Go(ctx, func(ctx Context) (None, error) { return None{}, f(ctx) })
}

// Get waits for the result. It may be called any number of times, from any branch. If ctx ends
// first, Get returns the error of ctx; but if the future is being canceled, Get waits for its
// outcome.
func (f *Future[T]) Get(ctx Context) (T, error) {
	var zero T
	if _, err := ctx.branch().Await(ctx.s, f.p, f.what()); err != nil {
		return zero, err
	}
	o := f.outcome()
	return o.Value, o.Err
}

// Done reports whether the result is available.
func (f *Future[T]) Done() bool { return f.p.Done() }

func promises[T any](fs []*Future[T]) []*replay.Promise {
	ps := make([]*replay.Promise, len(fs))
	for i, f := range fs {
		ps[i] = f.p
	}
	return ps
}

// gather waits until all futures have ended, or until stop returns true for one. It returns the
// index of that future, or -1.
func gather[T any](ctx Context, fs []*Future[T], stop func(failed bool) bool) (int, error) {
	g := replay.NewGather(promises(fs), func(_ int, v any) bool {
		return stop != nil && stop(v.(failer).Failed())
	})
	v, err := ctx.branch().Await(ctx.s, &g.Promise, strconv.Itoa(len(fs))+" branches")
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
// error at once, the first one in the order of the log. The other futures continue: All cancels
// none of them.
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

// Settled waits until all futures have ended, with or without an error, and returns their outcomes
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

// errNoFutures is the error of a race without participants.
var errNoFutures = errors.New("workflow: no futures were given")

// First waits for the first future to end, with or without an error, and returns its outcome. Every
// replay returns the same one. The other futures continue: a losing branch that waits for a message
// or payload takes the next one, and no caller gets it. To wait for several topics, hooks and times
// at once use [Select], whose losing cases take nothing, or end the losers with the CancelFunc of
// [WithCancel]. Package workflowtest reports such losers.
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

// Any waits for the first future to succeed and returns its result. If all fail, the error joins
// theirs in order.
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
