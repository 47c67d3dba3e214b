package replay

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func begin(t *testing.T, code Program) *Run {
	t.Helper()
	r := New("wrun_01JGFJJZ00000000000000000A", "flow", code, &Pool{})
	for _, e := range []event.Event{
		{Type: event.RunCreated, Time: t0, Spec: &event.Spec{Workflow: "p.flow"}},
		{Type: event.RunStarted, Time: t0},
	} {
		if err := r.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func TestClose_UnwindsCodeThatRecoversPanics(t *testing.T) {
	var deferred int
	r := begin(t, func(b *Branch, s *Scope, in []byte) Ending {
		for i := range 3 {
			b.Open(b.Key("go"), func(b *Branch) {
				defer func() {
					deferred++
					_ = recover()
					_ = b.Sleep(s, t0.Add(time.Hour))
					t.Error("a durable call returned while the run was unwound")
				}()
				_ = b.Sleep(s, t0.Add(time.Duration(i+1)*time.Hour))
			})
		}
		_, _ = b.Receive(s, "never", time.Time{})
		return Ending{Type: event.RunCompleted}
	})
	if r.Err() != nil || r.Ended() {
		t.Fatal(r.Err(), r.Ended())
	}
	if got := len(r.Take()); got != 2+4 {
		t.Errorf("got %d events, want 6", got)
	}
	r.Close()
	if deferred != 3 {
		t.Errorf("got %d deferred calls, want 3", deferred)
	}
	r.pool.Close()
}
