package otelflow_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/observe"
)

// produced returns the data of a metric.
func produced(t *testing.T, p *otelflow.Producer, name string) metricdata.Aggregation {
	t.Helper()
	scopes, err := p.Produce(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scopes {
		for _, m := range s.Metrics {
			if m.Name == name {
				return m.Data
			}
		}
	}
	t.Fatalf("metric %s is missing", name)
	return nil
}

// TestOPS4_AProducerCountsWhatConcurrentRunsCommit proves that the counts, sums and extremes of a
// producer are exact, and that they are cumulative.
func TestOPS4_AProducerCountsWhatConcurrentRunsCommit(t *testing.T) {
	p := otelflow.NewProducer()
	o := otelflow.New(otelflow.Config{Producer: p})
	const goroutines, each = 8, 100
	durations := []time.Duration{0, time.Millisecond, 125 * time.Millisecond, 2 * time.Minute}
	var done sync.WaitGroup
	for range goroutines {
		done.Go(func() {
			now := time.Now()
			for range each {
				run := o.Run(observe.Run{ID: event.NewRunID(now, 0), Workflow: "w", Queue: "q"})
				for _, d := range durations {
					run.Committed(observe.Commit{Made: now, Confirmed: now.Add(d)})
				}
			}
		})
	}
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		for range 100 {
			_, _ = p.Produce(t.Context()) // concurrently
		}
	}()
	done.Wait()
	<-reading
	const n = goroutines * each
	for range 2 {
		sum := produced(t, p, "flowgen.commits").(metricdata.Sum[int64])
		if got := sum.DataPoints[0].Value; len(sum.DataPoints) != 1 || got != 4*n || !sum.IsMonotonic || sum.Temporality != metricdata.CumulativeTemporality {
			t.Errorf("%d commits in %d series, want %d in 1", got, len(sum.DataPoints), 4*n)
		}
		h := produced(t, p, "flowgen.commit.duration").(metricdata.Histogram[float64]).DataPoints[0]
		least, _ := h.Min.Value()
		most, _ := h.Max.Value()
		if want := n * 120.126; h.Count != 4*n || h.Sum < want-1e-6*want || h.Sum > want+1e-6*want || least != 0 || most != 120 {
			t.Errorf("%d values from %v to %v with the sum %v, want %d from 0 to 120 with the sum %v", h.Count, least, most, h.Sum, 4*n, want)
		}
		counts := make([]uint64, len(h.Bounds)+1)
		counts[0], counts[1], counts[len(h.Bounds)] = n, n, n
		for i, bound := range h.Bounds {
			if bound >= .125 {
				counts[i] = n
				break
			}
		}
		if diff := cmp.Diff(counts, h.BucketCounts); diff != "" {
			t.Errorf("buckets (-want +got):\n%s", diff)
		}
	}
}

func TestOPS4_AProducerBelongsToOneTelemetry(t *testing.T) {
	p := otelflow.NewProducer()
	otelflow.New(otelflow.Config{Producer: p})
	defer func() {
		if recover() == nil {
			t.Error("a second Telemetry has the same Producer")
		}
	}()
	otelflow.New(otelflow.Config{Producer: p})
}
