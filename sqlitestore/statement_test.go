package sqlitestore

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func TestStatements_AreNotPreparedAgain(t *testing.T) {
	s := openTest(t)
	var prepared atomic.Int64
	check(t, s.write(testContext(t), func(tx *tx) error {
		return tx.SetAuthorizer(sqlite.AuthorizeFunc(func(a sqlite.Action) sqlite.AuthResult {
			if a.Type() == sqlite.OpSelect || a.Type() == sqlite.OpUpdate {
				prepared.Add(1)
			}
			return sqlite.AuthResultOK
		}))
	}))
	// Some statements are first executed in a late round. Then rounds follow that prepare no
	// statement. If a statement is prepared in every round, there is no such round.
	still := 0
	for i := 0; i < 40 && still < 4; i++ {
		prepared.Store(0)
		everything(t, s, fmt.Sprint("round", i))
		everythingSent(t, s, fmt.Sprint("round", i))
		if still++; prepared.Load() != 0 {
			still = 0
		}
	}
	if got := prepared.Load(); still < 4 {
		t.Errorf("statements were compiled again, %d columns and selects of them in the last round: write +? in conditions", got)
	}
}

// everything executes every kind of operation once.
func everything(t *testing.T, s *Store, name string) {
	t.Helper()
	ctx := testContext(t)
	session := store.Session{ID: store.SessionID(name), TTL: time.Hour, Routes: []store.Route{route}, Fingerprint: name}
	check(t, s.OpenSession(ctx, session))
	_, err := s.Heartbeat(ctx, 0, session.ID)
	check(t, err)
	var creates []store.Create
	for _, policy := range []store.ActivePolicy{store.ActiveUse, store.ActiveFail, store.ActiveCancel, store.ActiveCancel} {
		c := newRun(100)
		c.WorkflowID, c.Active, c.Finished, c.Cancel.ID = "order-1", policy, store.FinishedAllowFailure, event.NewItemID()
		creates = append(creates, c)
	}
	for range 5 {
		creates = append(creates, newRun(100))
	}
	creates[6].Delay = time.Microsecond
	_, err = s.Create(ctx, append(creates, creates[0]))
	check(t, err)
	claimed, err := s.Claim(ctx, store.Claim{Session: session.ID, Token: event.NewToken(), Routes: session.Routes, Max: 100})
	check(t, err)
	if len(claimed.Runs) < 5 {
		t.Fatalf("claimed %d runs, want at least 5", len(claimed.Runs))
	}
	var ended event.RunID
	effects := []store.Effect{store.EffectNone, store.EffectPark, store.EffectYield, store.EffectBlock}
	for i, r := range claimed.Runs {
		item := store.Item{ID: event.ItemID("item " + name)}
		_, err := s.Deliver(ctx, store.Deliver{Run: r.Run, Item: item})
		check(t, err)
		c := store.Commit{
			Run: r.Run, WorkflowID: r.WorkflowID, Fence: r.Fence, Prev: r.Last, CommitID: event.NewCommitID(), Frame: []byte{1}, First: r.Seq + 1, Last: r.Seq + 1,
			Effect: effects[i%len(effects)], Due: time.Now().Add(time.Hour), Status: event.StatusRunning,
		}
		if r.WorkflowID != "" {
			c.Effect, ended = store.EffectFinish, r.Run
		}
		loaded, err := s.Load(ctx, []store.Load{{Run: r.Run, Inbox: true}})
		check(t, err)
		inbox := loaded[0].Inbox
		p := store.Publication{Stream: "s", Body: []byte("x"), Keep: 1, Writer: "w", Nth: 1}
		check(t, s.Publish(ctx, r.Run, r.Fence, []store.Publication{p, p}))
		c.Publish = []store.Publication{{Stream: "s", Body: []byte("x"), Keep: 2}, {Stream: "s", Drop: true}, {Stream: "t", Body: []byte("x")}}
		_, err = s.ReadStream(ctx, store.ReadStream{Run: r.Run, Stream: "s"})
		check(t, err)
		c.Consume, c.ConsumeLast = len(inbox), inbox[len(inbox)-1].ID
		answers, err := s.Commit(ctx, []store.Commit{c})
		check(t, err)
		check(t, answers[0].Err)
	}
	blocked := claimed.Runs[3].Run
	if claimed.Runs[3].WorkflowID != "" {
		t.Fatal("the run that should be blocked has ended")
	}
	_, err = s.ClaimRun(ctx, 0, session.ID, event.NewToken(), blocked)
	check(t, err)
	check(t, s.Release(ctx, claimed.Runs[4].Run, claimed.Runs[4].Fence))
	_, err = s.Due(ctx, 0, 10)
	check(t, err)
	_, err = s.Reconcile(ctx, 0, session.ID)
	check(t, err)
	check(t, s.CloseSession(ctx, 0, session.ID))
	check(t, s.Delete(ctx, ended))
	check(t, s.write(ctx, func(tx *tx) error { return tx.exec(`UPDATE runs SET purge = 1 WHERE purge IS NOT NULL`) }))
	if n, _, err := s.Purge(ctx, 0, 10); err != nil || n == 0 {
		t.Fatalf("purged %d runs, %v, want some", n, err)
	}
}

