package replay

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
)

// futures returns a program that spawns a branch for each element of waits and waits for all of
// them. Each branch waits for the branches with the listed numbers.
func futures(waits ...[]int) Program {
	return func(b *Branch, s *Scope, _ []byte) Ending {
		ps := make([]*Promise, len(waits))
		for i, on := range waits {
			p := NewPromise(s)
			ps[i] = p
			b.Open(b.Key("go"), Here(1), func(nb *Branch) {
				nb.Makes(p)
				for _, j := range on {
					if _, err := nb.Await(s, ps[j], fmt.Sprint("future ", j+1)); err != nil {
						break
					}
				}
				p.Resolve(nil)
			})
		}
		for i, p := range ps {
			if _, err := b.Await(s, p, fmt.Sprint("future ", i+1)); err != nil {
				break
			}
		}
		return done("1")
	}
}

func ran(t *testing.T, code Program) *Run {
	t.Helper()
	r := New(testRun, "flow", code, nil)
	t.Cleanup(r.Close)
	for _, e := range []event.Event{{Type: event.RunCreated, Time: t0, Spec: &event.Spec{Workflow: "p.flow"}}, {Type: event.RunStarted, Time: t0}} {
		if err := r.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// cyclic reports whether a graph of waits contains a cycle.
func cyclic(waits [][]int) bool {
	const open, closed = 1, 2
	state := make([]int, len(waits))
	var walk func(i int) bool
	walk = func(i int) bool {
		if state[i] != 0 {
			return state[i] == open
		}
		state[i] = open
		found := slices.ContainsFunc(waits[i], walk)
		state[i] = closed
		return found
	}
	for i := range waits {
		if walk(i) {
			return true
		}
	}
	return false
}

func TestDeadlock_IsFoundIfAndOnlyIfTheWaitsHaveARing(t *testing.T) {
	seen := map[event.State]int{}
	rapid.Check(t, func(rt *rapid.T) {
		waits := make([][]int, rapid.IntRange(1, 6).Draw(rt, "branches"))
		for i := range waits {
			waits[i] = rapid.SliceOfN(rapid.IntRange(0, len(waits)-1), 0, 2).Draw(rt, "waits for")
		}
		r := ran(t, futures(waits...))
		want := event.StateCompleted
		if cyclic(waits) {
			want = event.StateFailed
		}
		seen[want]++
		if r.State().Run != want {
			rt.Fatalf("waits %v: the run is %v, want %v", waits, r.State().Run, want)
		}
		r.Close()
	})
	if len(seen) != 2 {
		t.Errorf("not both ways to end were seen: %v", seen)
	}
}

func TestDeadlock_OfALogThatGoesOnIsFoundAtItsEnd(t *testing.T) {
	// This log was written by a release without deadlock detection.
	old := []event.Event{
		{Seq: 1, Type: event.RunCreated, Time: t0, Spec: &event.Spec{Workflow: "p.flow"}},
		{Seq: 2, Type: event.RunStarted, Time: t0},
		{Seq: 3, Type: event.MessageReceived, Name: "a", Time: t0},
		{Seq: 4, Type: event.MessageReceived, Name: "a", Time: t0},
	}
	for n := 2; n <= len(old); n++ {
		r := New(testRun, "flow", futures([]int{1}, []int{0}), nil)
		if err := r.Replay(old[:n]); err != nil {
			t.Fatal(err)
		}
		var types []event.Type
		for _, e := range r.Take() {
			types = append(types, e.Type)
		}
		if diff := cmp.Diff([]event.Type{event.CancelRequested, event.RunFailed}, types); diff != "" {
			t.Errorf("after %d events (-want +got):\n%s", n, diff)
		}
		r.Close()
	}
}

func TestDeadlock_NamesAHundredBranchesAndCountsTheOthers(t *testing.T) {
	const n = 3000
	waits := make([][]int, n)
	for i := range waits {
		waits[i] = []int{(i + 1) % n}
	}
	begun := time.Now()
	r := ran(t, futures(waits...))
	t.Logf("found and ended in %v", time.Since(begun))
	f := r.State().Failure
	if f == nil || f.Code != event.CodeDeadlock {
		t.Fatalf("the run failed with %v", f)
	}
	var e DeadlockError
	if err := unmarshal(f.Data, &e); err != nil || len(e.Waits) != maxWaits || e.More != n+1-maxWaits {
		t.Errorf("%d waits and %d more: %v", len(e.Waits), e.More, err)
	}
}

func TestDeadlock_ErrorOfAWaitIsAnEndOfItsContext(t *testing.T) {
	var got []error
	r := ran(t, func(b *Branch, s *Scope, _ []byte) Ending {
		_, err := b.Await(b.NewScope(nil), NewPromise(s), "nobody")
		_, _, after := b.Select(s, nil)
		got = append(got, err, after, s.Err())
		return done("1")
	})
	if !r.Ended() || len(got) != 3 {
		t.Fatalf("the run has not ended: %v", r.Blocked())
	}
	for _, err := range got {
		if !errors.Is(err, ErrCanceled) {
			t.Errorf("got %v, want one that is ErrCanceled", err)
		}
	}
	if got[2] != ErrCanceled {
		t.Errorf("the context ended with %v", got[2])
	}
}
