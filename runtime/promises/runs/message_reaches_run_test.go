package runs_test

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestREC8_AMessageIsReceivedByTheRunThatItWasSentTo proves that the messages received by a run do
// not include messages that it has sent, or that it took over from an older run.
func TestREC8_AMessageIsReceivedByTheRunThatItWasSentTo(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
			got, err := flowtest.Numbers.Receive(ctx)
			if err != nil {
				return 0, err
			}
			return flowtest.Work1.Call(ctx, got)
		}), flowtest.DoWork1, flowtest.As(flowtest.Films, func(ctx workflow.Context, n int) (int, error) {
			to, err := flowtest.Wake.Receive(ctx)
			if err != nil {
				return 0, err
			}
			return n, flowtest.Numbers.SendFrom(ctx, workflow.RunID(to), n)
		}))
		run, sender := flowtest.Start(w, flowtest.Streams, 1), flowtest.Start(w, flowtest.Films, 7)
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, sender, string(run.ID())))
		_, _ = flowtest.Result(w, sender), flowtest.Result(w, run)
		fork, err := run.Fork(w.Ctx, "streams/test.work1#1")
		flowtest.Order(t, err)
		if got := flowtest.Result(w, fork); got != 7 {
			t.Errorf("the fork got %d", got)
		}
		inspector, _ := store.As[store.Inspector](w.Store)
		snap, err := inspector.Inspect(w.Ctx)
		flowtest.Order(t, err)
		for _, f := range fsck.Check(snap) {
			t.Errorf("fsck: %v", f)
		}
	})
}
