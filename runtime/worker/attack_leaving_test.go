package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	attackStep  = aStep[int, int]("attack", shim.Policy{Retry: quick})
	attackLong  = aStep[int, int]("attack.long", shim.Policy{Timeout: 10_000 * time.Hour})
	attackSleep = flow[int, int]("attack.sleep")
	attackOnce  = flow[int, int]("attack.once")
	attackTopic = workflow.NewTopic[int]("attack")
)

func twice(_ context.Context, n int) (int, error) { return 2 * n, nil }

// parking reports whether the first of the commits gives a run back to wait.
func parking(op string, req any) (event.RunID, bool) {
	commits, ok := req.([]store.Commit)
	if op != "commit" || !ok {
		return "", false
	}
	for _, c := range commits {
		if c.Effect == store.EffectPark {
			return c.Run, true
		}
	}
	return "", false
}

// A sleep that ends while the answer of the commit that parks its run is on the
// way: the run is not this worker's any more, and may hold no slot.
func TestSlots_ComeBackFromARunThatFallsDueWhileItsParkIsAnswered(t *testing.T) {
	late := newBarrier()
	defer late.open()
	st := &between{Store: memstore.New()}
	var taken store.Session
	st.around = func(ctx context.Context, op string, req any, do func() error) error {
		if run, ok := parking(op, req); ok {
			if err := do(); err != nil {
				return err
			}
			// Another worker takes it, and keeps it.
			taken = store.Session{ID: "thief", TTL: time.Hour}
			if err := st.Store.OpenSession(ctx, taken); err != nil {
				return err
			}
			if _, err := st.Store.ClaimRun(ctx, 0, taken.ID, event.NewToken(), run); err != nil {
				return err
			}
			late.pass(ctx)
			return nil
		}
		return do()
	}
	w := newWorld(t, st, workflow.ClientConfig{})
	w.work(worker.Config{Concurrency: 1, Heartbeat: time.Hour, ClaimExpiry: 2 * time.Hour},
		attackStep.as(twice),
		as(attackSleep, func(ctx workflow.Context, n int) (int, error) {
			if err := workflow.Sleep(ctx, 30*time.Millisecond); err != nil {
				return 0, err
			}
			return attackStep.Call(ctx, n)
		}),
		as(attackOnce, attackStep.Call),
	)
	start(w, attackSleep, 1)
	w.await("the park", late.arrived)
	due := make(chan struct{})
	stop := w.store.Clock().AfterFunc(60*time.Millisecond, func() { close(due) })
	defer stop()
	w.await("the due time", due)
	late.open()
	for i := range 3 {
		if got := result(w, start(w, attackOnce, i)); got != 2*i {
			t.Errorf("result: got %d, want %d", got, 2*i)
		}
	}
	if err := st.Store.CloseSession(w.ctx, 0, taken.ID); err != nil {
		t.Fatal(err)
	}
}
