package event_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
)

// entityOf derives entity ref from the whole log. A LogState must derive the same entity step by
// step.
func entityOf(log []event.Event, ref uint64) (o event.Open, exists bool) {
	for _, e := range log {
		switch {
		case e.Type.Entity() == event.EntityRun || e.Type.Entity() == event.EntityNone || e.Ref != ref:
			continue
		case e.Type.Creates():
			o = event.Open{Ref: ref, Entity: e.Type.Entity(), Name: e.Name, Key: e.Key, Wait: e.Wait, Since: e.Time, Token: e.Token}
			exists = true
		}
		o.State, _ = legalNext(o.State, e.Type)
		o.Due, o.Changed = e.Due, e.Time
		switch {
		case e.Type == event.StepHookCreated: // its due time applies only after the attempt is pending
			o.Due, o.Token = time.Time{}, e.Token
		case e.Type.Entity() == event.EntityStep && e.Type != event.StepPending && !e.Type.Creates():
			o.Token = ""
		}
		if e.Type.Creates() {
			continue // a creating event has no attempt and no failure
		}
		if e.Attempt != 0 || e.Type == event.StepRetrying {
			o.Attempt = e.Attempt
		}
		switch {
		case e.Type == event.StepRetrying && e.Attempt == 0:
			o.Stopped, o.Waited = 0, 0
		case e.Type == event.StepRetrying && e.Failure != nil && e.Failure.Code == event.CodeStopped:
			o.Stopped++
		case e.Type == event.StepRetrying && e.Failure != nil && e.Failure.Code == event.CodeRetryAfter:
			o.Waited++
		}
		if e.Failure != nil {
			o.Failure = e.Failure
		}
	}
	return o, exists
}

// paused reports whether the code of the run is suspended, and the time at which the suspension
// ends. The time is zero if the suspension has no end.
func paused(log []event.Event) (is bool, until time.Time) {
	var delayed time.Time
	for _, e := range log {
		switch e.Type {
		case event.RunPaused:
			is = true
		case event.RunDelayed:
			is, delayed = false, e.Due
		case event.RunResumed:
			if !is {
				delayed = time.Time{}
			}
			is = false
		case event.RunStepped, event.CancelRequested:
			is, delayed = false, time.Time{}
		}
	}
	if is {
		return true, time.Time{}
	}
	return !delayed.IsZero(), delayed
}

// drawNext draws an event that may follow the given log.
func drawNext(t *rapid.T, log []event.Event) event.Event {
	e := event.Event{Seq: uint64(len(log) + 1), Time: at(time.Duration(len(log)) * time.Second)}
	var choices []event.Event
	for _, typ := range event.Types() {
		switch {
		case typ == event.RunCreated || typ == event.RunStarted || typ.Terminal():
		case typ.Creates():
			choices = append(choices, event.Event{Type: typ, Ref: e.Seq})
		case typ.Entity() == event.EntityNone:
			choices = append(choices, event.Event{Type: typ})
		default:
			for ref := range e.Seq {
				o, exists := entityOf(log, ref)
				if _, ok := legalNext(o.State, typ); exists && ok && o.Entity == typ.Entity() {
					choices = append(choices, event.Event{Type: typ, Ref: ref})
				}
			}
		}
	}
	choice := rapid.SampledFrom(choices).Draw(t, "event")
	e.Type, e.Ref = choice.Type, choice.Ref
	e.Name = rapid.SampledFrom([]string{"", "charge", "ship"}).Draw(t, "name")
	e.Token = rapid.SampledFrom([]string{"", "one", "two"}).Draw(t, "token")
	e.Attempt = rapid.IntRange(0, 3).Draw(t, "attempt")
	e.Wait = rapid.SampledFrom([]event.WaitKind{event.WaitSleep, event.WaitMessage, event.WaitDeadline}).Draw(t, "wait")
	if rapid.Bool().Draw(t, "due") {
		e.Due = at(time.Duration(rapid.IntRange(-5, 5).Draw(t, "in")) * time.Hour)
	}
	if rapid.Bool().Draw(t, "failed") {
		e.Failure = &event.Failure{Message: "no"}
	}
	return e
}

func TestLogState_AgreesWithReadingTheWholeLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := numbered(event.Event{Type: event.RunCreated}, event.Event{Type: event.RunStarted})
		f := &event.LogState{}
		for i := range log {
			if err := f.Apply(&log[i]); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(1, 25).Draw(t, "length") {
			e := drawNext(t, log)
			if err := f.Apply(&e); err != nil {
				t.Fatalf("apply a legal event: %v", err)
			}
			log = append(log, e)
		}
		open, running, due := map[uint64]event.Open{}, 0, time.Time{}
		var dueBy []uint64
		limit := at(time.Duration(rapid.IntRange(-5, 5).Draw(t, "due by")) * time.Hour)
		for ref := uint64(1); ref <= f.Seq; ref++ {
			o, exists := entityOf(log, ref)
			if got := f.StateOf(ref); got != o.State {
				t.Errorf("entity %d is %s, want %s", ref, got, o.State)
			}
			if !exists || o.State.Terminal() {
				continue
			}
			open[ref] = o
			if o.State == event.StateRunning {
				running++
			}
			if !o.Due.IsZero() && (due.IsZero() || o.Due.Before(due)) {
				due = o.Due
			}
			if !o.Due.IsZero() && !o.Due.After(limit) {
				dueBy = append(dueBy, ref)
			}
		}
		if is, until := paused(log); is {
			due, dueBy = until, nil
		}
		slices.SortStableFunc(dueBy, func(a, b uint64) int { return open[a].Due.Compare(open[b].Due) })
		var gotDue []uint64
		for _, o := range f.DueBy(limit) {
			gotDue = append(gotDue, o.Ref)
		}
		if diff := cmp.Diff(dueBy, gotDue); diff != "" {
			t.Errorf("due by %v (-want +got):\n%s", limit, diff)
		}
		if diff := cmp.Diff(open, opens(f)); diff != "" {
			t.Errorf("open entities differ (-want +got):\n%s", diff)
		}
		if f.RunningSteps() != running || !f.Due().Equal(due) {
			t.Errorf("%d steps run, due %v; want %d, %v", f.RunningSteps(), f.Due(), running, due)
		}
	})
}
