package speed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// levels are the values of -telemetry. Spans include metrics.
var levels = []string{"none", "interceptor", "metrics", "spans"}

func checkLevel(level string) error {
	if !slices.Contains(levels, level) {
		return fmt.Errorf("-telemetry %s: must be one of %s", level, strings.Join(levels, ", "))
	}
	return nil
}

// telemetry contains the interceptors and observers of a measurement.
type telemetry struct {
	interceptors []workflow.Interceptor
	observers    []observe.Observer
	close        func() error
}

// newTelemetry returns the telemetry of a level. Metrics are collected as by a Prometheus exporter
// that is not scraped. Spans are sent over HTTP to a server in this process that discards them.
func newTelemetry(ctx context.Context, level string) (*telemetry, error) {
	t := &telemetry{close: func() error { return nil }}
	switch level {
	case "interceptor":
		t.interceptors = []workflow.Interceptor{through{}}
	case "metrics":
		t.observers = []observe.Observer{otelflow.New(withMetrics())}
	case "spans":
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		sink := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
		})}
		go func() { _ = sink.Serve(l) }() // ends when the server is closed
		exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(l.Addr().String()), otlptracehttp.WithInsecure())
		if err != nil {
			return nil, errors.Join(err, sink.Close())
		}
		spans := otelflow.NewTracerProvider(exporter)
		cfg := withMetrics()
		cfg.TracerProvider = spans
		t.observers = []observe.Observer{otelflow.New(cfg)}
		t.close = func() error {
			return errors.Join(spans.Shutdown(context.WithoutCancel(ctx)), sink.Close())
		}
	}
	return t, nil
}

// withMetrics returns a configuration that exports metrics.
func withMetrics() otelflow.Config {
	p := otelflow.NewProducer()
	reader := sdkmetric.NewManualReader(sdkmetric.WithProducer(p))
	return otelflow.Config{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)), Producer: p}
}

// through is an interceptor that only calls next.
type through struct{}

func (through) InterceptClient(ctx context.Context, _ *workflow.ClientCall, next func(context.Context) error) error {
	return next(ctx)
}

func (through) InterceptWorkflow(ctx workflow.Context, next func(workflow.Context) error) error {
	return next(ctx)
}

func (through) InterceptStep(ctx context.Context, _ step.Call, next func(context.Context) error) error {
	return next(ctx)
}
