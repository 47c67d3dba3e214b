package otelflow

import (
	"context"
	"fmt"
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
	return traceID(fmt.Sprintf("%s/%d", t.first, part))
}

// context returns the context of a span.
func (t *tree) context(part int, id trace.SpanID) trace.SpanContext {
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: t.trace(part), SpanID: id, TraceFlags: trace.FlagsSampled, Remote: true})
}

// runSpan returns the ID of the span of a run in a trace. In the trace in which the run begins, it is
// the span of the whole run, and in the others that of a part of the run.
func runSpan(run event.RunID, part int) trace.SpanID {
	return spanID(run, fmt.Sprintf("run/%d", part))
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
	open      map[int]bool                 // later parts of the run that have spans
	senders   map[uint64]trace.SpanContext // of questions that are not answered
	starter   map[uint64]*event.Event
	inherited int  // number of events of the log that other claims have committed
	quiet     bool // whether spans are not exported, because they are those of the log that was read
}

// event exports the spans that an event ends. The state of the run is that before the event.
func (s *spans) event(e *event.Event) {
	state := &s.state
	switch {
	case e.Type == event.RunCreated:
		s.spec, s.created, s.starts = e.Spec, e.Time, e.Spec.Kept == 0
		s.tree = treeOf(s.id, e.Spec, s.cfg.SplitAfter)
		s.remember(s)
	case e.Seq <= uint64(s.spec.Kept):
		return // copied from the log of another run
	case s.began.IsZero() && s.spec.Kept > 0:
		s.began = e.Time
	}
	s.closeParts(e.Time)
	switch e.Type {
	case event.RunStarted:
		s.began = e.Time
		s.start(e.Time)
	case event.StepStarted:
		if o := state.Open(e.Ref); o.State == event.StateRunning {
			s.attempt(o, e.Time, "interrupted", &event.Failure{Code: event.CodeInterrupted})
		}
		started := *e
		s.starter[e.Ref] = &started
	case event.StepRetrying, event.StepFailed, event.StepCompleted:
		s.attempt(state.Open(e.Ref), e.Time, attemptOutcomes[e.Type], e.Failure)
		delete(s.starter, e.Ref)
	case event.MessageReceived, event.HookReceived:
		s.received(e)
	case event.AskReceived, event.AskAccepted:
		s.senders[e.Seq] = sender(e)
	case event.ChildCreated:
		s.use(s.part(e.Time)) // the span of the child is in this part
	case event.WaitCompleted:
		s.wait(state.Open(e.Ref), e.Time, e.Outcome.String())
	case event.SendCompleted, event.SendFailed:
		s.entity(state.Open(e.Ref), "send", trace.SpanKindProducer, e.Time, e.Failure)
	case event.AskAnswered, event.AskRefused:
		s.entity(state.Open(e.Ref), "ask", trace.SpanKindServer, e.Time, e.Failure)
	case event.HookDisposed:
		s.entity(state.Open(e.Ref), "hook", trace.SpanKindServer, e.Time, nil)
	case event.RunCompleted, event.RunFailed, event.RunCanceled, event.RunContinued:
		s.end(e)
	}
}

// start exports the span from the creation of the run to the beginning of its code.
func (s *spans) start(until time.Time) {
	if !s.starts {
		return
	}
	s.starts = false
	part := s.part(s.created)
	one := span{name: "start " + s.workflow, kind: trace.SpanKindProducer, id: spanID(s.id, "start"), from: s.created, to: until}
	switch from := remote(s.spec); {
	case s.spec.RerunOf != "" || s.spec.ContinuedOf != "":
	case s.spec.Parent != "": // its span is in the same trace, or is the part of the parent in this trace
		one.parent = runSpan(s.spec.Parent, part)
	case from.IsValid() && part == 0:
		one.parent = from.SpanID()
	}
	s.export(part, one)
}

func (s *spans) attempt(o *event.Open, until time.Time, outcome string, f *event.Failure) {
	began := s.starter[o.Ref]
	if began == nil || o.Attempt == 0 {
		return
	}
	s.within(span{
		name: "attempt " + o.Name, id: s.attemptID(o, began.Attempt), from: began.Time, to: until, failure: f,
		attrs: []attribute.KeyValue{
			attribute.String("flowgen.step", o.Name), attribute.String("flowgen.key", o.Key), attribute.Int("flowgen.attempt", began.Attempt),
			attribute.String("flowgen.worker", began.By), attribute.String("flowgen.outcome", outcome),
		},
	})
}

// attemptID returns the ID of the span of an attempt of a step of the run. If the run executes the
// step for another run, the span has the ID that it would have in that run.
func (s *spans) attemptID(o *event.Open, number int) trace.SpanID {
	if event.IsStepRun(s.workflow) {
		return attemptID(s.spec.Parent, s.spec.ParentKey, number)
	}
	return attemptID(s.id, o.Key, number)
}

func attemptID(run event.RunID, key string, number int) trace.SpanID {
	return spanID(run, fmt.Sprintf("attempt/%d/%s", number, key))
}

