package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
func nearby(t *testing.T, st store.Store, cfg worker.Config, bindings ...binding) (*world, *running) {
	t.Helper()
	w := newWorld(t, st, workflow.ClientConfig{})
	w.near = true
	r := w.work(cfg, append(bindings, attackStep.as(twice), as(attackOnce, attackStep.Call))...)
	w.eventually("the worker to take what is started", func() bool {
		return w.handedOver(start(w, attackOnce, 1))
	})
	return w, r
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
			w, _ := nearby(t, st, worker.Config{})
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

// The code of a run comes before the run exists, but no step does.
func TestREC1_AHandedOverStepBeginsWhenItsRunIsDurable(t *testing.T) {
	st := &between{Store: memstore.New()}
	var early, begun atomic.Int64
	st.around = func(_ context.Context, op string, req any, do func() error) error {
		if c, ok := req.([]store.Create); ok && op == "create" && c[0].Owner != nil {
			for range 1000 {
				runtime.Gosched() // a step that was launched begins
			}
			early.Add(begun.Load())
		}
		return do()
	}
	begins := flow[int, int]("handover.begins")
	count := aStep[int, int]("handover.begin", shim.Policy{})
	w, _ := nearby(t, st, worker.Config{}, as(begins, count.Call), count.as(func(_ context.Context, n int) (int, error) {
		begun.Add(1)
		return n, nil
	}))
	for n := range 50 {
		result(w, start(w, begins, n))
		if got := early.Load(); got > 0 {
			t.Fatalf("%d steps had begun when run %d was not stored yet", got, n)
		}
		begun.Store(0)
	}
}

// Whatever a run does first, it does the same in the store, in a replay, and when it is
// claimed.
func TestREC1_WhateverARunDoesFirstItMayBeHandedOver(t *testing.T) {
	child := flow[int, int]("handover.child")
	topic := workflow.NewTopic[int]("handover")
	value := workflow.NewValue[int]("handover")
	again := flow[int, int]("handover.again")
	codes := map[string]func(ctx workflow.Context, n int) (int, error){
		"ends":      func(_ workflow.Context, n int) (int, error) { return n, nil },
		"fails":     func(workflow.Context, int) (int, error) { return 0, errors.New("no") },
		"sleeps":    func(ctx workflow.Context, n int) (int, error) { return n, workflow.Sleep(ctx, time.Millisecond) },
		"calls":     attackStep.Call,
		"has child": func(ctx workflow.Context, n int) (int, error) { return child.Child(ctx, n) },
		"sets": func(ctx workflow.Context, n int) (int, error) {
			value.Set(ctx, n)
			return n, nil
		},
		"waits": func(ctx workflow.Context, n int) (int, error) {
			_, err := topic.Receive(ctx, workflow.Timeout(time.Millisecond))
			if !errors.Is(err, workflow.ErrTimeout) {
				return 0, fmt.Errorf("got %w, want a timeout", err)
			}
			return n, nil
		},
		"branches": func(ctx workflow.Context, n int) (int, error) {
			all, err := workflow.Map(ctx, []int{n, n}, attackStep.Call)
			return len(all), err
		},
	}
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			bindings := []binding{as(child, func(_ workflow.Context, n int) (int, error) { return n + 1, nil })}
			flows := map[string]workflow.Definition[int, int]{}
			for first, code := range codes {
				flows[first] = flow[int, int]("handover." + fmt.Sprintf("%x", first))
				bindings = append(bindings, as(flows[first], code))
			}
			bindings = append(bindings, as(again, func(ctx workflow.Context, n int) (int, error) {
				if n == 0 {
					return 7, nil
				}
				return 0, again.ContinueAsNew(ctx, n-1)
			}))
			w, _ := nearby(t, open(t), worker.Config{Parked: 1}, bindings...)
			for first, def := range flows {
				handed := start(w, def, 3)
				got, err := handed.Result(w.ctx)
				claimed := start(w, def, 3, workflow.WithDelay(time.Millisecond)) // what is for later is claimed
				want, wantErr := claimed.Result(w.ctx)
				if got != want || (err == nil) != (wantErr == nil) {
					t.Errorf("%s: handed over: %d, %v; claimed: %d, %v", first, got, err, want, wantErr)
				}
				if first == "sets" {
					if v, _, err := value.Get(w.ctx, handed); v != 3 || err != nil {
						t.Errorf("%s: the value is %d, %v, want 3", first, v, err)
					}
				}
				types := func(run *workflow.Run[int]) (all []event.Type) {
					for _, e := range w.log(run) {
						all = append(all, e.Type)
					}
					return all
				}
				if d := cmp.Diff(types(claimed), types(handed)); d != "" {
					t.Errorf("%s: the log (-claimed +handed over):\n%s", first, d)
				}
				if n := len(w.firstFrame(handed)); n < 2 {
					t.Errorf("%s: the first frame has %d events: it was not handed over", first, n)
				}
			}
			if got := result(w, start(w, again, 2)); got != 7 {
				t.Errorf("continued: got %d, want 7", got)
			}
			w.healthy()
		})
	}
}

