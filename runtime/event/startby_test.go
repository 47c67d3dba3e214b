package event_test

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// TestLogState_StartByCountsFromWhenTheRunMayBegin proves that the encoding of a Spec preserves
// StartWithin, and that StartBy is derived from the time at which the run may begin.
func TestLogState_StartByCountsFromWhenTheRunMayBegin(t *testing.T) {
	state := func(spec event.Spec, more ...event.Event) *event.LogState {
		events := append([]event.Event{{Type: event.RunCreated, Spec: &spec}}, more...)
		for i := range events {
			events[i].Seq, events[i].Time = uint64(i+1), at(time.Duration(i)*time.Hour)
		}
		b, err := event.AppendFrame(nil, &event.Frame{CommitID: event.NewCommitID(), Time: at(0), Events: events})
		if err != nil {
			t.Fatal(err)
		}
		f, err := event.DecodeFrame(b)
		if err != nil {
			t.Fatal(err)
		}
		var s event.LogState
		for i := range f.Events {
			if err := s.Apply(&f.Events[i]); err != nil {
				t.Fatal(err)
			}
		}
		return &s
	}
	within := event.Spec{Workflow: "w", StartWithin: time.Minute}
	delayed, held := within, within
	delayed.StartAt, held.Hold = at(3*time.Hour), time.Hour
	released := event.Event{Type: event.RunReleased, Item: event.NewItemID()}
	for name, tt := range map[string]struct {
		state *event.LogState
		want  time.Time
	}{
		"at any time": {state(event.Spec{Workflow: "w"}), time.Time{}},
		"created":     {state(within), at(time.Minute)},
		"delayed":     {state(delayed), at(3*time.Hour + time.Minute)},
		"held":        {state(held), time.Time{}},
		"released":    {state(held, released), at(time.Hour + time.Minute)},
		"begun":       {state(within, event.Event{Type: event.RunStarted}), time.Time{}},
	} {
		if got := tt.state.StartBy(); !got.Equal(tt.want) {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
}
