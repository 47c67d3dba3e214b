package worker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Two branches send to a run that never was. Neither must wait for the other one.
func TestRelay_MessagesToARunThatNeverWasAreRefusedAll(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		lonely := flow[workflow.RunID, int]("lonely")
		w.work(worker.Config{}, as(lonely, func(ctx workflow.Context, to workflow.RunID) (int, error) {
			var all []*workflow.Future[workflow.None]
			for n := range 20 {
				all = append(all, workflow.GoErr(ctx, func(ctx workflow.Context) error { return numbers.SendFrom(ctx, to, n) }))
			}
			refused := 0
			for _, o := range workflow.Settled(ctx, all...) {
				if !errors.Is(o.Err, workflow.ErrRunNotFound) {
					return refused, fmt.Errorf("got %w, want ErrRunNotFound", o.Err)
				}
				refused++
			}
			return refused, nil
		}))
		if got := result(w, start(w, lonely, event.NewRunID(time.Now(), 3))); got != 20 {
			t.Errorf("%d were refused, want 20", got)
		}
	})
}
