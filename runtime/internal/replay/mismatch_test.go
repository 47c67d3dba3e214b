package replay

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// next returns the position of the line after the caller's.
func next() string {
	_, file, line, _ := runtime.Caller(1)
	return fmt.Sprintf("%s:%d", file, line+1)
}

// recorded returns a host whose run has called a step, has slept, and waits for a message.
func recorded(t *testing.T) *host {
	t.Helper()
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		doStep(b, s, "p.charge", `{"cents":5}`)
		_ = b.Sleep(s, t0.Add(time.Hour))
		_, _ = b.Receive(s, "go", time.Time{})
		return done("1")
	})
	h.complete(h.start(), "1")
	h.fire(6)
	h.want(`step_created p.charge (key flow/p.charge#1) {"cents":5}`, "step_started of event 3", "step_completed of event 3 1",
		"wait_created sleep (key flow/sleep#1)", "wait_completed due of event 6", "wait_created message of topic go (key flow/receive.go#1)")
	return h
}

const theFix = "Restore the old order of operations, for such runs only with workflow.Version, or use a new workflow name for the new code; the run is blocked until a worker with matching code starts"

func TestMismatch_NamesRecordedAskedPositionSeqAndFix(t *testing.T) {
	h := recorded(t)
	at := ""
	tests := map[string]struct {
		code Program
		seq  uint64
		want []string
	}{
		"another step": {func(b *Branch, s *Scope, _ []byte) Ending {
			at = next()
			b.Step(s, "p.refund", b.Key("p.refund"), nil, nil, nil)
			return done("")
		}, 3, []string{"event 3 of its log is step_created p.charge (key flow/p.charge#1)", "asks for step_created p.refund (key flow/p.refund#1) at "}},
		"another kind of operation": {func(b *Branch, s *Scope, _ []byte) Ending {
			at = next()
			_ = b.Sleep(s, t0.Add(time.Hour))
			return done("")
		}, 3, []string{"event 3 of its log is step_created p.charge", "asks for wait_created sleep (key flow/sleep#1) at "}},
		"another key": {func(b *Branch, s *Scope, _ []byte) Ending {
			at = next()
			b.Step(s, "p.charge", b.DeclaredKey("p.charge", "k"), nil, nil, nil)
			return done("")
		}, 3, []string{"(key flow/p.charge#1)", "asks for step_created p.charge (key flow/p.charge[k]) at "}},
		"another topic": {func(b *Branch, s *Scope, _ []byte) Ending {
			doStep(b, s, "p.charge", `{"cents":5}`)
			_ = b.Sleep(s, t0.Add(time.Hour))
			at = next()
			_, _ = b.Receive(s, "stop", time.Time{})
			return done("")
		}, 8, []string{"event 8 of its log is wait_created message of topic go", "asks for wait_created message of topic stop (key flow/receive.stop#1) at "}},
		"the end": {func(b *Branch, s *Scope, _ []byte) Ending {
			at = ""
			doStep(b, s, "p.charge", `{"cents":5}`)
			return done("2")
		}, 6, []string{"event 6 of its log is wait_created sleep", "but the code asks for run_completed"}},
		"more": {func(b *Branch, s *Scope, _ []byte) Ending {
			spawn(b, s, func(b *Branch) any { return doStep(b, s, "p.extra", "1") })
			at = next()
			doStepHere(b, s)
			return done("")
		}, 4, []string{"event 4 of its log is step_started of event 3", "asks for step_created p.extra (key flow/go#1/p.extra#1) at "}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			m := h.mismatch(tt.code)
			if m.Seq != tt.seq || m.Run != testRun || m.Asked == nil || m.Recorded.Seq != tt.seq {
				t.Errorf("error is about event %d of %s", m.Seq, m.Run)
			}
			wantText(t, m.Error(), append(tt.want, theFix)...)
			if name == "more" {
				at = m.Position // position of doStep in the branch
				wantText(t, at, "run_test.go:")
			}
			if m.Position != at {
				t.Errorf("position %q, want %q", m.Position, at)
			}
			wantText(t, m.Error(), at)
		})
	}
}

func doStepHere(b *Branch, s *Scope) { doStep(b, s, "p.charge", `{"cents":5}`) }

func TestMismatch_OtherInputShowsTheDifference(t *testing.T) {
	m := recorded(t).mismatch(func(b *Branch, s *Scope, _ []byte) Ending {
		doStep(b, s, "p.charge", `{"cents":7}`)
		return done("")
	})
	if m.Seq != 3 || m.Diff == "" || !strings.Contains(m.Position, "run_test.go:") {
		t.Errorf("mismatch %+v", m)
	}
	wantText(t, m.Error(), "event 3 of its log is step_created p.charge", "asks for it with other data at ", "(- recorded, + asked for)",
		`-`, `int64(5)`, `int64(7)`, theFix)
}

// TestMismatch_IsFoundAtTheEndOfAPortion proves that code which requests more than the portion contains
// is compared with the first event of the next portion.
func TestMismatch_IsFoundAtTheEndOfAPortion(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		_, _ = b.Receive(s, "go", time.Time{})
		return done("1")
	})
	h.send("go", "1")
	again := load(t, func(b *Branch, s *Scope, _ []byte) Ending {
		spawn(b, s, func(b *Branch) any { doStep(b, s, "p.extra", "1"); return nil })
		_, _ = b.Receive(s, "go", time.Time{})
		return done("1")
	})
	err := again.run.ReplayPortion(h.log[:4])
	if m, ok := errors.AsType[*MismatchError](err); !ok || m.Seq != 4 || m.Recorded.Type != event.MessageReceived {
		t.Errorf("got %v", err)
	}
}

