package event_test

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

func TestLogState_HeldRunIsDueWhenItsTimeIsUp(t *testing.T) {
	created := event.Event{Type: event.RunCreated, Spec: &event.Spec{Hold: time.Minute}}
	f := stateOf(t, numbered(created))
	if got, want := f.Due(), at(time.Minute); !f.Held() || !got.Equal(want) {
		t.Errorf("held: %t, due %v; want true, %v", f.Held(), got, want)
	}
	f = stateOf(t, numbered(created, event.Event{Type: event.RunReleased}))
	if got := f.Due(); f.Held() || !got.IsZero() {
		t.Errorf("after the release: held: %t, due %v; want false, never", f.Held(), got)
	}
}

func TestLogState_NothingIsDueWhileTheRunIsPaused(t *testing.T) {
	log := numbered(event.Event{Type: event.RunCreated}, event.Event{Type: event.RunStarted},
		event.Event{Type: event.WaitCreated, Wait: event.WaitSleep, Due: at(time.Hour)}, event.Event{Type: event.RunPaused},
		event.Event{Type: event.RunResumed})
	f := stateOf(t, log[:4])
	if due := f.DueBy(at(2 * time.Hour)); !f.Due().IsZero() || len(due) != 0 {
		t.Errorf("paused: due %v, %d entities", f.Due(), len(due))
	}
	f = stateOf(t, log)
	if due := f.DueBy(at(2 * time.Hour)); !f.Due().Equal(at(time.Hour)) || len(due) != 1 {
		t.Errorf("resumed: due %v, %d entities; want %v, 1", f.Due(), len(due), at(time.Hour))
	}
}
