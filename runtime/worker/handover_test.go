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
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// nearby makes a world whose workers begin what is started on its client, and a worker
// that does.
func nearby(t *testing.T, st store.Store, cfg worker.Config, bindings ...binding) *world {
	t.Helper()
	w := newWorld(t, st, workflow.ClientConfig{})
	w.near = true
	w.work(cfg, append(bindings, attackStep.as(twice), as(attackOnce, attackStep.Call))...)
	w.eventually("the worker to take what is started", func() bool {
		return w.handedOver(start(w, attackOnce, 1))
	})
	return w
}

// handedOver waits for the end of a run, and reports whether it began with its creation.
func (w *world) handedOver(run *workflow.Run[int]) bool {
	w.t.Helper()
	result(w, run)
	return len(w.firstFrame(run)) > 1
}

// firstFrame returns the types of the events of the first frame.
func (w *world) firstFrame(run follows) (types []event.Type) {
	w.t.Helper()
	loaded, err := w.store.Load(w.ctx, []store.Load{{Run: run.ID(), Limit: 1}})
	if err = errors.Join(err, loaded[0].Err); err != nil {
		w.t.Fatal(err)
	}
	f, err := event.DecodeFrame(loaded[0].Frames[0])
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range f.Events {
		types = append(types, f.Events[i].Type)
	}
	return types
}

// Two round trips from the start of a run of one step to its result: the creation, with
// which the step begins, and the commit that ends the run. Nobody claims, reads or watches.
func TestRUN1_StartOnAWorkerIsTwoRequests(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			st := &between{Store: open(t)}
			w := nearby(t, st, worker.Config{})
			before := map[string]int{}
			ops := []string{"create", "commit", "load", "watch", "release", "reconcile"}
			for _, op := range ops {
				before[op] = st.count(op)
			}
			const runs = 20
			for i := range runs {
				run := start(w, attackOnce, i)
				if got := result(w, run); got != 2*i {
					t.Errorf("result: got %d, want %d", got, 2*i)
				}
				want := []event.Type{event.RunCreated, event.RunStarted, event.StepCreated, event.StepStarted}
				if d := cmp.Diff(want, w.firstFrame(run)); d != "" {
					t.Errorf("first frame (-want +got):\n%s", d)
				}
			}
			got := map[string]int{}
			for _, op := range ops {
				if n := st.count(op) - before[op]; n > 0 {
					got[op] = n
				}
			}
			loads := got["load"] // by firstFrame, and two by Result for what has ended by then
			delete(got, "load")
			if d := cmp.Diff(map[string]int{"create": runs, "commit": runs}, got); d != "" || loads > 3*runs {
				t.Errorf("requests (-want +got), and %d loads:\n%s", loads, d)
			}
			w.healthy()
		})
	}
}

// Code that does not return before it first waits does not hold up whoever starts it.
// The client has created the run then, and the copy of it that has begun is dropped.
func TestRUN1_StartDoesNotWaitForCodeThatHangs(t *testing.T) {
	gate := newBarrier()
	defer gate.open()
	var executed atomic.Int64
	hangs := flow[int, int]("handover.hangs")
	w := nearby(t, memstore.New(), worker.Config{BlockedAfter: time.Hour}, as(hangs, func(ctx workflow.Context, n int) (int, error) {
		executed.Add(1)
		gate.pass(context.Background())
		return attackStep.Call(ctx, n)
	}))
	run := start(w, hangs, 4)
	if n := len(w.firstFrame(run)); n != 1 {
		t.Errorf("the first frame has %d events, want 1", n)
	}
	gate.open()
	if got := result(w, run); got != 8 {
		t.Errorf("result: got %d, want 8", got)
	}
	if n := executed.Load(); n != 2 {
		t.Errorf("the code was begun %d times, want 2: in vain, and when it was claimed", n)
	}
	w.healthy()
}

// The request is lost, or its answer is. Whoever starts the run does not know, and says
// so; a run that is there is given back and comes to its end, one that is not is not.
func TestRUN1_StartOnAWorkerSaysThatItDoesNotKnow(t *testing.T) {
	for name, arrives := range map[string]bool{"the request is lost": false, "the answer is lost": true} {
		t.Run(name, func(t *testing.T) {
			st := &between{Store: memstore.NewWith(memstore.Config{Clock: &impatient{}})}
			var on atomic.Bool
			var id atomic.Value
			st.around = func(_ context.Context, op string, req any, do func() error) error {
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
			if _, err := attackOnce.Start(w.ctx, w.client, 5); !errors.Is(err, errNoAnswer) {
				t.Fatalf("start: got %v, want the error of the store", err)
			}
			run := attackOnce.Get(w.client, id.Load().(workflow.RunID))
			got, err := run.Result(w.ctx)
			if arrives && (err != nil || got != 10) || !arrives && !errors.Is(err, workflow.ErrRunNotFound) {
				t.Errorf("result: got %d, %v", got, err)
			}
			w.healthy()
		})
	}
}

// A run that cannot be created claimed is created like any other: the store has written nothing.
func TestRUN1_StartFallsBackWhenTheSessionIsOver(t *testing.T) {
	mem := memstore.New()
	st := &between{Store: mem}
	var on atomic.Bool
	st.around = func(ctx context.Context, op string, req any, do func() error) error {
		if c, ok := req.([]store.Create); ok && op == "create" && c[0].Owner != nil && on.Swap(false) {
			_ = mem.CloseSession(ctx, 0, c[0].Owner.Session) // it has expired, and was recovered
		}
		return do()
	}
	w := nearby(t, st, worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute})
	on.Store(true)
	run := start(w, attackOnce, 6)
	if got := result(w, run); got != 12 {
		t.Errorf("result: got %d, want 12", got)
	}
	if on.Load() || len(w.firstFrame(run)) != 1 {
		t.Error("the session did not end in time: the test proves nothing")
	}
	w.healthy()
}

