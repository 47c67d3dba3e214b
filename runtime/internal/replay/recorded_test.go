package replay

import (
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// A limit that is computed from what is no part of the log may come out differently
// in a replay: the one that is recorded counts.
func TestDeadline_IsTheOneOfTheLog(t *testing.T) {
	after := time.Minute
	var told time.Time
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		limited := b.NewDeadline(s, t0.Add(after))
		op := b.Step(limited, "p.slow", b.Key("p.slow"), nil, nil, func([]byte) string { return "" })
		told = op.Deadline()
		b.AwaitStep(op)
		return done("")
	}
	h := begin(t, code)
	want := told
	h.complete(h.start(), "1")
	after = time.Hour
	h.replay(code)
	if !told.Equal(want) || want.IsZero() {
		t.Errorf("deadline of the step in the replay: got %v, want %v", told, want)
	}
}

func TestMismatch_OfTheReceiverOfAMessageIsNoticed(t *testing.T) {
	to := event.NewRunID(t0, 1)
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		_ = b.Send(s, "topic", b.Key("topic"), to, "item", []byte("1"), func([]byte) string { return "" })
		return done("")
	}
	h := begin(t, code)
	other := event.NewRunID(t0, 2)
	to = other
	m := h.mismatch(code)
	wantText(t, m.Error(), "asks for it with other data", string(other))
	if !errors.As(error(m), new(*MismatchError)) {
		t.Errorf("got %v", m)
	}
}
