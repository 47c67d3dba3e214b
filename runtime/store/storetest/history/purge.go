package history

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/store"
)

// Purges and deletes in random histories.

// retention draws the retention of a run. The value 0 selects the default, which is longer than a
// history.
func (h *history) retention(t *rapid.T) time.Duration {
	return rapid.SampledFrom([]time.Duration{time.Millisecond, store.Horizon, 4 * time.Minute, 0}).Draw(t, "retention")
}

// drawPurge purges runs in the store, checks that they had the earliest purge times, and purges the
// same runs in the model.
func (h *history) drawPurge(t *rapid.T) {
	limit := rapid.IntRange(0, 4).Draw(t, "limit")
	before := h.m.purges()
	due := 0
	for _, r := range before {
		if !r.purgeTime().After(h.Clock.Now()) {
			due++
		}
	}
	n, next := h.Purge(limit)
	if n < min(limit, due) || n > limit {
		h.Fatalf("number of purged runs: got %d, want %d, and at most %d", n, min(limit, due), limit)
	}
	last := h.forgetPurged(before)
	for _, r := range before {
		if h.m.runs[r.Run] != nil && r.purgeTime().Before(last) {
			h.Fatalf("purge: run %s is left, which was to go at %v, before one of %v", r.Run, r.purgeTime(), last)
		}
	}
	want := time.Time{}
	if still := h.m.purges(); len(still) > 0 {
		want = still[0].purgeTime()
	}
	h.Equal("next purge", next, want)
	h.Equal("number of runs", len(h.present()), len(h.m.runs))
	h.emptied = append(h.emptied, historyRoutes...) // a store may remove the wakes of routes that have no runs
}

// forgetPurged purges in the model the runs that the store has purged, each as soon as nothing
// holds it back. It returns the latest purge time of the purged runs in before, the runs that
// nothing held back before the purge.
func (h *history) forgetPurged(before []*modelRun) (last time.Time) {
	h.Helper()
	left := h.present()
	for again := true; again; {
		again = false
		for _, r := range h.m.purges() {
			if left[r.Run] != 0 || r.purgeTime().After(h.Clock.Now()) {
				continue
			}
			if slices.Contains(before, r) {
				last = r.purgeTime()
			}
			h.m.purge(r)
			again = true
		}
	}
	return last
}

func (h *history) drawDelete(t *rapid.T) {
	l := h.log(t, func(r *modelRun) bool { return r.QueueState == store.StateEnded })
	h.request(t, func() {
		h.sameError("delete", h.Delete(l.Run), h.m.delete(l.Run))
	})
}
