package redisstore

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestPurge_ARunIsLetGoOnlyByTheLastThatHoldsItBack proves that a run may be purged only after all
// reasons to keep it have ended, in whatever order they end.
func TestPurge_ARunIsLetGoOnlyByTheLastThatHoldsItBack(t *testing.T) {
	const year = 365 * 24 * time.Hour
	confirmed := func(g *guarded, run event.RunID) { g.check(g.Confirm(g.ctx, run, "createdBy")) }
	for what, hold := range map[string]func(g *guarded) (run event.RunID, letGo, last func()){
		"by who created it, and by its chain": func(g *guarded) (event.RunID, func(), func()) {
			session := g.session()
			l, fence := g.own(session, "", func(c *store.Create) { c.CreatedBy = "createdBy" })
			c, next := l.Continue(fence, nil, l.Work()...)
			g.check(g.answer(c).Err)
			return l.Run, func() { confirmed(g, l.Run) }, func() {
				got, err := g.ClaimRun(g.ctx, 0, session, g.ids.Token(), next.Run)
				g.check(err)
				end := next.Commit(got.Fence, next.End(event.StatusCompleted)...)
				end.Effect, end.Status = store.EffectFinish, event.StatusCompleted
				g.check(g.answer(end).Err)
			}
		},
		"by its records, and by who created it": func(g *guarded) (event.RunID, func(), func()) {
			run := g.endedWithRecord()
			return run, func() { g.settle(run) }, func() { confirmed(g, run) }
		},
		"by its records, and by who created it, while it is deleted": func(g *guarded) (event.RunID, func(), func()) {
			run := g.endedWithRecord()
			g.check(g.Delete(g.ctx, run))
			return run, func() { g.settle(run) }, func() { confirmed(g, run) }
		},
		"by who created it, and by its records": func(g *guarded) (event.RunID, func(), func()) {
			run := g.endedWithRecord()
			return run, func() { confirmed(g, run) }, func() { g.settle(run) }
		},
	} {
		t.Run(what, func(t *testing.T) {
			g := openGuarded(t)
			run, letGo, last := hold(g)
			letGo()
			for _, kept := range []bool{true, false} {
				g.clock.Advance(year)
				for n := 1; n > 0; {
					var err error
					n, _, err = g.Purge(g.ctx, 0, 10)
					g.check(err)
				}
				p := g.parts[0]
				n, err := g.client.Exists(g.ctx, p.meta(short(run)), p.hidden(short(run))).Result()
				g.check(err)
				if (n > 0) != kept {
					t.Errorf("the run is there: %t, want %t", n > 0, kept)
				}
				if kept {
					last()
				}
			}
		})
	}
}

// endedWithRecord returns an ended run that was created by another run and has a record in its
// outbox.
func (g *guarded) endedWithRecord() event.RunID {
	g.t.Helper()
	l, fence := g.own(g.session(), "", func(c *store.Create) { c.CreatedBy = "createdBy" })
	c := l.Commit(fence, l.End(event.StatusCompleted)...)
	c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
	c.Send = []store.Send{{ID: "record", To: g.start("").Run, Body: []byte("body")}}
	g.check(g.answer(c).Err)
	return l.Run
}

// settle marks the outbox record of a run through all phases.
func (g *guarded) settle(run event.RunID) {
	g.t.Helper()
	for _, phase := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
		g.check(g.Mark(g.ctx, 0, []store.Mark{{From: run, ID: "record", Phase: phase}}))
	}
}
