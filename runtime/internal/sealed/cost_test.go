//go:build !race

// The race detector makes pools drop buffers.

package sealed_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
)

// mostAllocations is the number of allocations of a commit of a step with two payloads.
const mostAllocations = 12

// sink is a store whose commits do nothing.
type sink struct{ store.Store }

func (s *sink) Unwrap() store.Store { return s.Store }

func (s *sink) Commit(_ context.Context, commits []store.Commit) ([]store.Committed, error) {
	return make([]store.Committed, len(commits)), nil
}

// TestOPS5_ACommitOfAStepIsSealedWithFewAllocations pins the cost of a codec for the
// events of a step whose input and result have 1 KB each.
func TestOPS5_ACommitOfAStepIsSealedWithFewAllocations(t *testing.T) {
	key, err := codec.NewKey("k1")
	if err != nil {
		t.Fatal(err)
	}
	c, err := codec.New(codec.Config{Keys: codec.Keys(key)})
	if err != nil {
		t.Fatal(err)
	}
	inner := memstore.New()
	defer inner.Close()
	s, err := sealed.New(&sink{inner}, c)
	if err != nil {
		t.Fatal(err)
	}
	payload := []byte(`"` + strings.Repeat("0123456789abcdef", 64) + `"`)
	now := time.Unix(1, 0)
	events := []event.Event{
		{Seq: 5, Type: event.StepCreated, Time: now, Key: "a/b#1", Name: "b", Ref: 5, Payload: payload},
		{Seq: 6, Type: event.StepStarted, Time: now, Ref: 5, Attempt: 1},
		{Seq: 7, Type: event.StepCompleted, Time: now, Ref: 5, Attempt: 1, Payload: payload},
	}
	run := event.NewRunID(now, event.RandomSlot())
	frame, err := event.AppendFrame(nil, &event.Frame{CommitID: event.NewCommitID(), Time: now, Events: events})
	if err != nil {
		t.Fatal(err)
	}
	commits := []store.Commit{{Run: run, Frame: frame}}
	got := testing.AllocsPerRun(100, func() {
		if _, err := s.Commit(t.Context(), commits); err != nil {
			t.Fatal(err)
		}
	})
	if got > mostAllocations {
		t.Errorf("a commit of a step with two payloads costs %.0f allocations, want at most %d", got, mostAllocations)
	}
}
