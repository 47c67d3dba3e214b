package replay

import (
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/google/go-cmp/cmp"
)

func TestClose_UnwindsNewestBranchFirst(t *testing.T) {
	var order []string
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		defer func() { order = append(order, b.Path()) }()
		for range 3 {
			spawn(b, s, func(b *Branch) any {
				defer func() { order = append(order, b.Path()) }()
				return b.Sleep(s, t0.Add(time.Hour))
			})
		}
		_, _ = b.Receive(s, "never", time.Time{})
		return done("")
	})
	h.run.Close()
	if diff := cmp.Diff([]string{"flow/go#3", "flow/go#2", "flow/go#1", "flow"}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// TestClose_NothingThatDeferredCallsDoStopsTheUnwinding proves that the code does not continue
// while its run is closed, whatever its deferred calls do. The driver is not affected.
func TestClose_NothingThatDeferredCallsDoStopsTheUnwinding(t *testing.T) {
	tests := map[string]func(b *Branch, s, sub *Scope){
		"recover":          func(*Branch, *Scope, *Scope) { _ = recover() },
		"panic":            func(*Branch, *Scope, *Scope) { panic("while unwinding") },
		"panic, recovered": func(*Branch, *Scope, *Scope) { defer func() { _ = recover() }(); panic("while unwinding") },
		"Goexit":           func(*Branch, *Scope, *Scope) { runtime.Goexit() },
		"sleep":            func(b *Branch, s, _ *Scope) { _ = b.Sleep(s, t0.Add(2*time.Hour)); panic("Sleep returned") },
		"detached sleep":   func(b *Branch, _, _ *Scope) { _ = b.Sleep(b.NewScope(nil), t0); panic("Sleep returned") },
		"branch": func(b *Branch, s, _ *Scope) {
			spawn(b, s, func(*Branch) any { panic("the branch was opened") })
			panic("Open returned")
		},
		"record": func(b *Branch, _, _ *Scope) {
			b.Record(func() ([]byte, *event.Failure) { panic("the function was called") })
		},
		"CancelFunc": func(_ *Branch, _, sub *Scope) { sub.Cancel(); sub.Cancel() },
		"recover and sleep": func(b *Branch, s, _ *Scope) {
			_ = recover()
			for {
				_ = b.Sleep(s, t0.Add(2*time.Hour))
			}
		},
	}
	for name, deferred := range tests {
		t.Run(name, func(t *testing.T) {
			var unwound, after bool
			h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
				sub := b.NewScope(s)
				defer func() { unwound = true }()
				func() {
					defer deferred(b, s, sub)
					_ = b.Sleep(sub, t0.Add(time.Hour))
				}()
				after = true
				return done("")
			})
			events := len(h.log)
			h.run.Close()
			if !unwound || after {
				t.Errorf("outer deferred call ran: %v, the code went on: %v; want true, false", unwound, after)
			}
			if n := len(h.run.Take()); n > 0 || h.run.Err() != nil || h.run.Ended() || events != 3 {
				t.Errorf("closing changed the run: %d events, %v, ended %v", n, h.run.Err(), h.run.Ended())
			}
		})
	}
}

func TestClose_UnwindsCodeThatWaitsInADeferredCallOfAPanic(t *testing.T) {
	recovered := false
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		defer func() { recovered = recover() != nil }()
		defer func() { _ = b.Sleep(s, t0.Add(time.Hour)) }()
		panic("boom")
	})
	h.run.Close()
	if recovered {
		t.Error("the panic was recovered although the run was put aside")
	}
}

func TestReplaying_IsTrueWhileTheLogIsRepeatedAndWhileUnwinding(t *testing.T) {
	var seen []bool
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		defer func() { seen = append(seen, b.Replaying()) }()
		seen = append(seen, b.Replaying())
		doStep(b, s, "p.s", "1")
		seen = append(seen, b.Replaying())
		_ = b.Sleep(s, t0.Add(time.Hour))
		seen = append(seen, b.Replaying())
		return done("")
	}
	h := begin(t, code)
	h.complete(h.start(), "1")
	if diff := cmp.Diff([]bool{false, false}, seen); diff != "" {
		t.Errorf("live (-want +got):\n%s", diff)
	}
	seen = nil
	h.replay(code).run.Close()
	if diff := cmp.Diff([]bool{true, true, true}, seen); diff != "" { // the deferred call has made the last observation
		t.Errorf("replayed and closed (-want +got):\n%s", diff)
	}
}

