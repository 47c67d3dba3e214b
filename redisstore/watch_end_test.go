package redisstore

import (
	"context"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Two scripts end runs: one for runs without a workflow ID, and one for all runs.
func TestWatch_UntilEndIsToldOfTheEndByEachScript(t *testing.T) {
	for name, wid := range map[string]string{"finish": "", "commit": "order"} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Shared(t).Client(t)
			g := openGuardedOn(t, client)
			l, fence := g.own(g.session(), wid)
			ctx, cancel := context.WithTimeout(g.ctx, watchCover/3) // shorter than the interval after which it rechecks
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- g.Watch(ctx, l.Run, store.UntilEnd) }()
			meta := g.partitionOf(l.Run).meta(short(l.Run))
			for !client.HExists(ctx, meta, "y").Val() { // the watch is not recorded yet
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

// The short script for ends publishes nothing: it leaves a run whose streams are awaited to the
// long script.
func TestAwaitStream_IsToldOfTheEndOfARun(t *testing.T) {
	client := redistest.Shared(t).Client(t)
	g := openGuardedOn(t, client)
	l, fence := g.own(g.session(), "")
	ctx, cancel := context.WithTimeout(g.ctx, watchCover/3) // shorter than the interval after which it rechecks
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- g.AwaitStream(ctx, l.Run, "a", 0) }()
	meta := g.partitionOf(l.Run).meta(short(l.Run))
	for !client.HExists(ctx, meta, "Y").Val() { // the follower is not recorded yet
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
