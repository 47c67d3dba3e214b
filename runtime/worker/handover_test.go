package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// nearby returns a world whose client and worker are in one process. The worker begins the runs
// that the client starts.
func nearby(t *testing.T, st store.Store, cfg worker.Config, bindings ...flowtest.Binding) *flowtest.World {
	t.Helper()
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Near = true
	w.Work(cfg, append(bindings, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))...)
	taken := map[int]bool{} // A worker opens the sessions of its partitions one after the other.
	w.Eventually("the worker to take what is started in every partition", func() bool {
		if run := flowtest.Start(w, flowtest.AttackOnce, 1); handedOver(w, run) {
			taken[int(run.ID().Slot())%st.Partitions()] = true
		}
		return len(taken) == st.Partitions()
	})
	return w
}

// TestRUN1_StartOnAWorkerIsTwoRequests proves that a run of one step, started on its worker, takes
// two round trips from its start to its result. The first creates the run and begins the step, and
// the second ends the run. There is no claim, read or watch. A client that gets no answer within
// 100 ms, as on a busy machine, creates the run itself; the test does not count such a run.
func TestRUN1_StartOnAWorkerIsTwoRequests(t *testing.T) {
	const patience = 100 * time.Millisecond
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			st := &flowtest.Between{Store: open(t)}
			w := nearby(t, st, worker.Config{Heartbeat: time.Hour, ClaimExpiry: 24 * time.Hour}) // the intervals are so long that no heartbeat is counted
			ops := []string{"create", "commit", "watch", "release", "reconcile"}
			got, loads := map[string]int{}, 0
			const runs = 20
			for i := 0; i < runs; {
				before, loaded := st.Tally(), st.Count("load")
				begun := time.Now()
				run := flowtest.Start(w, flowtest.AttackOnce, i)
				took := time.Since(begun)
				if got := flowtest.Result(w, run); got != 2*i {
					t.Errorf("result: got %d, want %d", got, 2*i)
				}
				frame := w.FirstFrame(run)
				if len(frame) == 1 && took >= patience {
					continue // the client has created the run
				}
				want := []event.Type{event.RunCreated, event.RunStarted, event.StepCreated, event.StepStarted}
				if d := cmp.Diff(want, frame); d != "" {
					t.Errorf("first frame after %v (-want +got):\n%s", took, d)
				}
				for _, op := range ops {
					if n := st.Count(op) - before[op]; n > 0 {
						got[op] += n
					}
				}
				loads += st.Count("load") - loaded // loads of FirstFrame, and two loads of Result if the run has ended by then
				i++
			}
			if d := cmp.Diff(map[string]int{"create": runs, "commit": runs}, got); d != "" || loads > 3*runs {
				t.Errorf("requests (-want +got), and %d loads:\n%s", loads, d)
			}
			w.Healthy()
		})
	}
}

// TestRUN1_StartDoesNotWaitForCodeThatHangs proves that code which does not return before its first
// wait does not delay the client that starts the run. The client creates the run itself. The worker
// claims it and continues the code, which it does not execute again.
func TestRUN1_StartDoesNotWaitForCodeThatHangs(t *testing.T) {
	gate := newBarrier()
	defer gate.open()
	st := &flowtest.Between{Store: memstore.New()}
	var created atomic.Value
	var claimed atomic.Bool
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		if claimed.Load() && (op == "claim" || op == "wait") {
			gate.open() // the claim loop has passed on the claim
		}
		if c, ok := req.([]store.Create); ok && c[0].Route.Workflow == "test.handover.hangs" {
			created.Store(c[0].Run)
		}
		err := do()
		if run, ok := created.Load().(workflow.RunID); ok && op == "claim" {
			l, _ := st.Store.Load(ctx, []store.Load{{Run: run, Limit: -1}})
			claimed.Store(len(l) == 1 && l[0].Record.QueueState == store.StateOwned)
		}
		return err
	}
	var executed atomic.Int64
	hangs := flowtest.Flow[int, int]("handover.hangs")
	w := nearby(t, st, worker.Config{BlockedAfter: time.Hour}, flowtest.As(hangs, func(ctx workflow.Context, n int) (int, error) {
		executed.Add(1)
		gate.pass(context.Background())
		return flowtest.AttackStep.Call(ctx, n)
	}))
	run := flowtest.Start(w, hangs, 4)
	if n := len(w.FirstFrame(run)); n != 1 {
		t.Errorf("the first frame has %d events, want 1", n)
	}
	if got := flowtest.Result(w, run); got != 8 {
		t.Errorf("result: got %d, want 8", got)
	}
	if n := executed.Load(); n != 1 {
		t.Errorf("the code was begun %d times, want once", n)
	}
	w.Healthy()
}

