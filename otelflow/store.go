package otelflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// ObserveStore exports the gauges of a store: the load of its queues, its runs by status, and its
// limits. They are read from the store once per collection. One process per store is enough, for
// example flowctl serve --metrics. The result ends the export.
//
// The cost of a collection depends on the number of workers, queues, limits and failed or open runs,
// and not on the number of all runs: see workflow.Client.Count.
func ObserveStore(c *workflow.Client, cfg Config) (stop func(), err error) {
	cfg = cfg.withDefaults()
	s := &storeGauges{client: c, ops: ops.New(c), names: newNames(cfg.MaxNames), gauges: map[string]metric.Float64ObservableGauge{}}
	meter := cfg.MeterProvider.Meter(scope)
	var all []metric.Observable
	for _, d := range []Metric{queueReady, queueOldest, storeRuns, limitUsed, limitWaiting} {
		g, err := meter.Float64ObservableGauge(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Meaning))
		if err != nil {
			return nil, fmt.Errorf("create metric %s: %w", d.Name, err)
		}
		s.gauges[d.Name], all = g, append(all, g)
	}
	registered, err := meter.RegisterCallback(s.observe, all...)
	if err != nil {
		return nil, fmt.Errorf("register the gauges of a store: %w", err)
	}
	return func() { _ = registered.Unregister() }, nil
}

type storeGauges struct {
	client *workflow.Client
	ops    *ops.Client
	names  *names
	gauges map[string]metric.Float64ObservableGauge
}

// observe reads the store. If a store lacks a capability, its gauges are missing.
func (s *storeGauges) observe(ctx context.Context, o metric.Observer) error {
	var failed []error
	for _, read := range []func(context.Context, sums) error{s.queues, s.runs, s.limits} {
		values := sums{}
		if err := read(ctx, values); err != nil {
			if !errors.Is(err, workflow.ErrNotSupported) {
				failed = append(failed, err)
			}
			continue
		}
		for key, v := range values {
			o.ObserveFloat64(s.gauges[key.metric], v, metric.WithAttributeSet(key.attrs))
		}
	}
	return errors.Join(failed...)
}

// sums contains the values of gauges. Beyond the bound of names, several values have the same
// attributes and are added.
type sums map[gaugeKey]float64

type gaugeKey struct {
	metric string
	attrs  attribute.Set
}

func (s *storeGauges) add(values sums, d Metric, n float64, v labels) {
	values[gaugeKey{d.Name, s.names.options(v).set}] += n
}

func (s *storeGauges) queues(ctx context.Context, values sums) error {
	f, err := s.ops.Fleet(ctx)
	if err != nil {
		return err
	}
	for i := range f.Queues {
		q := &f.Queues[i]
		of := labels{workflow: q.Workflow, queue: q.Queue}
		s.add(values, queueReady, float64(q.Ready), of)
		age := time.Duration(0)
		if !q.Oldest.IsZero() {
			age = max(f.At.Sub(q.Oldest), 0)
		}
		key := gaugeKey{queueOldest.Name, s.names.options(of).set}
		values[key] = max(values[key], age.Seconds())
	}
	return nil
}

// openStatuses are the statuses of runs that have not ended, and of the ended runs that need attention.
var openStatuses = []workflow.Status{
	workflow.StatusPending, workflow.StatusRunning, workflow.StatusWaiting, workflow.StatusPaused, workflow.StatusBlocked, workflow.StatusFailed,
}

func (s *storeGauges) runs(ctx context.Context, values sums) error {
	counts, err := s.client.Count(ctx, workflow.Filter{Statuses: openStatuses})
	if err != nil {
		return err
	}
	for what, n := range counts.Runs {
		s.add(values, storeRuns, float64(n), labels{workflow: what.Route.Workflow, status: string(what.Status)})
	}
	return nil
}

func (s *storeGauges) limits(ctx context.Context, values sums) error {
	all, err := s.ops.Limits().List(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		s.add(values, limitUsed, float64(all[i].Held), labels{limit: all[i].Name})
		s.add(values, limitWaiting, float64(all[i].Waits), labels{limit: all[i].Name})
	}
	return nil
}
