package otelflow

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/store"
)

// scope is the name of the instrumentation scope.
const scope = "github.com/flowgen/flowgen/otelflow"

// Config configures a [Telemetry]. The zero value is the default.
type Config struct {
	// MeterProvider provides the meter of the metrics. The default is the global one.
	MeterProvider metric.MeterProvider
	// Producer exports the counters and histograms instead of MeterProvider, at a fraction of the
	// cost. MeterProvider still exports the gauges. See [Producer].
	Producer *Producer
	// MaxNames bounds the number of values that an attribute of a metric may have, for example the
	// number of workflows. Further values become "other". The default is [DefaultMaxNames].
	MaxNames int
	// Messaging enables the metrics of OpenTelemetry's semantic conventions for messaging.
	Messaging bool
	// TracerProvider provides the tracer of the spans. It must generate IDs with [IDs]; see
	// [NewTracerProvider]. The default is the global one when the first worker starts. Without a
	// provider, no spans are exported.
	TracerProvider trace.TracerProvider
	// SplitAfter is the time after which the spans of a run belong to a new trace, which is linked to
	// the first one. The traces of the children of a run are split with it. The default is an hour.
	SplitAfter time.Duration
	// Logger receives errors of the export. The default is slog.Default().
	Logger *slog.Logger

	renewal, stale time.Duration // shorter in tests
}

func (c Config) withDefaults() Config {
	if c.MeterProvider == nil {
		c.MeterProvider = otel.GetMeterProvider()
	}
	if c.MaxNames <= 0 {
		c.MaxNames = DefaultMaxNames
	}
	if c.SplitAfter <= 0 {
		c.SplitAfter = time.Hour
	}
	if c.renewal <= 0 {
		c.renewal, c.stale = renewal, stale
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// Telemetry exports metrics and spans of the events that workers commit. It is safe for concurrent
// use, including by several workers of one store.
type Telemetry struct {
	cfg     Config
	meter   metric.Meter
	meters  *meters
	tracing atomic.Pointer[tracing] // nil if no spans are exported

	mu     sync.Mutex
	store  store.Store // of the last worker
	omits  sync.Once   // logs the first attribute that is omitted
	unread unreadRuns
	known  sync.Map // weak pointers to the spans of the runs in memory, by attemptOf

	workers sync.Map // the functions that return the gauges of the workers
}

// New returns a Telemetry, for worker.Config.Observers. It panics if Config.Producer is that of another
// Telemetry.
func New(cfg Config) *Telemetry {
	cfg = cfg.withDefaults()
	t := &Telemetry{cfg: cfg, meter: cfg.MeterProvider.Meter(scope)}
	var err error
	if t.meters, err = newMeters(t.meter, cfg.Producer, newNames(cfg.MaxNames)); err == nil {
		err = t.gauges()
	}
	if err != nil {
		panic(fmt.Sprintf("otelflow: New: %v", err)) // names and units are constants
	}
	t.meters.messaging = cfg.Messaging
	return t
}

// tracing is a tracer of spans and its provider.
type tracing struct {
	provider trace.TracerProvider
	tracer   trace.Tracer
}

// connect finds the tracer when a worker starts, because a program may set the global provider after
// New.
func (t *Telemetry) connect() {
	if t.tracing.Load() != nil {
		return
	}
	provider := t.cfg.TracerProvider
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	if tracer := provider.Tracer(scope); t.derives(tracer) {
		t.tracing.CompareAndSwap(nil, &tracing{provider, tracer})
	}
}

// derives reports whether the spans of the tracer have the IDs that this package derives. The span
// with which it tries is not exported, because it does not end.
func (t *Telemetry) derives(tracer trace.Tracer) bool {
	want := ids{traceID("probe"), spanID("", "probe")}
	_, probe := tracer.Start(withIDs(context.Background(), want.trace, want.span), "probe")
	got := probe.SpanContext()
	if got.IsValid() && (got.TraceID() != want.trace || got.SpanID() != want.span) {
		t.cfg.Logger.Error("no spans are exported: the tracer provider does not generate their IDs", "fix", "create the provider with otelflow.NewTracerProvider")
	}
	return got.TraceID() == want.trace && got.SpanID() == want.span
}

// Worker implements [observe.WorkerObserver].
func (t *Telemetry) Worker(w observe.Worker) (stop func()) {
	t.connect()
	worker := new(byte) // a unique key
	t.workers.Store(worker, w.Gauges)
	stopJournal := t.journal(w)
	return func() {
		t.workers.Delete(worker)
		stopJournal()
	}
}

// gauges exports the sum of the gauges of the workers, as long as there are any.
func (t *Telemetry) gauges() error {
	gauges := map[string]metric.Int64ObservableGauge{}
	var all []metric.Observable
	for _, d := range []Metric{workerRuns, workerSteps, workerParked, workerBlocked} {
		g, err := t.meter.Int64ObservableGauge(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Meaning))
		if err != nil {
			return err
		}
		gauges[d.Name], all = g, append(all, g)
	}
	_, err := t.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		n, sum := 0, observe.Gauges{}
		t.workers.Range(func(_, of any) bool {
			g := of.(func() observe.Gauges)()
			n, sum.Runs, sum.Steps, sum.Parked, sum.Blocked = n+1, sum.Runs+g.Runs, sum.Steps+g.Steps, sum.Parked+g.Parked, sum.Blocked+g.Blocked
			return true
		})
		if n == 0 {
			return nil
		}
		o.ObserveInt64(gauges[workerRuns.Name], int64(sum.Runs))
		o.ObserveInt64(gauges[workerSteps.Name], int64(sum.Steps))
		o.ObserveInt64(gauges[workerParked.Name], int64(sum.Parked))
		o.ObserveInt64(gauges[workerBlocked.Name], int64(sum.Blocked))
		return nil
	}, all...)
	return err
}

