package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// misuse returns the text of the MisuseError that f panics with.
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
	wantText(t, misuse(t, func() { kept.Now() }), "from outside of the workflow's code")
	wantText(t, misuse(t, scope.Cancel), "CancelFunc was called from outside")
	h.fire(3)
	wantText(t, misuse(t, func() { kept.Now() }), "after its run had ended")
	scope.Cancel() // there is nothing left to cancel
}

func TestContext_OfAnotherRunIsRefused(t *testing.T) {
	var kept *Branch
	begin(t, func(b *Branch, _ *Scope, _ []byte) Ending { kept = b; return done("") })
	h := begin(t, func(*Branch, *Scope, []byte) Ending { kept.Now(); return done("") })
	if f := h.run.Fold().Failure; f == nil || !strings.Contains(f.Message, "after its run had ended") {
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
	// The refused calls took no ordinals, which no replay would take.
	h.want("value_recorded (key flow/record#1) 1", "step_created p.s (key flow/p.s#1) 54")
	h.replay(code)
}
