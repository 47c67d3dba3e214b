package redisstore

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestClaim_SentAgainAnswersWhatItHasGivenOut proves that a claim repeated with the same token
// returns the runs that the first call granted, and grants no others. A worker repeats a claim if
// its answer was lost.
func TestClaim_SentAgainAnswersWhatItHasGivenOut(t *testing.T) {
	g := openGuarded(t)
	session := g.session()
	for range 4 {
		g.start("")
	}
	request := store.Claim{Session: session, Token: g.ids.Token(), Routes: []store.Route{guardedRoute}, Max: 2}
	first, err := g.Claim(g.ctx, request)
	g.check(err)
	g.unchanged("the same claim again", func() {
		again, err := g.Claim(g.ctx, request)
		g.check(err)
		sorted := cmpopts.SortSlices(func(a, b store.ClaimedRun) bool { return a.Run < b.Run })
		if diff := cmp.Diff(first.Runs, again.Runs, sorted, cmpopts.IgnoreFields(store.ClaimedRun{}, "Loaded")); diff != "" {
			t.Errorf("what it has given out (-first +again):\n%s", diff)
		}
	})

	l, token := g.start(""), g.ids.Token()
	one, err := g.ClaimRun(g.ctx, 0, session, token, l.Run)
	g.check(err)
	g.unchanged("the same claim of a run again", func() {
		again, err := g.ClaimRun(g.ctx, 0, session, token, l.Run)
		g.check(err)
		if again.Fence != one.Fence || again.Run != l.Run {
			t.Errorf("got %+v, want what the first try has given out: %+v", again, one)
		}
		if _, err := g.ClaimRun(g.ctx, 0, session, g.ids.Token(), l.Run); !errors.Is(err, store.ErrOwned) {
			t.Errorf("another claim: got error %v, want %v", err, store.ErrOwned)
		}
	})
}

// TestClaim_TakesByQueueStateNotByList proves that the queue state of a run decides whether the run
// is granted. After a failover, a set of runs may contain entries that contradict the runs.
func TestClaim_TakesByQueueStateNotByList(t *testing.T) {
	g := openGuarded(t)
	owner, thief := g.session(), g.session()
	l, fence := g.own(owner, "")
	run, p := short(l.Run), g.parts[0]
	rest := func(what string) {
		t.Helper()
		rec := g.loaded(l.Run).Record
		if rec.QueueState != store.StateOwned || rec.Owner != owner || rec.Fence != fence {
			t.Errorf("%s has moved the run: got %+v, want it owned by %s under %+v", what, rec, owner, fence)
		}
		g.sound()
	}
	g.check(g.client.ZAdd(g.ctx, p.ready(routeCode(guardedRoute)), redis.Z{Member: "00000000000001" + run}).Err())
	got, err := g.Claim(g.ctx, store.Claim{Session: thief, Token: g.ids.Token(), Routes: []store.Route{guardedRoute}, Max: 5})
	g.check(err)
	if len(got.Runs) > 0 {
		t.Errorf("claimed %+v, want nothing", got.Runs)
	}
	rest("a claim")

	g.check(g.client.ZAdd(g.ctx, p.timers(), redis.Z{Score: 1, Member: run}).Err())
	if _, err := g.Due(g.ctx, 0, 10); err != nil {
		t.Fatal(err)
	}
	rest("a timer")

	parked, fence := g.own(owner, "")
	c := parked.Commit(fence, parked.Sleep(time.Time{})...)
	c.Effect = store.EffectPark
	g.check(g.answer(c).Err)
	g.check(g.client.SAdd(g.ctx, p.owned(sessionCode(thief)), short(parked.Run)).Err())
	g.check(g.CloseSession(g.ctx, 0, thief))
	if rec := g.loaded(parked.Run).Record; rec.QueueState != store.StateParked || rec.Fence.Epoch != fence.Epoch || rec.Recoveries != 0 {
		t.Errorf("a recovery has moved a parked run: got %+v", rec)
	}
	g.sound()
}

// TestRecover_ASessionIsOverBeforeAllItsRunsAreTaken proves that a dead session is refused as soon
// as the first part of its runs is recovered.
func TestRecover_ASessionIsOverBeforeAllItsRunsAreTaken(t *testing.T) {
	g := openGuarded(t)
	dead := g.session()
	var creates []store.Create
	for range chores + 50 {
		l := event.NewRunID(g.clock.Now(), 0)
		creates = append(creates, store.Create{Run: l, Route: guardedRoute, Frame: []byte("frame"), CommitID: g.ids.CommitID(), Seq: 1})
	}
	_, err := g.Create(g.ctx, creates)
	g.check(err)
	request := store.Claim{Session: dead, Token: g.ids.Token(), Routes: []store.Route{guardedRoute}, Max: len(creates)}
	got, err := g.Claim(g.ctx, request)
	g.check(err)
	if len(got.Runs) != len(creates) {
		t.Fatalf("claimed %d runs, want %d", len(got.Runs), len(creates))
	}
	alive := g.session()
	for range 20 { // no other session sends heartbeats
		g.clock.Advance(5 * time.Second)
		_, err := g.Heartbeat(g.ctx, 0, alive)
		g.check(err)
	}
	if _, err := g.Claim(g.ctx, store.Claim{Session: alive, Token: g.ids.Token()}); err != nil {
		t.Fatal(err)
	}
	owned, err := g.client.SCard(g.ctx, g.parts[0].owned(sessionCode(dead))).Result()
	g.check(err)
	if owned == 0 || owned >= int64(len(creates)) {
		t.Fatalf("%d of %d runs are left after the first part: the test proves nothing", owned, len(creates))
	}
	if _, err := g.Heartbeat(g.ctx, 0, dead); !errors.Is(err, store.ErrExpired) {
		t.Errorf("heartbeat: got error %v, want %v", err, store.ErrExpired)
	}
	request.Token = g.ids.Token()
	if _, err := g.Claim(g.ctx, request); !errors.Is(err, store.ErrExpired) {
		t.Errorf("claim: got error %v, want %v", err, store.ErrExpired)
	}
	if err := g.OpenSession(g.ctx, store.Session{ID: dead, TTL: time.Minute}); !errors.Is(err, store.ErrExpired) {
		t.Errorf("opening it again: got error %v, want %v", err, store.ErrExpired)
	}
}
