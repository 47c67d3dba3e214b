package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
)

const newRun = event.RunID("wrun_01JGFJJZ00000000000000000B")

// drawCut draws a position at which a log may be cut: before a step or an outside event.
func drawCut(rt *rapid.T, log []event.Event) uint64 {
	is := commands(log)
	var cuts []uint64
	for i := 2; i < len(log); i++ {
		if !is[i] && !isBookkeeping(log[i].Type) || log[i].Type == event.StepCreated {
			cuts = append(cuts, log[i].Seq)
		}
	}
	return rapid.SampledFrom(append(cuts, uint64(len(log)+1))).Draw(rt, "cut")
}

func TestKeep_WhatIsTakenOverFitsTheCodeThatHasWrittenIt(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body, _, log := drawLog(t, rt)
		if log[len(log)-1].Type.Terminal() {
			log = log[:len(log)-1]
		}
		cut := drawCut(rt, log)
		until := rapid.SampledFrom([]uint64{cut, uint64(len(log) + 1)}).Draw(rt, "until")
		now := log[len(log)-1].Time.Add(time.Hour)
		part := Kept{Cut: cut, Until: until, Next: newRun, Seed: newRun, Now: now}
		if rapid.Bool().Draw(rt, "goes on with the random numbers") {
			part.Seed = Seed(testRun, log)
		}
		events, kept := Keep(log, part)
		spec := *events[0].Spec
		spec.Kept, spec.Seed = kept, testRun
		events[0].Spec = &spec

		code, seen := program(body)
		h := load(t, code)
		h.run.id, h.now = newRun, now
		if err := h.run.Replay(events); err != nil {
			rt.Fatalf("cut in front of event %d: %v", cut, err)
		}
		h.log = append(slices.Clone(events), h.run.Take()...)
		if diff := cmp.Diff(results(log, until), results(events, uint64(len(events)+1))); diff != "" {
			rt.Fatalf("results of the %d events that are kept of %d (-old +new):\n%s", kept, cut-1, diff)
		}
		h.drive(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "driver of the new run"), 0)))

		again, seenAgain := program(body)
		h2 := load(t, again)
		h2.run.id = newRun
		if err := h2.run.Replay(h.log); err != nil {
			rt.Fatalf("replay of the new run: %v", err)
		}
		if diff := cmp.Diff(seen.trace, seenAgain.trace); diff != "" {
			rt.Fatalf("the code saw (-first +again):\n%s", diff)
		}
	})
}

// results returns the results of the steps that completed before event number until.
func results(log []event.Event, until uint64) (all []string) {
	for i := range log {
		if log[i].Type == event.StepCompleted && log[i].Seq < until {
			all = append(all, string(log[i].Payload))
		}
	}
	return all
}

func TestKeep_CarriesOverWhatCameOfWhatIsKept(t *testing.T) {
	at := func(n int) time.Time { return t0.Add(time.Duration(n) * time.Second) }
	log := []event.Event{
		{Type: event.RunCreated, Spec: &event.Spec{Workflow: "p.flow"}},
		{Type: event.RunStarted},
		{Type: event.StepCreated, Key: "a"}, {Type: event.StepCreated, Key: "b"}, {Type: event.StepCreated, Key: "c"},
		{Type: event.StepStarted, Ref: 3, Attempt: 1}, {Type: event.StepStarted, Ref: 4, Attempt: 1}, {Type: event.StepRetrying, Ref: 4, Attempt: 1},
		{Type: event.CancelRequested}, // event 9
		{Type: event.StepFailed, Ref: 5},
		{Type: event.StepCreated, Key: "cleanup"}, // event 11
		{Type: event.StepStarted, Ref: 11, Attempt: 1},
		{Type: event.StreamClosed, Name: "s", Key: "cleanup", Attempt: 1},
		{Type: event.StepCompleted, Ref: 11, Attempt: 1},
		{Type: event.MessageReceived, Name: "m"},
		{Type: event.StreamClosed, Name: "t", Key: "cleanup/close.t#1"},
		{Type: event.StreamWritten, Name: "u", Key: "a", Attempt: 1, Item: "i"},
		{Type: event.StreamClosed, Name: "u", Key: "a", Attempt: 1},
		{Type: event.StepCompleted, Ref: 3, Attempt: 1},
		{Type: event.StepFailed, Ref: 4, Attempt: 1},
		{Type: event.RunCanceled},
	}
	for i := range log {
		log[i].Seq, log[i].Time = uint64(i+1), at(i)
		if log[i].Type.Creates() && i > 0 {
			log[i].Ref = log[i].Seq
		}
	}
	got, kept := Keep(log, Kept{Cut: 9, Until: 21, Next: newRun, Seed: newRun, Now: at(100)})
	var lines []string
	for i := range got {
		lines = append(lines, describe(&got[i]))
	}
	want := []string{
		"run_created", "run_started", "step_created (key a)", "step_created (key b)", "step_created (key c)", "step_started of event 3",
		"step_started of event 4", "step_retrying of event 4",
		"run_paused", "step_created (key cleanup)", "step_started of event 10", "stream_closed s (key cleanup)", "step_completed of event 10",
		"message_received m", "stream_closed u (key a)", "step_completed of event 3", "run_resumed",
	}
	if diff := cmp.Diff(want, lines); diff != "" || kept != 8 {
		t.Errorf("kept %d (-want +got):\n%s", kept, diff)
	}
	if last := got[len(got)-1]; !last.Time.Equal(at(100)) || last.Next != newRun {
		t.Errorf("the last event is %+v", last)
	}
}