// What code is told before its run exists is what it is told in every replay.
func TestREC2_WhatAHandedOverRunIsToldIsReadBack(t *testing.T) {
	type told struct {
		Now  time.Time
		Info workflow.Identity
	}
	var mu sync.Mutex
	var all []told
	asks := flow[int, int]("handover.asks")
	code := func(ctx workflow.Context, n int) (int, error) {
		mu.Lock()
		all = append(all, told{workflow.Now(ctx), workflow.Info(ctx)})
		mu.Unlock()
		return n, workflow.Sleep(ctx, 5*time.Millisecond)
	}
	w, _ := nearby(t, memstore.New(), worker.Config{Parked: 1}, as(asks, code))
	tags := map[string]string{"a": "b"}
	opts := []workflow.StartOption{workflow.WithTags(tags), workflow.WithID("told"), workflow.WithPriority(3)}
	first := start(w, asks, 1, opts...)
	tags["a"] = "changed"
	other := start(w, asks, 1) // takes the only place among the parked ones
	result(w, first)
	result(w, other)
	mu.Lock()
	defer mu.Unlock()
	byRun := map[workflow.RunID][]told{}
	for _, x := range all {
		byRun[x.Info.ID] = append(byRun[x.Info.ID], x)
	}
	for id, x := range byRun {
		for _, again := range x[1:] {
			if d := cmp.Diff(x[0], again); d != "" {
				t.Errorf("run %s (-at first +in the replay):\n%s", id, d)
			}
		}
	}
	if len(all) < 3 {
		t.Errorf("the code ran %d times for two runs: nothing was replayed, the test proves nothing", len(all))
	}
}

// Code that does not return before it first waits does not hold up whoever starts it.
// The client has created the run then, and the copy of it that has begun is dropped.
func TestRUN1_StartDoesNotWaitForCodeThatHangs(t *testing.T) {
	gate := newBarrier()
	defer gate.open()
	var executed atomic.Int64
	hangs := flow[int, int]("handover.hangs")
	w, _ := nearby(t, memstore.New(), worker.Config{BlockedAfter: time.Hour}, as(hangs, func(ctx workflow.Context, n int) (int, error) {
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
			w, _ := nearby(t, st, worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute})
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

// What cannot be born owned is created like any other run: the store has written nothing.
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
	w, _ := nearby(t, st, worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute})
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
	w, _ := nearby(t, st, worker.Config{Runs: 1}, as(lined, waits.Call), waits.as(func(ctx context.Context, n int) (int, error) {
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
		w, _ := nearby(t, st, worker.Config{}, as(held, func(ctx workflow.Context, n int) (int, error) {
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

// Mail that comes before the worker knows that the run exists is received.
func TestFLOW5_MessageForARunThatWasJustBornIsReceived(t *testing.T) {
	topic := workflow.NewTopic[int]("early")
	takes := flow[int, int]("handover.takes")
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			st := &between{Store: open(t)}
			var on atomic.Bool
			var far *workflow.Client
			st.around = func(ctx context.Context, op string, req any, do func() error) error {
				c, ok := req.([]store.Create)
				err := do()
				if ok && c[0].Owner != nil && on.Swap(false) {
					err = errors.Join(err, topic.Send(ctx, takes.Get(far, c[0].Run), 9))
				}
				return err
			}
			w, _ := nearby(t, st, worker.Config{}, as(takes, func(ctx workflow.Context, _ int) (int, error) { return topic.Receive(ctx) }))
			far = workflow.NewClient(st.Store, workflow.ClientConfig{})
			defer func() { _ = far.Close() }()
			for range 10 {
				on.Store(true)
				if got := result(w, start(w, takes, 0)); got != 9 {
					t.Errorf("result: got %d, want 9", got)
				}
			}
			w.healthy()
		})
	}
}

// Workers stop and others come while runs are started on them. Every start that returns
// a run has created one, which comes to its end; every step of it is executed once.
func TestREC7_StartsOutliveTheWorkersThatTheyAreHandedTo(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			var steps atomic.Int64
			count := aStep[int, int]("handover.count", shim.Policy{})
			counts := flow[int, int]("handover.counts")
			bindings := []binding{as(counts, count.Call), count.as(func(_ context.Context, n int) (int, error) {
				steps.Add(1)
				return n, nil
			})}
			w := newWorld(t, open(t), workflow.ClientConfig{})
			w.near = true
			var coming, starting sync.WaitGroup
			over := make(chan struct{})
			coming.Go(func() {
				for {
					w.work(worker.Config{Runs: 8}, bindings...).stop()
					select {
					case <-over:
						return
					default:
					}
				}
			})
			const starters, each = 4, 25
			runs := make([][]*workflow.Run[int], starters)
			for i := range starters {
				starting.Go(func() {
					for n := range each {
						run, err := counts.Start(w.ctx, w.client, n)
						if err != nil {
							t.Errorf("start: %v", err)
							return
						}
						runs[i] = append(runs[i], run)
					}
				})
			}
			starting.Wait()
			close(over)
			coming.Wait()
			w.work(worker.Config{}, bindings...)
			for _, all := range runs {
				for n, run := range all {
					if got := result(w, run); got != n {
						t.Errorf("result: got %d, want %d", got, n)
					}
				}
			}
			if n := steps.Load(); n != starters*each {
				t.Errorf("%d steps were executed, want %d", n, starters*each)
			}
			w.healthy()
		})
	}
}

// Who waits for a result and gives up leaves nothing behind, and who waits for a run
// that leaves its worker is told by the store.
func TestRUN2_ResultIsToldByTheWorkerOrByTheStore(t *testing.T) {
	sleeps := flow[int, int]("handover.sleeps")
	w, _ := nearby(t, memstore.New(), worker.Config{}, as(sleeps, func(ctx workflow.Context, n int) (int, error) {
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
