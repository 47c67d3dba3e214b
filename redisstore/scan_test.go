package redisstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// busy creates a run before each transaction that reads a partition.
type busy struct {
	redis.Hook

	create func()
	calls  int
}

func (b *busy) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (b *busy) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (b *busy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 20 {
			b.calls++
			b.create()
		}
		return next(ctx, cmds)
	}
}

func TestScanPartition_JudgesOnlyWhatItHasReadOfAPartitionThatChanges(t *testing.T) {
	clock, server, prefix := storetest.NewClock(), redistest.Shared(t), redistest.Prefix()
	open := func(client redis.UniversalClient) *Store {
		st, err := New(client, Config{Clock: clock, Prefix: prefix, Partitions: 1})
		if err != nil {
			t.Fatal(err)
		}
		return st
	}
	first := open(server.Client(t))
	sweep(t, server.Client(t), first)
	w := repairtest.New(t, first, clock)
	names := 0
	s := w.Queued("a")
	client, hook := server.Client(t), &busy{}
	hook.create = func() {
		names++
		w.Created(workflow.WithID(fmt.Sprintf("n-%d", names)))
		w.Created(workflow.WithID("a"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.CancelActive}))
	}
	client.AddHook(hook)
	st := open(client)
	defer st.Close()
	if err := st.prepare(w.Ctx, st.parts[0]); err != nil {
		t.Fatal(err)
	}
	hook.create()
	exam, err := st.ScanPartition(w.Ctx, 0)
	if err != nil || hook.calls <= readings {
		t.Fatalf("examine: %v after %d readings", err, hook.calls)
	}
	if defects := exam.Defects(); len(defects) > 0 {
		t.Errorf("defects: %+v", defects)
	}
	snap := exam.Snapshot()
	for _, f := range fsck.Check(snap) {
		t.Errorf("found: %v", f)
	}
	if snap.Runs[s.Run] != nil || len(snap.Runs) < readings {
		t.Errorf("of %d runs: one whose line was not read is judged, or too few are", len(snap.Runs))
	}
}

// The owner of a run whose session was lost has no name; its trail can be read.
func TestRecover_OfALostSessionLeavesATrail(t *testing.T) {
	clock := storetest.NewClock()
	client := redistest.Shared(t).Client(t)
	st, err := New(client, Config{Clock: clock, Prefix: redistest.Prefix(), Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	sweep(t, client, st)
	w := repairtest.New(t, st, clock)
	s := w.Owned(w.Sleeping())
	if n := st.client.Del(w.Ctx, st.parts[0].session(sessionCode(s.Session))).Val(); n != 1 {
		t.Fatal("the session was not there")
	}
	clock.Advance(100_000 * time.Hour)
	by := store.Session{ID: "another", TTL: time.Hour}
	if err := st.OpenSession(w.Ctx, by); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Claim(w.Ctx, store.Claim{Session: by.ID, Token: event.NewToken()}); err != nil {
		t.Fatal(err)
	}
	trail, err := st.Audit(w.Ctx, s.Run)
	if err != nil || len(trail) != 1 || trail[0].Reason != store.ReasonExpiredClaim || trail[0].Owner != "" {
		t.Errorf("audit trail: got %+v, %v, want one entry %s without an owner", trail, err, store.ReasonExpiredClaim)
	}
}
