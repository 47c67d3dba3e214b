package worker

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// describe writes the catalogue entry of each workflow to the store. It retries until it succeeds
// or ctx ends. Runs do not need the catalogue, so the worker does not wait for describe.
func (w *Worker) describe(ctx context.Context) {
	entries, ok := store.As[store.Entries](w.store)
	if !ok {
		return
	}
	for _, e := range w.code.Catalog() {
		v := e.Versions[0]
		v.Build = w.build
		for {
			err := store.Describe(ctx, entries, e.Workflow, v)
			if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
				return
			}
			if err == nil || errors.As(err, new(*store.InvalidError)) { // An entry is invalid, for example, if a schema is too large. A retry would not help.
				break
			}
			w.log.Warn("the description of a workflow cannot be stored yet", "worker", w.cfg.Name, "workflow", e.Workflow, "error", err)
			if !wait.For(ctx, w.clock, declareAgain) {
				return
			}
		}
	}
}
