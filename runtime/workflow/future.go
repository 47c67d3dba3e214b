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

// failer resolves a promise: an Outcome, or the end of a child.
type failer interface{ Failed() bool }

// Future is the result of a branch or a child that may not have ended yet.
type Future[T any] struct {
	p    *replay.Promise
	path string
	// read turns the end of a child into its outcome; nil for a branch.
	read func(*replay.Op) Outcome[T]
}

// Go starts f in a branch of its own and returns its result to come. f gets the
// context of that branch, and uses no other. The branches of a run take turns:
// one runs until it waits for something durable.
//
// A branch that is still open when the workflow returns is canceled, and not
// waited for: what its steps still return is dropped. A panic in a branch fails
// the run.
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

// Get waits for the result. It may be called any number of times, from any
// branch. If ctx ends first it returns the error of ctx; but a future that is
// itself being canceled is waited for, so that its outcome decides.
func (f *Future[T]) Get(ctx Context) (T, error) {
	var zero T
	if _, err := ctx.branch().Await(ctx.s, f.p, f.what()); err != nil {
		return zero, err
	}
	o := f.outcome()
	return o.Value, o.Err
}

// Done reports whether the result is there.
func (f *Future[T]) Done() bool { return f.p.Done() }

func promises[T any](fs []*Future[T]) []*replay.Promise {
	ps := make([]*replay.Promise, len(fs))
	for i, f := range fs {
		ps[i] = f.p
	}
	return ps
}

// gather waits until all futures have ended, or until stop says that one is
// enough; then its index is the result, -1 otherwise.
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

// All waits for all futures and returns their results in order. The first one
// to fail, in the order of the log, ends the wait with its error; the others go
// on: All cancels none of them.
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

// Settled waits until all futures have ended, well or badly, and returns their
// outcomes in order. A future that had not ended when ctx did has the error of
// ctx.
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

// First waits for the first future to end, well or badly, and returns its
// outcome. The winner is the same in every replay. The others go on: a loser that
// waits for a message or a payload takes the next one, and no caller gets it. To wait for
// several topics, hooks and times at once use [Select], whose losers take nothing, or end
// the losers by the CancelFunc of a [WithCancel]. Package workflowtest warns of such losers.
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

// Any waits for the first future to succeed and returns its result. If all
// fail, the error is all of theirs, joined in order.
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
