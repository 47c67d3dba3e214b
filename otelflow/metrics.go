package otelflow

import (
	"cmp"
	"context"
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
	queueOldest  = Metric{"flowgen.queue.oldest", Gauge, "s", []string{"workflow", "queue"}, "age of the oldest run that waits for a worker"}
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
	names      *names
	messaging  bool // whether messages are counted
	counters   map[string]metric.Int64Counter
	histograms map[string]metric.Float64Histogram
}

func newMeters(m metric.Meter, n *names) (*meters, error) {
	t := &meters{names: n, counters: map[string]metric.Int64Counter{}, histograms: map[string]metric.Float64Histogram{}}
	var err error
	for _, d := range Metrics() {
		switch d.Kind {
		case Counter:
			t.counters[d.Name], err = m.Int64Counter(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Meaning))
		case Histogram:
			t.histograms[d.Name], err = m.Float64Histogram(d.Name, metric.WithUnit(d.Unit), metric.WithDescription(d.Meaning), metric.WithExplicitBucketBoundaries(boundaries(d)...))
		}
		if err != nil {
			return nil, err
		}
	}
	return t, nil
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

func (t *meters) add(ctx context.Context, d Metric, v labels) { t.count(ctx, d, 1, v) }

func (t *meters) count(ctx context.Context, d Metric, n int, v labels) {
	t.counters[d.Name].Add(ctx, int64(n), t.names.options(v).add...)
}

func (t *meters) record(ctx context.Context, d Metric, n float64, v labels) {
	t.histograms[d.Name].Record(ctx, n, t.names.options(v).record...)
}

// seconds returns the time between two events. The clock of a store may be set back.
func seconds(from, to time.Time) float64 { return max(to.Sub(from).Seconds(), 0) }

// claimed records that a worker has a run in memory.
func (t *meters) claimed(r *observe.Run) {
	v := labels{workflow: r.Workflow}
	if len(r.Log) > 1 {
		t.add(context.Background(), replays, v)
		t.record(context.Background(), replayDuration, r.Replay.Seconds(), v)
	}
}

func (t *meters) committed(r *run, c *observe.Commit) {
	v := labels{workflow: r.workflow}
	t.add(context.Background(), commits, v)
	t.record(context.Background(), commitDuration, seconds(c.Made, c.Confirmed), v)
	if c.Progress && r.recoveries > 0 {
		t.count(context.Background(), recoveries, r.recoveries, labels{workflow: r.workflow, queue: r.queue})
		r.recoveries = 0
	}
}

// event records the metrics of an event that follows the state of the log before it.
func (t *meters) event(ctx context.Context, r *run, e *event.Event) {
	switch state := &r.state; e.Type {
	case event.RunStarted:
		t.size(ctx, r, "input", r.input)
		if r.helper {
			return
		}
		v := labels{workflow: r.workflow, queue: r.queue}
		t.add(ctx, runStarted, v)
		t.record(ctx, queueWait, seconds(r.mayBegin, e.Time), v)
	case event.RunCompleted, event.RunFailed, event.RunCanceled, event.RunContinued:
		t.ended(ctx, r, e)
	case event.StepStarted:
		o := state.Open(e.Ref)
		may := o.Since
		if !o.Due.IsZero() {
			may = o.Due
		}
		t.record(ctx, slotWait, seconds(may, e.Time), labels{workflow: r.workflow, step: o.Name})
		if o.State == event.StateRunning {
			t.attempt(ctx, r, o, e, "interrupted", event.CodeInterrupted)
		}
	case event.StepCompleted:
		t.attempt(ctx, r, state.Open(e.Ref), e, attemptOutcomes[e.Type], "")
		t.size(ctx, r, "step_result", len(e.Payload))
	case event.StepRetrying, event.StepFailed:
		t.attempt(ctx, r, state.Open(e.Ref), e, attemptOutcomes[e.Type], errorType(e.Failure))
	case event.WaitCompleted:
		if o := state.Open(e.Ref); e.Outcome == event.OutcomeDue && !o.Due.IsZero() {
			t.record(ctx, timerLateness, seconds(o.Due, e.Time), labels{workflow: r.workflow})
		}
	case event.InputReceived:
		t.size(ctx, r, "input", len(e.Payload))
	case event.StepCreated:
		t.size(ctx, r, "argument", len(e.Payload))
	case event.MessageReceived:
		t.size(ctx, r, "message", len(e.Payload))
		t.message(ctx, consumedMessages, "receive", e)
	case event.MessageSent:
		t.message(ctx, sentMessages, "send", e)
	}
}

func (t *meters) ended(ctx context.Context, r *run, e *event.Event) {
	t.size(ctx, r, "input", r.input) // its code has not begun
	t.size(ctx, r, "result", len(e.Payload))
	t.record(ctx, logLength, float64(e.Seq), labels{workflow: r.workflow})
	if r.helper {
		return
	}
	v := labels{workflow: r.workflow, queue: r.queue, outcome: outcomes[e.Type]}
	t.record(ctx, runDuration, seconds(r.state.CreatedAt, e.Time), v)
	v.errorType = errorType(e.Failure)
	if r.workflow == event.AlertRun {
		t.add(ctx, alerts, labels{queue: r.queue, outcome: outcomes[e.Type]})
	}
	t.add(ctx, runEnded, v)
}

var outcomes = map[event.Type]string{
	event.RunCompleted: "completed", event.RunFailed: "failed", event.RunCanceled: "cancelled", event.RunContinued: "continued",
}

// attemptOutcomes are the outcomes of attempts by the events that end them.
var attemptOutcomes = map[event.Type]string{
	event.StepCompleted: "completed", event.StepRetrying: "retrying", event.StepFailed: "failed",
}

// attempt records the end of the attempt of a step. A step may also end without an attempt.
func (t *meters) attempt(ctx context.Context, r *run, o *event.Open, e *event.Event, outcome, errorType string) {
	if o.Attempt == 0 {
		return
	}
	v := labels{workflow: r.workflow, step: o.Name, outcome: outcome}
	if o.State == event.StateRunning {
		t.record(ctx, stepDuration, seconds(r.began[e.Ref], e.Time), v)
	}
	v.errorType = errorType
	t.add(ctx, stepAttempts, v)
}

func (t *meters) size(ctx context.Context, r *run, what string, bytes int) {
	if bytes > 0 {
		t.record(ctx, payloadSize, float64(bytes), labels{workflow: r.workflow, payload: what})
	}
}

func (t *meters) message(ctx context.Context, d Metric, operation string, e *event.Event) {
	if t.messaging {
		t.add(ctx, d, labels{operation: operation, destination: e.Name})
	}
}

// errorType returns the value of error.type: the name of a registered error type, or the code.
func errorType(f *event.Failure) string {
	if f == nil {
		return ""
	}
	return cmp.Or(f.Type, f.Code)
}
