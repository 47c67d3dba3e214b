package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func twice(_ context.Context, n int) (int, error) { return 2 * n, nil }

// parking reports whether a request contains a commit that parks its run. It returns the run of the
// first such commit.
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

// TestSlots_ComeBackFromARunThatFallsDueWhileItsParkIsAnswered proves that a run holds no slot
// after the commit that parks it, even if its timer fires before the answer to that commit arrives.
// Another worker owns the run by then.
func TestSlots_ComeBackFromARunThatFallsDueWhileItsParkIsAnswered(t *testing.T) {
	late := newBarrier()
	defer late.open()
	st := &flowtest.Between{Store: memstore.New()}
	var taken store.Session
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		if run, ok := parking(op, req); ok {
			if err := do(); err != nil {
				return err
			}
			// Another worker claims the run and keeps it.
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
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{Concurrency: 1, Heartbeat: time.Hour, ClaimExpiry: 2 * time.Hour},
		flowtest.AttackStep.As(twice),
		flowtest.As(flowtest.AttackSleep, func(ctx workflow.Context, n int) (int, error) {
			if err := workflow.Sleep(ctx, 30*time.Millisecond); err != nil {
				return 0, err
			}
			return flowtest.AttackStep.Call(ctx, n)
		}),
		flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call),
	)
	flowtest.Start(w, flowtest.AttackSleep, 1)
	w.Await("the park", late.arrived)
	due := make(chan struct{})
	stop := w.Store.Clock().AfterFunc(60*time.Millisecond, func() { close(due) })
	defer stop()
	w.Await("the due time", due)
	late.open()
	for i := range 3 {
		if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, i)); got != 2*i {
			t.Errorf("result: got %d, want %d", got, 2*i)
		}
	}
	if err := st.Store.CloseSession(w.Ctx, 0, taken.ID); err != nil {
		t.Fatal(err)
	}
}
