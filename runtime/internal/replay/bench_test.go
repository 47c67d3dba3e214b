package replay

import (
	"math"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// applyAll applies events and discards the resulting ones.
func applyAll(b *testing.B, r *Run, events ...event.Event) {
	for i := range events {
		if err := r.Apply(events[i]); err != nil {
			b.Fatal(err)
		}
	}
	r.Take()
}

func BenchmarkCoroutine_SuspendAndResume(b *testing.B) {
	c := newCoroutine()
	stop := false
	c.job = func(*Branch) {
		for !stop {
			c.suspend()
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		c.resume()
	}
	stop = true
	c.resume()
	c.stop()
}

func BenchmarkRun_StartStepFinish(b *testing.B) {
	pool := &Pool{}
	defer pool.Close()
	spec := &event.Spec{Workflow: "p.flow"}
	code := sequence(1)
	b.ReportAllocs()
	for b.Loop() {
		r := New(testRun, "flow", code, pool)
		applyAll(b, r,
			event.Event{Type: event.RunCreated, Time: t0, Spec: spec},
			event.Event{Type: event.RunStarted, Time: t0},
			event.Event{Type: event.StepStarted, Ref: 3, Attempt: 1, Time: t0},
			event.Event{Type: event.StepCompleted, Ref: 3, Attempt: 1, Time: t0})
		r.Close()
	}
}

func BenchmarkRun_SequentialStep(b *testing.B) {
	pool := &Pool{}
	defer pool.Close()
	r := New(testRun, "flow", sequence(math.MaxInt), pool)
	defer r.Close()
	applyAll(b, r, event.Event{Type: event.RunCreated, Time: t0}, event.Event{Type: event.RunStarted, Time: t0})
	b.ReportAllocs()
	for b.Loop() {
		ref := r.Startable().Ref
		applyAll(b, r, event.Event{Type: event.StepStarted, Ref: ref, Attempt: 1, Time: t0},
			event.Event{Type: event.StepCompleted, Ref: ref, Attempt: 1, Time: t0})
	}
}

func BenchmarkReplay_PerSequentialStep(b *testing.B) {
	const steps = 1000
	var log []event.Event
	code := func(br *Branch, s *Scope, _ []byte) Ending {
		for range steps {
			doStep(br, s, "p.s", "1")
		}
		_ = br.Sleep(s, t0.Add(time.Hour))
		return done("1")
	}
	pool := &Pool{}
	defer pool.Close()
	live := New(testRun, "flow", code, pool)
	defer live.Close()
	apply := func(e event.Event) {
		e.Time = t0
		if err := live.Apply(e); err != nil {
			b.Fatal(err)
		}
		log = append(log, live.Take()...)
	}
	apply(event.Event{Type: event.RunCreated})
	apply(event.Event{Type: event.RunStarted})
	for op := live.Startable(); op != nil; op = live.Startable() {
		ref := op.Ref
		apply(event.Event{Type: event.StepStarted, Ref: ref, Attempt: 1})
		apply(event.Event{Type: event.StepCompleted, Ref: ref, Attempt: 1})
	}
	b.ReportAllocs()
	for b.Loop() {
		r := New(testRun, "flow", code, pool)
		if err := r.Replay(log); err != nil {
			b.Fatal(err)
		}
		r.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*steps), "ns/step")
}
