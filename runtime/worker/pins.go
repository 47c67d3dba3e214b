package worker

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
)

// pins reports whether the worker pins runs and serves the runs that are pinned to its build.
func (w *Worker) pins() bool { return w.build != "" && (w.cfg.Pin || flow.DeclaresPinned()) }

// joinPins makes the build of the worker available to new runs of its client and of its code. The
// caller must call leave when the worker claims no more runs.
func (w *Worker) joinPins() (leave func()) {
	if !w.pins() {
		return func() {}
	}
	own, leave := w.loop.client.Pins().Join(w.build, w.cfg.Pin, w.served.claims)
	w.loop.params.Pin = func(run event.RunID, spec *event.Spec, inherit, declared bool) string {
		return own.Build(run, store.Route{Queue: spec.Queue, Workflow: spec.Workflow}, inherit, declared)
	}
	return leave
}

// lookAtPins reads how new runs are distributed over the builds. If the store does not answer soon,
// the worker begins without, and its code pins new runs to its own build.
func (w *Worker) lookAtPins(ctx context.Context) {
	if !w.pins() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hardStop)
	defer cancel()
	_, _ = w.loop.client.Pins().Look(ctx)
}
