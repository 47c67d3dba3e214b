package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/google/go-cmp/cmp"
)

func TestCancel_WaitsEndInOrderOfCreationAcrossScopes(t *testing.T) {
	var ended []string
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		inner := b.NewScope(b.NewScope(s))
		for i, sc := range []*Scope{inner, s, inner, b.NewScope(s)} {
			spawn(b, s, func(b *Branch) any {
				err := b.Sleep(sc, t0.Add(time.Hour))
				ended = append(ended, fmt.Sprintf("%d %v", i, err))
				return nil
			})
		}
		_, err := b.Receive(s, "never", time.Time{})
		ended = append(ended, fmt.Sprintf("main %v", err))
		_, _ = b.Receive(b.NewScope(nil), "never", time.Time{})
		return done("")
	}
	h := begin(t, code)
	h.cancel()
	for i, e := range h.log[8:13] {
		if e.Type != event.WaitCompleted || e.Outcome != event.OutcomeCanceled || e.Ref != uint64(3+i) {
			t.Errorf("event %d is %s, want the end of wait %d", e.Seq, describe(&e), 3+i)
		}
	}
	want := []string{"main workflow: canceled", "0 workflow: canceled", "1 workflow: canceled", "2 workflow: canceled", "3 workflow: canceled"}
	if diff := cmp.Diff(want, ended); diff != "" {
		t.Errorf("the code saw (-want +got):\n%s", diff)
	}
	ended = nil
	h.replay(code)
	if diff := cmp.Diff(want, ended); diff != "" {
		t.Errorf("the replayed code saw (-want +got):\n%s", diff)
	}
}

// steps runs three steps at once under one scope. Its ending contains their results.
func steps(b *Branch, s *Scope, _ []byte) Ending {
	var steps []*Promise
	for range 3 {
		steps = append(steps, spawn(b, s, func(b *Branch) any {
			return b.Step(s, "p.s", b.Key("p.s"), nil, nil, func([]byte) string { return "" })
		}))
	}
	var all []string
	for _, step := range steps {
		ended, _ := b.Await(s, step, "the step")
		op := ended.(*Op)
		all = append(all, fmt.Sprintf("%s/%v/%d/%v", op.Payload, op.Failure != nil, op.Attempt, op.Canceled))
	}
	return done(strings.Join(all, " "))
}

func TestCancel_PendingStepsFailAtOnceAndRunningOnesAreLeftToTheDriver(t *testing.T) {
	h := begin(t, steps)
	running := h.start()
	backoff := h.start()
	h.apply(event.Event{Type: event.StepRetrying, Ref: backoff, Attempt: 1, Due: t0.Add(time.Minute), Failure: &event.Failure{}})
	h.cancel()
	h.want("step_created p.s (key flow/go#1/p.s#1)", "step_created p.s (key flow/go#2/p.s#1)", "step_created p.s (key flow/go#3/p.s#1)",
		"step_started of event 3", "step_started of event 4", "step_retrying of event 4", "cancel_requested",
		"step_failed of event 4", "step_failed of event 5")
	if h.run.Startable() != nil {
		t.Error("a step can be started although all were canceled")
	}
	if c := h.run.Cancels(); len(c) != 1 || c[0].Ref != running || !c[0].CancelWanted() || !errors.Is(c[0].CancelCause(), ErrCanceled) {
		t.Errorf("steps to cancel: %+v", c)
	}
	if c := h.run.Cancels(); len(c) != 0 {
		t.Errorf("%d steps are to be canceled twice", len(c))
	}
	h.complete(running, "ok") // a success that is recorded before the cancel takes effect counts
	if got := string(h.log[len(h.log)-1].Payload); got != "ok/false/1/<nil> /true/1/workflow: canceled /true/0/workflow: canceled" {
		t.Errorf("the code saw %s", got)
	}
	h.replay(steps)
}

func TestCancel_FailureOfARunningStepAfterItIsACancel(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		return done(fmt.Sprint(doStep(b, s, "p.s", "1").Canceled))
	})
	ref := h.start()
	h.cancel()
	h.apply(event.Event{Type: event.StepFailed, Ref: ref, Attempt: 1, Failure: CancelFailure(ErrCanceled)})
	if got := string(h.log[len(h.log)-1].Payload); got != "workflow: canceled" {
		t.Errorf("the step was canceled with %s", got)
	}
}

func TestCancels_LeavesOutStepsThatHaveEndedMeanwhile(t *testing.T) {
	h := begin(t, steps)
	ref := h.start()
	h.cancel()
	h.complete(ref, "ok")
	if c := h.run.Cancels(); len(c) != 0 {
		t.Errorf("steps to cancel: %+v", c)
	}
}

func TestCancel_OfARunThatHasNotStartedEndsItAtOnce(t *testing.T) {
	h := load(t, func(*Branch, *Scope, []byte) Ending { t.Error("the code ran"); return done("") })
	h.apply(event.Event{Type: event.RunCreated, Spec: &event.Spec{}})
	h.cancel()
	if e := h.log[len(h.log)-1]; e.Type != event.RunCanceled || !h.run.Ended() || e.Failure.Message != "canceled before it started: test" {
		t.Errorf("the log ends with %s", describe(&e))
	}
	h.replay(nil)
}

