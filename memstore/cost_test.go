package memstore_test

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// TestOperations_AllocateLittle checks the number of allocations of each operation. It includes the
// allocations for a run, a record and an item, and for the slices of requests and results.
func TestOperations_AllocateLittle(t *testing.T) {
	f := open(t, memstore.Config{})
	l := f.start(0)
	c := store.Commit{Run: l.Run, Fence: f.claim(), Prev: l.Last, CommitID: l.Last, Last: l.State.Seq}
	asked := make([]store.Commit, 1)
	frame := []byte{1}
	commit := func(change func(c *store.Commit)) {
		c.Prev, c.CommitID, c.Frame, c.First, c.Last = c.CommitID, event.CommitID{byte(c.Last), byte(c.Last >> 8), 1}, frame, c.Last+1, c.Last+1
		asked[0] = c
		change(&asked[0])
		answers, err := f.Commit(t.Context(), asked)
		f.check(err)
		f.check(answers[0].Err)
	}
	deliver := func() {
		_, err := f.Deliver(t.Context(), store.Deliver{Run: l.Run, Item: store.Item{ID: f.ids.Item()}})
		f.check(err)
	}
	claim := func() {
		got, err := f.Claim(t.Context(), store.Claim{Session: f.session, Token: event.Token{1}, Routes: []store.Route{route}, Max: 1})
		f.check(err)
		c.Fence = got.Runs[0].Fence
	}
	due := time.Now().Add(time.Hour)
	got := map[string]float64{
		"usual commit": testing.AllocsPerRun(1000, func() { commit(func(*store.Commit) {}) }),
		"status":       testing.AllocsPerRun(1000, func() { commit(func(c *store.Commit) { c.Status = event.StatusRunning }) }),
		"yield, claim": testing.AllocsPerRun(1000, func() {
			commit(func(c *store.Commit) { c.Effect = store.EffectYield })
			claim()
		}),
		"park, claim run": testing.AllocsPerRun(1000, func() {
			commit(func(c *store.Commit) { c.Effect, c.Due = store.EffectPark, due })
			got, err := f.ClaimRun(t.Context(), 0, f.session, event.Token{1}, l.Run)
			f.check(err)
			c.Fence = got.Fence
		}),
		"deliver": testing.AllocsPerRun(1000, deliver),
	}
	for name, most := range map[string]float64{"usual commit": 1, "status": 1, "yield, claim": 3, "park, claim run": 1, "deliver": 1} {
		if got[name] > most+slack {
			t.Errorf("%s takes %v allocations, want at most %v", name, got[name], most+slack)
		}
	}
}

// TestLimits_AllocateNothingForRunsThatUseNone checks that runs without limits cost the same,
// however many other runs of the same route wait for limits.
func TestLimits_AllocateNothingForRunsThatUseNone(t *testing.T) {
	got := map[int]float64{}
	for _, limited := range []int{0, 100} {
		f := open(t, memstore.Config{})
		f.check(f.SetLimits(t.Context(), 0, []store.SetLimit{{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1}}}))
		for range limited {
			l := storetest.NewLog(&f.ids, f.Clock(), f.ids.Run(f.Clock().Now(), 0), event.Spec{Workflow: route.Workflow, Queue: route.Queue})
			c := l.Create()
			c.Uses = []store.Use{{LimitID: store.LimitID{Name: "gpu"}, Weight: 1}}
			_, err := f.Create(t.Context(), []store.Create{c})
			f.check(err)
		}
		claims := func(most int) []store.ClaimedRun {
			claimed, err := f.Claim(t.Context(), store.Claim{Session: f.session, Token: event.Token{1}, Routes: []store.Route{route}, Max: most})
			f.check(err)
			return claimed.Runs
		}
		claims(limited) // one run holds the permit, and all others wait in the limiter queue
		l := f.start(0)
		c := store.Commit{Run: l.Run, Fence: f.claim(), Prev: l.Last, CommitID: l.Last, Last: l.State.Seq, Effect: store.EffectYield}
		asked, frame := make([]store.Commit, 1), []byte{1}
		got[limited] = testing.AllocsPerRun(1000, func() {
			c.Prev, c.CommitID, c.Frame, c.First, c.Last = c.CommitID, event.CommitID{byte(c.Last), byte(c.Last >> 8), 1}, frame, c.Last+1, c.Last+1
			asked[0] = c
			answers, err := f.Commit(t.Context(), asked)
			f.check(err)
			f.check(answers[0].Err)
			c.Fence = claims(1)[0].Fence
		})
	}
	if got[100] > got[0]+slack {
		t.Errorf("to yield and be claimed takes %v allocations beside 100 that wait for a limit, and %v without", got[100], got[0])
	}
}
