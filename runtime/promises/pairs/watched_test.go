package pairs_test

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// watcher is an interceptor of all operations of a stage. The code of workflows and steps fails if
// it was not called around the code exactly once.
type watcher struct {
	mu    sync.Mutex
	runs  map[event.RunID]bool // runs whose code is executed within the watcher
	wrong []string             // operations of the runtime that were intercepted
}

func newWatcher() *watcher { return &watcher{runs: map[event.RunID]bool{}} }

// InterceptClient adds an attribute to what the client starts or sends.
func (w *watcher) InterceptClient(ctx context.Context, call *workflow.ClientCall, next func(context.Context) error) error {
	if strings.HasPrefix(call.Name, "flowgen.") {
		w.finds("client: " + string(call.Operation) + " " + call.Name)
	}
	return next(workflow.WithAttribute(ctx, attrSeen, string(call.Operation)))
}

// InterceptWorkflow records that the code of a run is intercepted.
func (w *watcher) InterceptWorkflow(ctx workflow.Context, next func(workflow.Context) error) error {
	info := workflow.Info(ctx)
	if event.Internal(info.Workflow) {
		w.finds("code: " + info.Workflow)
	}
	w.mu.Lock()
	w.runs[info.ID] = true
	w.mu.Unlock()
	return next(ctx)
}

// watched is the key of the number of calls of InterceptStep in the context of an attempt.
type watched struct{}

// InterceptStep counts its calls in the context.
func (w *watcher) InterceptStep(ctx context.Context, call step.Call, next func(context.Context) error) error {
	if strings.HasPrefix(call.Step, "flowgen.") {
		w.finds("step: " + call.Step)
	}
	n, _ := ctx.Value(watched{}).(int)
	return next(context.WithValue(ctx, watched{}, n+1))
}

func (w *watcher) finds(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, what)
}

var errUnwatched = errors.New("no interceptor was called, or it was called twice")

// code returns an error if the code of a run is executed without the watcher. A nil watcher
// watches nothing.
func (w *watcher) code(run event.RunID) error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.runs[run] {
		return errUnwatched
	}
	return nil
}

// attempt returns an error if an attempt is executed without the watcher.
func (w *watcher) attempt(ctx context.Context) error {
	if n, _ := ctx.Value(watched{}).(int); w != nil && n != 1 {
		return errUnwatched
	}
	return nil
}

func (s *stage) interceptors() []workflow.Interceptor {
	if s.watch == nil {
		return nil
	}
	return []workflow.Interceptor{s.watch}
}

// watchedRight fails the control cell if an operation of the runtime was intercepted.
func watchedRight(s *stage, control *cell) {
	if s.watch == nil {
		return
	}
	s.watch.mu.Lock()
	defer s.watch.mu.Unlock()
	for _, what := range s.watch.wrong {
		control.breaks("OPS8", "the runtime's own operation is intercepted: %s", what)
	}
}