func TestCancel_SecondRequestChangesNothing(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		_ = b.Sleep(s, t0.Add(time.Hour))
		_ = b.Sleep(b.NewScope(nil), t0.Add(time.Hour))
		return done("")
	})
	h.cancel()
	events := len(h.log)
	h.cancel()
	if len(h.log) != events+1 {
		t.Errorf("the second request led to %v", h.lines()[events-2:])
	}
}

func TestDeadline_EndsItsScopeAndWhatIsBelowAsTimedOut(t *testing.T) {
	var inner, outer error
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		limited := b.NewDeadline(s, t0.Add(time.Minute))
		_ = b.Sleep(b.NewScope(limited), t0.Add(time.Hour))
		inner, outer = limited.Err(), s.Err()
		late := b.NewDeadline(s, t0.Add(time.Second))
		if !errors.Is(late.Err(), ErrTimeout) || b.NewScope(late).Err() != late.Err() {
			t.Error("a deadline in the past does not end its scope")
		}
		return done("")
	}
	h := begin(t, code)
	h.fire(3)
	h.want("wait_created deadline (key flow/timeout#1)", "wait_created sleep (key flow/sleep#1)",
		"wait_completed due of event 3", "wait_completed cancelled of event 4", "run_completed")
	if !errors.Is(inner, ErrTimeout) || outer != nil {
		t.Errorf("the scope ended with %v, its parent with %v", inner, outer)
	}
	h.replay(code)
}

func TestDeadline_ThatIsCanceledFirstFreesItsTimer(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		limited := b.NewDeadline(s, t0.Add(time.Minute))
		limited.Cancel()
		limited.Cancel()
		_ = b.Sleep(s, t0.Add(time.Hour))
		return done("")
	})
	h.want("wait_created deadline (key flow/timeout#1)", "wait_completed cancelled of event 3", "wait_created sleep (key flow/sleep#1)")
}

func TestDetached_OutlivesTheCancelOfTheRun(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		err := b.Sleep(s, t0.Add(time.Hour))
		return done(fmt.Sprint(err, " ", string(doStep(b, b.NewScope(nil), "p.clean", "1").Payload)))
	}
	h := begin(t, code)
	h.cancel()
	h.complete(h.start(), "2")
	if got := string(h.log[len(h.log)-1].Payload); got != "workflow: canceled 2" {
		t.Errorf("result %s", got)
	}
	h.replay(code)
}

func TestRunTimeout_EndsTheScopeOfTheRun(t *testing.T) {
	start := func(after time.Duration) *host {
		h := load(t, func(b *Branch, s *Scope, _ []byte) Ending { return done(fmt.Sprint(b.Sleep(s, t0.Add(time.Hour)))) })
		h.apply(event.Event{Type: event.RunCreated, Spec: &event.Spec{Timeout: time.Minute}})
		h.now = h.now.Add(after)
		h.apply(event.Event{Type: event.RunStarted, By: "w"})
		return h
	}
	h := start(0)
	h.fire(3)
	h.want("wait_created deadline (key flow/timeout#1)", "wait_created sleep (key flow/sleep#1)",
		"wait_completed due of event 3", "wait_completed cancelled of event 4", "run_completed workflow: timed out: the run took longer than its timeout of 1m0s")
	start(time.Hour).want("run_completed workflow: timed out: the run took longer than its timeout of 1m0s")
}

// TestAwait_OfABranchThatEndsTogetherWithTheScope proves that an Await returns the value of a
// branch that ends in the same activation as the scope, before the awaiting branch runs.
func TestAwait_OfABranchThatEndsTogetherWithTheScope(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		sub := b.NewScope(s)
		item := spawn(b, sub, func(b *Branch) any { return fmt.Sprint(b.Sleep(sub, t0.Add(time.Hour))) })
		spawn(b, s, func(b *Branch) any {
			_, _ = b.Receive(s, "go", time.Time{})
			sub.Cancel()
			return nil
		})
		v, err := b.Await(sub, item, "the item")
		return done(fmt.Sprint(v, err))
	}
	h := begin(t, code)
	h.send("go", "1")
	if e := h.log[len(h.log)-1]; !h.run.Ended() || string(e.Payload) != "workflow: canceled<nil>" {
		t.Fatalf("the log ends with %s %s; %q", describe(&e), e.Payload, h.run.Blocked())
	}
	h.replay(code)
}

func TestAwait_OfWhatIsNotCanceledEndsWithTheScope(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		apart := b.NewScope(nil)
		p := spawn(b, apart, func(b *Branch) any { return b.Sleep(apart, t0.Add(time.Hour)) })
		_, err := b.Await(s, p, "a detached branch")
		return done(fmt.Sprint(err))
	})
	h.cancel()
	if got := string(h.log[len(h.log)-1].Payload); got != "workflow: canceled" {
		t.Errorf("the code saw %s", got)
	}
}
