package workflow

import (
	"fmt"
	"strconv"

	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// MapOption is an option of Map, MapSettled and ForEach.
type MapOption func(*mapOptions)

type mapOptions struct{ limit int }

// Limit bounds how many items are processed at once; 0: no bound. It panics if n is negative.
func Limit(n int) MapOption {
	if n < 0 {
		panic(fmt.Sprintf("workflow: Limit(%d): the number must not be negative", n))
	}
	return func(o *mapOptions) { o.limit = n }
}

// Map calls f for each item, each in its own branch, and returns the results in the order of the
// items. The first failure cancels the other branches; Map waits for them and returns that failure.
// f may be a generated step function.
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

// MapSettled is like [Map] but cancels nothing: it returns the outcome of each item.
func MapSettled[A, B any](ctx Context, items []A, f func(Context, A) (B, error), opts ...MapOption) []Outcome[B] {
	return fan(ctx, items, f, func(Outcome[B]) bool { return true }, opts)
}

// ForEach is like [Map], for a function that returns only an error.
func ForEach[A any](ctx Context, items []A, f func(Context, A) error, opts ...MapOption) error {
	_, err := Map(ctx, items, func(ctx Context, a A) (None, error) { return None{}, f(ctx, a) }, opts...)
	return err
}

// fan runs f for each item and waits for all branches that were begun. After each item it calls
// next, which reports whether to begin another one.
func fan[A, B any](ctx Context, items []A, f func(Context, A) (B, error), next func(Outcome[B]) bool, opts []MapOption) []Outcome[B] {
	var o mapOptions
	for _, opt := range opts {
		opt(&o)
	}
	if len(items) == 0 {
		return nil
	}
	base := ctx.branch().Key("map") + "."
	results := make([]Outcome[B], len(items))
	futures := make([]*Future[None], 0, len(items))
	more, at := true, replay.Here(0)
	// A lane processes one item at a time; the branch of an item opens the next branch of its lane
	// when it ends, so that each item has its own path and key.
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
	lanes := len(items)
	if o.limit > 0 {
		lanes = min(o.limit, lanes)
	}
	for range lanes {
		begin(ctx)
	}
	// The branches end when the context does, so the loop waits for their outcomes.
	for i := 0; i < len(futures); i++ { //nolint:intrange // futures grows while the loop waits
		_, _ = futures[i].Get(ctx)
	}
	for i := len(futures); i < len(items); i++ {
		results[i].Err = ErrCanceled
	}
	return results
}
