package worker_test

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// What a run has sent, and what it has taken over of an older one, it has not received.
func TestREC8_AMessageIsReceivedByTheRunThatItWasSentTo(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
			got, err := numbers.Receive(ctx)
			if err != nil {
				return 0, err
			}
			return work1.Call(ctx, got)
		}), doWork1, as(films, func(ctx workflow.Context, n int) (int, error) {
			to, err := wake.Receive(ctx)
			if err != nil {
				return 0, err
			}
			return n, numbers.SendFrom(ctx, workflow.RunID(to), n)
		}))
		run, sender := start(w, streams, 1), start(w, films, 7)
		order(t, wake.Send(w.ctx, sender, string(run.ID())))
		_, _ = result(w, sender), result(w, run)
		fork, err := run.Fork(w.ctx, "streams/test.work1#1")
		order(t, err)
		if got := result(w, fork); got != 7 {
			t.Errorf("the fork got %d", got)
		}
		inspector, _ := store.As[store.Inspector](w.store)
		snap, err := inspector.Inspect(w.ctx)
		order(t, err)
		for _, f := range fsck.Check(snap) {
			t.Errorf("fsck: %v", f)
		}
	})
}
