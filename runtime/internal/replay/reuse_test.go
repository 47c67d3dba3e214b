package replay

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
)

// TestTake_WhatWasTakenStaysAsItIsUntilItIsReused proves that events returned by Take are not
// overwritten until the caller passes them to Reuse.
func TestTake_WhatWasTakenStaysAsItIsUntilItIsReused(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		for {
			_, _ = b.Receive(s, "a", time.Time{})
		}
	}
	h := begin(t, code)
	h.run.Take()
	deliver := func() []event.Event {
		if err := h.run.Apply(event.Event{Type: event.MessageReceived, Name: "a", Payload: []byte(`1`), Time: h.now}); err != nil {
			t.Fatal(err)
		}
		return h.run.Take()
	}
	first := deliver()
	before := slices.Clone(first)
	second := deliver()
	if diff := cmp.Diff(before, first); diff != "" {
		t.Errorf("events that were taken have changed (-want +got):\n%s", diff)
	}
	h.run.Reuse(second)
	third := deliver()
	if &third[0] != &second[0] {
		t.Error("a buffer that was given back was not used")
	}
	if diff := cmp.Diff(before, first); diff != "" {
		t.Errorf("events that were taken have changed (-want +got):\n%s", diff)
	}
	if want := h.run.State().Seq; third[len(third)-1].Seq != want {
		t.Errorf("the last event is number %d, want %d", third[len(third)-1].Seq, want)
	}
}

func TestReuse_KeepsEventsThatWereNotTaken(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		_, _ = b.Receive(s, "a", time.Time{})
		return done("1")
	})
	if err := h.run.Apply(event.Event{Type: event.MessageReceived, Name: "a", Payload: []byte(`1`), Time: h.now}); err != nil {
		t.Fatal(err)
	}
	h.run.Reuse(make([]event.Event, 0, 8))
	h.run.Reuse(nil)
	if n := uint64(len(h.run.Take())); n == 0 {
		t.Error("events were lost")
	}
}

func TestReuse_DoesNotKeepTheBufferOfOnceVeryManyEvents(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		for {
			_, _ = b.Receive(s, "a", time.Time{})
		}
	})
	h.run.Take()
	h.run.Reuse(make([]event.Event, 0, 10_000))
	if err := h.run.Apply(event.Event{Type: event.MessageReceived, Name: "a", Payload: []byte(`1`), Time: h.now}); err != nil {
		t.Fatal(err)
	}
	if got := h.run.Take(); cap(got) > mostReused {
		t.Errorf("%d events stand in a buffer of %d", len(got), cap(got))
	}
}
