package event_test

import (
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// TestEV4_RetryingKeepsTheStepOpenAndFailedEndsIt proves that step_retrying records the error, the
// attempt and the time of the next attempt, and leaves the step open, while step_failed ends the
// step.
func TestEV4_RetryingKeepsTheStepOpenAndFailedEndsIt(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	due := at.Add(time.Minute)
	var f event.LogState
	for i, e := range []event.Event{
		{Type: event.RunCreated, Spec: &event.Spec{}},
		{Type: event.RunStarted},
		{Type: event.StepCreated, Name: "p.s", Key: "f/p.s#1"},
		{Type: event.StepStarted, Ref: 3, Attempt: 1},
		{Type: event.StepRetrying, Ref: 3, Attempt: 1, Failure: &event.Failure{Message: "busy"}, Due: due},
	} {
		e.Seq, e.Time = uint64(i+1), at
		if err := f.Apply(&e); err != nil {
			t.Fatal(err)
		}
	}
	o := f.Open(3)
	if o == nil || o.State != event.StatePending || o.Attempt != 1 || o.Failure == nil || o.Failure.Message != "busy" || !o.Due.Equal(due) {
		t.Fatalf("after step_retrying the step is %+v, want pending with attempt 1, its error and %v", o, due)
	}
	if err := f.Apply(&event.Event{Seq: 6, Time: at, Type: event.StepStarted, Ref: 3, Attempt: 2}); err != nil {
		t.Fatal(err)
	}
	if err := f.Apply(&event.Event{Seq: 7, Time: at, Type: event.StepFailed, Ref: 3, Attempt: 2, Failure: &event.Failure{Message: "gone"}}); err != nil {
		t.Fatal(err)
	}
	again := event.Event{Seq: 8, Time: at, Type: event.StepStarted, Ref: 3, Attempt: 3}
	if te, ok := errors.AsType[*event.TransitionError](f.Apply(&again)); !ok || te.From != event.StateFailed {
		t.Errorf("another attempt after step_failed is answered with %v, want a TransitionError from failed", te)
	}
}
