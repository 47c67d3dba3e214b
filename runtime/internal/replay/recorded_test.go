package replay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
)

// TestDeadline_IsTheOneOfTheLog proves that the recorded deadline counts in a replay. A deadline
// that is computed from data outside of the log may differ.
func TestDeadline_IsTheOneOfTheLog(t *testing.T) {
	after := time.Minute
	var told time.Time
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		limited := b.NewDeadline(s, t0.Add(after))
		op := b.Step(limited, "p.slow", b.Key("p.slow"), nil, nil, func([]byte) string { return "" })
		told = op.Deadline()
		return done("")
	}
	h := begin(t, code)
	h.complete(h.start(), "1")
	want := told
	after = time.Hour
	h.replay(code)
	if !told.Equal(want) || want.IsZero() {
		t.Errorf("deadline of the step in the replay: got %v, want %v", told, want)
	}
}

// TestTimeout_ItsErrorSaysTheTimeThatWasAskedFor proves that the error of a timeout states the
// requested duration. The recorded duration may be up to two milliseconds longer, because the log
// has milliseconds. If the code has changed the duration, the recorded one counts, also in the
// text.
func TestTimeout_ItsErrorSaysTheTimeThatWasAskedFor(t *testing.T) {
	var said error
	asks := 90*time.Minute + 200*time.Microsecond
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		said = b.Sleep(b.NewTimeout(s, asks), t0.Add(24*time.Hour))
		return done("")
	}
	h := load(t, code)
	h.now = h.now.Add(950 * time.Microsecond)
	h.apply(event.Event{Type: event.RunCreated, Spec: &event.Spec{Workflow: "p.flow"}, Payload: []byte(`"input"`)})
	h.apply(event.Event{Type: event.RunStarted, By: "w"})
	h.fire(3)
	const want = "workflow: timed out: its context had 1h30m0.0002s"
	if !errors.Is(said, ErrTimeout) || said.Error() != want {
		t.Errorf("got %v, want %q", said, want)
	}
	h.replay(code)
	if said.Error() != want {
		t.Errorf("in a replay: got %v, want %q", said, want)
	}
	asks = 12 * time.Hour
	h.replay(code)
	if got, want := said.Error(), "workflow: timed out: its context had 1h30m0.002s"; got != want {
		t.Errorf("in a replay of changed code: got %q, want %q", got, want)
	}
}

// TestTimeout_ThatTheLogEndsBeforeItBeganSaysThatItHadNone proves that the duration of a timeout is
// never negative. In a modified log a deadline may precede the beginning of its scope.
func TestTimeout_ThatTheLogEndsBeforeItBeganSaysThatItHadNone(t *testing.T) {
	var said error
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		said = b.Sleep(b.NewTimeout(s, time.Hour), t0.Add(24*time.Hour))
		return done("")
	}
	h := begin(t, code)
	h.fire(3)
	if h.log[2].Type != event.WaitCreated {
		t.Fatalf("event 3 is %s", describe(&h.log[2]))
	}
	h.log[2].Due = t0.Add(-103 * time.Millisecond)
	h.replay(code)
	if want := "workflow: timed out: its context had 0s"; !errors.Is(said, ErrTimeout) || said.Error() != want {
		t.Errorf("got %v, want %q", said, want)
	}
}

// TestTimeout_ThatIsOverWhenItBeginsSaysHowLongItWas proves that the error states the duration of a
// timeout that is over at its beginning. A run may be claimed after its timeout, and code may
// request a timeout of zero.
func TestTimeout_ThatIsOverWhenItBeginsSaysHowLongItWas(t *testing.T) {
	var ofRun, ofNone, past error
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		ofRun = b.Sleep(s, t0.Add(24*time.Hour))
		free := b.NewScope(nil)
		ofNone = b.Sleep(b.NewTimeout(free, 0), t0.Add(24*time.Hour))
		past = b.Sleep(b.NewDeadline(free, t0), t0.Add(24*time.Hour))
		return done("")
	}
	h := load(t, code)
	h.apply(event.Event{Type: event.RunCreated, Spec: &event.Spec{Workflow: "p.flow", Timeout: 20 * time.Minute}, Payload: []byte(`"input"`)})
	h.now = h.now.Add(time.Hour)
	h.apply(event.Event{Type: event.RunStarted, By: "w"})
	for got, want := range map[error]string{
		ofRun:  "workflow: timed out: the run took longer than its timeout of 20m0s",
		ofNone: "workflow: timed out: its context had 0s",
		past:   "workflow: timed out: its context had 0s",
	} {
		if !errors.Is(got, ErrTimeout) || got.Error() != want {
			t.Errorf("got %v, want %q", got, want)
		}
	}
	h.replay(code)
}

