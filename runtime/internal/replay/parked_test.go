package replay

import (
	"runtime"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// memory returns the number of bytes of the live heap and of all stacks.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func TestParked_RunCostsFewKilobytes(t *testing.T) {
	const runs, most = 20_000, 12 << 10
	pool := &Pool{}
	defer pool.Close()
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		doStep(b, s, "p.s", "1")
		_ = b.Sleep(s, t0.Add(time.Hour))
		return done("1")
	}
	before := memory()
	all := make([]*Run, runs)
	for i := range all {
		r := New(testRun, "flow", code, pool)
		all[i] = r
		for _, e := range []event.Event{
			{Type: event.RunCreated, Time: t0, Spec: &event.Spec{Workflow: "p.flow"}},
			{Type: event.RunStarted, Time: t0},
			{Type: event.StepStarted, Ref: 3, Attempt: 1, Time: t0},
			{Type: event.StepCompleted, Ref: 3, Attempt: 1, Time: t0},
		} {
			if err := r.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		r.Take()
	}
	each := (memory() - before) / runs
	t.Logf("a parked run takes %d bytes", each)
	if each > most {
		t.Errorf("a parked run takes %d bytes, want %d at most", each, most)
	}
	for _, r := range all {
		if err := r.Apply(event.Event{Type: event.WaitCompleted, Ref: 6, Outcome: event.OutcomeDue, Time: t0.Add(time.Hour)}); err != nil || !r.Ended() {
			t.Fatalf("a parked run did not go on: %v", err)
		}
	}
}
