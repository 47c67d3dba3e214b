package replay

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// use executes one round of operations that long-lived code repeats. A round takes two steps.
func use(b *Branch, s *Scope, long *Promise) {
	sub := b.NewDeadline(s, b.Now().Add(time.Hour))
	defer sub.Cancel()
	step := func() *Promise {
		return spawn(b, sub, func(b *Branch) any { return string(doStep(b, sub, "p.s", "1").Payload) })
	}
	g := NewGather([]*Promise{long, step()}, firstToEnd)
	_, _ = b.Await(sub, &g.Promise, "2 branches")
	_, _, _ = b.Select(sub, []Case{{Promise: long}, {Due: b.Now().Add(time.Hour)}, {Topic: "none"}, {Promise: step()}})
	limited := b.NewScope(sub)
	spawn(b, sub, func(*Branch) any { limited.Cancel(); return nil })
	_, _ = b.Await(limited, long, "what never ends")
}

func TestRun_KeepsNothingOfWhatHasEnded(t *testing.T) {
	var root *Scope
	long := &Promise{}
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		root = s
		for {
			use(b, s, long)
		}
	})
	// size returns the number of objects of each kind that the run holds. It must be called at the
	// same point of a round.
	size := func() []int {
		r := h.run
		return []int{r.branches.n, r.queue.n, r.ops.Len(), r.unstarted.n, len(r.cancels), root.children.n, root.ops.n,
			root.ended.list.n, long.list.n, len(r.topics), r.topic("none").list.n, len(h.open())}
	}
	round := func() {
		h.complete(h.start(), "1")
		h.complete(h.start(), "1")
	}
	round()
	want := size()
	for range 500 {
		round()
		if got := size(); !reflect.DeepEqual(got, want) {
			t.Fatalf("the run holds %v, after the first round it was %v", got, want)
		}
	}
}

// sequence returns a program with n sequential steps.
func sequence(n int) Program {
	return func(b *Branch, s *Scope, _ []byte) Ending {
		for range n {
			doStep(b, s, "p.s", "1")
		}
		return done("1")
	}
}

func TestSteps_LastOfTenThousandCostsWhatTheFirstOnesDo(t *testing.T) {
	const n = 10_000
	h := begin(t, sequence(n))
	steps := 0
	step := func() {
		op := h.run.Startable()
		for _, e := range []event.Event{
			{Type: event.StepStarted, Ref: op.Ref, Attempt: 1, Time: t0},
			{Type: event.StepCompleted, Ref: op.Ref, Attempt: 1, Time: t0},
		} {
			if err := h.run.Apply(e); err != nil {
				t.Fatal(err)
			}
		}
		h.run.Take()
		steps++
	}
	early := testing.AllocsPerRun(100, step)
	heap := heapInUse()
	for steps < 9_000 {
		step()
	}
	grown := int64(heapInUse()) - int64(heap)
	late := testing.AllocsPerRun(100, step)
	t.Logf("allocations: step 9: %v, step 9,000: %v; the heap grew by %d bytes", early, late, grown)
	if late > early+1 || early > 6 {
		t.Errorf("a step allocates %v times at first and %v times later", early, late)
	}
	if grown > 200_000 {
		t.Errorf("the heap grew by %d bytes over 9,000 steps: something is kept of each", grown)
	}
	for !h.run.Ended() {
		step()
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestReplay_OfTenThousandStepsAllocatesLittle(t *testing.T) {
	const n = 10_000
	h := begin(t, sequence(n))
	for !h.run.Ended() {
		h.complete(h.start(), "1")
	}
	pool := &Pool{}
	defer pool.Close()
	perStep := testing.AllocsPerRun(3, func() {
		r := New(testRun, "flow", sequence(n), pool)
		if err := r.Replay(h.log); err != nil {
			t.Fatal(err)
		}
		if !r.Ended() || r.ops.Len() > 0 || r.unstarted.n > 0 {
			t.Fatal("the replay did not end")
		}
		r.Close()
	}) / n
	t.Logf("%.1f allocations per step", perStep)
	if perStep > 6 {
		t.Errorf("%.1f allocations per step, want 6 at most", perStep)
	}
}

// TestBranches_TenThousandAtOnceEndInAnyOrder proves that the operations of a scope do not iterate
// over all its branches. With ten thousand branches such an operation would take hundreds of
// millions of steps, and minutes under the race detector.
func TestBranches_TenThousandAtOnceEndInAnyOrder(t *testing.T) {
	const n = 10_000
	for name, pick := range map[string]func(i int) int{
		"oldest first": func(i int) int { return i },
		"newest first": func(i int) int { return n - 1 - i },
		"mixed":        func(i int) int { return i * 7919 % n },
	} {
		t.Run(name, func(t *testing.T) {
			h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
				never, ps := NewPromise(b.NewScope(nil)), make([]*Promise, n)
				for i := range ps {
					ps[i] = spawn(b, s, func(b *Branch) any {
						sub := b.NewScope(s)
						defer sub.Cancel()
						doStep(b, sub, "p.s", "1")
						g := NewGather([]*Promise{never}, nil)
						_, _ = b.Await(b.NewDeadline(sub, b.Now()), &g.Promise, "never")
						return nil
					})
				}
				g := NewGather(ps, nil)
				_, err := b.Await(s, &g.Promise, "all")
				return done(fmt.Sprint(err))
			})
			refs := make([]uint64, n)
			for i := range refs {
				refs[i] = h.start()
			}
			for i := range n {
				h.complete(refs[pick(i)], "1")
			}
			if !h.run.Ended() || string(h.log[len(h.log)-1].Payload) != "<nil>" {
				t.Errorf("ended %v with %s", h.run.Ended(), h.log[len(h.log)-1].Payload)
			}
		})
	}
}