// The event with which another build has continued the run is an attempt without an outcome.
func TestOPS10_Keep_NamesTheBuildOfWhatItTakesOver(t *testing.T) {
	log := []event.Event{
		{Type: event.RunCreated, Spec: &event.Spec{Workflow: "p.flow"}},
		{Type: event.RunStarted, Build: "a"},
		{Type: event.StepCreated, Key: "a"}, {Type: event.StepCreated, Key: "b"}, {Type: event.StepStarted, Ref: 3, Attempt: 1},
		{Type: event.CancelRequested}, // event 6
		{Type: event.MessageReceived, Name: "m"},
		{Type: event.StepStarted, Ref: 4, Attempt: 1, Build: "b"},
		{Type: event.StepCompleted, Ref: 3, Attempt: 1},
		{Type: event.MessageReceived, Name: "m"},
		{Type: event.RunCanceled},
	}
	for i := range log {
		log[i].Seq = uint64(i + 1)
		if log[i].Type.Creates() && i > 0 {
			log[i].Ref = log[i].Seq
		}
	}
	got, _ := Keep(log, Kept{Cut: 6, Until: 11, Next: newRun, Seed: newRun})
	var lines []string
	for i := range got {
		lines = append(lines, got[i].Type.String()+" "+got[i].Build)
	}
	want := []string{
		"run_created ", "run_started a", "step_created ", "step_created ", "step_started ", "run_paused ", "message_received ", "step_completed b", "message_received ", "run_resumed ",
	}
	if diff := cmp.Diff(want, lines[:min(len(lines), len(want))]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeep_EndsInFrontOfWhatHasNotEndedAndOthersKnow(t *testing.T) {
	for _, typ := range []event.Type{event.ChildCreated, event.MessageSent, event.HookCreated} {
		log := []event.Event{
			{Type: event.RunCreated, Spec: &event.Spec{Workflow: "p.flow"}}, {Type: event.RunStarted},
			{Type: event.ChildCreated, Key: "ended", Ref: 3}, {Type: typ, Key: "open", Ref: 4},
			{Type: event.ChildFailed, Ref: 3}, {Type: event.StepCreated, Key: "a", Ref: 6}, {Type: event.MessageReceived},
			{Type: event.StepCreated, Key: "b", Ref: 8},
		}
		for i := range log {
			log[i].Seq = uint64(i + 1)
		}
		got, kept := Keep(log, Kept{Cut: 8, Until: 8, Next: newRun, Seed: newRun, Now: t0})
		// The failure of the first child is not taken over, so the cut moves before that child.
		if kept != 2 || len(got) != 5 || got[3].Type != event.MessageReceived {
			t.Errorf("%s: kept %d of %v", typ, kept, got)
		}
	}
}

// TestKeep_ACutMayStandBetweenTheEffectsOfAPauseThatACancelEnded proves that a cancel that ended a
// pause takes effect only after the code has passed the cut, if the code reaches the cut while it
// reacts to an earlier event of the pause.
func TestKeep_ACutMayStandBetweenTheEffectsOfAPauseThatACancelEnded(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		_, _ = b.Receive(s, "go", time.Time{})
		first := spawn(b, s, func(b *Branch) any { return doStep(b, s, "p.s", "1") })
		doStep(b, s, "p.s", "2")
		_, _ = b.Await(s, first, "the step")
		return done("")
	}
	h := begin(t, code)
	h.apply(event.Event{Type: event.RunPaused})
	h.send("go", "")
	h.cancel()
	var cut uint64
	for i := range h.log {
		if h.log[i].Type == event.StepCreated {
			cut = h.log[i].Seq
		}
	}
	part := Kept{Cut: cut, Until: cut, Next: newRun, Seed: newRun, Now: h.now}
	events, kept := Keep(h.log[:len(h.log)-1], part)
	spec := *events[0].Spec
	spec.Kept, spec.Seed = kept, testRun
	events[0].Spec = &spec
	fork := load(t, code)
	fork.run.id = newRun
	if err := fork.run.Replay(events); err != nil {
		t.Fatal(err)
	}
	fork.log = append(events, fork.run.Take()...)
	if last := &fork.log[len(fork.log)-1]; last.Type != event.RunCompleted || last.Seq != uint64(len(events)+4) {
		t.Errorf("the log of the fork ends with %v, want the second step, the ends of both, and the end of the run", fork.lines())
	}
	again := load(t, code)
	again.run.id = newRun
	if err := again.run.Replay(fork.log); err != nil {
		t.Errorf("replay of the fork: %v", err)
	}
}
