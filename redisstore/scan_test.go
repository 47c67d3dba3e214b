package redisstore

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
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

// busy is a hook that creates a run before each transaction that reads a partition.
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

func TestReadPartition_JudgesOnlyWhatItHasReadOfAPartitionThatChanges(t *testing.T) {
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
	exam, err := st.ReadPartition(w.Ctx, 0)
	if err != nil || hook.calls <= readings {
		t.Fatalf("examine: %v after %d readings", err, hook.calls)
	}
	if defects := exam.Defects; len(defects) > 0 {
		t.Errorf("defects: %+v", defects)
	}
	snap := exam.Snapshot
	for _, f := range fsck.Check(snap) {
		t.Errorf("found: %v", f)
	}
	if snap.Runs[s.Run] != nil || len(snap.Runs) < readings {
		t.Errorf("of %d runs: one whose line was not read is judged, or too few are", len(snap.Runs))
	}
}

// TestRecover_OfALostSessionLeavesATrail proves that audit entries can be read after the recovery
// of runs whose session was lost. The name of the session is missing in this case.
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

// TestREC8_ACheckHasMoreTimeThanOtherRequests proves that a read of a whole partition has a longer
// timeout than other requests.
func TestREC8_ACheckHasMoreTimeThanOtherRequests(t *testing.T) {
	t.Parallel()
	s := newLimitScene(t, redistest.Shared(t).Client(t))
	const patience = 2 * time.Second
	proxy := redistest.NewProxy(t, redistest.Shared(t).Addr)
	var slow atomic.Int64
	proxy.Do(func(_ bool, piece []byte) redistest.Verdict {
		if bytes.Contains(piece, []byte("hlen")) {
			slow.Add(1)
			time.Sleep(2 * patience)
		}
		return redistest.Pass
	})
	client := redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: -1, ReadTimeout: patience})
	t.Cleanup(func() { _ = client.Close() })
	far, err := New(client, Config{Clock: s.clock, Prefix: s.st.cfg.Prefix, Partitions: 1})
	s.check(err)
	far.manyRuns = 1
	if _, err := far.ReadPartition(s.ctx, 0); err != nil {
		t.Errorf("check behind a server that answers after %v: %v", 2*patience, err)
	}
	proxy.Do(nil)
	if slow.Load() == 0 {
		t.Error("no request was slow: nothing is proven")
	}
}

// pipelines is a hook that observes the answered pipelines of a client.
type pipelines struct {
	after func(cmds []redis.Cmder) // called after each answer
}

func (*pipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*pipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (p *pipelines) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		p.after(cmds)
		return err
	}
}

// watched returns another store of the scene. The store calls after whenever a pipeline was
// answered, with the number of logs that the pipeline has read.
func (s *limitScene) watched(after func(logs int, cmds []redis.Cmder)) *Store {
	s.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: redistest.Shared(s.t).Addr})
	s.t.Cleanup(func() { _ = client.Close() })
	st, err := New(client, Config{Clock: s.clock, Prefix: s.st.cfg.Prefix, Partitions: 1})
	s.check(err)
	client.AddHook(&pipelines{func(cmds []redis.Cmder) {
		logs := 0
		for _, c := range cmds {
			if c.Name() == "xrange" {
				logs++
			}
		}
		after(logs, cmds)
	}})
	return st
}

func TestREC8_ACheckReadsFewLogsInOneTransaction(t *testing.T) {
	t.Parallel()
	s := newLimitScene(t, redistest.Shared(t).Client(t))
	for range 3 * readBatch {
		s.start(limitRoutes[0], 1, false)
	}
	most, rest := 0, 0
	st := s.watched(func(logs int, cmds []redis.Cmder) {
		most = max(most, logs)
		for _, c := range cmds {
			if c.Name() == "hlen" { // this command occurs only in the transaction that reads everything except logs
				rest = max(rest, logs)
			}
		}
	})
	if _, err := st.ReadPartition(s.ctx, 0); err != nil {
		t.Fatal(err)
	}
	if most == 0 || most > readBatch || rest > 0 {
		t.Errorf("got %d logs in one transaction, and %d in that of all other keys, want 1 to %d, and none", most, rest, readBatch)
	}
}

// TestREC8_ACheckReadsALogAgainThatHasGrownMeanwhile proves that a check rereads a log to which a
// frame was appended while the check read other logs.
func TestREC8_ACheckReadsALogAgainThatHasGrownMeanwhile(t *testing.T) {
	t.Parallel()
	s := newLimitScene(t, redistest.Shared(t).Client(t))
	r := s.held[0]
	l := s.logs[r.Run]
	grow := sync.OnceFunc(func() {
		c := l.Commit(r.Fence, l.Work()...)
		c.Status, c.Progress = event.StatusRunning, true
		s.commit(l, c)
	})
	st := s.watched(func(logs int, _ []redis.Cmder) {
		if logs > 0 {
			grow()
		}
	})
	scan, err := st.ReadPartition(s.ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	got := scan.Snapshot.Runs[r.Run]
	if n := uint64(len(got.Frames)); n != 2 || n != got.N || scan.Partial {
		t.Errorf("got %d frames of a log of %d, partial %v, want 2 frames of 2", n, got.N, scan.Partial)
	}
}