// TestRUN1_StartOnAWorkerSaysThatItDoesNotKnow proves that Start returns an error which reports an
// unknown outcome if the request or its answer is lost. If the run exists, it is given back and
// completes. If it does not exist, it is not created later.
func TestRUN1_StartOnAWorkerSaysThatItDoesNotKnow(t *testing.T) {
	for name, arrives := range map[string]bool{"the request is lost": false, "the answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			st := &flowtest.Between{Store: memstore.NewWith(memstore.Config{Clock: &impatient{}})}
			var on atomic.Bool
			var id atomic.Value
			st.Around = func(_ context.Context, op string, req any, do func() error) error {
				if op != "create" || !on.Swap(false) {
					return do()
				}
				id.Store(req.([]store.Create)[0].Run)
				if arrives {
					if err := do(); err != nil {
						return err
					}
				}
				return errNoAnswer
			}
			w := nearby(t, st, worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute})
			on.Store(true)
			if _, err := flowtest.AttackOnce.Start(w.Ctx, w.Client, 5); !errors.Is(err, errNoAnswer) {
				t.Fatalf("start: got %v, want the error of the store", err)
			}
			run := flowtest.AttackOnce.Get(w.Client, id.Load().(workflow.RunID))
			got, err := run.Result(w.Ctx)
			if arrives && (err != nil || got != 10) || !arrives && !errors.Is(err, workflow.ErrRunNotFound) {
				t.Errorf("result: got %d, %v", got, err)
			}
			w.Healthy()
		})
	}
}

// TestRUN1_StartFallsBackWhenTheSessionIsOver proves that a run is created without a claim if the
// store refuses to create it claimed. The store has written nothing in that case.
func TestRUN1_StartFallsBackWhenTheSessionIsOver(t *testing.T) {
	mem := memstore.New()
	st := &flowtest.Between{Store: mem}
	var on atomic.Bool
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		if c, ok := req.([]store.Create); ok && op == "create" && c[0].Owner != nil && on.Swap(false) {
			_ = mem.CloseSession(ctx, 0, c[0].Owner.Session) // as if the session had expired and was recovered
		}
		return do()
	}
	w := nearby(t, st, worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute})
	on.Store(true)
	for on.Load() { // The worker declines local starts until the session is open again and its heartbeat is in time.
		run := flowtest.Start(w, flowtest.AttackOnce, 6)
		if got := flowtest.Result(w, run); got != 12 {
			t.Errorf("result: got %d, want 12", got)
		}
		if !on.Load() && len(w.FirstFrame(run)) != 1 {
			t.Errorf("first frame: got %d events, want 1 of a run that was created like any other", len(w.FirstFrame(run)))
		}
	}
	w.Healthy()
}

// TestRUN5_WhatIsHandedOverDoesNotOvertake proves that a run started locally does not overtake a
// run that waits for a slot. This holds even if a slot is free and the waiting run was not claimed
// yet.
func TestRUN5_WhatIsHandedOverDoesNotOvertake(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	busy, claims := newBarrier(), newBarrier()
	defer busy.open()
	defer claims.open()
	var hold atomic.Bool
	st.Around = func(ctx context.Context, op string, _ any, do func() error) error {
		if op == "claim" && hold.Load() {
			claims.pass(ctx)
		}
		return do()
	}
	var mu sync.Mutex
	var order []int
	queued, waits := flowtest.Flow[int, int]("handover.queued"), flowtest.AStep[int, int]("handover.waits", shim.Policy{})
	w := nearby(t, st, worker.Config{Runs: 1}, flowtest.As(queued, waits.Call), waits.As(func(ctx context.Context, n int) (int, error) {
		mu.Lock()
		order = append(order, n)
		mu.Unlock()
		if n == 1 {
			busy.pass(ctx)
		}
		return n, nil
	}))
	first := flowtest.Start(w, queued, 1)
	<-busy.arrived                         // a busy worker claims the run instead of taking its start
	second := flowtest.Start(w, queued, 2) // no slot is free for this run
	hold.Store(true)
	busy.open()
	flowtest.Result(w, first)
	third := flowtest.Start(w, queued, 3) // a slot is free, but another run waits for it
	if n := len(w.FirstFrame(third)); n != 1 {
		t.Errorf("the first frame has %d events: it was handed over before its turn", n)
	}
	claims.open()
	flowtest.Result(w, second)
	flowtest.Result(w, third)
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff([]int{1, 2, 3}, order); d != "" {
		t.Errorf("order of the runs (-want +got):\n%s", d)
	}
	w.Healthy()
}