func TestMismatch_OfTheReceiverOfAMessageIsNoticed(t *testing.T) {
	to := event.NewRunID(t0, 1)
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		_ = b.Send(s, "topic", b.Key("topic"), to, "item", []byte("1"), func([]byte) string { return "" })
		return done("")
	}
	h := begin(t, code)
	other := event.NewRunID(t0, 2)
	to = other
	m := h.mismatch(code)
	wantText(t, m.Error(), "asks for it with other data", string(other))
	if !errors.As(error(m), new(*MismatchError)) {
		t.Errorf("got %v", m)
	}
}

// TestPause_WhatHappenedMeanwhileComesIntoEffectInItsOrder proves that events which occurred during
// a pause take effect at its end, in the order of the log.
func TestPause_WhatHappenedMeanwhileComesIntoEffectInItsOrder(t *testing.T) {
	var seen []string
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		seen = nil
		for range 3 {
			e, err := b.Receive(s, "topic", time.Time{})
			if err != nil {
				return done(`"not received"`)
			}
			seen = append(seen, string(e.Payload))
		}
		return done("")
	}
	h := begin(t, code)
	h.apply(event.Event{Type: event.RunPaused})
	for _, text := range []string{"1", "2", "3"} {
		h.send("topic", text)
	}
	if len(seen) > 0 {
		t.Fatalf("the code has seen %q during the pause", seen)
	}
	h.apply(event.Event{Type: event.RunResumed})
	want := []string{"1", "2", "3"}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("what the code has seen (-want +got):\n%s", diff)
	}
	h.replay(code)
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("what the replay has seen (-want +got):\n%s", diff)
	}
}

// TestKeep_AStepThatWasUnderWayBeginsAgain proves that a step whose attempt was in progress in the
// old run begins again in the new run. The attempt belongs to the old run.
func TestKeep_AStepThatWasUnderWayBeginsAgain(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		spawn(b, s, func(b *Branch) any { return doStep(b, s, "p.slow", "1") })
		_, _ = b.Receive(s, "go", time.Time{})
		doStep(b, s, "p.next", "2")
		return done("")
	}
	h := begin(t, code)
	running := h.start()
	h.send("go", "")
	cut := uint64(len(h.log)) // cut before the step that follows the message
	if last := h.log[cut-1]; last.Type != event.StepCreated {
		t.Fatalf("the log ends with %s, want the next step", last.Type)
	}
	events, _ := Keep(h.log, Kept{Cut: cut, Until: cut, Next: newRun, Seed: newRun, Now: h.now})
	var f event.LogState
	for i := range events {
		if err := f.Apply(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if o := f.Open(running); o == nil || o.State != event.StatePending || f.RunningSteps() != 0 {
		t.Errorf("the step that was under way: got %+v, want it to wait for another attempt", o)
	}
}

// TestSelect_TheFirstOfTwoInOneActivationWins proves that the first event decides a race even if
// more events arrive before the code continues.
func TestSelect_TheFirstOfTwoInOneActivationWins(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		first, second := NewPromise(s), NewPromise(s)
		racer := spawn(b, s, func(b *Branch) any {
			won, _, err := b.Select(s, []Case{{Promise: first}, {Promise: second}})
			return fmt.Sprint(won, err)
		})
		_, _ = b.Receive(s, "go", time.Time{})
		first.Resolve(1)
		second.Resolve(2)
		v, _ := b.Await(s, racer, "the racer")
		return done(fmt.Sprint(v))
	}
	h := begin(t, code)
	h.send("go", "")
	if got := string(h.log[len(h.log)-1].Payload); got != "0 <nil>" {
		t.Errorf("the code saw %s, want that the first has won", got)
	}
}
