package workflow

import (
	"math/rand/v2"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Rand returns the random number generator of the branch. It is seeded from the run's ID and the
// branch, so every replay gets the same numbers; they are not suitable for secrets. If changed code
// draws an additional number, all later numbers of the branch change: open runs are not blocked by
// that, but may decide differently. Use [Record] to keep a number on which a decision depends.
func Rand(ctx Context) *rand.Rand { return ctx.branch().Rand() }

// UUID returns a version 4 UUID that is the same in every replay. It depends on the run, the branch
// and the number of earlier UUIDs of the branch, but not on [Rand]. It is not suitable for secrets.
func UUID(ctx Context) string { return ctx.branch().UUID() }

// Record calls f once, inline, and records its result in the log. Every replay gets the recorded
// value, decoded from its stored form, or the recorded error. f must not block or call durable
// operations: anything that can fail or takes time belongs in a step.
func Record[T any](ctx Context, f func() (T, error)) (T, error) {
	var zero T
	b := ctx.branch()
	b.Gate(ctx.s)
	payload, failed := b.Record(func() ([]byte, *event.Failure) {
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
		return zero, &failure.StoredError{F: failed}
	}
	var v T
	err := decode("recorded value", payload, &v)
	return v, err
}
