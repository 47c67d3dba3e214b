package worker

import (
	"testing"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestREC11_APlaceThatAClaimAsksForIsGivenToNobodyElse proves that slots of a bounded queue which a
// claim in flight has requested are reserved. A run that is started on the worker is not admitted
// to such a slot, and another claim requests only the remaining slots.
func TestREC11_APlaceThatAClaimAsksForIsGivenToNobodyElse(t *testing.T) {
	st := memstore.New()
	defer st.Close()
	r := newRuns(&env{cfg: Config{AtOnce: map[string]int{"narrow": 2}, Runs: 10}, store: st})
	r.setBehind(0, false)
	admitted := func(queue string) (loops int) {
		claim := &runloop.Claim{ClaimedRun: store.ClaimedRun{Route: store.Route{Queue: queue, Workflow: "orders.fulfil"}}}
		r.admit(claim, func() *inputs {
			loops++
			return &inputs{id: event.NewRunID(st.Clock().Now(), 0), ready: newQueue[runnable]()} // no executor pops the queue, so posted inputs are never handled
		})
		return loops
	}
	first, answered := r.promise("narrow", 1)
	second, alsoAnswered := r.promise("narrow", 5)
	if first != 1 || second != 1 || admitted("narrow") != 0 {
		t.Errorf("claims ask for %d and %d places of 2, and a start is given one all the same", first, second)
	}
	if third, done := r.promise("narrow", 5); third != 0 {
		t.Errorf("a third claim asks for %d places, want none", third)
	} else {
		done()
	}
	answered()
	alsoAnswered()
	if admitted("wide") != 1 {
		t.Error("a start of a queue without a bound is not admitted: the test proves nothing")
	}
	if again, done := r.promise("narrow", 5); again != 2 {
		t.Errorf("after the answers a claim asks for %d places, want 2", again)
	} else {
		done()
	}
	if wide, done := r.promise("wide", 5); wide != 5 {
		t.Errorf("a claim of a queue without a bound asks for %d places, want 5", wide)
	} else {
		done()
	}
}
