package memstore_test

import (
	"fmt"
	"testing"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// startFair creates a run with a fairness key.
func (f *fixture) startFair(key string) {
	f.t.Helper()
	l := storetest.NewLog(&f.ids, f.Clock(), f.ids.Run(f.Clock().Now(), 0), event.Spec{Workflow: route.Workflow, Queue: route.Queue})
	c := l.Create()
	c.Fair = key
	answers, err := f.Create(f.t.Context(), []store.Create{c})
	f.check(err)
	f.check(answers[0].Err)
}

// TestShares_PassesThatAreOverAreForgotten proves that the pass of a key without waiting runs is
// soon removed, even if other keys always have waiting runs.
func TestShares_PassesThatAreOverAreForgotten(t *testing.T) {
	f := open(t, memstore.Config{})
	f.startFair("always")
	for i := range 500 {
		f.startFair("always")
		f.startFair(fmt.Sprint("once ", i))
		f.claim()
		f.claim()
	}
	if n := memstore.Passes(f.Store); n > 100 {
		t.Errorf("%d passes are remembered, of 501 keys, want at most 100", n)
	}
	f.claim()
	if n := memstore.Passes(f.Store); n != 0 {
		t.Errorf("%d passes are remembered while nobody waits", n)
	}
}
