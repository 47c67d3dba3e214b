package otelflow

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/observe"
)

// Metric describes a metric of this package.
type Metric struct {
	Name       string
	Kind       Kind
	Unit       string
	Attributes []string
	Meaning    string
}

// Kind is the kind of a metric's instrument.
type Kind string

// The kinds of instruments.
const (
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
	Gauge     Kind = "gauge"
)

// The attributes of metrics. Their values are names that programs define, and never IDs.
const (
	attrWorkflow = attribute.Key("workflow")
	attrStep     = attribute.Key("step")
	attrQueue    = attribute.Key("queue")
	attrOutcome  = attribute.Key("outcome")
	attrError    = attribute.Key("error.type")
	attrPayload  = attribute.Key("payload")
	attrStatus   = attribute.Key("status")
	attrLimit    = attribute.Key("limit")

	// Those of OpenTelemetry's semantic conventions for messaging.
	attrSystem      = attribute.Key("messaging.system")
	attrOperation   = attribute.Key("messaging.operation.name")
	attrDestination = attribute.Key("messaging.destination.name")
)

var (
	runStarted     = Metric{"flowgen.run.started", Counter, "{run}", []string{"workflow", "queue"}, "runs whose code has begun"}
	runEnded       = Metric{"flowgen.run.ended", Counter, "{run}", []string{"workflow", "queue", "outcome", "error.type"}, "runs that have ended; outcome: completed, failed, cancelled, continued"}
	stepAttempts   = Metric{"flowgen.step.attempts", Counter, "{attempt}", []string{"workflow", "step", "outcome", "error.type"}, "attempts of steps that have ended; outcome: completed, failed (the last attempt), retrying, interrupted (its worker ended)"}
	recoveries     = Metric{"flowgen.recoveries", Counter, "{worker}", []string{"workflow", "queue"}, "workers that have died with a run; counted when the run makes progress again or ends"}
	replays        = Metric{"flowgen.replays", Counter, "{replay}", []string{"workflow"}, "logs that a worker has read and replayed"}
	commits        = Metric{"flowgen.commits", Counter, "{commit}", []string{"workflow"}, "confirmed commits that added events"}
	alerts         = Metric{"flowgen.alerts", Counter, "{alert}", []string{"queue", "outcome"}, "alerts whose delivery has ended; the queue names the target; outcome: completed, failed"}
	runDuration    = Metric{"flowgen.run.duration", Histogram, "s", []string{"workflow", "queue", "outcome"}, "time from the creation of a run to its end"}
	stepDuration   = Metric{"flowgen.step.duration", Histogram, "s", []string{"workflow", "step", "outcome"}, "time from the start of an attempt to its end"}
	queueWait      = Metric{"flowgen.queue.wait", Histogram, "s", []string{"workflow", "queue"}, "time from the moment at which a run may begin to the beginning of its code"}
	slotWait       = Metric{"flowgen.slot.wait", Histogram, "s", []string{"workflow", "step"}, "time from the moment at which an attempt may begin to its start"}
	timerLateness  = Metric{"flowgen.timer.lateness", Histogram, "s", []string{"workflow"}, "time from the due time of a sleep or timeout to its event"}
	commitDuration = Metric{"flowgen.commit.duration", Histogram, "s", []string{"workflow"}, "time from a commit to its confirmation by the store"}
	replayDuration = Metric{"flowgen.replay.duration", Histogram, "s", []string{"workflow"}, "time that the code of a run takes to replay its log"}
	payloadSize    = Metric{"flowgen.payload.size", Histogram, "By", []string{"workflow", "payload"}, "size of a payload; payload: input, result, argument, step_result, message"}
	logLength      = Metric{"flowgen.log.length", Histogram, "{event}", []string{"workflow"}, "length of the log of a run at its end"}

	sentMessages     = Metric{"messaging.client.sent.messages", Counter, "{message}", []string{"messaging.system", "messaging.operation.name", "messaging.destination.name"}, "messages that code of runs has sent to other runs, by topic, with `Config.Messaging`"}
	consumedMessages = Metric{"messaging.client.consumed.messages", Counter, "{message}", []string{"messaging.system", "messaging.operation.name", "messaging.destination.name"}, "messages that runs have received, by topic, with `Config.Messaging`"}

	workerRuns    = Metric{"flowgen.worker.runs", Gauge, "{run}", nil, "runs that the workers of this process execute"}
	workerSteps   = Metric{"flowgen.worker.steps", Gauge, "{attempt}", nil, "attempts that are running"}
	workerParked  = Metric{"flowgen.worker.parked", Gauge, "{run}", nil, "waiting runs that are kept in memory"}
	workerBlocked = Metric{"flowgen.worker.blocked", Gauge, "{run}", nil, "runs whose code has not returned for longer than BlockedAfter"}

	queueReady   = Metric{"flowgen.queue.ready", Gauge, "{run}", []string{"workflow", "queue"}, "runs that wait for a worker"}
	queueOldest  = Metric{"flowgen.queue.oldest", Gauge, "s", []string{"workflow", "queue"}, "how long the oldest run that waits for a worker has waited at most; a message that wakes a run does not begin the time again"}
	storeRuns    = Metric{"flowgen.runs", Gauge, "{run}", []string{"workflow", "status"}, "runs by status"}
	limitUsed    = Metric{"flowgen.limit.used", Gauge, "{permit}", []string{"limit"}, "permits in use, of all keys of the limit"}
	limitWaiting = Metric{"flowgen.limit.waiting", Gauge, "{permit}", []string{"limit"}, "permits that are waited for, of all keys of the limit"}
)

