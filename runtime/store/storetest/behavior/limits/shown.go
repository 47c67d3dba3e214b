package limits

import (
	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// turns returns the states of parts of limits, each with the first run that waits at it.
func (h *harness) turns(ids ...store.LimitID) []store.Turn {
	h.Helper()
	r, _ := store.As[store.TurnReader](h.Store)
	all, err := r.Turns(h.Ctx, 0, ids)
	h.Check("read turns", err)
	return all
}

var shownBehaviors = []behavior{
	{"TurnsReportPartsAsTheyStandAndTheFirstRunOfEach", func(h *harness) {
		big, free := store.LimitID{Name: "tenant", Key: "big"}, store.LimitID{Name: "free"}
		h.SetLimits(
			store.SetLimit{LimitID: store.LimitID{Name: "tenant"}, Config: store.LimitConfig{AtOnce: 3}},
			store.SetLimit{LimitID: big, Config: store.LimitConfig{AtOnce: 3, Paused: true}},
			store.SetLimit{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1}},
		)
		s := h.Session()
		h.one(s, h.Start(using("gpu")))
		logs := h.starts(2, using("gpu"))
		held := h.Start(func(c *store.Create) { c.Uses = []store.Use{{LimitID: big, Weight: 2}} })
		h.nothing("while one limit is full and the other one is paused", s)
		got := h.turns(free, big, store.LimitID{Name: "gpu"})
		want := []store.Turn{
			{LimitState: store.LimitState{LimitID: free}},
			{LimitState: store.LimitState{LimitID: big, Config: store.LimitConfig{AtOnce: 3, Paused: true}, Set: true, Waits: 2}, First: held.Run},
			{LimitState: store.LimitState{LimitID: store.LimitID{Name: "gpu"}, Config: store.LimitConfig{AtOnce: 1}, Set: true, Held: 1, Waits: 2}, First: logs[0].Run},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			h.Errorf("turns (-want +got):\n%s", diff)
		}
	}},
	{"ARunWaitsAtTheLastLimitAtWhichItsLineCounts", func(h *harness) {
		id := func(name, key string) store.LimitID { return store.LimitID{Name: name, Key: key} }
		open := store.LimitConfig{AtOnce: 2}
		uses := []store.Use{{LimitID: id("all", ""), Weight: 1}, {LimitID: id("tenant", "big"), Weight: 1}, {LimitID: id("zone", ""), Weight: 1}}
		const self, other event.RunID = "run_self", "run_other"
		for name, tc := range map[string]struct {
			change func(all []store.Turn)
			at     int // index of the use at which the run waits; -1 if it waits at none
		}{
			"nothing":                             {func([]store.Turn) {}, -1},
			"it is first":                         {func(all []store.Turn) { all[0].First = self }, -1},
			"a limit is full":                     {func(all []store.Turn) { all[2].Held = 2 }, 2},
			"two are full: the one with keys":     {func(all []store.Turn) { all[0].Held, all[1].Held = 2, 2 }, 1},
			"a later one is paused":               {func(all []store.Turn) { all[0].Held, all[2].Config.Paused = 2, true }, 2},
			"another run keeps its turn":          {func(all []store.Turn) { all[0].First = other }, 0},
			"room is missing behind another turn": {func(all []store.Turn) { all[1].First, all[2].Held = other, 2 }, 1},
		} {
			all := make([]store.Turn, len(uses))
			for i := range all {
				all[i].LimitState = store.LimitState{LimitID: uses[i].LimitID, Config: open}
			}
			tc.change(all)
			at, ok := store.WaitsAt(self, uses, all)
			if !ok {
				at = -1
			}
			h.Equal("where it waits: "+name, at, tc.at)
		}
	}},
}
