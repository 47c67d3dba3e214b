package worker

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// declareAgain is how long a worker waits until it tries again to create the schedules of its
// directives.
const declareAgain = 5 * time.Second

// declare makes the schedules that the directives of the worker's workflows name what they
// say, until it has done so or ctx ends. Every worker does so when it begins: a declaration
// has the time at which the worker began, and the latest holds.
func (w *Worker) declare(ctx context.Context, began time.Time) {
	for {
		err := w.loop.client.Declare(ctx, w.code, began)
		bad, refused := errors.AsType[*workflow.ScheduleError](err)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, store.ErrClosed):
			return
		case refused: // by another release of the rules than those that the generator had
			w.log.Error("a schedule of a directive is not valid", "worker", w.cfg.Name, "schedule", bad.Name, "error", err)
			return
		}
		w.log.Warn("schedules of directives cannot be created yet", "worker", w.cfg.Name, "error", err)
		if !wait.For(ctx, w.clock, declareAgain) {
			return
		}
	}
}
