package event_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
)

// lives applies the events of the log from l.First on and returns the entities of l.
func lives(t rapid.TB, l *event.Lives, log []event.Event) (all []*event.Open, more uint64) {
	t.Helper()
	for i := range log[min(max(l.First, 1)-1, uint64(len(log))):] {
		if err := l.Apply(&log[int(max(l.First, 1))-1+i]); err != nil {
			t.Fatal(err)
		}
	}
	return l.All()
}

// TestEV12_LivesAgreeWithTheStateOfTheLog checks that LogState and Lives derive the same open
// entities, and that reading entities page by page gives the same result as reading them at once.
func TestEV12_LivesAgreeWithTheStateOfTheLog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := numbered(event.Event{Type: event.RunCreated}, event.Event{Type: event.RunStarted})
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			log = append(log, drawNext(t, log))
		}
		state := &event.LogState{}
		for i := range log {
			if err := state.Apply(&log[i]); err != nil {
				t.Fatal(err)
			}
		}
		want := opens(state)
		all, more := lives(t, &event.Lives{}, log)
		open := 0
		for _, l := range all {
			if got := state.StateOf(l.Ref); got != l.State {
				t.Errorf("entity %d is %s, the log says %s", l.Ref, l.State, got)
			}
			o, isOpen := want[l.Ref]
			if isOpen == l.State.Terminal() {
				t.Errorf("entity %d is %s, and open: %v", l.Ref, l.State, isOpen)
			}
			if !isOpen {
				continue
			}
			open++
			if diff := cmp.Diff(o, *l); diff != "" {
				t.Errorf("entity %d differs (-the state +got):\n%s", l.Ref, diff)
			}
		}
		if open != len(want) || more != 0 {
			t.Errorf("%d are open, the log says %d; more: %d", open, len(want), more)
		}
		for _, onlyOpen := range []bool{false, true} {
			expected, _ := lives(t, &event.Lives{Open: onlyOpen}, log)
			if onlyOpen && len(expected) != open {
				t.Errorf("%d entities are open, %d are listed as such", open, len(expected))
			}
			var paged []*event.Open
			limit := rapid.IntRange(1, 5).Draw(t, "limit")
			for from := uint64(1); from != 0; {
				var page []*event.Open
				page, from = lives(t, &event.Lives{First: from, Open: onlyOpen, Limit: limit}, log)
				if len(page) > limit || from != 0 && len(page) < limit {
					t.Fatalf("a page of %d, the limit is %d, and there are more from %d", len(page), limit, from)
				}
				paged = append(paged, page...)
			}
			if diff := cmp.Diff(expected, paged); diff != "" {
				t.Errorf("open %v: pages differ (-at once +paged):\n%s", onlyOpen, diff)
			}
		}
	})
}

func TestEV12_LivesKeepWhatHasEnded(t *testing.T) {
	log := numbered(
		event.Event{Type: event.RunCreated, Spec: orderSpec()}, event.Event{Type: event.RunStarted},
		event.Event{Type: event.StepCreated, Name: "charge", Key: "k"}, event.Event{Type: event.StepStarted, Ref: 3, Attempt: 1},
		event.Event{Type: event.StepRetrying, Ref: 3, Attempt: 1, Failure: declined(), Due: at(time.Hour)}, event.Event{Type: event.StepStarted, Ref: 3, Attempt: 2},
		event.Event{Type: event.StepCompleted, Ref: 3, Attempt: 2},
		event.Event{Type: event.ChildCreated, Name: "ship", Next: runB, Spec: orderSpec()}, event.Event{Type: event.ChildFailed, Ref: 8, Next: runB, Failure: declined()},
		event.Event{Type: event.WaitCreated, Key: "w", Due: at(time.Hour)},
	)
	all, _ := lives(t, &event.Lives{}, log)
	want := []*event.Open{
		{Ref: 3, Entity: event.EntityStep, State: event.StateCompleted, Name: "charge", Key: "k", Attempt: 2, Failure: declined(), Since: log[2].Time, Changed: log[6].Time},
		{Ref: 8, Entity: event.EntityChild, State: event.StateFailed, Name: "ship", Next: runB, Failure: declined(), Since: log[7].Time, Changed: log[8].Time},
		{Ref: 10, Entity: event.EntityWait, State: event.StateWaiting, Key: "w", Due: at(time.Hour), Since: log[9].Time, Changed: log[9].Time},
	}
	if diff := cmp.Diff(want, all); diff != "" {
		t.Errorf("entities differ (-want +got):\n%s", diff)
	}
	all, _ = lives(t, &event.Lives{Kinds: []event.Entity{event.EntityChild}}, log)
	if diff := cmp.Diff(want[1:2], all); diff != "" {
		t.Errorf("children differ (-want +got):\n%s", diff)
	}
	l := &event.Lives{}
	if err := l.Apply(&log[1]); !errors.Is(err, event.ErrCorrupt) {
		t.Errorf("the second event first: %v", err)
	}
	_, _ = lives(t, l, log)
	var forbidden *event.TransitionError
	if err := l.Apply(&event.Event{Seq: 11, Type: event.StepStarted, Ref: 3}); !errors.As(err, &forbidden) || forbidden.Ref != 3 || forbidden.Seq != 11 {
		t.Errorf("a step that has ended begins: %v", err)
	}
}
