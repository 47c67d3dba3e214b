package redisstore

import (
	"context"
	"errors"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// Two scripts end runs: one those without a workflow id, the other all.
func TestWatchEnd_IsToldOfTheEndByEachScript(t *testing.T) {
	for name, wid := range map[string]string{"finish": "", "commit": "order"} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Shared(t).Client(t)
			g := openGuardedOn(t, client)
			l, fence := g.own(g.session(), wid)
			ctx, cancel := context.WithTimeout(g.ctx, watchCover/3) // by itself it looks later
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- g.WatchEnd(ctx, l.Run) }()
			meta := g.partitionOf(l.Run).meta(short(l.Run))
			for !client.HExists(ctx, meta, "y").Val() { // it is not noted yet that somebody waits
				if ctx.Err() != nil {
					t.Fatal("nobody waits for the end")
				}
			}
			c := g.shapedEnd(l, fence)
			g.check(g.answer(c).Err)
			l.Accept(c)
			if err := <-ended; err != nil {
				t.Errorf("got %v, want the end", err)
			}
			if err := ctx.Err(); errors.Is(err, context.DeadlineExceeded) {
				t.Error("it was not told")
			}
		})
	}
}

// shapedEnd is a commit that ends a run as nearly all end.
func (g *guarded) shapedEnd(l *storetest.Log, fence store.Fence) store.Commit {
	return shapes[scriptFinish](l.Commit(fence, l.End(event.StatusCompleted)...))
}
