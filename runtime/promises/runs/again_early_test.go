package runs_test

import (
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN10_ARunThatEndedBeforeItBeganCanBeContinued(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		canceled := flowtest.Start(w, flowtest.Parker, "")
		flowtest.Order(t, canceled.Cancel(w.Ctx, "by mistake"))
		w.Work(worker.Config{}, flowtest.Parks)
		_ = flowtest.Failure(w, canceled)
		again, err := canceled.RetryCanceled(w.Ctx)
		flowtest.Order(t, err)
		words(t, w, again, "resumed")
		if got := flowtest.Result(w, again); got != "resumed" {
			t.Errorf("got %q", got)
		}
		late := flowtest.Start(w, flowtest.Parker, "", workflow.WithHoldFor(time.Millisecond))
		if err := flowtest.Wake.Send(w.Ctx, late, "heard while it was held"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
			t.Fatal(err)
		}
		if err := flowtest.Failure(w, late); err.Code != event.CodeNotReleased {
			t.Fatalf("got %v", err)
		}
		again, err = late.Retry(w.Ctx)
		flowtest.Order(t, err)
		if len(flowtest.Filter(w.Log(late), event.MessageReceived)) == 0 { // if the message arrived too late for the log, it is sent again
			words(t, w, again, "heard while it was held")
		}
		if got := flowtest.Result(w, again); got != "heard while it was held" {
			t.Errorf("got %q", got)
		}
	})
}
