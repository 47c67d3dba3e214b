package worker_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Two branches send to a run that never was. Neither must wait for the other one.
func TestRelay_MessagesToARunThatNeverWasAreRefusedAll(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		lonely := flowtest.Flow[workflow.RunID, int]("lonely")
		w.Work(worker.Config{}, flowtest.As(lonely, func(ctx workflow.Context, to workflow.RunID) (int, error) {
			var all []*workflow.Future[workflow.None]
			for n := range 20 {
				all = append(all, workflow.GoErr(ctx, func(ctx workflow.Context) error { return flowtest.Numbers.SendFrom(ctx, to, n) }))
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
		if got := flowtest.Result(w, flowtest.Start(w, lonely, event.NewRunID(time.Now(), 3))); got != 20 {
			t.Errorf("%d were refused, want 20", got)
		}
	})
}
