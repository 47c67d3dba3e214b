package workflow

import (
	"encoding/hex"
	"math/rand/v2"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Rand returns the random numbers of the branch. They are seeded from the run's
// id and the branch, so that every replay sees the same; they are not for
// secrets.
func Rand(ctx Context) *rand.Rand { return ctx.branch().Rand() }

// UUID returns a version 4 UUID that is the same in every replay.
func UUID(ctx Context) string {
	r := Rand(ctx)
	var u [16]byte
	for i := 0; i < 16; i += 8 {
		n := r.Uint64()
		for j := range 8 {
			u[i+j] = byte(n >> (8 * j))
		}
	}
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	h := hex.EncodeToString(u[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Record calls f once, inline, and keeps what it returns in the log; every
// replay gets the recorded value, read back from its stored form, or the
// recorded error. f may not block or call durable operations: anything that
// can fail or takes time belongs into a step.
func Record[T any](ctx Context, f func() (T, error)) (T, error) {
	var zero T
	b := ctx.branch()
	b.Gate()
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
