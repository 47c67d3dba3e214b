package workflow

import (
	"math/rand/v2"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Rand returns the random numbers of the branch. They are seeded from the run's
// id and the branch, so that every replay sees the same; they are not for
// secrets. Code that draws one number more gets others for all that follow in the
// branch: a run under way is then not blocked, but may decide otherwise. Where a number
// decides something, keep it with [Record].
func Rand(ctx Context) *rand.Rand { return ctx.branch().Rand() }

// UUID returns a version 4 UUID that is the same in every replay. It depends on the
// run, the branch and how many UUIDs the branch has asked for before, and not on what
// was drawn from [Rand]; it is not for secrets.
func UUID(ctx Context) string { return ctx.branch().UUID() }

// Record calls f once, inline, and keeps its result in the log; every
// replay gets the recorded value, read back from its stored form, or the
// recorded error. f must not block or call durable operations: anything that
// can fail or takes time belongs in a step.
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