// TestRUN4_PoliciesHoldForRunsThatAreHandedOver proves that workflow IDs and their policies apply
// to runs that are started locally.
func TestRUN4_PoliciesHoldForRunsThatAreHandedOver(t *testing.T) {
	gate := newBarrier()
	defer gate.open()
	var executed atomic.Int64
	held := flowtest.Flow[int, int]("handover.held")
	onEach := func(t *testing.T, st store.Store) {
		w := nearby(t, st, worker.Config{}, flowtest.As(held, func(ctx workflow.Context, n int) (int, error) {
			executed.Add(1)
			_, err := workflow.NewTopic[int]("go").Receive(ctx)
			return n, err
		}))
		first := flowtest.Start(w, held, 1, workflow.WithID("one"))
		second, err := held.Start(w.Ctx, w.Client, 2, workflow.WithID("one"))
		if err != nil || second.ID() != first.ID() || second.Created() {
			t.Errorf("active, use: got %v, %v, want the active run", second, err)
		}
		var active *workflow.ActiveRunError
		if _, err = held.Start(w.Ctx, w.Client, 3, workflow.WithID("one"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.FailActive})); !errors.As(err, &active) {
			t.Errorf("active, fail: got %v", err)
		}
		third := flowtest.Start(w, held, 4, workflow.WithID("one"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.CancelActive}))
		if _, err := first.Result(w.Ctx); err == nil {
			t.Error("the run before was not canceled")
		}
		if err := workflow.NewTopic[int]("go").Send(w.Ctx, third, 1); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, third); got != 4 {
			t.Errorf("result: got %d, want 4", got)
		}
		w.Healthy()
	}
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) { onEach(t, open(t)) })
	}
}

// TestRUN2_ResultIsToldByTheWorkerOrByTheStore proves two properties of waits for a result. A
// caller that stops waiting leaks nothing. A caller that waits for a run which leaves its worker
// gets the result from the store.
func TestRUN2_ResultIsToldByTheWorkerOrByTheStore(t *testing.T) {
	sleeps := flowtest.Flow[int, int]("handover.sleeps")
	w := nearby(t, memstore.New(), worker.Config{}, flowtest.As(sleeps, func(ctx workflow.Context, n int) (int, error) {
		_, err := workflow.NewTopic[int]("go").Receive(ctx)
		return n, err
	}))
	run := flowtest.Start(w, sleeps, 3)
	short, cancel := context.WithCancel(w.Ctx)
	cancel()
	if _, err := run.Result(short); !errors.Is(err, context.Canceled) {
		t.Errorf("result: got %v, want the end of the context", err)
	}
	told := make(chan int, 3)
	for range cap(told) {
		go func() {
			v, err := run.Result(w.Ctx)
			if err != nil {
				t.Errorf("result: %v", err)
			}
			told <- v
		}()
	}
	w.Eventually("the run to leave its worker", func() bool { return w.Parked(run) })
	if err := workflow.NewTopic[int]("go").Send(w.Ctx, run, 1); err != nil {
		t.Fatal(err)
	}
	for range cap(told) {
		if got := <-told; got != 3 {
			t.Errorf("result: got %d, want 3", got)
		}
	}
}

// handedOver waits for the result of a run, and reports whether a local start executed its first
// part.
func handedOver(w *flowtest.World, run *workflow.Run[int]) bool {
	w.T.Helper()
	flowtest.Result(w, run)
	return len(w.FirstFrame(run)) > 1
}
