package otelflow

import (
	"context"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/flowgen/flowgen/runtime/event"
)

// A span is exported when the event that ends it is committed. Its IDs and its contents depend only
// on the log of its run, so that two processes that export it export the same span.

// tree is the part of a run that determines its traces.
type tree struct {
	first      trace.TraceID // trace of the run until splitAfter
	base       time.Time     // when the first trace of the tree begins
	splitAfter time.Duration
}

func treeOf(id event.RunID, spec *event.Spec, splitAfter time.Duration) tree {
	t := tree{base: id.Time(), splitAfter: splitAfter}
	switch from := remote(spec); {
	case spec.RerunOf != "" || spec.ContinuedOf != "":
		t.first = traceID(string(id))
	case from.IsValid():
		t.first = from.TraceID()
	case spec.Root != "":
		t.first = traceID(string(spec.Root))
	default:
		t.first = traceID(string(id))
	}
	return t
}

// part returns the number of the trace in which a span of the tree begins.
func (t *tree) part(at time.Time) int { return int(max(at.Sub(t.base), 0) / t.splitAfter) }

func (t *tree) trace(part int) trace.TraceID {
	if part == 0 {
		return t.first
	}
	return traceID(t.first.String() + "/" + strconv.Itoa(part))
}

// context returns the context of a span.
func (t *tree) context(part int, id trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t.trace(part), SpanID: id, TraceFlags: trace.FlagsSampled, Remote: true})
}

// runSpan returns the ID of the span of a run in a trace. In the trace in which the run begins, it is
// the span of the whole run, and in the others that of a part of the run.
func runSpan(run event.RunID, part int) trace.SpanID {
	return spanID(run, "run/", strconv.Itoa(part))
}

// spans exports the spans of one run.
type spans struct {
	*run
	tree
	tracer    trace.Tracer
	spec      *event.Spec
	began     time.Time                    // when the span of the run begins
	created   time.Time                    // when the run was created
	starts    bool                         // whether the span "start" is not exported yet
	later     map[int]bool                 // later parts of the run that have spans
	senders   map[uint64]trace.SpanContext // of questions that are not answered
	last      trace.SpanID                 // of the span of the run in lastPart; zero until it is needed
	lastPart  int
	under     context.Context // of the children of underID in underPart; nil until it is needed
	underID   trace.SpanID
	underPart int
	inherited int  // number of events of the log that other claims have committed
	quiet     bool // whether spans are not exported, because they are those of the log that was read
}

// event exports the spans that an event about the entity o ends. The state of the run is that before
// the event.
func (s *spans) event(e *event.Event, o *open) {
	switch {
	case e.Type == event.RunCreated:
		s.spec, s.created, s.starts = e.Spec, e.Time, e.Spec.Kept == 0
		s.tree = treeOf(s.id, e.Spec, s.cfg.SplitAfter)
		s.remember(s)
	case s.kept > 0: // the spans of these events are those of the other run
		if s.beginsRerun(e) {
			s.began = e.Time
		}
		return
	}
	s.closeParts(e.Time)
	switch e.Type {
	case event.RunStarted:
		s.began = e.Time
		s.start(e.Time)
	case event.StepStarted:
		if o.state == event.StateRunning {
			s.attempt(o, e.Time, "interrupted", &event.Failure{Code: event.CodeInterrupted})
		}
	case event.StepRetrying, event.StepFailed, event.StepCompleted:
		s.attempt(o, e.Time, attemptOutcomes[e.Type], e.Failure)
	case event.MessageReceived, event.HookReceived:
		s.received(e, o)
	case event.AskReceived, event.AskAccepted:
		if from := sender(e); from.IsValid() {
			if s.senders == nil {
				s.senders = map[uint64]trace.SpanContext{}
			}
			s.senders[e.Seq] = from
		}
	case event.ChildCreated:
		s.use(s.part(e.Time)) // the span of the child is in this part
	case event.WaitCompleted:
		s.wait(o, e.Time, e.Outcome.String())
	case event.SendCompleted, event.SendFailed:
		s.entity(o, "send", trace.SpanKindProducer, e.Time, e.Failure)
	case event.AskAnswered, event.AskRefused:
		s.entity(o, "ask", trace.SpanKindServer, e.Time, e.Failure)
	case event.HookDisposed:
		s.entity(o, "hook", trace.SpanKindServer, e.Time, nil)
	case event.RunCompleted, event.RunFailed, event.RunCanceled, event.RunContinued:
		s.end(e)
	}
}

// runSpan returns the ID of the span of the run in a part.
func (s *spans) runSpan(part int) trace.SpanID {
	if !s.last.IsValid() || s.lastPart != part {
		s.last, s.lastPart = runSpan(s.id, part), part
	}
	return s.last
}

