package memstore

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestCommit_OnlyTheActiveRunOfAWorkflowIDContinues tests a guard for stores that have lost writes.
// In memory no operation of the store can take the workflow ID from an owned run, so the test
// changes the state itself.
func TestCommit_OnlyTheActiveRunOfAWorkflowIDContinues(t *testing.T) {
	s := New()
	run := event.NewRunID(time.Now(), event.SlotOf("order"))
	route := store.Route{Queue: "default", Workflow: "orders.fulfil"}
	create := store.Create{Run: run, WorkflowID: "order", Route: route, Frame: []byte("frame"), CommitID: event.NewCommitID(), Seq: 1}
	if _, err := s.Create(t.Context(), []store.Create{create}); err != nil {
		t.Fatal(err)
	}
	if err := s.OpenSession(t.Context(), store.Session{ID: "s", TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	claimed, err := s.Claim(t.Context(), store.Claim{Session: "s", Token: event.NewToken(), Routes: []store.Route{route}, Max: 1})
	if err != nil || len(claimed.Runs) != 1 {
		t.Fatalf("claim: got %+v, %v", claimed, err)
	}
	s.parts[0].names["order"].active = nil
	before, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	next := create
	next.Run = event.NewRunID(time.Now(), run.Slot())
	commit := store.Commit{
		Run: run, WorkflowID: "order", Fence: claimed.Runs[0].Fence, Prev: create.CommitID,
		Frame: []byte("end"), CommitID: event.NewCommitID(), First: 2, Last: 2, Effect: store.EffectContinue, Continue: &next,
	}
	answers, err := s.Commit(t.Context(), []store.Commit{commit})
	if err != nil {
		t.Fatal(err)
	}
	if _, conflict := errors.AsType[*store.ConflictError](answers[0].Err); !conflict {
		t.Errorf("continue: got %+v, want a conflict", answers[0])
	}
	after, err := s.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before.Now = after.Now
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("state after the refused commit (-want +got)\n%s", diff)
	}
}
