package machines_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
)

// mark contains the time and the allocations when a machine has executed a multiple of a thousand
// steps.
type mark struct {
	at            time.Time
	bytes, allocs uint64 // since the start of the process
}

// lap contains the cost of a thousand steps.
type lap struct {
	took          time.Duration
	bytes, allocs uint64
	events, log   int // number of events, and bytes of the log that depend on the machine
}

// TestCONT1_TheLastOfTenThousandStepsCostsWhatTheFirstDid proves that a machine may execute ten
// thousand steps, and that the last thousand cost as much as the second thousand. No store, log or
// decision depends on earlier steps.
func TestCONT1_TheLastOfTenThousandStepsCostsWhatTheFirstDid(t *testing.T) {
	const n = 10_000
	w := flowtest.NewMemory(t)
	marks := map[int]mark{}
	steps := 0
	d := &depot{around: func(t *trip) {
		if steps++; steps%1000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			marks[steps/1000] = mark{time.Now(), m.TotalAlloc, m.Mallocs}
		}
		t.Legs, t.Seen = nil, map[string]int{"loop": 0} // keeps the size of the stored fields constant
		if steps == n {
			t.Km = -1
		}
	}}
	w.Work(worker.Config{}, machineOf(d, 0))
	began := time.Now()
	run := flowtest.Start(w, trips, "loop")
	flowtest.Result(w, run)
	took := time.Since(began)
	laps := make([]lap, n/1000+1)
	begun := 0
	log := w.Log(run)
	for i := range log {
		if log[i].Type == event.StepStarted {
			begun++
		}
		l := &laps[(begun+998)/1000] // the first step is not counted, because it is not a leg
		l.events++
		l.log += len(log[i].Payload) + len(log[i].Key) + len(log[i].Name)
	}
	for i := 2; i <= n/1000; i++ {
		a, b := marks[i-1], marks[i]
		l := &laps[i]
		l.took, l.bytes, l.allocs = b.at.Sub(a.at), b.bytes-a.bytes, b.allocs-a.allocs
		t.Logf("steps to %d: %v, %d allocations and %d bytes each; %d events, %d bytes of the log", i*1000, l.took, l.allocs/1000, l.bytes/1000, l.events, l.log)
	}
	first, last := laps[2], laps[n/1000]
	t.Logf("%d steps: %v, %d events", n, took, len(log))
	if len(log) > 3*(n+1)+3 || last.events > first.events+3 {
		t.Errorf("the log has %d events, of which %d are of the second thousand steps and %d of the last: want 3 for each step", len(log), first.events, last.events)
	}
	for what, of := range map[string][2]int{
		"allocations":      {int(first.allocs), int(last.allocs)},
		"bytes":            {int(first.bytes), int(last.bytes)},
		"bytes of the log": {first.log, last.log},
	} {
		if of[1] > of[0]*5/4 {
			t.Errorf("%s of the second thousand steps: %d, of the last: %d", what, of[0], of[1])
		}
	}
}