// start exports the span from the creation of the run to the beginning of its code.
func (s *spans) start(until time.Time) {
	if !s.starts {
		return
	}
	s.starts = false
	part := s.part(s.created)
	one := span{name: s.route.startSpan, kind: trace.SpanKindProducer, id: spanID(s.id, "start"), from: s.created, to: until}
	switch from := remote(s.spec); {
	case s.spec.RerunOf != "" || s.spec.ContinuedOf != "":
	case s.spec.Parent != "": // its span is in the same trace, or is the part of the parent in this trace
		one.parent = runSpan(s.spec.Parent, part)
	case from.IsValid() && part == 0:
		one.parent = from.SpanID()
	}
	s.export(part, one, attribute.String("flowgen.queue", s.queue))
}

func (s *spans) attempt(o *open, until time.Time, outcome string, f *event.Failure) {
	if o.began.IsZero() || o.attempt == 0 {
		return
	}
	s.within(span{
		name: s.meters.step(s.run, o.name).span, id: s.attemptOf(o), from: o.began, to: until, failure: f,
	}, attribute.String("flowgen.step", o.name), attribute.String("flowgen.key", o.key), attribute.Int("flowgen.attempt", o.number),
		attribute.String("flowgen.worker", o.by), attribute.String("flowgen.outcome", outcome))
}

// attemptOf returns the ID of the span of the present attempt of a step of the run. If the run
// executes the step for another run, the span has the ID that it would have in that run.
func (s *spans) attemptOf(o *open) trace.SpanID {
	if !o.span.IsValid() {
		if event.IsStepRun(s.workflow) {
			o.span = attemptID(s.spec.Parent, s.spec.ParentKey, o.number)
		} else {
			o.span = attemptID(s.id, o.key, o.number)
		}
	}
	return o.span
}

func attemptID(run event.RunID, key string, number int) trace.SpanID {
	return spanID(run, "attempt/", strconv.Itoa(number), "/", key)
}

func (s *spans) wait(o *open, until time.Time, outcome string) {
	if o.wait == event.WaitDeadline {
		return // no code waits for it
	}
	name := "wait " + o.wait.String()
	if o.name != "" {
		name += " " + o.name
	}
	s.within(span{name: name, id: spanID(s.id, "wait/", strconv.FormatUint(o.ref, 10)), from: o.since, to: until},
		attribute.String("flowgen.outcome", outcome))
}

// received exports the receipt of a message or payload, if its sender has a span.
func (s *spans) received(e *event.Event, o *open) {
	if from := sender(e); from.IsValid() {
		name := e.Name
		if o != nil { // a hook
			name = o.name
		}
		s.within(span{
			name: "receive " + name, kind: trace.SpanKindConsumer, id: spanID(s.id, "receive/", string(e.Item)), from: e.Time, to: e.Time,
			links: []trace.SpanContext{from},
		})
	}
}

func (s *spans) entity(o *open, what string, kind trace.SpanKind, until time.Time, f *event.Failure) {
	one := span{name: what + " " + o.name, kind: kind, id: spanID(s.id, what, "/", strconv.FormatUint(o.ref, 10)), from: o.since, to: until, failure: f}
	if from := s.senders[o.ref]; from.IsValid() {
		one.links = append(one.links, from)
		delete(s.senders, o.ref)
	}
	if o.next != "" {
		s.within(one, attribute.String("flowgen.to", string(o.next)))
		return
	}
	s.within(one)
}

// end exports the span of the run, and the spans that the end of the run ends.
func (s *spans) end(e *event.Event) {
	s.start(e.Time)
	if s.began.IsZero() {
		s.began = s.created
	}
	s.opens.all(func(o *open) {
		switch {
		case o.entity == event.EntityStep && o.state == event.StateRunning:
			s.attempt(o, e.Time, "abandoned", nil)
		case o.entity == event.EntityWait:
			s.wait(o, e.Time, "ended")
		case o.entity == event.EntityHook:
			s.entity(o, "hook", trace.SpanKindServer, e.Time, nil)
		case o.entity == event.EntityAsk:
			s.entity(o, "ask", trace.SpanKindServer, e.Time, nil)
		case o.entity == event.EntitySend:
			s.entity(o, "send", trace.SpanKindProducer, e.Time, nil)
		}
	})
	for part := range s.later {
		s.exportPart(part, e.Time)
	}
	part := s.part(s.began)
	one := span{
		name: s.route.runSpan, kind: trace.SpanKindConsumer, id: s.runSpan(part), from: s.began, to: e.Time, failure: e.Failure,
	}
	if s.spec.Kept == 0 {
		if created := s.part(s.created); created == part {
			one.parent = spanID(s.id, "start")
		} else {
			one.links = append(one.links, s.context(created, spanID(s.id, "start")))
		}
	}
	if before := s.previous(); before.IsValid() {
		one.links = append(one.links, before)
	}
	s.export(part, one, attribute.String("flowgen.queue", s.queue), attribute.String("flowgen.outcome", outcomes[e.Type]), attribute.String("flowgen.workflow_id", s.workflowID))
}

