package worker_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// nexts is a store that counts the claims made by commits and records the claimed runs.
type nexts struct {
	store.Store
	lost atomic.Int64  // number of further answers with claimed runs to lose
	beat chan struct{} // receives a value at each heartbeat; if not nil, answers with claimed runs are delayed for some heartbeats

	mu     sync.Mutex
	asked  int
	handed []event.RunID
}

func (s *nexts) Unwrap() store.Store { return s.Store }

func (s *nexts) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := s.Store.Commit(ctx, commits)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range answers {
		if commits[i].Next == nil {
			continue
		}
		s.asked++
		for _, run := range answers[i].Next.Runs {
			s.handed = append(s.handed, run.Run)
		}
		if len(answers[i].Next.Runs) > 0 && s.lost.Add(-1) >= 0 {
			answers[i].Next = store.Claimed{}
		}
		for range 3 * min(cap(s.beat), len(answers[i].Next.Runs)) {
			<-s.beat
		}
	}
	return answers, err
}

func (s *nexts) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	select {
	case s.beat <- struct{}{}:
	default:
	}
	return s.Store.Heartbeat(ctx, partition, id)
}

func (s *nexts) tally() (asked int, handed []event.RunID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, slices.Clone(s.handed)
}

// inTurn is a workflow whose runs use a limit and stay in a step until the gate is opened. The
// first run uses the whole limit, and each other run uses 1.
type inTurn struct {
	limit.Limit
	flow     workflow.Definition[int, int]
	bindings []flowtest.Binding
	gate     chan struct{}
	fails    bool         // whether the steps fail once the gate is open
	most     atomic.Int64 // largest number of steps that ran at the same time
	now      atomic.Int64
}

func newInTurn(name string, atOnce int) *inTurn {
	f := &inTurn{Limit: limit.New(name, limit.Config{AtOnce: atOnce}), gate: make(chan struct{})}
	f.flow = flowtest.LimitedFlow[int, int](name+".flow", func(n int) []limit.Use {
		if n == 0 {
			return []limit.Use{f.Use(atOnce)}
		}
		return []limit.Use{f.Use(1)}
	})
	step := flowtest.AStep[int, int](name+".step", shim.Policy{Fatal: func(error) bool { return true }})
	f.bindings = []flowtest.Binding{flowtest.As(f.flow, step.Call), step.As(func(ctx context.Context, n int) (int, error) {
		if now := f.now.Add(1); now > f.most.Load() {
			f.most.Store(now)
		}
		defer f.now.Add(-1)
		select {
		case <-f.gate:
			if f.fails {
				return 0, errBroken
			}
			return n, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})}
	return f
}

// line starts n runs and waits until all but the first wait for the permit. If places is set, the
// worker has slots for the waiting runs, and line also waits until their claim was refused. Then
// line opens the gate.
func (f *inTurn) line(w *flowtest.World, n int, places bool) (runs []*workflow.Run[int]) {
	w.T.Helper()
	for i := range n {
		runs = append(runs, flowtest.Start(w, f.flow, i))
		w.Reach(runs[0], event.StepStarted, 1)
	}
	w.Eventually("the others have asked in vain", func() bool {
		lines := w.Snapshot().Waiting
		return len(lines) == 1 && len(lines[0].Runs) == n-1 && (lines[0].Closed || !places)
	})
	close(f.gate)
	return runs
}

func TestREC5_APermitIsHandedOnByTheCommitThatGivesItBack(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		f, st := newInTurn("handed", 1), &nexts{Store: w.Store}
		w.WorkOn(st, worker.Config{NoLocalStart: true}, f.bindings...)
		runs := f.line(w, 10, true)
		for i, run := range runs {
			if got := flowtest.Result(w, run); got != i {
				t.Errorf("run %d returned %d", i, got)
			}
		}
		if n := f.most.Load(); n != 1 {
			t.Errorf("%d runs were in their step at once, want 1", n)
		}
		_, handed := st.tally()
		var want []event.RunID
		for _, run := range runs[1:] {
			want = append(want, run.ID())
		}
		if !slices.Equal(handed, want) {
			t.Errorf("commits have handed on %v, want %v", handed, want)
		}
	})
}

// TestREC11_AWorkerWithLimitsOfItsOwnMakesOneClaimAfterTheOther proves that the commits of a worker
// with local capacity claim nothing. Two concurrent claims could both use the same free capacity.
func TestREC11_AWorkerWithLimitsOfItsOwnMakesOneClaimAfterTheOther(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		f, st := newInTurn("alone", 1), &nexts{Store: w.Store}
		w.WorkOn(st, worker.Config{NoLocalStart: true, Capacity: map[string]int{"nextclaim.memory": 100}}, f.bindings...)
		for i, run := range f.line(w, 4, true) {
			if got := flowtest.Result(w, run); got != i {
				t.Errorf("run %d returned %d", i, got)
			}
		}
		if asked, _ := st.tally(); asked > 0 {
			t.Errorf("%d commits have claimed, want none", asked)
		}
	})
}

