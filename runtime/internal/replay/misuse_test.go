package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// misuse calls f and returns the text of the MisuseError with which f panics.
func misuse(t *testing.T, f func()) (text string) {
	t.Helper()
	defer func() {
		t.Helper()
		v := recover()
		var m *MisuseError
		if err, ok := v.(error); !ok || !errors.As(err, &m) {
			t.Errorf("panicked with %v, want a *MisuseError", v)
			return
		}
		text = m.Error()
	}()
	f()
	return ""
}

// onGoroutine calls f on a goroutine that does not belong to the run. It returns the text of the
// error that Stray receives.
func onGoroutine(t *testing.T, r *Run, f func()) (text string) {
	t.Helper()
	told, ended := make(chan string, 1), make(chan struct{})
	r.Stray = func(e *StrayError) { told <- e.Error() }
	go func() {
		defer close(ended)
		f()
		t.Error("the call returned")
	}()
	<-ended
	select {
	case text = <-told:
	default:
		t.Error("nobody was told")
	}
	return text
}

func wantText(t *testing.T, got string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(got, p) {
			t.Errorf("text lacks %q:\n%s", p, got)
		}
	}
}

func TestContext_OfAnotherBranchIsRefusedWithBothNames(t *testing.T) {
	begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		spawn(b, s, func(*Branch) any {
			for _, use := range []func(){
				func() { _ = b.Sleep(s, t0.Add(time.Hour)) },
				func() { b.Key("p.s") },
				func() { b.DeclaredKey("p.s", "k") },
				func() { b.Now() },
				func() { b.NewScope(s) },
			} {
				wantText(t, misuse(t, use), "branch flow/go#1 uses the context of branch flow", "workflow.Go")
			}
			return nil
		})
		_, _ = b.Receive(s, "never", time.Time{})
		return done("")
	})
}

func TestContext_UsedFromOutsideIsRefused(t *testing.T) {
	var kept *Branch
	var scope *Scope
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		kept, scope = b, b.NewScope(s)
		_ = b.Sleep(s, t0.Add(time.Hour))
		return done("")
	})
	h.fire(3)
	for _, use := range []func(){func() { kept.Now() }, scope.Cancel} {
		wantText(t, onGoroutine(t, h.run, use), "branch flow ", "misuse_test.go:", "workflow.Go instead of go")
	}
	if err := h.run.Err(); err != nil {
		t.Errorf("a run that has ended: %v", err)
	}
}

func TestContext_OfAnotherRunIsRefused(t *testing.T) {
	var kept *Branch
	begin(t, func(b *Branch, _ *Scope, _ []byte) Ending { kept = b; return done("") })
	h := begin(t, func(*Branch, *Scope, []byte) Ending { kept.Now(); return done("") })
	if f := h.run.State().Failure; f == nil || !strings.Contains(f.Message, "after its run had ended") {
		t.Errorf("failure %+v", f)
	}
}

func TestRecord_RefusesWhatAReplayWouldNotRepeat(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		sub, rng := b.NewScope(s), b.Rand()
		b.Record(func() ([]byte, *event.Failure) {
			for _, use := range []func(){
				func() { _ = b.Sleep(s, t0.Add(time.Hour)) },
				func() { doStep(b, s, "p.s", "1") },
				func() { spawn(b, s, func(*Branch) any { return nil }) },
				func() { b.TryReceive("a") },
				func() { b.Record(nil) },
				func() { rng.Int() },
				sub.Cancel,
			} {
				wantText(t, misuse(t, use), "workflow.Record (flow/record#1)")
			}
			return []byte("1"), nil
		})
		if sub.Err() != nil {
			t.Error("the scope was canceled")
		}
		doStep(b, s, "p.s", fmt.Sprint(rng.IntN(1000)))
		spawn(b, s, func(*Branch) any { return nil })
		return done("1")
	}
	h := begin(t, code)
	// The rejected calls must not use ordinals, because a replay does not repeat these calls.
	h.want("value_recorded (key flow/record#1) 1", "step_created p.s (key flow/p.s#1) 54")
	h.replay(code)
}

