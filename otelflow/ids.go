package otelflow

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	"go.opentelemetry.io/otel/propagation"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowgen/flowgen/runtime/event"
)

// IDs generates the IDs of spans. The IDs of a span of a run are derived from the ID of the run, so
// that a span that is exported twice has the same IDs. All other spans have random IDs.
//
// A tracer provider that exports the spans of runs must have this generator: see
// [NewTracerProvider].
type IDs struct{}

type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

type idsKey struct{}

// idsContext is a context with the IDs of the span that is started next.
type idsContext struct {
	context.Context
	ids
}

func (c *idsContext) Value(key any) any {
	if key == (idsKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// withIDs returns a context with the IDs of the span that is started next.
func withIDs(ctx context.Context, t trace.TraceID, s trace.SpanID) context.Context {
	return &idsContext{ctx, ids{t, s}}
}

// NewIDs returns the IDs of a span without a parent.
func (IDs) NewIDs(ctx context.Context) (t trace.TraceID, s trace.SpanID) {
	if known, ok := ctx.Value(idsKey{}).(*idsContext); ok {
		return known.trace, known.span
	}
	_, _ = rand.Read(t[:]) // crypto/rand.Read never fails
	_, _ = rand.Read(s[:])
	return t, s
}

// NewSpanID returns the ID of a span with a parent.
func (i IDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, s := i.NewIDs(ctx)
	return s
}

// NewTracerProvider returns a tracer provider that exports the spans of runs. If the exporter is
// slow, a run waits until its spans are in the queue of the provider. If the export of a batch takes
// longer than 10 s, spans are dropped until a later batch is exported, so that an outage of the
// receiver does not stop runs.
//
// To sample, pass a sampler that depends only on the ID of the trace, such as
// sdktrace.TraceIDRatioBased, so that all processes export the same traces.
func NewTracerProvider(e sdk.SpanExporter, opts ...sdk.TracerProviderOption) *sdk.TracerProvider {
	return newTracerProvider(&breaker{SpanExporter: e, patience: exportPatience, pause: exportPause}, opts...)
}

func newTracerProvider(b *breaker, opts ...sdk.TracerProviderOption) *sdk.TracerProvider {
	p := sdk.NewTracerProvider(append([]sdk.TracerProviderOption{sdk.WithIDGenerator(IDs{}), sdk.WithBatcher(b, sdk.WithBlocking())}, opts...)...)
	breakers.Store(p, b)
	return p
}

func traceID(name string) (t trace.TraceID) {
	var buf [128]byte
	sum := sha256.Sum256(append(append(buf[:0], "trace\x00"...), name...))
	copy(t[:], sum[:])
	return t
}

// spanID returns the ID of the span of a run whose name consists of the parts.
func spanID(run event.RunID, parts ...string) (s trace.SpanID) {
	var buf [256]byte
	b := append(append(append(buf[:0], "span\x00"...), run...), 0)
	for _, part := range parts {
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	copy(s[:], sum[:])
	return s
}

// remote returns the span that has started a run, from the attributes of the run.
func remote(spec *event.Spec) trace.SpanContext { return spanIn(spec.Attributes) }

// sender returns the span that has sent a message, payload or question.
func sender(e *event.Event) trace.SpanContext { return spanIn(e.Attributes) }

func spanIn(attributes map[string]string) trace.SpanContext {
	if attributes["traceparent"] == "" {
		return trace.SpanContext{}
	}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier(attributes)))
}
