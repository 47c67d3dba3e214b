//go:build !race

package sqlitestore

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestOperations_AllocateLittle checks the number of allocations of the operations that each run
// needs while the writer is idle. It includes the requests. Each transaction takes two for the paths
// of the files whose place it checks. The race detector would add its own allocations.
func TestOperations_AllocateLittle(t *testing.T) {
	c := newCountedRuns(t)
	ctx := testContext(t)
	owner := &store.Owner{Session: c.session.ID, Token: event.NewToken()}
	create := func() {
		create := newRun(100)
		create.Owner = owner
		answers, err := c.s.Create(ctx, []store.Create{create})
		check(t, err)
		check(t, answers[0].Err)
		c.held = append(c.held, store.ClaimedRun{Run: create.Run, Fence: answers[0].Fence, N: 1, Last: create.CommitID, Seq: 1})
	}
	create()
	frame := make([]byte, 300)
	commit := func() {
		r := &c.held[0]
		next := store.Commit{Run: r.Run, Fence: r.Fence, Prev: r.Last, CommitID: event.NewCommitID(), Frame: frame, First: r.Seq + 1, Last: r.Seq + 1}
		answers, err := c.s.Commit(ctx, []store.Commit{next})
		check(t, err)
		check(t, answers[0].Err)
		r.Last, r.Seq = next.CommitID, next.Last
	}
	got := map[string]float64{
		"commit": testing.AllocsPerRun(1000, commit),
		"create with an owner, finish": testing.AllocsPerRun(1000, func() {
			create()
			c.held[0], c.held[1] = c.held[1], c.held[0]
			c.finish()
		}),
	}
	for name, most := range map[string]float64{"commit": 9, "create with an owner, finish": 30} {
		if got[name] > most {
			t.Errorf("%s takes %v allocations, want at most %v", name, got[name], most)
		}
	}
}
