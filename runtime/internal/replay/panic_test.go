package replay

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

func explode() { panic(errors.New("boom")) }

func TestPanic_InABranchFailsTheRunWithLinePathAndOpening(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		spawn(b, s, func(b *Branch) any {
			spawn(b, s, func(b *Branch) any {
				_ = b.Sleep(s, t0.Add(time.Second))
				explode()
				return nil
			})
			return nil
		})
		_, _ = b.Receive(s, "never", time.Time{})
		return done("")
	}
	h := begin(t, code)
	h.fire(4)
	f := h.run.State().Failure
	if f == nil || f.Code != event.CodePanic || f.Message != "panic in branch flow/go#1/go#1: boom" {
		t.Fatalf("failure %+v", f)
	}
	opened := f.Stack[strings.LastIndex(f.Stack, "branch "):]
	if !strings.Contains(f.Stack, "replay.explode") || !strings.Contains(f.Stack, "panic_test.go:12") ||
		!strings.HasPrefix(opened, "branch flow/go#1/go#1 was opened at\n\t") || !strings.Contains(opened, "run_test.go:") {
		t.Errorf("stack:\n%s", f.Stack)
	}
	h.replay(code)
}

func TestPanic_DeferredCallsMayStillUseDurableOperations(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		defer func() { doStep(b, b.NewScope(nil), "p.clean", "1") }()
		explode()
		return done("")
	}
	h := begin(t, code)
	h.complete(h.start(), "1")
	h.want("step_created p.clean (key flow/p.clean#1) 1", "step_started of event 3", "step_completed of event 3 1",
		"run_failed (panic in branch flow: boom)")
	h.replay(code)
}

func TestPanic_ThatIsRecoveredIsNobodysBusiness(t *testing.T) {
	h := begin(t, func(*Branch, *Scope, []byte) Ending {
		func() {
			defer func() { _ = recover() }()
			explode()
		}()
		return done("1")
	})
	h.want("run_completed 1")
}

func TestRecord_PanicIsRecordedAndComesBackInReplay(t *testing.T) {
	calls := 0
	var seen []string
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		func() {
			defer func() { seen = append(seen, recover().(error).Error()) }()
			b.Record(func() ([]byte, *event.Failure) { calls++; explode(); return nil, nil })
		}()
		_ = b.Sleep(s, t0.Add(time.Second))
		return done("1")
	}
	h := begin(t, code)
	again := h.replay(code) // the replay must agree even if the run has not ended
	again.fire(4)
	if calls != 1 || len(seen) != 2 || seen[0] != seen[1] || seen[0] != "panic in workflow.Record: boom" {
		t.Errorf("the function was called %d times, the code recovered %q", calls, seen)
	}
	if f := h.log[2].Failure; f == nil || !strings.Contains(f.Stack, "panic_test.go:12") {
		t.Errorf("recorded failure %+v", f)
	}
	if !again.run.Ended() {
		t.Error("the replayed run did not end")
	}
}

func TestRecord_UnrecoveredPanicFailsTheRunWithTheStackOfTheFunction(t *testing.T) {
	code := func(b *Branch, _ *Scope, _ []byte) Ending {
		b.Record(func() ([]byte, *event.Failure) { explode(); return nil, nil })
		return done("1")
	}
	h := begin(t, code)
	if f := h.run.State().Failure; f == nil || !strings.Contains(f.Stack, "panic_test.go:12") {
		t.Errorf("failure %+v", f)
	}
	h.replay(code)
}

func TestRecord_FunctionRunsOnceAndItsFailureIsKept(t *testing.T) {
	calls := 0
	code := func(b *Branch, _ *Scope, _ []byte) Ending {
		v, _ := b.Record(func() ([]byte, *event.Failure) { calls++; return []byte(`"v"`), nil })
		_, f := b.Record(func() ([]byte, *event.Failure) { calls++; return nil, &event.Failure{Message: "no"} })
		v[1] = 'x' // must not change another copy
		return done(`"` + f.Message + `"`)
	}
	h := begin(t, code)
	h.want(`value_recorded (key flow/record#1) "v"`, "value_recorded (key flow/record#2)", `run_completed "no"`)
	h.replay(code)
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}
