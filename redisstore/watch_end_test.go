package redisstore

import (
	"context"
	"math"
	"slices"
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

// TestCost_AFrameIsPublishedOnlyToWatchersOfFrames proves that a Watch until the end makes no script
// publish other frames, and that it keeps no Watch for a frame from its notification.
func TestCost_AFrameIsPublishedOnlyToWatchersOfFrames(t *testing.T) {
	for _, of := range []*script{scriptAppend, scriptCommit} {
		t.Run(of.name, func(t *testing.T) {
			client := redistest.Shared(t).Client(t)
			g := openGuardedOn(t, client)
			ctx, cancel := context.WithTimeout(g.ctx, watchCover/3) // less than the interval after which a Watch rechecks
			defer cancel()
			session := g.session()
			l, fence := g.own(session, "")
			p := g.partitionOf(l.Run)
			published := client.Subscribe(ctx, p.frames(short(l.Run)))
			defer published.Close()
			_, err := published.Receive(ctx) // the confirmation of the subscription
			g.check(err)
			messages := func() (all []string) {
				for g.check(client.Publish(ctx, p.frames(short(l.Run)), "last").Err()); ; {
					m, err := published.ReceiveMessage(ctx)
					g.check(err)
					if m.Payload == "last" {
						return all
					}
					all = append(all, m.Payload)
				}
			}
			watch := func(n uint64, recorded func(till float64) bool) (done chan error) {
				done = make(chan error, 1)
				go func() { done <- g.Watch(ctx, l.Run, n) }()
				for {
					till, err := client.HGet(ctx, p.meta(short(l.Run)), "y").Float64()
					if err == nil && recorded(till) {
						return done
					}
					if ctx.Err() != nil {
						t.Fatal("no watcher is recorded")
					}
				}
			}
			commit := func(s *script) {
				c := g.shaped(s, l, fence)
				g.check(g.answer(c).Err)
				l.Accept(c)
				if s == scriptCommit { // the commit has made the run ready
					got, err := g.ClaimRun(ctx, 0, session, g.ids.Token(), l.Run)
					g.check(err)
					fence = got.Fence
				}
			}
			ofFrames := func(till float64) bool { return till == math.Trunc(till) }
			ended := watch(store.UntilEnd, func(till float64) bool { return !ofFrames(till) })
			commit(of)
			if got := messages(); got != nil {
				t.Errorf("a frame is published as %q although all watchers wait for the end", got)
			}
			frame := watch(2, ofFrames) // two frames are there
			other := watch(store.UntilEnd, ofFrames)
			commit(of)
			g.check(<-frame)
			if got := messages(); !slices.Equal(got, []string{"3"}) {
				t.Errorf("a frame is published as %q, want 3", got)
			}
			commit(scriptFinish)
			for _, done := range []chan error{ended, other} {
				g.check(<-done)
			}
			if got := messages(); !slices.Equal(got, []string{"4 end"}) {
				t.Errorf("the end is published as %q, want 4 end", got)
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
