package redisstore

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestRecover_LeavesARunOfAnotherOwnerAlone proves that the recovery of a dead session leaves a run
// to its owner even if the damaged set of the dead session contains the run. Otherwise two workers
// would execute the run.
func TestRecover_LeavesARunOfAnotherOwnerAlone(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	client := redistest.Shared(t).Client(t)
	st, err := New(client, Config{Prefix: redistest.Prefix(), Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	fairKey := shim.NewWorkflow[workflow.None, workflow.None]("test.owned", "", shim.WorkflowPolicy{})
	starter := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	run, err := fairKey.Start(ctx, starter, workflow.None{})
	if err != nil {
		t.Fatal(err)
	}
	routes := []store.Route{{Queue: workflow.DefaultQueue, Workflow: "test.owned"}}
	open := func(id store.SessionID, ttl time.Duration) {
		if err := st.OpenSession(ctx, store.Session{ID: id, TTL: ttl, Routes: routes}); err != nil {
			t.Fatal(err)
		}
	}
	open("alive", time.Hour)
	claim := store.Claim{Session: "alive", Routes: routes, Max: 1, Token: event.NewToken()}
	claimed, err := st.Claim(ctx, claim)
	if err != nil || len(claimed.Runs) != 1 || claimed.Runs[0].Run != run.ID() {
		t.Fatalf("claim: got %+v, %v, want run %s", claimed, err, run.ID())
	}
	open("dead", time.Millisecond) // opened after the claim, because a claim would recover the session
	p, dead := st.parts[0], sessionCode("dead")
	if err := client.SAdd(ctx, p.owned(dead), short(run.ID())).Err(); err != nil {
		t.Fatal(err)
	}
	for client.Exists(ctx, p.session(dead)).Val() == 1 { // until the session is recovered
		if claim.Token = event.NewToken(); ctx.Err() != nil {
			t.Fatal(ctx.Err())
		}
		if _, err := st.Heartbeat(ctx, 0, "alive"); err != nil {
			t.Fatal(err)
		}
		if _, err := st.Claim(ctx, claim); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Release(ctx, run.ID(), claimed.Runs[0].Fence); err != nil {
		t.Errorf("release by the owner: %v, want its fence to hold", err)
	}
	if n := client.Exists(ctx, p.owned(dead)).Val(); n != 0 {
		t.Error("the set of the dead session is still there")
	}
}