// Metrics returns the metrics of this package. The last five are those of [ObserveStore].
func Metrics() []Metric {
	return []Metric{
		runStarted, runEnded, stepAttempts, recoveries, replays, commits, alerts,
		sentMessages, consumedMessages,
		runDuration, stepDuration, queueWait, slotWait, timerLateness, commitDuration, replayDuration, payloadSize, logLength,
		workerRuns, workerSteps, workerParked, workerBlocked,
		queueReady, queueOldest, storeRuns, limitUsed, limitWaiting,
	}
}

// Boundaries of histograms. Durations reach from a commit in memory to a run of a week.
var (
	shortTimes = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	longTimes  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600}
	sizes      = []float64{64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20}
	lengths    = []float64{5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000}
)

// meters records the metrics of runs.
type meters struct {
	names       *names
	messaging   bool // whether messages are counted
	since       time.Time
	instruments map[string]*instrument
	routes      sync.Map // *routeMeters by route
}

// newMeters returns meters for a meter provider, or for a Producer if that is not nil.
func newMeters(m metric.Meter, p *Producer, n *names) (*meters, error) {
	t := &meters{names: n, since: time.Now(), instruments: map[string]*instrument{}}
	var err error
	var counters []metric.Observable
	for _, d := range Metrics() {
		i := &instrument{Metric: d, bounds: boundaries(d), cells: map[*options]*cell{}}
		switch {
		case d.Kind == Gauge:
			continue
		case p != nil:
		case d.Kind == Counter:
			i.observable, err = m.Int64ObservableCounter(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Meaning))
			counters = append(counters, i.observable)
		default:
			i.recorder, err = m.Float64Histogram(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Meaning), metric.WithExplicitBucketBoundaries(i.bounds...))
		}
		if err != nil {
			return nil, err
		}
		t.instruments[d.Name] = i
	}
	if p != nil {
		if !p.meters.CompareAndSwap(nil, t) {
			return nil, errors.New("the Producer is that of another Telemetry: create one for each")
		}
		return t, nil
	}
	_, err = m.RegisterCallback(t.observe, counters...)
	return t, err
}

