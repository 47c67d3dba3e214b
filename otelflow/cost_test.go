package otelflow_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/observe"
)

// TestOPS4_AllocationsOfTelemetryStayWithinTheirBounds counts the allocations for a run of ten steps,
// without those of an exporter. The spans are twelve.
func TestOPS4_AllocationsOfTelemetryStayWithinTheirBounds(t *testing.T) {
	bounds := map[string]float64{"metrics": 1, "metrics without a producer": 1, "spans": 105}
	for name, cfg := range costly() {
		got := testing.AllocsPerRun(1000, costs(t, cfg))
		if t.Logf("%s: %.0f allocations", name, got); got > bounds[name]*slack || got < bounds[name]/2 {
			t.Errorf("%s: %.0f allocations, want at most %.0f, and not half as many", name, got, bounds[name]*slack)
		}
	}
}

// costSteps is the number of steps of the run of costs.
const costSteps = 10

// costs returns a function that reports a run of steps in sequence, as a worker does.
func costs(t testing.TB, cfg otelflow.Config) func() {
	o, st := otelflow.New(cfg), memstore.New()
	stop := o.Worker(observe.Worker{Name: "worker", Store: st})
	t.Cleanup(func() {
		stop()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	now := time.Now()
	id := event.NewRunID(now, 0)
	created := event.Event{Type: event.RunCreated, Time: now, Payload: []byte("123"), Spec: &event.Spec{Workflow: "shop.order"}}
	groups := [][]event.Event{{created, {Type: event.RunStarted, Time: now}}}
	seq := uint64(2)
	for n := range costSteps {
		last := len(groups) - 1
		groups[last] = append(groups[last],
			event.Event{Type: event.StepCreated, Time: now, Name: "shop.reserve", Key: fmt.Sprint("f/shop.reserve#", n), Payload: []byte("123")},
			event.Event{Type: event.StepStarted, Time: now, Ref: seq + 1, Attempt: 1, By: "worker"})
		groups = append(groups, []event.Event{{Type: event.StepCompleted, Time: now, Ref: seq + 1, Attempt: 1, Payload: []byte("123")}})
		seq += 3
	}
	last := len(groups) - 1
	groups[last] = append(groups[last], event.Event{Type: event.RunCompleted, Time: now, Payload: []byte("123")})
	seq = 0
	for _, g := range groups {
		for i := range g {
			seq++
			g[i].Seq = seq
		}
	}
	return func() {
		r := o.Run(observe.Run{ID: id, WorkflowID: "order-1", Workflow: "shop.order", Queue: "default", Epoch: 1})
		for _, g := range groups {
			r.Committed(observe.Commit{Events: g, Made: now, Confirmed: now.Add(time.Millisecond), Progress: true})
		}
	}
}

// discards is an exporter that discards spans.
type discards struct{}

func (discards) ExportSpans(context.Context, []sdk.ReadOnlySpan) error { return nil }
func (discards) Shutdown(context.Context) error                        { return nil }

// costly returns the configurations whose costs are measured.
func costly() map[string]otelflow.Config {
	p := otelflow.NewProducer()
	fast := otelflow.Config{Producer: p, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader(sdkmetric.WithProducer(p))))}
	q := otelflow.NewProducer()
	spans := otelflow.Config{Producer: q, MeterProvider: fast.MeterProvider, TracerProvider: otelflow.NewTracerProvider(discards{})}
	return map[string]otelflow.Config{
		"metrics": fast, "spans": spans,
		"metrics without a producer": {MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))},
	}
}

func BenchmarkRun(b *testing.B) {
	for name, cfg := range costly() {
		b.Run(name, func(b *testing.B) {
			run := costs(b, cfg)
			b.ReportAllocs()
			for b.Loop() {
				run()
			}
		})
	}
}