func (s *spans) wait(o *event.Open, until time.Time, outcome string) {
	if o.Wait == event.WaitDeadline {
		return // no code waits for it
	}
	name := "wait " + o.Wait.String()
	if o.Name != "" {
		name += " " + o.Name
	}
	s.within(span{name: name, id: spanID(s.id, fmt.Sprintf("wait/%d", o.Ref)), from: o.Since, to: until, attrs: []attribute.KeyValue{
		attribute.String("flowgen.outcome", outcome),
	}})
}

// received exports the receipt of a message or payload, if its sender has a span.
func (s *spans) received(e *event.Event) {
	if from := sender(e); from.IsValid() {
		name := e.Name
		if o := s.state.Open(e.Ref); o != nil { // a hook
			name = o.Name
		}
		s.within(span{
			name: "receive " + name, kind: trace.SpanKindConsumer, id: spanID(s.id, "receive/"+string(e.Item)), from: e.Time, to: e.Time,
			links: []trace.SpanContext{from},
		})
	}
}

func (s *spans) entity(o *event.Open, what string, kind trace.SpanKind, until time.Time, f *event.Failure) {
	one := span{name: what + " " + o.Name, kind: kind, id: spanID(s.id, fmt.Sprintf("%s/%d", what, o.Ref)), from: o.Since, to: until, failure: f}
	if from := s.senders[o.Ref]; from.IsValid() {
		one.links = append(one.links, from)
		delete(s.senders, o.Ref)
	}
	if o.Next != "" {
		one.attrs = append(one.attrs, attribute.String("flowgen.to", string(o.Next)))
	}
	s.within(one)
}

// end exports the span of the run, and the spans that the end of the run ends.
func (s *spans) end(e *event.Event) {
	s.start(e.Time)
	if s.began.IsZero() {
		s.began = s.created
	}
	s.state.Opens(func(o *event.Open) bool {
		switch {
		case o.Entity == event.EntityStep && o.State == event.StateRunning:
			s.attempt(o, e.Time, "abandoned", nil)
		case o.Entity == event.EntityWait:
			s.wait(o, e.Time, "ended")
		case o.Entity == event.EntityHook:
			s.entity(o, "hook", trace.SpanKindServer, e.Time, nil)
		case o.Entity == event.EntityAsk:
			s.entity(o, "ask", trace.SpanKindServer, e.Time, nil)
		case o.Entity == event.EntitySend:
			s.entity(o, "send", trace.SpanKindProducer, e.Time, nil)
		}
		return true
	})
	for part := range s.open {
		s.exportPart(part, e.Time)
	}
	part := s.part(s.began)
	one := span{
		name: "run " + s.workflow, kind: trace.SpanKindConsumer, id: runSpan(s.id, part), from: s.began, to: e.Time, failure: e.Failure,
		attrs: []attribute.KeyValue{attribute.String("flowgen.outcome", outcomes[e.Type]), attribute.String("flowgen.workflow_id", s.workflowID)},
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
	s.export(part, one)
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
func (s *spans) within(one span) {
	part := s.part(one.from)
	one.parent = runSpan(s.id, part)
	s.use(part)
	s.export(part, one)
}

// use makes the run export a span for a later part.
func (s *spans) use(part int) {
	if part != s.part(s.began) {
		s.open[part] = true
	}
}

// closeParts exports the spans of the parts of the run that have ended.
func (s *spans) closeParts(now time.Time) {
	for part := range s.open {
		if over := s.base.Add(time.Duration(part+1) * s.splitAfter); now.After(over) {
			delete(s.open, part)
			s.exportPart(part, over)
		}
	}
}

func (s *spans) exportPart(part int, until time.Time) {
	began := s.part(s.began)
	s.export(part, span{
		name: "run " + s.workflow, id: runSpan(s.id, part), from: s.base.Add(time.Duration(part) * s.splitAfter), to: until,
		links: []trace.SpanContext{s.context(began, runSpan(s.id, began))}, attrs: []attribute.KeyValue{attribute.Int("flowgen.part", part)},
	})
}

// span is a span of a run.
type span struct {
	name     string
	kind     trace.SpanKind
	id       trace.SpanID
	parent   trace.SpanID // in the same trace; zero if there is none
	from, to time.Time
	links    []trace.SpanContext
	attrs    []attribute.KeyValue
	failure  *event.Failure
}

// export passes a span to the tracer.
func (s *spans) export(part int, one span) {
	if s.quiet {
		return
	}
	ctx := withIDs(context.Background(), s.trace(part), one.id)
	if one.parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, s.context(part, one.parent))
	}
	opts := []trace.SpanStartOption{
		trace.WithTimestamp(one.from), trace.WithSpanKind(one.kind), trace.WithAttributes(one.attrs...),
		trace.WithAttributes(attribute.String("flowgen.run", string(s.id)), attribute.String("flowgen.workflow", s.workflow), attribute.String("flowgen.queue", s.queue)),
	}
	for _, l := range one.links {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: l}))
	}
	_, out := s.tracer.Start(ctx, one.name, opts...)
	if f := one.failure; f != nil {
		out.SetStatus(codes.Error, f.Message)
		out.SetAttributes(attribute.String("error.type", errorType(f)))
	}
	out.End(trace.WithTimestamp(one.to))
}