// observe reports the counters to a reader without a Producer.
func (t *meters) observe(_ context.Context, o metric.Observer) error {
	for _, i := range t.instruments {
		for _, c := range i.used() {
			if i.Kind == Counter {
				o.ObserveInt64(i.observable, int64(c.n.Load()), metric.WithAttributeSet(c.set))
			}
			c.want()
		}
	}
	return nil
}

func boundaries(d Metric) []float64 {
	switch d.Name {
	case runDuration.Name, stepDuration.Name, queueWait.Name:
		return longTimes
	case payloadSize.Name:
		return sizes
	case logLength.Name:
		return lengths
	}
	return shortTimes
}

// cell returns a time series.
func (t *meters) cell(d Metric, v labels) *cell {
	return t.instruments[d.Name].cell(t.names.options(v))
}

// seconds returns the time between two events. The clock of a store may be set back.
func seconds(from, to time.Time) float64 { return max(to.Sub(from).Seconds(), 0) }

type route struct{ workflow, queue string }

// routeMeters are the time series of most measurements of the runs of a workflow in a queue, and the
// names of their spans.
type routeMeters struct {
	commits, commitDuration, started, queueWait, completed, duration, length *cell
	input, result, argument, stepResult, message                             *cell
	steps                                                                    sync.Map // *stepMeters by name of the step

	startSpan, runSpan string // names of spans
}

// stepMeters are the time series of most measurements of a step, and the name of the spans of its
// attempts.
type stepMeters struct {
	slotWait, completed, duration *cell
	span                          string
}

// route returns the time series of a route. Those of names beyond the bound are not kept, but made
// of the same cells.
func (t *meters) route(of route) *routeMeters {
	if m, ok := t.routes.Load(of); ok {
		return m.(*routeMeters)
	}
	workflow, both := labels{workflow: of.workflow}, labels{workflow: of.workflow, queue: of.queue}
	size := func(what string) *cell { return t.cell(payloadSize, labels{workflow: of.workflow, payload: what}) }
	m := &routeMeters{
		commits: t.cell(commits, workflow), commitDuration: t.cell(commitDuration, workflow), started: t.cell(runStarted, both), queueWait: t.cell(queueWait, both),
		completed: t.cell(runEnded, both.with("completed")), duration: t.cell(runDuration, both.with("completed")), length: t.cell(logLength, workflow),
		input: size("input"), result: size("result"), argument: size("argument"), stepResult: size("step_result"), message: size("message"),
		startSpan: "start " + of.workflow, runSpan: "run " + of.workflow,
	}
	if t.names.within(both) {
		t.routes.Store(of, m)
	}
	return m
}

// step returns the time series of a step of the run.
func (t *meters) step(r *run, name string) *stepMeters {
	if m, ok := r.route.steps.Load(name); ok {
		return m.(*stepMeters)
	}
	v := labels{workflow: r.workflow, step: name}
	m := &stepMeters{slotWait: t.cell(slotWait, v), completed: t.cell(stepAttempts, v.with("completed")), duration: t.cell(stepDuration, v.with("completed")), span: "attempt " + name}
	if t.names.within(v) {
		r.route.steps.Store(name, m)
	}
	return m
}

// claimed records that a worker has a run in memory.
func (t *meters) claimed(r *observe.Run) {
	if v := (labels{workflow: r.Workflow}); len(r.Log) > 1 {
		t.cell(replays, v).add(1)
		t.cell(replayDuration, v).record(r.Replay.Seconds(), nil, nil)
	}
}

func (t *meters) committed(r *run, c *observe.Commit) {
	r.route.commits.add(1)
	r.route.commitDuration.record(seconds(c.Made, c.Confirmed), nil, nil)
	if c.Progress && r.recoveries > 0 {
		t.cell(recoveries, labels{workflow: r.workflow, queue: r.queue}).add(r.recoveries)
		r.recoveries = 0
	}
}