// TestREC5_WhatIsHandedOnWithoutAnAnswerIsGivenBack proves that runs claimed by a commit are given
// back if the answer of the commit is lost. The session owns these runs, so reconciliation finds
// them.
func TestREC5_WhatIsHandedOnWithoutAnAnswerIsGivenBack(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		f, st := newInTurn("lost", 1), &nexts{Store: w.Store}
		st.lost.Store(3)
		w.WorkOn(st, worker.Config{NoLocalStart: true, Heartbeat: 20 * time.Millisecond, ClaimExpiry: time.Minute}, f.bindings...)
		for i, run := range f.line(w, 6, true) {
			if got := flowtest.Result(w, run); got != i {
				t.Errorf("run %d returned %d", i, got)
			}
		}
		if n := f.most.Load(); n != 1 {
			t.Errorf("%d runs were in their step at once, want 1", n)
		}
		if n := len(w.Lines("releasing a run that was claimed without an answer")); n != 3 {
			t.Errorf("the log tells of %d runs that were given back, want 3", n)
		}
	})
}

func TestREC5_WhatIsHandedOnIsNotGivenBackBeforeTheAnswerComes(t *testing.T) {
	w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{})
	f, st := newInTurn("late", 2), &nexts{Store: w.Store, beat: make(chan struct{}, 1)}
	w.WorkOn(st, worker.Config{NoLocalStart: true, Heartbeat: 5 * time.Millisecond, ClaimExpiry: time.Minute}, f.bindings...)
	for i, run := range f.line(w, 6, true) {
		if got := flowtest.Result(w, run); got != i {
			t.Errorf("run %d returned %d", i, got)
		}
	}
	if _, handed := st.tally(); len(handed) < 2 {
		t.Errorf("commits have handed on %v, want 2 runs at least", handed)
	}
	if all := w.Lines("releasing a run that was claimed without an answer"); len(all) > 0 {
		t.Errorf("the worker has given back what it was about to hear of: %v", all)
	}
}

// TestREC11_AFullWorkerClaimsByItsTurnsOnly proves that the commits of a worker claim nothing if
// the worker is full, because it must serve the partitions in turn. The same holds if the queue has
// a bound, because its slots are counted.
func TestREC11_AFullWorkerClaimsByItsTurnsOnly(t *testing.T) {
	for name, cfg := range map[string]worker.Config{"one place": {Runs: 1}, "a bound for its queue": {AtOnce: map[string]int{"default": 3}}} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
				f, st := newInTurn("full", 1), &nexts{Store: w.Store}
				cfg.NoLocalStart = true
				w.WorkOn(st, cfg, f.bindings...)
				runs := f.line(w, 4, cfg.Runs == 0)
				for _, run := range runs {
					flowtest.Result(w, run)
				}
				if asked, _ := st.tally(); asked > 0 {
					t.Errorf("%d commits have claimed", asked)
				}
			})
		})
	}
}

var errBroken = errors.New("this machine is broken")

// TestREC11_AWorkerLeavesPermitsToOthers proves that the commits of a worker claim nothing if the
// worker executes as many steps as it has processors, or if its steps fail.
func TestREC11_AWorkerLeavesPermitsToOthers(t *testing.T) {
	for name, is := range map[string]struct{ busy, fails bool }{"that has much to do": {busy: true}, "that fails": {fails: true}} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				f, st := newInTurn("left", 1), &nexts{Store: w.Store}
				f.fails = is.fails
				held, over := flowtest.AStep[int, int]("left.held", shim.Policy{}), make(chan struct{})
				holds := flowtest.Flow[int, int]("left.holds")
				w.WorkOn(st, worker.Config{NoLocalStart: true}, append(f.bindings, flowtest.As(holds, held.Call), held.As(func(ctx context.Context, n int) (int, error) {
					select {
					case <-over:
					case <-ctx.Done():
					}
					return n, ctx.Err()
				}))...)
				for n := range goruntime.GOMAXPROCS(0) {
					if is.busy {
						w.Reach(flowtest.Start(w, holds, n), event.StepStarted, 1)
					}
				}
				for _, run := range f.line(w, 4, true) {
					if _, err := run.Result(w.Ctx); (err != nil) != is.fails {
						t.Errorf("run %s has ended with %v", run.ID(), err)
					}
				}
				close(over)
				if asked, _ := st.tally(); asked > 0 {
					t.Errorf("%d commits have claimed", asked)
				}
			})
		})
	}
}

// TestREC5_ARunThatKeepsItsPermitsClaimsNothing proves that a run which keeps its permits until its
// end gives none back while it waits. So only its last commit claims runs.
func TestREC5_ARunThatKeepsItsPermitsClaimsNothing(t *testing.T) {
	w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{})
	f, st := newInTurn("kept", 1), &nexts{Store: w.Store}
	w.WorkOn(st, worker.Config{NoLocalStart: true}, flowtest.As(f.flow, func(ctx workflow.Context, _ int) (int, error) { return flowtest.Numbers.Receive(ctx) }))
	run := flowtest.Start(w, f.flow, 1)
	w.Eventually("it waits", func() bool { return w.Parked(run) })
	if asked, _ := st.tally(); asked > 0 {
		t.Errorf("%d commits have claimed while it waited", asked)
	}
	flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 7))
	if got := flowtest.Result(w, run); got != 7 {
		t.Errorf("it got %d", got)
	}
	if asked, _ := st.tally(); asked != 1 {
		t.Errorf("%d commits have claimed, want that of its end", asked)
	}
}
