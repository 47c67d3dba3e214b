package runs

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var recoverBehaviors = []behavior{
	{"F2_RecoverChangesTheFenceAtOnce", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.RecoverDead(h.Session())
		got := h.Record(l.Run)
		h.Equal("fence", got.Fence, store.Fence{Epoch: fence.Epoch + 1})
		h.Equal("owner", got.Owner, store.SessionID(""))
		h.Equal("queue state", got.QueueState, store.StateReady)
		h.Equal("recoveries", got.Recoveries, 1)
		h.Equal("ready", h.Inspect().Ready, map[store.Route][]event.RunID{suite.Orders: {l.Run}})
	}},
	{"RecoverRemovesTheLeaseOfTheDead", func(h *harness) {
		h.StartOwned(h.Session())
		alive := h.Session()
		h.RecoverDead(alive)
		leases := h.Inspect().Leases
		if len(leases) != 1 || leases[alive].Session != alive {
			h.Fatalf("leases: got %v, want only that of %s", leases, alive)
		}
	}},
	{"RecoverRemovesTheLeaseOfASessionWithoutRuns", func(h *harness) {
		h.Session()
		h.RecoverDead(h.Session())
		h.Equal("number of leases", len(h.Inspect().Leases), 1)
	}},
	{"W5_AnOutageOfTheStoreMakesNobodyDead", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		alive := h.Session()
		h.Clock.Advance(10 * suite.TTL) // an outage, or a clock that is set forward
		h.Heartbeat(alive)
		h.Chore(alive)
		h.State(l.Run, store.StateOwned)
		h.Commit(l, l.Commit(fence, l.Work()...))
	}},
	{"W5_AfterAnOutageWhoIsSilentIsDeadAndWhoIsHeardIsNot", func(h *harness) {
		dead, heard := h.Session(), h.Session()
		lost, _ := h.StartOwned(dead)
		kept, fence := h.StartOwned(heard)
		alive := h.Session()
		h.Clock.Advance(10 * suite.TTL)
		h.Heartbeat(heard)
		for range 4 { // these pauses and the outage, which counts as one pause, do not exceed the lease
			h.Clock.Advance(store.CountedPause(suite.TTL))
			h.Heartbeat(alive)
			h.Chore(alive)
			h.State(lost.Run, store.StateOwned)
		}
		h.Clock.Advance(store.CountedPause(suite.TTL))
		h.Heartbeat(alive)
		h.Chore(alive)
		h.State(lost.Run, store.StateReady)
		h.Commit(kept, kept.Commit(fence, kept.Work()...))
	}},
	{"W5_SessionsThatLiveForLessThanATTLRecoverADeadOne", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		for n := 0; h.Record(l.Run).QueueState == store.StateOwned; n++ {
			if n > 15 {
				h.Fatalf("run %s is not recovered after %d sessions in %v", l.Run, n, h.Clock.Now())
			}
			short := h.Session()
			h.Chore(short)
			h.Clock.Advance(3 * time.Second)
			h.Chore(short)
			h.Check("close session", h.Store.CloseSession(h.Ctx, 0, short))
		}
		h.Is("commit", h.Try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
	}},
	{"W5_NobodyIsDeadBeforeItsLeaseIsPast", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		other := h.Session()
		h.Clock.Advance(suite.TTL - time.Second)
		h.Heartbeat(other)
		h.Chore(other)
		h.Commit(l, l.Commit(fence, l.Work()...))
	}},
	{"RecoverFindsASessionWhoseLeaseIsShorterThanThoseBefore", func(h *harness) {
		alive := h.Session()
		h.Session()
		h.Chore(alive)
		short := store.Session{ID: h.IDs.Session(), TTL: time.Second}
		h.Check("open session", h.Store.OpenSession(h.Ctx, short))
		l, _ := h.StartOwned(short.ID)
		h.Clock.Advance(2 * time.Second)
		h.Heartbeat(alive)
		h.Chore(alive)
		h.State(l.Run, store.StateReady)
	}},
	{"RecoverNeverTakesFromTheSessionThatClaims", func(h *harness) {
		s, other := h.Session(), h.Session()
		l, fence := h.StartOwned(s)
		h.Silence(other)
		h.Chore(s)
		h.Commit(l, l.Commit(fence, l.Work()...))
	}},
	{"AClaimHandsOutWhatItHasRecovered", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		alive := h.Session()
		h.Silence(alive)
		token := h.IDs.Token()
		got, err := h.Store.Claim(h.Ctx, store.Claim{Session: alive, Token: token, Routes: []store.Route{suite.Orders}, Max: 5})
		h.Check("claim", err)
		h.Equal("claimed", h.HandedAll(got.Runs), []store.ClaimedRun{{
			Run: l.Run, Route: suite.Orders, Fence: store.Fence{Epoch: fence.Epoch + 2, Token: token}, Recoveries: 1, N: 1, Seq: 1, Last: l.Last,
		}})
	}},
	{"RecoverGoesOnUntilEverythingIsTaken", func(h *harness) {
		const many = 250
		dead := h.Session()
		for range many {
			h.Start()
		}
		h.Equal("claimed", len(h.Claim(dead, many)), many)
		alive := h.Session()
		h.RecoverDead(alive)
		_, err := h.Store.Heartbeat(h.Ctx, 0, dead)
		h.Is("heartbeat after the first part", err, store.ErrExpired)
		if h.Inspect().Leases[dead].Recovering { // a store may recover only some of the runs in one call
			h.Is("opening it again", h.Store.OpenSession(h.Ctx, store.Session{ID: dead, TTL: suite.TTL}), store.ErrExpired)
		}
		for range many {
			if len(h.Inspect().Owned[dead]) == 0 {
				break
			}
			h.RecoverDead(alive)
		}
		h.Equal("runs that became ready", len(h.Inspect().Ready[suite.Orders]), many)
	}},
	{"RecoveriesAreCountedUntilThereIsProgress", func(h *harness) {
		l := h.Start()
		for n := range 3 {
			dead := h.Session()
			got := h.Claim(dead, 1)
			h.Equal("recoveries told to the owner", got[0].Recoveries, n)
			h.Commit(l, l.Commit(got[0].Fence, l.Work()...))
			h.RecoverDead(h.Session())
		}
		h.Equal("recoveries", h.Record(l.Run).Recoveries, 3)
		s := h.Session()
		c := l.Commit(h.Own(s, l), l.Work()...)
		c.Progress = true
		h.Commit(l, c)
		h.Equal("recoveries after progress", h.Record(l.Run).Recoveries, 0)
	}},
	{"TheEndOfASessionDoesNotCountForRunsThatAreExempt", func(h *harness) {
		claim := func(exempt int) (l store.ClaimedRun) {
			s := h.Session()
			got, err := h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 1, Exempt: exempt})
			h.Check("claim", err)
			h.Equal("claimed runs", len(got.Runs), 1)
			return got.Runs[0]
		}
		l := h.Start()
		last := func() event.CommitID { return h.Record(l.Run).Last }
		for i, test := range []struct {
			what   string
			from   int // claims exempt the run from this number of recoveries on; 0 means never
			does   []store.Commit
			exempt bool
			want   int // number of recoveries in the end
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
			h.Equal("recoveries told to the owner", got.Recoveries, h.Record(l.Run).Recoveries)
			for j, c := range test.does {
				made := l.Commit(got.Fence, l.Work()...)
				if c.Exempt != store.ExemptUnchanged && j == 0 { // this commit changes only the exemption
					made = store.Commit{Run: l.Run, WorkflowID: made.WorkflowID, Fence: got.Fence, Prev: last()}
				}
				made.Exempt, made.Progress = c.Exempt, c.Progress
				h.Commit(l, made)
			}
			h.Equal(fmt.Sprintf("%d: exempt: %s", i, test.what), h.Record(l.Run).Exempt, test.exempt)
			h.RecoverDead(h.Session())
			h.Equal(fmt.Sprintf("%d: recoveries: %s", i, test.what), h.Record(l.Run).Recoveries, test.want)
			h.Equal("exempt without an owner", h.Record(l.Run).Exempt, false)
		}
		h.Park(l, claim(1).Fence, time.Time{})
		h.Equal("exempt after it was given back", h.Record(l.Run).Exempt, false)
	}},
	{"F1_ALateWriterWritesNothing", func(h *harness) {
		late := h.Session()
		l, fence := h.StartOwned(late)
		h.RecoverDead(h.Session()) // as if the session had stopped for a while and then continued
		h.Unchanged("everything that a late writer does", func() {
			for _, e := range []store.Effect{store.EffectNone, store.EffectPark, store.EffectYield, store.EffectBlock, store.EffectFinish} {
				h.Is("commit", h.Try(suite.WithEffect(l.Commit(fence, l.Work()...), e, event.StatusRunning)).Err, store.ErrFenced)
				h.Is("commit without a frame", h.Try(suite.WithEffect(l.Commit(fence), e, event.StatusRunning)).Err, store.ErrFenced)
			}
			h.Is("release", h.Store.Release(h.Ctx, l.Run, fence), store.ErrFenced)
			_, err := h.Store.Heartbeat(h.Ctx, 0, late)
			h.Is("heartbeat", err, store.ErrExpired)
			_, err = h.Store.Reconcile(h.Ctx, 0, late)
			h.Is("reconcile", err, store.ErrExpired)
			_, err = h.Store.Claim(h.Ctx, store.Claim{Session: late, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: 1})
			h.Is("claim", err, store.ErrExpired)
			_, err = h.Store.ClaimRun(h.Ctx, 0, late, h.IDs.Token(), l.Run)
			h.Is("claim run", err, store.ErrExpired)
			h.Check("close session", h.Store.CloseSession(h.Ctx, 0, late))
		})
	}},
	{"F1_ALateWriterWritesNothingOnceAnotherOwnsTheRun", func(h *harness) {
		late, next := h.Session(), h.Session()
		l, old := h.StartOwned(late)
		h.RecoverDead(next)
		fence := h.Own(next, l)
		h.Unchanged("a late commit and a late release", func() {
			h.Is("commit", h.Try(l.Commit(old, l.Work()...)).Err, store.ErrFenced)
			h.Is("release", h.Store.Release(h.Ctx, l.Run, old), store.ErrFenced)
		})
		h.Commit(l, l.Commit(fence, l.Work()...))
	}},
}
