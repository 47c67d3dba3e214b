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
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestREC1_AHandedOverStepBeginsWhenItsRunIsDurable proves that no step of a locally started run
// begins before the run is durable. The code of the run does execute earlier.
func TestREC1_AHandedOverStepBeginsWhenItsRunIsDurable(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var early, begun atomic.Int64
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		if c, ok := req.([]store.Create); ok && op == "create" && c[0].Owner != nil {
			for range 1000 {
				runtime.Gosched() // lets a step begin if it was launched too early
			}
			early.Add(begun.Load())
		}
		return do()
	}
	begins := flowtest.Flow[int, int]("handover.begins")
	count := flowtest.AStep[int, int]("handover.begin", shim.Policy{})
	w := nearby(t, st, worker.Config{}, flowtest.As(begins, count.Call), count.As(func(_ context.Context, n int) (int, error) {
		begun.Add(1)
		return n, nil
	}))
	for n := range 50 {
		flowtest.Result(w, flowtest.Start(w, begins, n))
		if got := early.Load(); got > 0 {
			t.Fatalf("%d steps had begun when run %d was not stored yet", got, n)
		}
		begun.Store(0)
	}
}

// TestREC1_WhateverARunDoesFirstItMayBeHandedOver proves that the first operations of a locally
// started run have the same effects as those of a claimed run, both in the store and in replay.
func TestREC1_WhateverARunDoesFirstItMayBeHandedOver(t *testing.T) {
	child := flowtest.Flow[int, int]("handover.child")
	topic := workflow.NewTopic[int]("handover")
	value := workflow.NewValue[int]("handover")
	again := flowtest.Flow[int, int]("handover.again")
	codes := map[string]func(ctx workflow.Context, n int) (int, error){
		"ends":      func(_ workflow.Context, n int) (int, error) { return n, nil },
		"fails":     func(workflow.Context, int) (int, error) { return 0, errors.New("no") },
		"sleeps":    func(ctx workflow.Context, n int) (int, error) { return n, workflow.Sleep(ctx, time.Millisecond) },
		"calls":     flowtest.AttackStep.Call,
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
			all, err := workflow.Map(ctx, []int{n, n}, flowtest.AttackStep.Call)
			return len(all), err
		},
	}
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			bindings := []flowtest.Binding{flowtest.As(child, func(_ workflow.Context, n int) (int, error) { return n + 1, nil })}
			flows := map[string]workflow.Definition[int, int]{}
			for first, code := range codes {
				flows[first] = flowtest.Flow[int, int]("handover." + fmt.Sprintf("%x", first))
				bindings = append(bindings, flowtest.As(flows[first], code))
			}
			bindings = append(bindings, flowtest.As(again, func(ctx workflow.Context, n int) (int, error) {
				if n == 0 {
					return 7, nil
				}
				return 0, again.ContinueAsNew(ctx, n-1)
			}))
			w := nearby(t, open(t), worker.Config{Parked: 1}, bindings...)
			for first, def := range flows {
				handed := flowtest.Start(w, def, 3)
				got, err := handed.Result(w.Ctx)
				claimed := flowtest.Start(w, def, 3, workflow.WithDelay(time.Millisecond)) // a run with a delay is claimed and not started locally
				want, wantErr := claimed.Result(w.Ctx)
				if got != want || (err == nil) != (wantErr == nil) {
					t.Errorf("%s: handed over: %d, %v; claimed: %d, %v", first, got, err, want, wantErr)
				}
				if first == "sets" {
					if v, _, err := value.Get(w.Ctx, handed); v != 3 || err != nil {
						t.Errorf("%s: the value is %d, %v, want 3", first, v, err)
					}
				}
				types := func(run *workflow.Run[int]) (all []event.Type) {
					for _, e := range w.Log(run) {
						all = append(all, e.Type)
					}
					return all
				}
				if d := cmp.Diff(types(claimed), types(handed)); d != "" {
					t.Errorf("%s: the log (-claimed +handed over):\n%s", first, d)
				}
				if n := len(w.FirstFrame(handed)); n < 2 {
					t.Errorf("%s: the first frame has %d events: it was not handed over", first, n)
				}
			}
			if got := flowtest.Result(w, flowtest.Start(w, again, 2)); got != 7 {
				t.Errorf("continued: got %d, want 7", got)
			}
			w.Healthy()
		})
	}
}