// TestStray_CallsBlockTheirRunWheneverTheyAreMade proves that each durable call on another
// goroutine is detected, whatever the run does at that time. The call has no effect except that the
// run is blocked.
func TestStray_CallsBlockTheirRunWheneverTheyAreMade(t *testing.T) {
	for name, use := range map[string]func(b *Branch, s *Scope, undo *Undo){
		"Now":      func(b *Branch, _ *Scope, _ *Undo) { b.Now() },
		"Step":     func(b *Branch, s *Scope, _ *Undo) { doStep(b, s, "p.s", "1") },
		"Sleep":    func(b *Branch, s *Scope, _ *Undo) { _ = b.Sleep(s, t0.Add(time.Hour)) },
		"Open":     func(b *Branch, _ *Scope, _ *Undo) { b.Open("flow/go#1", nil, func(*Branch) {}) },
		"Rand":     func(b *Branch, _ *Scope, _ *Undo) { b.Rand() },
		"Cancel":   func(_ *Branch, s *Scope, _ *Undo) { s.Cancel() },
		"Withdraw": func(_ *Branch, _ *Scope, undo *Undo) { undo.Withdraw() },
		"Set":      func(b *Branch, _ *Scope, _ *Undo) { b.SetValue("v", "k", nil, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			strays := func(b *Branch, s *Scope, undo *Undo) {
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					use(b, s, undo)
					t.Error("the call returned")
				}()
				<-ended
			}
			after := func(b *Branch, _ *Scope) { b.Now(); t.Error("the run went on") }
			for when, code := range map[string]func(b *Branch, s *Scope, undo *Undo) Ending{
				"and goes on":   func(b *Branch, s *Scope, undo *Undo) Ending { strays(b, s, undo); after(b, s); return done("") },
				"and returns":   func(b *Branch, s *Scope, undo *Undo) Ending { strays(b, s, undo); return done("") },
				"and panics":    func(b *Branch, s *Scope, undo *Undo) Ending { strays(b, s, undo); panic("lost") },
				"in a deferred": func(b *Branch, s *Scope, undo *Undo) Ending { defer strays(b, s, undo); return done("") },
				"in a branch": func(b *Branch, s *Scope, undo *Undo) Ending {
					spawn(b, s, func(nb *Branch) any { strays(nb, s, undo); return nil })
					_ = b.Sleep(s, t0.Add(time.Hour))
					return done("")
				},
			} {
				var err *StrayError
				h := load(t, func(b *Branch, s *Scope, _ []byte) Ending {
					undo := b.Compensate(func(*Branch, *Scope) *event.Failure { return nil })
					return code(b, b.NewScope(s), undo)
				})
				h.apply(event.Event{Type: event.RunCreated, Spec: &event.Spec{Workflow: "p.flow"}})
				_ = h.run.Apply(event.Event{Type: event.RunStarted, By: "w", Time: t0})
				if got := h.run.Err(); !errors.As(got, &err) || h.run.Ended() {
					t.Errorf("%s: the run ended: %v, its error: %v", when, h.run.Ended(), got)
				}
			}
		})
	}
}

// TestStray_CallWhileTheRunWaitsBlocksIt proves that a parked run reports a stray call when the run
// is used next.
func TestStray_CallWhileTheRunWaitsBlocksIt(t *testing.T) {
	calls, made := make(chan struct{}), make(chan struct{})
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		go func() {
			defer close(made)
			<-calls
			doStep(b, s, "p.s", "1")
		}()
		_ = b.Sleep(s, t0.Add(time.Hour))
		return done("")
	})
	close(calls)
	<-made
	var err *StrayError
	if got := h.run.Err(); !errors.As(got, &err) || h.run.Branches() != 0 {
		t.Errorf("got %v, and %d branches", got, h.run.Branches())
	}
	wantText(t, err.Error(), "branch flow ", "_test.go:", "use workflow.Go")
}
