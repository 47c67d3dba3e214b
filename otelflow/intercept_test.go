package otelflow_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestOPS4_TelemetryMakesNoStartFail proves that a request with as many attributes as are allowed is
// executed, and that its trace context is recorded as far as there is room.
func TestOPS4_TelemetryMakesNoStartFail(t *testing.T) {
	var lines bytes.Buffer
	o := otelflow.New(otelflow.Config{Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	s := open(t, workflow.ClientConfig{Interceptors: []workflow.Interceptor{o}}, worker.Config{})
	state, err := trace.ParseTraceState("vendor=1")
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceState: state,
	}))
	member, err := baggage.NewMember("user", "ada")
	if err != nil {
		t.Fatal(err)
	}
	bag, err := baggage.New(member)
	if err != nil {
		t.Fatal(err)
	}
	ctx = baggage.ContextWithBaggage(ctx, bag)
	for _, tt := range []struct {
		own  int
		want string
	}{{29, "traceparent tracestate baggage"}, {30, "traceparent tracestate"}, {31, "traceparent"}, {32, ""}} {
		with := ctx
		for n := range tt.own {
			with = workflow.WithAttribute(with, fmt.Sprint("own-", n), "v")
		}
		run, err := shipment.Start(with, s.client, 1)
		if err != nil {
			t.Errorf("start with %d attributes: %v", tt.own, err)
			continue
		}
		info, err := run.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, key := range []string{"traceparent", "tracestate", "baggage"} {
			if info.Attributes[key] != "" {
				got = append(got, key)
			}
		}
		if strings.Join(got, " ") != tt.want || len(info.Attributes) != min(tt.own+3, 32)+1 { // one is the build
			t.Errorf("a request with %d attributes has recorded %v of %d, want %s", tt.own, got, len(info.Attributes), tt.want)
		}
	}
	if n := strings.Count(lines.String(), "is omitted"); n != 1 {
		t.Errorf("%d lines about omitted attributes, want 1:\n%s", n, &lines)
	}
}