// TestREC2_WhatAHandedOverRunIsToldIsReadBack proves that code gets the same values before its run
// exists as in every replay.
func TestREC2_WhatAHandedOverRunIsToldIsReadBack(t *testing.T) {
	type told struct {
		Now  time.Time
		Info workflow.Identity
	}
	var mu sync.Mutex
	var all []told
	asks := flowtest.Flow[int, int]("handover.asks")
	code := func(ctx workflow.Context, n int) (int, error) {
		mu.Lock()
		all = append(all, told{workflow.Now(ctx), workflow.Info(ctx)})
		mu.Unlock()
		for {
			if text, err := flowtest.Wake.Receive(ctx); err != nil || text == "end" {
				return n, err
			}
		}
	}
	w := nearby(t, memstore.New(), worker.Config{Parked: 1}, flowtest.As(asks, code))
	tags := map[string]string{"a": "b"}
	opts := []workflow.StartOption{workflow.WithTags(tags), workflow.WithID("told"), workflow.WithPriority(3)}
	runs := []*workflow.Run[int]{flowtest.Start(w, asks, 1, opts...)}
	tags["a"] = "changed"
	for range 5 { // the runs evict each other from the only slot for parked runs
		runs = append(runs, flowtest.Start(w, asks, 1))
	}
	received := 0
	w.Eventually("one of them to be replayed", func() bool {
		received++
		for _, run := range runs { // while one run executes, the others can be parked
			flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, "go on"))
			w.Reach(run, event.WaitCreated, 1+received)
		}
		mu.Lock()
		defer mu.Unlock()
		return len(all) > len(runs)
	})
	for _, run := range runs {
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, "end"))
		flowtest.Result(w, run)
	}
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
}

// TestFLOW5_MessageForARunThatWasJustCreatedIsReceived proves that a run receives a message that
// arrives before the worker has the answer to the run's creation.
func TestFLOW5_MessageForARunThatWasJustCreatedIsReceived(t *testing.T) {
	topic := workflow.NewTopic[int]("early")
	takes := flowtest.Flow[int, int]("handover.takes")
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			st := &flowtest.Between{Store: open(t)}
			var on, owned atomic.Bool
			var far *workflow.Client
			st.Around = func(ctx context.Context, op string, req any, do func() error) error {
				c, ok := req.([]store.Create)
				err := do()
				// If no worker begins the run in time, the client creates it without an owner.
				if ok && err == nil && on.Swap(false) {
					owned.Store(owned.Load() || c[0].Owner != nil)
					err = errors.Join(err, topic.Send(ctx, takes.Get(far, c[0].Run), 9))
				}
				return err
			}
			w := nearby(t, st, worker.Config{}, flowtest.As(takes, func(ctx workflow.Context, _ int) (int, error) { return topic.Receive(ctx) }))
			far = workflow.NewClient(st.Store, workflow.ClientConfig{})
			defer func() { _ = far.Close() }()
			for n := 0; n < 10 || !owned.Load() && w.Ctx.Err() == nil; n++ {
				on.Store(true)
				if got := flowtest.Result(w, flowtest.Start(w, takes, 0)); got != 9 {
					t.Errorf("result: got %d, want 9", got)
				}
			}
			if !owned.Load() {
				t.Error("no run was created by a worker: nothing was tried")
			}
			w.Healthy()
		})
	}
}

// TestREC7_StartsOutliveTheWorkersThatTheyAreHandedTo proves that runs which are started locally
// while workers stop and start are not lost. Every successful start has created a run that
// completes, and each of its steps is executed once.
func TestREC7_StartsOutliveTheWorkersThatTheyAreHandedTo(t *testing.T) {
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			var steps atomic.Int64
			count := flowtest.AStep[int, int]("handover.count", shim.Policy{})
			counts := flowtest.Flow[int, int]("handover.counts")
			bindings := []flowtest.Binding{flowtest.As(counts, count.Call), count.As(func(_ context.Context, n int) (int, error) {
				steps.Add(1)
				return n, nil
			})}
			w := flowtest.NewWorld(t, open(t), workflow.ClientConfig{})
			w.Near = true
			var coming, starting sync.WaitGroup
			over := make(chan struct{})
			coming.Go(func() {
				for {
					w.Work(worker.Config{Runs: 8}, bindings...).Stop()
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
						run, err := counts.Start(w.Ctx, w.Client, n)
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
			w.Work(worker.Config{}, bindings...)
			for _, all := range runs {
				for n, run := range all {
					if got := flowtest.Result(w, run); got != n {
						t.Errorf("result: got %d, want %d", got, n)
					}
				}
			}
			if n := steps.Load(); n != starters*each {
				t.Errorf("%d steps were executed, want %d", n, starters*each)
			}
			w.Healthy()
		})
	}
}
