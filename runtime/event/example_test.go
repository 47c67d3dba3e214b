package event_test

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// LogState derives the state of a run from its log.
func ExampleLogState() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log := []event.Event{
		{Seq: 1, Type: event.RunCreated, Time: now, Spec: &event.Spec{Workflow: "orders.fulfil"}},
		{Seq: 2, Type: event.RunStarted, Time: now},
		{Seq: 3, Type: event.WaitCreated, Time: now, Ref: 3, Since: now, Wait: event.WaitSleep, Due: now.Add(time.Hour)},
	}
	var f event.LogState
	for i := range log {
		if err := f.Apply(&log[i]); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(f.Spec.Workflow, f.Status(), f.Due().Sub(now))
	// Output: orders.fulfil sleeping 1h0m0s
}

// No event can change a completed entity.
func ExampleNext() {
	fmt.Println(event.Next(event.StateRunning, event.StepCompleted))
	_, err := event.Next(event.StateCompleted, event.StepFailed)
	fmt.Println(err)
	// Output:
	// completed <nil>
	// step is completed, which is final: step_failed cannot make it failed
}

// A store keeps one frame for each commit.
func ExampleAppendFrame() {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	b, err := event.AppendFrame(nil, &event.Frame{CommitID: event.NewCommitID(), Time: now, Events: []event.Event{
		{Seq: 1, Type: event.RunCreated, Time: now, Payload: []byte(`{"n":1}`), Spec: &event.Spec{Workflow: "orders.fulfil"}},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	f, err := event.DecodeFrame(b)
	if err != nil {
		fmt.Println(err)
		return
	}
	e := f.Events[0]
	fmt.Println(e.Seq, e.Type, e.Spec.Workflow, string(e.Payload))
	// Output: 1 run_created orders.fulfil {"n":1}
}