// A run that waits for a place is not overtaken by one that is started after it, also in
// the moment in which a place is free and nobody has claimed yet.
func TestRUN5_WhatIsHandedOverDoesNotOvertake(t *testing.T) {
	st := &between{Store: memstore.New()}
	busy, claims := newBarrier(), newBarrier()
	defer busy.open()
	defer claims.open()
	var hold atomic.Bool
	st.around = func(ctx context.Context, op string, _ any, do func() error) error {
		if op == "claim" && hold.Load() {
			claims.pass(ctx)
		}
		return do()
	}
	var mu sync.Mutex
	var order []int
	lined, waits := flow[int, int]("handover.lined"), aStep[int, int]("handover.waits", shim.Policy{})
	w := nearby(t, st, worker.Config{Runs: 1}, as(lined, waits.Call), waits.as(func(ctx context.Context, n int) (int, error) {
		mu.Lock()
		order = append(order, n)
		mu.Unlock()
		if n == 1 {
			busy.pass(ctx)
		}
		return n, nil
	}))
	first := start(w, lined, 1)
	second := start(w, lined, 2) // there is no place for it
	hold.Store(true)
	busy.open()
	result(w, first)
	third := start(w, lined, 3) // there is a place, and one that waits for it
	if n := len(w.firstFrame(third)); n != 1 {
		t.Errorf("the first frame has %d events: it was handed over before its turn", n)
	}
	claims.open()
	result(w, second)
	result(w, third)
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff([]int{1, 2, 3}, order); d != "" {
		t.Errorf("order of the runs (-want +got):\n%s", d)
	}
	w.healthy()
}

// A workflow id and its policies are the same for runs that are handed over.
func TestRUN4_PoliciesHoldForRunsThatAreHandedOver(t *testing.T) {
	gate := newBarrier()
	defer gate.open()
	var executed atomic.Int64
	held := flow[int, int]("handover.held")
	onEach := func(t *testing.T, st store.Store) {
		w := nearby(t, st, worker.Config{}, as(held, func(ctx workflow.Context, n int) (int, error) {
			executed.Add(1)
			_, err := workflow.NewTopic[int]("go").Receive(ctx)
			return n, err
		}))
		first := start(w, held, 1, workflow.WithID("one"))
		second, err := held.Start(w.ctx, w.client, 2, workflow.WithID("one"))
		if err != nil || second.ID() != first.ID() || second.Created() {
			t.Errorf("active, use: got %v, %v, want the active run", second, err)
		}
		var active *workflow.ActiveRunError
		if _, err = held.Start(w.ctx, w.client, 3, workflow.WithID("one"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.FailActive})); !errors.As(err, &active) {
			t.Errorf("active, fail: got %v", err)
		}
		third := start(w, held, 4, workflow.WithID("one"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.CancelActive}))
		if _, err := first.Result(w.ctx); err == nil {
			t.Error("the run before was not canceled")
		}
		if err := workflow.NewTopic[int]("go").Send(w.ctx, third, 1); err != nil {
			t.Fatal(err)
		}
		if got := result(w, third); got != 4 {
			t.Errorf("result: got %d, want 4", got)
		}
		w.healthy()
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) { onEach(t, open(t)) })
	}
}

// Who waits for a result and gives up leaves nothing behind, and who waits for a run
// that leaves its worker is told by the store.
func TestRUN2_ResultIsToldByTheWorkerOrByTheStore(t *testing.T) {
	sleeps := flow[int, int]("handover.sleeps")
	w := nearby(t, memstore.New(), worker.Config{}, as(sleeps, func(ctx workflow.Context, n int) (int, error) {
		_, err := workflow.NewTopic[int]("go").Receive(ctx)
		return n, err
	}))
	run := start(w, sleeps, 3)
	short, cancel := context.WithCancel(w.ctx)
	cancel()
	if _, err := run.Result(short); !errors.Is(err, context.Canceled) {
		t.Errorf("result: got %v, want the end of the context", err)
	}
	told := make(chan int, 3)
	for range cap(told) {
		go func() {
			v, err := run.Result(w.ctx)
			if err != nil {
				t.Errorf("result: %v", err)
			}
			told <- v
		}()
	}
	w.eventually("the run to leave its worker", func() bool { return w.parked(run) })
	if err := workflow.NewTopic[int]("go").Send(w.ctx, run, 1); err != nil {
		t.Fatal(err)
	}
	for range cap(told) {
		if got := <-told; got != 3 {
			t.Errorf("result: got %d, want 3", got)
		}
	}
}
