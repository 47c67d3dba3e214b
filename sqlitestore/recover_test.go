package sqlitestore_test

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// TestRecover_ASessionIsOverBeforeAllItsRunsAreTaken proves that a session is over once any of its
// runs is recovered, even if the other runs remain for later claims.
func TestRecover_ASessionIsOverBeforeAllItsRunsAreTaken(t *testing.T) {
	const many = 1100 // exceeds the number of runs that one claim recovers
	clock := storetest.NewClock()
	s := openStore(t, filepath.Join(t.TempDir(), "runs.db"), clock)
	openSession(t, s, "dead")
	start(t, s, many)
	if got := claim(t, s, "dead", many); len(got) != many {
		t.Fatalf("claimed %d runs, want %d", len(got), many)
	}
	for range 20 { // only this session renews its lease, and the other expires
		clock.Advance(5 * time.Second)
		openSession(t, s, "alive")
	}
	if _, err := s.Claim(testContext(t), claimOf("alive", 0)); err != nil {
		t.Fatal(err)
	}
	if left := len(verify(t, s).Owned["dead"]); left == 0 || left >= many {
		t.Fatalf("%d of %d runs are left after the first part: the test proves nothing", left, many)
	}
	if _, err := s.Heartbeat(testContext(t), 0, "dead"); !errors.Is(err, store.ErrExpired) {
		t.Errorf("heartbeat: got error %v, want %v", err, store.ErrExpired)
	}
	if _, err := s.Claim(testContext(t), claimOf("dead", 1)); !errors.Is(err, store.ErrExpired) {
		t.Errorf("claim: got error %v, want %v", err, store.ErrExpired)
	}
	err := s.OpenSession(testContext(t), store.Session{ID: "dead", TTL: ttl})
	if !errors.Is(err, store.ErrExpired) {
		t.Errorf("opening it again: got error %v, want %v", err, store.ErrExpired)
	}
}

// TestCreate_ALocalStartTiesTheSessionToItsStore proves that a session is tied to the store through
// which it last created an owned run, as it is tied by a claim.
func TestCreate_ALocalStartTiesTheSessionToItsStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	first, second := openStore(t, path, nil), openStore(t, path, nil)
	openSession(t, first, "owner")
	openSession(t, second, "successor")
	c := newLog(second.Clock()).Create()
	c.Owner = &store.Owner{Session: "owner", Token: (&storetest.IDs{}).Token()}
	got, err := second.Create(testContext(t), []store.Create{c})
	if err != nil || got[0].Fence != c.Owner.Fence() {
		t.Fatalf("create: got %+v, %v, want a fence", got, err)
	}
	check(t, first.Close())
	third := openStore(t, path, nil)
	openSession(t, third, "other")
	if got := claim(t, third, "other", 10); len(got) != 0 {
		t.Errorf("claimed %d runs of a living process, want none", len(got))
	}
	check(t, second.Close())
	if got := claim(t, third, "other", 10); len(got) != 1 {
		t.Errorf("claimed %d runs once the process had ended, want 1", len(got))
	}
}
