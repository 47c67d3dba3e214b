package redisstore

import (
	"context"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestWatch_UntilEndIsToldOfTheEndByEachScript proves that both scripts that end runs notify a
// Watch: the script for runs without a workflow ID, and the script for all runs.
func TestWatch_UntilEndIsToldOfTheEndByEachScript(t *testing.T) {
	for name, wid := range map[string]string{"finish": "", "commit": "order"} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Shared(t).Client(t)
			g := openGuardedOn(t, client)
			l, fence := g.own(g.session(), wid)
			ctx, cancel := context.WithTimeout(g.ctx, watchCover/3) // less than the interval after which a Watch rechecks
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- g.Watch(ctx, l.Run, store.UntilEnd) }()
			meta := g.partitionOf(l.Run).meta(short(l.Run))
			for !client.HExists(ctx, meta, "y").Val() { // wait until the watch is recorded
				if ctx.Err() != nil {
					t.Fatal("nobody waits for the end")
				}
			}
			c := shapes[scriptFinish](l.Commit(fence, l.End(event.StatusCompleted)...))
			g.check(g.answer(c).Err)
			l.Accept(c)
			if err := <-ended; err != nil {
				t.Errorf("got %v, want to be told", err)
			}
			if err := g.Watch(ctx, l.Run, store.UntilEnd); err != nil {
				t.Errorf("there is nothing to wait for: got %v", err)
			}
		})
	}
}

// TestAwaitStream_IsToldOfTheEndOfARun proves that the end of a run ends an AwaitStream. The short
// script for ends publishes nothing, so it leaves a run with followed streams to the long script.
func TestAwaitStream_IsToldOfTheEndOfARun(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	g := openGuardedOn(t, client)
	l, fence := g.own(g.session(), "")
	ctx, cancel := context.WithTimeout(g.ctx, watchCover/3) // less than the interval after which AwaitStream rechecks
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- g.AwaitStream(ctx, l.Run, "a", 0) }()
	meta := g.partitionOf(l.Run).meta(short(l.Run))
	for !client.HExists(ctx, meta, "Y").Val() { // wait until the follower is recorded
		if ctx.Err() != nil {
			t.Fatal("nobody waits for the stream")
		}
	}
	c := g.shaped(scriptFinish, l, fence)
	g.check(g.answer(c).Err)
	l.Accept(c)
	if err := <-ended; err != nil {
		t.Errorf("got %v, want to be told", err)
	}
}