// event records the metrics of an event about the entity o, as it was before the event.
func (t *meters) event(r *run, e *event.Event, o *open) {
	switch m := r.route; e.Type {
	case event.RunStarted:
		size(m.input, r.input, r, e)
		if !r.helper {
			m.started.add(1)
			m.queueWait.record(seconds(r.mayBegin, e.Time), r, e)
		}
	case event.RunCompleted, event.RunFailed, event.RunCanceled, event.RunContinued:
		t.ended(r, e)
	case event.StepStarted:
		may := o.since
		if !o.due.IsZero() {
			may = o.due
		}
		t.step(r, o.name).slotWait.record(seconds(may, e.Time), r, e)
		if o.state == event.StateRunning {
			t.attempt(r, o, e, "interrupted", event.CodeInterrupted)
		}
	case event.StepCompleted:
		if s := t.step(r, o.name); o.attempt > 0 {
			if o.state == event.StateRunning {
				s.duration.record(seconds(o.began, e.Time), r, e)
			}
			s.completed.add(1)
		}
		size(m.stepResult, len(e.Payload), r, e)
	case event.StepRetrying, event.StepFailed:
		t.attempt(r, o, e, attemptOutcomes[e.Type], errorType(e.Failure))
	case event.WaitCompleted:
		if e.Outcome == event.OutcomeDue && !o.due.IsZero() {
			t.cell(timerLateness, labels{workflow: r.workflow}).record(seconds(o.due, e.Time), r, e)
		}
	case event.InputReceived:
		size(m.input, len(e.Payload), r, e)
	case event.StepCreated:
		size(m.argument, len(e.Payload), r, e)
	case event.MessageReceived:
		size(m.message, len(e.Payload), r, e)
		t.message(consumedMessages, "receive", e)
	case event.MessageSent:
		t.message(sentMessages, "send", e)
	}
}

func (t *meters) ended(r *run, e *event.Event) {
	m := r.route
	size(m.input, r.input, r, e) // its code has not begun
	size(m.result, len(e.Payload), r, e)
	m.length.record(float64(e.Seq), r, e)
	if r.helper {
		return
	}
	ended, duration := m.completed, m.duration
	if e.Type != event.RunCompleted {
		v := labels{workflow: r.workflow, queue: r.queue, outcome: outcomes[e.Type]}
		duration = t.cell(runDuration, v)
		v.errorType = errorType(e.Failure)
		ended = t.cell(runEnded, v)
	}
	ended.add(1)
	duration.record(seconds(r.created, e.Time), r, e)
	if r.workflow == event.AlertRun {
		t.cell(alerts, labels{queue: r.queue, outcome: outcomes[e.Type]}).add(1)
	}
}

var outcomes = map[event.Type]string{
	event.RunCompleted: "completed", event.RunFailed: "failed", event.RunCanceled: "cancelled", event.RunContinued: "continued",
}

// attemptOutcomes are the outcomes of attempts by the events that end them.
var attemptOutcomes = map[event.Type]string{
	event.StepCompleted: "completed", event.StepRetrying: "retrying", event.StepFailed: "failed",
}

// attempt records the end of an attempt that has not completed its step. A step may also end without
// an attempt.
func (t *meters) attempt(r *run, o *open, e *event.Event, outcome, errorType string) {
	if o.attempt == 0 {
		return
	}
	v := labels{workflow: r.workflow, step: o.name, outcome: outcome}
	if o.state == event.StateRunning {
		t.cell(stepDuration, v).record(seconds(o.began, e.Time), r, e)
	}
	v.errorType = errorType
	t.cell(stepAttempts, v).add(1)
}

// size records the size of a payload, if there is one.
func size(c *cell, bytes int, r *run, e *event.Event) {
	if bytes > 0 {
		c.record(float64(bytes), r, e)
	}
}

func (t *meters) message(d Metric, operation string, e *event.Event) {
	if t.messaging {
		t.cell(d, labels{operation: operation, destination: e.Name}).add(1)
	}
}

// errorType returns the value of error.type: the name of a registered error type, or the code.
func errorType(f *event.Failure) string {
	if f == nil {
		return ""
	}
	return cmp.Or(f.Type, f.Code)
}