func TestClose_DropsBranchesWhoseCodeHasNotBegun(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		spawn(b, s, func(*Branch) any { t.Error("the branch ran after the run had ended"); return nil })
		return done("")
	})
	if !h.run.Ended() || h.run.Branches() != 0 {
		t.Errorf("ended %v with %d open branches, want true and 0", h.run.Ended(), h.run.Branches())
	}
}

func TestClose_UnwindsThroughAnIteratorOfTheUsers(t *testing.T) {
	stopped := false
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		next, stop := iter.Pull(func(yield func(int) bool) {
			yield(1)
			_ = b.Sleep(s, t0.Add(time.Hour))
			yield(2)
		})
		defer func() { stop(); stopped = true }()
		next()
		next()
		return done("")
	})
	h.run.Close()
	if !stopped {
		t.Error("the deferred call did not run")
	}
}

func TestGoexit_FailsTheRunWithItsStack(t *testing.T) {
	tests := map[string]struct {
		code func()
		want string
	}{
		"alone":               {func() { runtime.Goexit() }, "panic in branch flow: runtime.Goexit was called"},
		"with a panic after":  {func() { defer func() { panic("late") }(); runtime.Goexit() }, "panic in branch flow: late"},
		"of the panic's text": {func() { panic(&exits{}) }, "panic in branch flow: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := begin(t, func(*Branch, *Scope, []byte) Ending { tt.code(); return done("") })
			f := h.run.State().Failure
			if f == nil || !strings.HasPrefix(f.Message, tt.want) || !strings.Contains(f.Stack, "unwind_test.go:") {
				t.Errorf("failure %+v, want %q with a stack in this file", f, tt.want)
			}
			h.replay(func(*Branch, *Scope, []byte) Ending { tt.code(); return done("") })
		})
	}
}

type exits struct{}

func (*exits) String() string { runtime.Goexit(); return "" }

func TestPool_CoroutineOfAPanicIsAsGoodAsNew(t *testing.T) {
	pool := &Pool{}
	defer pool.Close()
	for i := range 10 {
		r := New(testRun, "flow", func(b *Branch, s *Scope, _ []byte) Ending {
			switch i % 3 {
			case 0:
				panic("boom")
			case 1:
				_ = b.Sleep(s, t0.Add(time.Hour))
			}
			return done("")
		}, pool)
		for _, e := range []event.Event{{Type: event.RunCreated, Time: t0}, {Type: event.RunStarted, Time: t0}} {
			if err := r.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		want := []event.State{event.StateFailed, event.StateRunning, event.StateCompleted}[i%3]
		if got := r.State().Run; got != want {
			t.Errorf("run %d is %v, want %v", i, got, want)
		}
		r.Close()
		if len(pool.free) > 1 {
			t.Fatalf("%d coroutines in the pool, one at a time was in use", len(pool.free))
		}
		for _, c := range pool.free {
			if c.crash != nil || c.dying || c.exited || !c.idle || c.job != nil {
				t.Errorf("a coroutine in the pool is not clean: %+v", c)
			}
		}
	}
}

// TestSetPool_RunGoesOnOnAnotherGoroutine proves that a run can be parked on one goroutine and
// resumed on another, like by the executors.
func TestSetPool_RunGoesOnOnAnotherGoroutine(t *testing.T) {
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		sum, branches := 0, []*Promise{}
		for i := range 3 {
			branches = append(branches, spawn(b, s, func(b *Branch) any {
				for range 5 {
					doStep(b, s, "p.s", fmt.Sprint(i))
					sum++ // the branches share sum without a lock
				}
				return nil
			}))
		}
		for _, p := range branches {
			_, _ = b.Await(s, p, "a branch")
		}
		return done(fmt.Sprint(sum))
	}
	h := begin(t, code)
	for !h.run.Ended() {
		turn := make(chan error)
		go func() {
			pool := &Pool{}
			h.run.SetPool(pool)
			ref := h.run.Startable().Ref
			err := errors.Join(h.run.Apply(event.Event{Type: event.StepStarted, Ref: ref, Attempt: 1, By: "w"}),
				h.run.Apply(event.Event{Type: event.StepCompleted, Ref: ref, Attempt: 1, Payload: []byte("1")}))
			pool.Close()
			turn <- err
		}()
		if err := <-turn; err != nil {
			t.Fatal(err)
		}
		h.log = append(h.log, h.run.Take()...)
	}
	if got := string(h.log[len(h.log)-1].Payload); got != "15" {
		t.Errorf("result %s, want 15", got)
	}
}
