package workflow

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// Case is something that [Select] can wait for: a *Future, a *ReceiveCase or a *TimerCase.
type Case interface {
	replayCase(now time.Time) (replay.Case, error)
	won(ctx Context, message *event.Event) error
}

// Select waits until one of the cases is ready and returns that case; compare it with the cases in
// a switch. If several are ready at once, the first in the list wins. Nothing is taken from the
// others. The error is the error of ctx if ctx ends first, or reports a received message that
// cannot be decoded.
func Select(ctx Context, cases ...Case) (Case, error) {
	ctx.branch().Gate(ctx.s)
	now := Now(ctx)
	rc := make([]replay.Case, len(cases))
	for i, c := range cases {
		var err error
		if rc[i], err = c.replayCase(now); err != nil {
			return nil, err
		}
	}
	i, message, err := ctx.branch().Select(ctx.s, rc)
	if err != nil {
		return nil, err
	}
	return cases[i], cases[i].won(ctx, message)
}

func (f *Future[T]) replayCase(time.Time) (replay.Case, error) { //nolint:unparam // the shape of a Case
	return replay.Case{Promise: f.p}, nil
}

func (f *Future[T]) won(Context, *event.Event) error { return nil }

// TimerCase wins a [Select] when its time has come.
type TimerCase struct {
	d   time.Duration
	due time.Time
}

// After returns a case that wins d after the first Select that uses it. It keeps its due time until
// it has won, and then starts over.
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