// Run implements [observe.Observer].
func (t *Telemetry) Run(r observe.Run) observe.RunObserver {
	t.meters.claimed(&r)
	o := t.run(&r)
	if o.spans != nil {
		o.spans.quiet = r.Recoveries == 0 // otherwise a worker has died that may not have exported the spans
	}
	for i := range r.Log {
		if !o.follow(&r.Log[i], false) {
			return nil
		}
	}
	if o.spans != nil {
		o.spans.quiet, o.spans.inherited = false, len(r.Log)
	}
	return o
}

// run is the state of one run. It follows the log of the run.
type run struct {
	*Telemetry
	id              event.RunID
	workflowID      string
	workflow, queue string
	route           *routeMeters
	helper          bool // whether the run serves another run, so that no metric of runs counts it
	opens           opens
	created         time.Time
	recoveries      int       // number of workers that have died with the run and are not counted
	input           int       // size of the input, until the code begins
	mayBegin        time.Time // when the code of the run could begin
	kept            uint64    // Spec.Kept, until the rerun begins
	spans           *spans    // nil if the run has no spans
}

func (t *Telemetry) run(r *observe.Run) *run {
	o := &run{
		Telemetry: t, id: r.ID, workflowID: r.WorkflowID, helper: event.Helper(r.Workflow), recoveries: r.Recoveries,
		workflow: r.Workflow, queue: r.Queue, route: t.meters.route(route{r.Workflow, r.Queue}),
	}
	if tr := t.tracing.Load(); tr != nil && (!o.helper || event.IsStepRun(r.Workflow)) {
		o.spans = &spans{run: o, tracer: tr.tracer}
	}
	return o
}

// Committed implements [observe.RunObserver].
func (r *run) Committed(c observe.Commit) {
	r.meters.committed(r, &c)
	for i := range c.Events {
		e := &c.Events[i]
		if !r.follow(e, true) {
			return
		}
		if e.Type.Terminal() && r.spans != nil && r.spans.inherited > 1 {
			r.exportInherited(r.id, unreadRun{events: r.spans.inherited, ended: e.Time})
		}
	}
}

// exemplar returns the span to which an event about the entity o belongs.
func (r *run) exemplar(e *event.Event) trace.SpanContext {
	s := r.spans
	if s.spec == nil {
		return trace.SpanContext{}
	}
	if o := r.opens.get(e.Ref); o != nil && !o.began.IsZero() {
		return s.context(s.part(o.began), s.attemptOf(o))
	}
	part := s.part(s.began)
	return s.context(part, s.runSpan(part))
}

// follow applies an event to the state of the run, and exports the spans that it ends. It records
// metrics if a commit of this process has added the event.
func (r *run) follow(e *event.Event, committed bool) bool {
	o, next, err := r.opens.find(e)
	if err != nil {
		r.cfg.Logger.Error("an event does not fit the log of its run", "run", r.id, "error", err)
		return false
	}
	if committed {
		r.meters.event(r, e, o)
	}
	if r.spans != nil {
		r.spans.event(e, o)
	}
	r.opens.apply(e, o, next)
	switch e.Type {
	case event.RunCreated:
		r.created, r.mayBegin, r.input, r.kept = e.Time, e.Time, len(e.Payload), uint64(e.Spec.Kept)
		if e.Spec.StartAt.After(e.Time) {
			r.mayBegin = e.Spec.StartAt
		}
	case event.RunStarted:
		r.input = 0
	case event.RunReleased, event.RunResumed:
		r.mayBegin = e.Time
	}
	if r.beginsRerun(e) {
		r.created, r.kept = e.Time, 0
	}
	return true
}

// beginsRerun reports whether an event ends the part of the log of a rerun that is copied from
// another run. It has the time at which the rerun was created. The events before it, including the
// first one, have times of the other run.
func (r *run) beginsRerun(e *event.Event) bool {
	return r.kept > 0 && e.Seq > r.kept && (e.Type == event.RunResumed || e.Type == event.RunDelayed)
}
