package otelflow

import (
	"context"
	"runtime"
	"time"
	"weak"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A Telemetry is also an interceptor, for workflow.ClientConfig.Interceptors and
// worker.Config.Interceptors. It is optional: without it, spans of other libraries are not connected
// with those of runs.
var (
	_ workflow.ClientInterceptor = (*Telemetry)(nil)
	_ step.Interceptor           = (*Telemetry)(nil)
)

// InterceptClient sets the attributes traceparent, tracestate and baggage to those of ctx. A run that
// is started continues the trace, and a message, a payload or a question is linked to its span. An
// attribute that is too long, or for which there is no room, is omitted.
func (t *Telemetry) InterceptClient(ctx context.Context, _ *workflow.ClientCall, next func(context.Context) error) error {
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	if baggage.FromContext(ctx).Len() > 0 {
		propagation.Baggage{}.Inject(ctx, carrier)
	}
	for _, key := range []string{"traceparent", "tracestate", "baggage"} { // by importance
		if value := carrier[key]; value != "" {
			ctx = workflow.WithOptionalAttribute(ctx, key, value, func() { t.omitted(key) })
		}
	}
	return next(ctx)
}

// omitted logs the first attribute that was omitted.
func (t *Telemetry) omitted(key string) {
	t.omits.Do(func() {
		t.cfg.Logger.Warn("an attribute of a request is omitted: it is too long or there are 32 others; further ones are not logged", "attribute", key)
	})
}

// InterceptStep passes the span of the attempt to the code of the step, so that the spans of the code
// are its children.
func (t *Telemetry) InterceptStep(ctx context.Context, call step.Call, next func(context.Context) error) error {
	if t.tracing.Load() == nil {
		return next(ctx)
	}
	of, known := t.treeFor(call.RunID, call.Key)
	if !known { // the run is the first of its tree
		of = treeOf(call.RunID, &event.Spec{Attributes: step.Attributes(ctx)}, t.cfg.SplitAfter)
	}
	t.mu.Lock()
	now := time.Now()
	if t.store != nil {
		now = t.store.Clock().Now()
	}
	t.mu.Unlock()
	return next(trace.ContextWithRemoteSpanContext(ctx, of.context(of.part(now), attemptID(call.RunID, call.Key, call.Attempt))))
}

// attemptOf identifies the steps of a run, or the step of a run that executes it for another one.
type attemptOf struct {
	run event.RunID
	key string
}

// remember makes the traces of a run known to the attempts of its steps, as long as the run is in
// memory.
func (t *Telemetry) remember(s *spans) {
	key := attemptOf{run: s.id}
	if event.IsStepRun(s.workflow) {
		key = attemptOf{s.spec.Parent, s.spec.ParentKey}
	} else if root := s.spec.Root; (root == "" || root == s.id) && s.spec.RerunOf == "" && s.spec.ContinuedOf == "" {
		return // InterceptStep derives its traces
	}
	p := weak.Make(s)
	t.known.Store(key, p)
	runtime.AddCleanup(s, func(key attemptOf) { t.known.CompareAndDelete(key, p) }, key)
}

func (t *Telemetry) treeFor(run event.RunID, stepKey string) (tree, bool) {
	for _, key := range []attemptOf{{run, stepKey}, {run, ""}} {
		if p, ok := t.known.Load(key); ok {
			if s := p.(weak.Pointer[spans]).Value(); s != nil {
				return s.tree, true
			}
		}
	}
	return tree{}, false
}
