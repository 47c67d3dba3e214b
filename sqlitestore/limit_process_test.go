package sqlitestore_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// TestClaim_ExecutesWhatAKilledProcessHeldWithinTheLimit proves that permits need no lease of their
// own. They are released with the runs of the killed process, and the same runs receive them first,
// because the runs keep their positions.
func TestClaim_ExecutesWhatAKilledProcessHeldWithinTheLimit(t *testing.T) {
	const capacity = 3
	path := filepath.Join(t.TempDir(), "runs.db")
	s := openStore(t, path, nil)
	gpu := part("gpu", "")
	check(t, s.SetLimits(testContext(t), 0, []store.SetLimit{{LimitID: gpu, Config: store.LimitConfig{AtOnce: capacity}}}))
	logs := map[event.RunID]*storetest.Log{}
	var held []event.RunID
	for i := range 12 {
		l := newLog(s.Clock())
		c := l.Create()
		c.Uses, c.Whole = []store.Use{{LimitID: gpu, Weight: 1}}, i%2 == 0
		create(t, s, []store.Create{c})
		if logs[l.Run] = l; i < capacity {
			held = append(held, l.Run)
		}
	}
	holder := startHolder(t, path, capacity)
	openSession(t, s, "successor")
	if got := claim(t, s, "successor", len(logs)); len(got) != 0 {
		t.Fatalf("claimed %d runs while another process has all permits", len(got))
	}
	holder.kill()

	var executed []event.RunID
	for len(executed) < len(logs) {
		got := claim(t, s, "successor", len(logs))
		if l := verify(t, s).Limits[gpu]; len(got) != capacity || l.Held != capacity {
			t.Fatalf("claimed %d runs after %d, and %d permits are held, want %d", len(got), len(executed), l.Held, capacity)
		}
		for _, r := range got {
			l := logs[r.Run]
			c := l.Commit(r.Fence, l.End(event.StatusCompleted)...)
			c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
			answers, err := s.Commit(testContext(t), []store.Commit{c})
			check(t, err)
			check(t, answers[0].Err)
			executed = append(executed, r.Run)
		}
	}
	slices.Sort(held)
	if diff := cmp.Diff(held, slices.Sorted(slices.Values(executed[:capacity]))); diff != "" {
		t.Errorf("runs that were executed first (-want those of the dead process +got)\n%s", diff)
	}
	if snap := verify(t, s); snap.Limits[gpu].Held != 0 || len(snap.Waiting) != 0 {
		t.Errorf("in the end %d permits are held, and %d lines wait", snap.Limits[gpu].Held, len(snap.Waiting))
	}
}
