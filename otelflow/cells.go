package otelflow

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowgen/flowgen/runtime/event"
)

// A measurement with the SDK looks up the attribute set, which costs more than a third of a
// microsecond. A step has eight of them. So each time series is a cell to which the code that
// measures has a pointer, and is read when a reader collects.

// Producer gives the counters and histograms of a [Telemetry] to the reader of a meter provider:
//
//	p := otelflow.NewProducer()
//	reader, err := prometheus.New(prometheus.WithProducer(p))
//	otel.SetMeterProvider(metric.NewMeterProvider(metric.WithReader(reader)))
//	t := otelflow.New(otelflow.Config{Producer: p})
//
// Without a Producer the histograms are those of the meter provider, with the same names and values,
// and cost several times as much. Views of a meter provider do not apply to the metrics of a
// Producer, and their temporality is always cumulative.
type Producer struct {
	meters atomic.Pointer[meters]
}

var _ sdk.Producer = (*Producer)(nil)

// NewProducer returns a Producer, for the readers of meter providers and for [Config.Producer] of one
// Telemetry.
func NewProducer() *Producer { return &Producer{} }

// Produce implements the interface Producer of package go.opentelemetry.io/otel/sdk/metric.
func (p *Producer) Produce(context.Context) ([]metricdata.ScopeMetrics, error) {
	t := p.meters.Load()
	if t == nil {
		return nil, nil
	}
	out := metricdata.ScopeMetrics{Scope: instrumentation.Scope{Name: scope}}
	now := time.Now()
	for _, i := range t.instruments {
		m := metricdata.Metrics{Name: i.Name, Description: i.Meaning, Unit: i.Unit}
		switch i.Kind {
		case Counter:
			m.Data = i.sum(t.since, now)
		case Histogram:
			m.Data = i.histogram(t.since, now)
		}
		if m.Data != nil {
			out.Metrics = append(out.Metrics, m)
		}
	}
	return []metricdata.ScopeMetrics{out}, nil
}

// instrument is a counter or a histogram with its time series.
type instrument struct {
	Metric
	bounds     []float64
	observable metric.Int64ObservableCounter // counters without a Producer
	recorder   metric.Float64Histogram       // histograms without a Producer

	mu    sync.RWMutex
	cells map[*options]*cell
}

// cell returns the time series with the given attributes.
func (i *instrument) cell(o *options) *cell {
	i.mu.RLock()
	c := i.cells[o]
	i.mu.RUnlock()
	if c != nil {
		return c
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if c = i.cells[o]; c == nil {
		c = &cell{instrument: i, options: o}
		if i.Kind == Histogram {
			n := len(i.bounds) + 1
			c.counts, c.exemplars, c.wanted = make([]atomic.Uint64, n), make([]atomic.Pointer[metricdata.Exemplar[float64]], n), make([]atomic.Bool, n)
			c.least.Store(math.Float64bits(math.Inf(1)))
			c.most.Store(math.Float64bits(math.Inf(-1)))
			c.want()
		}
		i.cells[o] = c
	}
	return c
}

// used returns the time series that have a value.
func (i *instrument) used() (all []*cell) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, c := range i.cells {
		if c.n.Load() > 0 {
			all = append(all, c)
		}
	}
	return all
}

// sum returns the data of a counter, or nil if it has none.
func (i *instrument) sum(since, now time.Time) metricdata.Aggregation {
	used := i.used()
	if len(used) == 0 {
		return nil
	}
	s := metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true}
	for _, c := range used {
		s.DataPoints = append(s.DataPoints, metricdata.DataPoint[int64]{Attributes: c.set, StartTime: since, Time: now, Value: int64(c.n.Load())})
	}
	return s
}

// histogram returns the data of a histogram, or nil if it has none.
func (i *instrument) histogram(since, now time.Time) metricdata.Aggregation {
	used := i.used()
	if len(used) == 0 {
		return nil
	}
	h := metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality}
	for _, c := range used {
		p := metricdata.HistogramDataPoint[float64]{
			Attributes: c.set, StartTime: since, Time: now, Bounds: slices.Clone(i.bounds),
			Min: metricdata.NewExtrema(load(&c.least)), Max: metricdata.NewExtrema(load(&c.most)), Sum: load(&c.sum),
		}
		for b := range c.counts {
			n := c.counts[b].Load()
			p.BucketCounts, p.Count = append(p.BucketCounts, n), p.Count+n
			if e := c.exemplars[b].Load(); e != nil {
				p.Exemplars = append(p.Exemplars, *e)
			}
		}
		c.want()
		h.DataPoints = append(h.DataPoints, p)
	}
	return h
}

// cell is a time series.
type cell struct {
	*instrument
	*options
	n atomic.Uint64 // value of a counter; 1 if a histogram has values

	counts           []atomic.Uint64 // of the buckets
	sum, least, most atomic.Uint64   // bits of float64
	wanted           []atomic.Bool   // by bucket: whether the next value becomes its exemplar
	exemplars        []atomic.Pointer[metricdata.Exemplar[float64]]
}

// add adds to a counter.
func (c *cell) add(n int) { c.n.Add(uint64(n)) }

// record records a value of a histogram. If the run of the event e has spans, the first value of a
// bucket after a collection becomes its exemplar. r and e may be nil.
func (c *cell) record(v float64, r *run, e *event.Event) {
	b := 0
	for b < len(c.bounds) && v > c.bounds[b] {
		b++
	}
	var span trace.SpanContext
	if r != nil && r.spans != nil && c.wanted[b].Load() && c.wanted[b].CompareAndSwap(true, false) {
		span = r.exemplar(e)
	}
	if c.recorder != nil {
		ctx := context.Background()
		if span.IsValid() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, span)
		}
		c.recorder.Record(ctx, v, c.options.record...)
		return
	}
	c.counts[b].Add(1)
	addTo(&c.sum, v)
	for old := c.least.Load(); v < math.Float64frombits(old) && !c.least.CompareAndSwap(old, math.Float64bits(v)); old = c.least.Load() {
	}
	for old := c.most.Load(); v > math.Float64frombits(old) && !c.most.CompareAndSwap(old, math.Float64bits(v)); old = c.most.Load() {
	}
	if c.n.Load() == 0 {
		c.n.Store(1)
	}
	if span.IsValid() {
		id, of := span.SpanID(), span.TraceID()
		c.exemplars[b].Store(&metricdata.Exemplar[float64]{Time: e.Time, Value: v, SpanID: id[:], TraceID: of[:]})
	}
}

// want makes the next value of each bucket its exemplar.
func (c *cell) want() {
	for b := range c.wanted {
		c.wanted[b].Store(true)
	}
}

func load(p *atomic.Uint64) float64 { return math.Float64frombits(p.Load()) }

func addTo(p *atomic.Uint64, v float64) {
	for old := p.Load(); !p.CompareAndSwap(old, math.Float64bits(math.Float64frombits(old)+v)); old = p.Load() {
	}
}
