package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN10_ARunThatEndedBeforeItBeganCanBeContinued(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		canceled := start(w, parker, "")
		order(t, canceled.Cancel(w.ctx, "by mistake"))
		w.work(worker.Config{}, parks)
		_ = failure(w, canceled)
		again, err := canceled.RetryCanceled(w.ctx)
		order(t, err)
		words(t, w, again, "resumed")
		if got := result(w, again); got != "resumed" {
			t.Errorf("got %q", got)
		}
		late := start(w, parker, "", workflow.WithHoldFor(time.Millisecond))
		if err := wake.Send(w.ctx, late, "heard while it was held"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
			t.Fatal(err)
		}
		if err := failure(w, late); err.Code != event.CodeNotReleased {
			t.Fatalf("got %v", err)
		}
		again, err = late.Retry(w.ctx)
		order(t, err)
		if len(filter(w.log(late), event.MessageReceived)) == 0 { // it had come too late for the log
			words(t, w, again, "heard while it was held")
		}
		if got := result(w, again); got != "heard while it was held" {
			t.Errorf("got %q", got)
		}
	})
}