func TestMismatch_SameInputInAnotherFormIsNone(t *testing.T) {
	code := func(input string) Program {
		return func(b *Branch, s *Scope, _ []byte) Ending { doStep(b, s, "p.s", input); return done("") }
	}
	begin(t, code(`{"a":1,"b":[2]}`)).replay(code(`{ "b": [2], "a": 1 }`))
}

func TestMismatch_CodeThatAsksLessSaysWhereItWaitsInstead(t *testing.T) {
	at := ""
	m := recorded(t).mismatch(func(b *Branch, s *Scope, _ []byte) Ending {
		spawn(b, s, func(b *Branch) any { _, _ = b.Await(s, NewPromise(s), "a branch that never ends"); return nil })
		doStep(b, s, "p.charge", `{"cents":5}`)
		at = next()
		_, _ = b.Await(s, NewPromise(s), "nothing at all")
		return done("")
	})
	if m.Seq != 6 || m.Asked != nil || len(m.Blocked) != 2 {
		t.Errorf("mismatch %+v", m)
	}
	wantText(t, m.Error(), "event 6 of its log is wait_created sleep (key flow/sleep#1), but the code does not ask for it",
		"branch flow waits for nothing at all at "+at, "branch flow/go#1 waits for a branch that never ends at ", theFix)
}

func TestMismatch_OfAnOutcomeIsNoticed(t *testing.T) {
	code := func(first, second string) Program {
		return func(b *Branch, s *Scope, _ []byte) Ending {
			_, _, _ = b.Select(s, []Case{{Topic: first}, {Topic: second}})
			return done("")
		}
	}
	h := begin(t, code("a", "b"))
	h.send("a", "1")
	h.want("wait_created message of topic a (key flow/receive.a#1)", "wait_created message of topic b (key flow/receive.b#1)",
		"message_received a 1", "wait_completed received of event 3", "wait_completed cancelled of event 4", "run_completed")
	for i := range h.log {
		if h.log[i].Outcome == event.OutcomeReceived {
			h.log[i].Outcome = event.OutcomeCanceled
		}
	}
	m := h.mismatch(code("a", "b"))
	wantText(t, m.Error(), "event 6 of its log is wait_completed cancelled of event 3", "asks for wait_completed received of event 3")
}

func TestMismatch_OfTheEndingIsNoticed(t *testing.T) {
	ending := func(e Ending) Program { return func(*Branch, *Scope, []byte) Ending { return e } }
	failed := Ending{Type: event.RunFailed, Failure: &event.Failure{Code: event.CodeError, Message: "no"}}
	h := begin(t, ending(done(`{"a":1}`)))
	wantText(t, h.mismatch(ending(done(`{"a":2}`))).Error(), "event 3 of its log is run_completed", "with other data", `int64(2)`)
	wantText(t, h.mismatch(ending(failed)).Error(), "asks for run_failed (no)")
	h = begin(t, ending(failed))
	wantText(t, h.mismatch(func(*Branch, *Scope, []byte) Ending { panic("boom") }).Error(), "- error: no\n+ panic: panic in branch flow: boom")
}

func TestMismatch_ComparisonThatPanicsBlocksTheRunInsteadOfFailingIt(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending { doStep(b, s, "p.s", "1"); return done("") })
	m := h.mismatch(func(b *Branch, s *Scope, _ []byte) Ending {
		b.Step(s, "p.s", b.Key("p.s"), []byte("2"), nil, func([]byte) string { panic("UnmarshalJSON is broken") })
		return done("")
	})
	wantText(t, m.Error(), "comparing them panicked: UnmarshalJSON is broken")
}

func TestMismatch_CannotBeSwallowedByTheCode(t *testing.T) {
	h, after, deferred := recorded(t), false, false
	h.mismatch(func(b *Branch, s *Scope, _ []byte) Ending {
		func() {
			defer func() { deferred = true; _ = recover() }()
			_ = b.Sleep(s, t0.Add(time.Hour))
		}()
		after = true
		return done("")
	})
	if after || !deferred {
		t.Errorf("the code went on: %v, its deferred calls ran: %v; want false, true", after, deferred)
	}
}

func TestMismatch_OfACascadeOfAnEventHasNoPosition(t *testing.T) {
	code := func(waits int) Program {
		return func(b *Branch, s *Scope, _ []byte) Ending {
			for range waits {
				spawn(b, s, func(b *Branch) any { return b.Sleep(s, t0.Add(time.Hour)) })
			}
			_, _ = b.Receive(s, "never", time.Time{})
			return done("")
		}
	}
	h := begin(t, code(1))
	h.cancel()
	h.log[5].Outcome = event.OutcomeReceived
	if m := h.mismatch(code(1)); m.Position != "" || m.Seq != 6 {
		t.Errorf("mismatch at %q of event %d, want no position and event 6", m.Position, m.Seq)
	}
}

func TestMismatch_LongListOfBranchesIsCut(t *testing.T) {
	e := &MismatchError{Blocked: make([]string, 25)}
	wantText(t, e.Error(), "; and 15 more")
}