// previous returns the span of the run that this run repeats or continues. It reads the log of that
// run, which determines its trace. The result is not valid if the log was removed.
func (s *spans) previous() trace.SpanContext {
	id := s.spec.RerunOf
	if id == "" {
		id = s.spec.ContinuedOf
	}
	if id == "" || s.quiet {
		return trace.SpanContext{}
	}
	_, events, err := s.read(id)
	if err != nil || len(events) == 0 {
		return trace.SpanContext{}
	}
	before := treeOf(id, events[0].Spec, s.cfg.SplitAfter)
	began := events[0].Time
	for i := range events {
		if events[i].Type == event.RunStarted {
			began = events[i].Time
		}
	}
	part := before.part(began)
	return before.context(part, runSpan(id, part))
}

// within exports a span of the code of the run. In a later part of the run its parent is the span of
// this part.
func (s *spans) within(one span, attrs ...attribute.KeyValue) {
	part := s.part(one.from)
	one.parent = s.runSpan(part)
	s.use(part)
	s.export(part, one, attrs...)
}

// use makes the run export a span for a later part.
func (s *spans) use(part int) {
	if part != s.part(s.began) {
		if s.later == nil {
			s.later = map[int]bool{}
		}
		s.later[part] = true
	}
}

// closeParts exports the spans of the parts of the run that have ended.
func (s *spans) closeParts(now time.Time) {
	for part := range s.later {
		if over := s.base.Add(time.Duration(part+1) * s.splitAfter); now.After(over) {
			delete(s.later, part)
			s.exportPart(part, over)
		}
	}
}

func (s *spans) exportPart(part int, until time.Time) {
	began := s.part(s.began)
	s.export(part, span{
		name: s.route.runSpan, id: s.runSpan(part), from: s.base.Add(time.Duration(part) * s.splitAfter), to: until,
		links: []trace.SpanContext{s.context(began, runSpan(s.id, began))},
	}, attribute.String("flowgen.queue", s.queue), attribute.Int("flowgen.part", part))
}

// span is a span of a run.
type span struct {
	name     string
	kind     trace.SpanKind
	id       trace.SpanID
	parent   trace.SpanID // in the same trace; zero if there is none
	from, to time.Time
	links    []trace.SpanContext
	failure  *event.Failure
}

// kinds are the options of the kinds of spans.
var kinds = func() (all [trace.SpanKindConsumer + 1]trace.SpanStartOption) {
	for kind := range all {
		all[kind] = trace.WithSpanKind(trace.SpanKind(kind))
	}
	return all
}()

// scratch is memory for the options and attributes of a span, which the tracer copies.
type scratch struct {
	opts  []trace.SpanStartOption
	attrs []attribute.KeyValue
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// export passes a span to the tracer. Attributes are set after the start of the span, because options
// are copied once more.
func (s *spans) export(part int, one span, attrs ...attribute.KeyValue) {
	if s.quiet {
		return
	}
	m := scratches.Get().(*scratch)
	defer func() {
		clear(m.opts)
		clear(m.attrs)
		scratches.Put(m)
	}()
	m.opts = append(m.opts[:0], trace.WithTimestamp(one.from), kinds[one.kind])
	for _, l := range one.links {
		m.opts = append(m.opts, trace.WithLinks(trace.Link{SpanContext: l}))
	}
	_, out := s.tracer.Start(withIDs(s.parent(part, one.parent), s.trace(part), one.id), one.name, m.opts...)
	if !out.IsRecording() {
		return // not sampled
	}
	m.attrs = append(append(m.attrs[:0], attribute.String("flowgen.run", string(s.id)), attribute.String("flowgen.workflow", s.workflow)), attrs...)
	if f := one.failure; f != nil {
		out.SetStatus(codes.Error, f.Message)
		m.attrs = append(m.attrs, attribute.String("error.type", errorType(f)))
	}
	out.SetAttributes(m.attrs...)
	out.End(trace.WithTimestamp(one.to))
}

// parent returns a context with the parent of a span. Most spans of a run have the same one.
func (s *spans) parent(part int, id trace.SpanID) context.Context {
	switch {
	case !id.IsValid():
		return context.Background()
	case s.under == nil || s.underID != id || s.underPart != part:
		s.under, s.underID, s.underPart = trace.ContextWithRemoteSpanContext(context.Background(), s.context(part, id)), id, part
	}
	return s.under
}
