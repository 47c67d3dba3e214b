package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// hung is a store that does not answer once hangs is set.
type hung struct {
	store.Store
	hangs atomic.Bool
}

func (s *hung) Unwrap() store.Store { return s.Store }

func (s *hung) hang(ctx context.Context) error {
	if !s.hangs.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (s *hung) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	if err := s.hang(ctx); err != nil {
		return store.Heartbeat{}, err
	}
	return s.Store.Heartbeat(ctx, partition, id)
}

func (s *hung) CloseSession(ctx context.Context, partition int, id store.SessionID) error {
	if err := s.hang(ctx); err != nil {
		return err
	}
	return s.Store.CloseSession(ctx, partition, id)
}

func (s *hung) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if err := s.hang(ctx); err != nil {
		return store.Claimed{}, err
	}
	return s.Store.Claim(ctx, c)
}

func (s *hung) Commit(ctx context.Context, c []store.Commit) ([]store.Committed, error) {
	if err := s.hang(ctx); err != nil {
		return nil, err
	}
	return s.Store.Commit(ctx, c)
}

func (s *hung) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	if err := s.hang(ctx); err != nil {
		return err
	}
	return s.Store.Release(ctx, run, fence)
}

func (s *hung) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	if err := s.hang(ctx); err != nil {
		return nil, time.Time{}, err
	}
	return s.Store.Outbox(ctx, partition, limit)
}

// TestStop_AStoreThatHangsIsWaitedForOnceForAllPartitions proves that Stop waits for all partitions
// of a hanging store at the same time. Waiting for them one after the other would take 64 times as
// long.
func TestStop_AStoreThatHangsIsWaitedForOnceForAllPartitions(t *testing.T) {
	t.Parallel()
	st := &hung{Store: memstore.NewWith(memstore.Config{Partitions: 64})}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.TakesLong()
	busy := newBarrier()
	defer busy.open()
	r := w.Work(worker.Config{Grace: 10 * time.Millisecond, Heartbeat: 20 * time.Millisecond, ClaimExpiry: time.Hour},
		flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call), flowtest.AttackStep.As(func(ctx context.Context, _ int) (int, error) {
			busy.pass(ctx)
			return 0, ctx.Err()
		}))
	flowtest.Start(w, flowtest.AttackOnce, 1)
	w.Await("the step", busy.arrived)
	st.hangs.Store(true)
	begun := time.Now()
	r.Halt()
	select {
	case err := <-r.Done:
		r.Done <- err
		t.Logf("stopped after %v", time.Since(begun))
	case <-w.Ctx.Done():
		t.Fatalf("not stopped after %v", time.Since(begun))
	}
	w.OneLine("close worker sessions failed: their runs are taken over when their claims expire", "sessions=64")
}