// everythingSent executes every kind of operation on the outbox and on chains once. It includes
// some special cases.
func everythingSent(t *testing.T, s *Store, name string) {
	t.Helper()
	ctx := testContext(t)
	session := store.Session{ID: store.SessionID("sender " + name), TTL: time.Hour}
	check(t, s.OpenSession(ctx, session))
	c, successor := newRun(100), newRun(100)
	c.Route.Workflow, successor.Route.Workflow = "orders.chain", "orders.chain" // no session claims this route
	c.WorkflowID, c.CreatedBy, c.Deadline = "chain "+name, "creator", time.Now().Add(time.Hour)
	_, err := s.Create(ctx, []store.Create{c})
	check(t, err)
	claimed, err := s.ClaimRun(ctx, 0, session.ID, event.NewToken(), c.Run)
	check(t, err)
	_, err = s.Deliver(ctx, store.Deliver{Run: c.Run, Item: store.Item{ID: "kept"}, Keep: true})
	check(t, err)
	successor.WorkflowID = c.WorkflowID
	next := store.Commit{
		Run: c.Run, WorkflowID: c.WorkflowID, Fence: claimed.Fence, Prev: claimed.Last, CommitID: event.NewCommitID(), Frame: []byte{1}, First: 2, Last: 2,
		Send: []store.Send{{ID: "one", To: "wrun_other"}, {ID: "two", To: "wrun_other"}, {ID: "three", To: "wrun_other"}},
	}
	answers, err := s.Commit(ctx, []store.Commit{next})
	check(t, err)
	check(t, answers[0].Err)
	mark := func(phase store.Phase, unknown bool, ids ...event.ItemID) {
		for _, id := range ids {
			refusal := store.Item{ID: "refusal of " + id}
			check(t, s.Mark(ctx, 0, []store.Mark{{From: c.Run, ID: id, Phase: phase, Unknown: unknown, Refusal: &refusal}}))
		}
	}
	mark(store.PhaseFresh, false, "three", "one", "two")
	mark(store.PhaseAnswered, true, "two")
	mark(store.PhaseFresh, true, "two")
	for _, phase := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
		mark(phase, false, "one", "two", "three")
	}
	_, err = s.Heartbeat(ctx, 0, session.ID)
	check(t, err)
	next.Prev, next.CommitID, next.First, next.Last = next.CommitID, event.NewCommitID(), 3, 3
	next.Effect, next.Status, next.Send, next.Continue = store.EffectContinue, event.StatusCompleted, nil, &successor
	answers, err = s.Commit(ctx, []store.Commit{next})
	check(t, err)
	check(t, answers[0].Err)
	_, err = s.Deliver(ctx, store.Deliver{Run: c.Run, Item: store.Item{ID: "for the chain"}})
	check(t, err)
	check(t, s.Confirm(ctx, c.Run, "kept"))
	check(t, s.Confirm(ctx, c.Run, "creator"))
	check(t, s.CloseSession(ctx, 0, session.ID))
}
