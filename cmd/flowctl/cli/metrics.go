package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/otelflow"
)

// serveMetrics serves the metrics of the open store to Prometheus until ctx is done or stop is
// called. It prints the address. The metrics have names of workflows, queues and limits, but no IDs
// and no payloads, so requests are not authenticated.
func (c *command) serveMetrics(ctx context.Context, address string) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo())
	if err != nil {
		return nil, err
	}
	end, err := otelflow.ObserveStore(c.client, otelflow.Config{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, &admin.InputError{What: fmt.Sprintf("--metrics %q: %v", address, err), Fix: "write 127.0.0.1:9464"}
	}
	if _, err := fmt.Fprintf(c.Stdout, "metrics: http://%s/metrics\n", l.Addr()); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- serveUntil(ctx, l, mux) }()
	return func() error {
		defer end()
		cancel()
		return <-done
	}, nil
}
