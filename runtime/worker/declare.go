package worker

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// declareAgain is how long a worker waits before it retries the creation of schedules from
// directives.
const declareAgain = 5 * time.Second

// declare creates or updates the schedules that the directives of the worker's workflows declare,
// until that succeeds or ctx ends. Every worker calls it at its start. A declaration carries the
// start time of its worker, and the latest declaration wins.
func (w *Worker) declare(ctx context.Context, began time.Time) {
	for {
		err := w.loop.client.Declare(ctx, w.code, began)
		bad, refused := errors.AsType[*workflow.ScheduleError](err)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, store.ErrClosed):
			return
		case refused: // the generator used another version of the rules
			w.log.Error("a schedule of a directive is not valid", "worker", w.cfg.Name, "schedule", bad.Name, "error", err)
			return
		}
		w.log.Warn("schedules of directives cannot be created yet", "worker", w.cfg.Name, "error", err)
		if !wait.For(ctx, w.clock, declareAgain) {
			return
		}
	}
}
