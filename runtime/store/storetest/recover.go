package storetest

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var recoverBehaviors = []behavior{
	{"F2_RecoverChangesTheFenceAtOnce", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.recoverDead(h.session())
		got := h.record(l.Run)
		h.equal("fence", got.Fence, store.Fence{Epoch: fence.Epoch + 1})
		h.equal("owner", got.Owner, store.SessionID(""))
		h.equal("queue state", got.QueueState, store.StateReady)
		h.equal("recoveries", got.Recoveries, 1)
		h.equal("ready", h.inspect().Ready, map[store.Route][]event.RunID{orders: {l.Run}})
	}},
	{"RecoverRemovesTheLeaseOfTheDead", func(h *harness) {
		h.startOwned(h.session())
		alive := h.session()
		h.recoverDead(alive)
		leases := h.inspect().Leases
		if len(leases) != 1 || leases[alive].Session != alive {
			h.Fatalf("leases: got %v, want only that of %s", leases, alive)
		}
	}},
	{"RecoverRemovesTheLeaseOfASessionWithoutRuns", func(h *harness) {
		h.session()
		h.recoverDead(h.session())
		h.equal("number of leases", len(h.inspect().Leases), 1)
	}},
	{"W5_AnOutageOfTheStoreMakesNobodyDead", func(h *harness) {
		l, fence := h.startOwned(h.session())
		alive := h.session()
		h.clock.Advance(10 * ttl) // or its clock is set forward
		h.heartbeat(alive)
		h.chore(alive)
		h.state(l.Run, store.StateOwned)
		h.commit(l, l.Commit(fence, l.Work()...))
	}},
	{"W5_AfterAnOutageWhoIsSilentIsDeadAndWhoIsHeardIsNot", func(h *harness) {
		dead, heard := h.session(), h.session()
		lost, _ := h.startOwned(dead)
		kept, fence := h.startOwned(heard)
		alive := h.session()
		h.clock.Advance(10 * ttl)
		h.heartbeat(heard)
		for range 4 { // together with the one pause that was counted for the outage
			h.clock.Advance(store.CountedPause(ttl))
			h.heartbeat(alive)
			h.chore(alive)
			h.state(lost.Run, store.StateOwned)
		}
		h.clock.Advance(store.CountedPause(ttl))
		h.heartbeat(alive)
		h.chore(alive)
		h.state(lost.Run, store.StateReady)
		h.commit(kept, kept.Commit(fence, kept.Work()...))
	}},
	{"W5_SessionsThatLiveForLessThanATTLRecoverADeadOne", func(h *harness) {
		l, fence := h.startOwned(h.session())
		for n := 0; h.record(l.Run).QueueState == store.StateOwned; n++ {
			if n > 15 {
				h.Fatalf("run %s is not recovered after %d sessions in %v", l.Run, n, h.clock.Now())
			}
			short := h.session()
			h.chore(short)
			h.clock.Advance(3 * time.Second)
			h.chore(short)
			h.check("close session", h.store.CloseSession(h.ctx, 0, short))
		}
		h.is("commit", h.try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
	}},
	{"W5_NobodyIsDeadBeforeItsLeaseIsPast", func(h *harness) {
		l, fence := h.startOwned(h.session())
		other := h.session()
		h.clock.Advance(ttl - time.Second)
		h.heartbeat(other)
		h.chore(other)
		h.commit(l, l.Commit(fence, l.Work()...))
	}},
	{"RecoverFindsASessionWhoseLeaseIsShorterThanThoseBefore", func(h *harness) {
		alive := h.session()
		h.session()
		h.chore(alive)
		short := store.Session{ID: h.ids.Session(), TTL: time.Second}
		h.check("open session", h.store.OpenSession(h.ctx, short))
		l, _ := h.startOwned(short.ID)
		h.clock.Advance(2 * time.Second)
		h.heartbeat(alive)
		h.chore(alive)
		h.state(l.Run, store.StateReady)
	}},
	{"RecoverNeverTakesFromTheSessionThatClaims", func(h *harness) {
		s, other := h.session(), h.session()
		l, fence := h.startOwned(s)
		h.silence(other)
		h.chore(s)
		h.commit(l, l.Commit(fence, l.Work()...))
	}},
	{"AClaimHandsOutWhatItHasRecovered", func(h *harness) {
		l, fence := h.startOwned(h.session())
		alive := h.session()
		h.silence(alive)
		token := h.ids.Token()
		got, err := h.store.Claim(h.ctx, store.Claim{Session: alive, Token: token, Routes: []store.Route{orders}, Max: 5})
		h.check("claim", err)
		h.equal("claimed", h.handedAll(got.Runs), []store.ClaimedRun{{
			Run: l.Run, Route: orders, Fence: store.Fence{Epoch: fence.Epoch + 2, Token: token}, Recoveries: 1, N: 1, Seq: 1, Last: l.Last,
		}})
	}},
	{"RecoverGoesOnUntilEverythingIsTaken", func(h *harness) {
		const many = 250
		dead := h.session()
		for range many {
			h.start()
		}
		h.equal("claimed", len(h.claim(dead, many)), many)
		alive := h.session()
		h.recoverDead(alive)
		_, err := h.store.Heartbeat(h.ctx, 0, dead)
		h.is("heartbeat after the first part", err, store.ErrExpired)
		if h.inspect().Leases[dead].Recovering { // a store may recover only a part of them in one call
			h.is("opening it again", h.store.OpenSession(h.ctx, store.Session{ID: dead, TTL: ttl}), store.ErrExpired)
		}
		for range many {
			if len(h.inspect().Owned[dead]) == 0 {
				break
			}
			h.recoverDead(alive)
		}
		h.equal("runs that became ready", len(h.inspect().Ready[orders]), many)
	}},
	{"RecoveriesAreCountedUntilThereIsProgress", func(h *harness) {
		l := h.start()
		for n := range 3 {
			dead := h.session()
			got := h.claim(dead, 1)
			h.equal("recoveries told to the owner", got[0].Recoveries, n)
			h.commit(l, l.Commit(got[0].Fence, l.Work()...))
			h.recoverDead(h.session())
		}
		h.equal("recoveries", h.record(l.Run).Recoveries, 3)
		s := h.session()
		c := l.Commit(h.own(s, l), l.Work()...)
		c.Progress = true
		h.commit(l, c)
		h.equal("recoveries after progress", h.record(l.Run).Recoveries, 0)
	}},
	{"TheEndOfASessionDoesNotCountForRunsThatAreExempt", func(h *harness) {
		claim := func(exempt int) (l store.ClaimedRun) {
			s := h.session()
			got, err := h.store.Claim(h.ctx, store.Claim{Session: s, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 1, Exempt: exempt})
			h.check("claim", err)
			h.equal("claimed runs", len(got.Runs), 1)
			return got.Runs[0]
		}
		l := h.start()
		last := func() event.CommitID { return h.record(l.Run).Last }
		for i, test := range []struct {
			what   string
			from   int // the number of recoveries from which a claim makes it exempt
			does   []store.Commit
			exempt bool
			want   int // the number of recoveries
		}{
			{"nothing makes it exempt", 0, nil, false, 1},
			{"it has too few recoveries", 2, nil, false, 2},
			{"it was claimed exempt", 2, nil, true, 2},
			{"another frame changes nothing", 2, []store.Commit{{}}, true, 2},
			{"a commit ends it", 2, []store.Commit{{Exempt: store.ExemptOff}}, false, 3},
			{"a commit begins it", 4, []store.Commit{{Exempt: store.ExemptOn}}, true, 3},
			{"it ends, and begins again", 1, []store.Commit{{Exempt: store.ExemptOff}, {}, {Exempt: store.ExemptOn}}, true, 3},
			{"progress ends it", 1, []store.Commit{{Progress: true}}, false, 1},
		} {
			got := claim(test.from)
			h.equal("recoveries told to the owner", got.Recoveries, h.record(l.Run).Recoveries)
			for j, c := range test.does {
				made := l.Commit(got.Fence, l.Work()...)
				if c.Exempt != store.ExemptUnchanged && j == 0 { // a commit that changes nothing else
					made = store.Commit{Run: l.Run, WorkflowID: made.WorkflowID, Fence: got.Fence, Prev: last()}
				}
				made.Exempt, made.Progress = c.Exempt, c.Progress
				h.commit(l, made)
			}
			h.equal(fmt.Sprintf("%d: exempt: %s", i, test.what), h.record(l.Run).Exempt, test.exempt)
			h.recoverDead(h.session())
			h.equal(fmt.Sprintf("%d: recoveries: %s", i, test.what), h.record(l.Run).Recoveries, test.want)
			h.equal("exempt without an owner", h.record(l.Run).Exempt, false)
		}
		h.park(l, claim(1).Fence, time.Time{})
		h.equal("exempt after it was given back", h.record(l.Run).Exempt, false)
	}},
	{"F1_ALateWriterWritesNothing", func(h *harness) {
		late := h.session()
		l, fence := h.startOwned(late)
		h.recoverDead(h.session()) // the session was stopped for a while and continues
		h.unchanged("everything that a late writer does", func() {
			for _, e := range []store.Effect{store.EffectNone, store.EffectPark, store.EffectYield, store.EffectBlock, store.EffectFinish} {
				h.is("commit", h.try(withEffect(l.Commit(fence, l.Work()...), e, event.StatusRunning)).Err, store.ErrFenced)
				h.is("commit without a frame", h.try(withEffect(l.Commit(fence), e, event.StatusRunning)).Err, store.ErrFenced)
			}
			h.is("release", h.store.Release(h.ctx, l.Run, fence), store.ErrFenced)
			_, err := h.store.Heartbeat(h.ctx, 0, late)
			h.is("heartbeat", err, store.ErrExpired)
			_, err = h.store.Reconcile(h.ctx, 0, late)
			h.is("reconcile", err, store.ErrExpired)
			_, err = h.store.Claim(h.ctx, store.Claim{Session: late, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: 1})
			h.is("claim", err, store.ErrExpired)
			_, err = h.store.ClaimRun(h.ctx, 0, late, h.ids.Token(), l.Run)
			h.is("claim run", err, store.ErrExpired)
			h.check("close session", h.store.CloseSession(h.ctx, 0, late))
		})
	}},
	{"F1_ALateWriterWritesNothingOnceAnotherOwnsTheRun", func(h *harness) {
		late, next := h.session(), h.session()
		l, old := h.startOwned(late)
		h.recoverDead(next)
		fence := h.own(next, l)
		h.unchanged("a late commit and a late release", func() {
			h.is("commit", h.try(l.Commit(old, l.Work()...)).Err, store.ErrFenced)
			h.is("release", h.store.Release(h.ctx, l.Run, old), store.ErrFenced)
		})
		h.commit(l, l.Commit(fence, l.Work()...))
	}},
}
