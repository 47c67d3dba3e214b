package worker_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// recorder is an observer that keeps what it receives.
type recorder struct {
	mu      sync.Mutex
	runs    []observe.Run
	commits map[event.RunID][]observe.Commit
	gauges  func() observe.Gauges
	stopped bool
	late    int // number of calls after stop
}

func (r *recorder) Worker(w observe.Worker) (stop func()) {
	r.gauges = w.Gauges
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stopped = true
	}
}

func (r *recorder) Run(run observe.Run) observe.RunObserver {
	r.mu.Lock()
	defer r.mu.Unlock()
	run.Log = slices.Clone(run.Log)
	r.runs = append(r.runs, run)
	return recorded{r, run.ID}
}

type recorded struct {
	*recorder
	run event.RunID
}

func (r recorded) Committed(c observe.Commit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		r.late++
	}
	if r.commits == nil {
		r.commits = map[event.RunID][]observe.Commit{}
	}
	c.Events = slices.Clone(c.Events)
	r.commits[r.run] = append(r.commits[r.run], c)
}

// events returns the events of a run that were reported.
func (r *recorder) events(run event.RunID) (all []event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.commits[run] {
		all = append(all, c.Events...)
	}
	return all
}

var (
	watched     = flowtest.Flow[int, int]("observed")
	watchedStep = flowtest.AStep[int, int]("observed.step", shim.Policy{})
)

func watchedCode(ctx workflow.Context, n int) (int, error) {
	if _, err := watchedStep.Call(ctx, n); err != nil {
		return 0, err
	}
	m, err := flowtest.Numbers.Receive(ctx)
	if err != nil {
		return 0, err
	}
	return watchedStep.Call(ctx, n+m)
}

func same(_ context.Context, n int) (int, error) { return n, nil }

func TestOPS4_ObserversReceiveEachCommittedEventOnceAcrossWorkers(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first, second := &recorder{}, &recorder{}
		bindings := []flowtest.Binding{flowtest.As(watched, watchedCode), watchedStep.As(same)}
		one := w.Work(worker.Config{Observers: []observe.Observer{first}}, bindings...)
		run := flowtest.Start(w, watched, 1)
		w.ReachWaiting(run)
		one.Stop()
		two := w.Work(worker.Config{Observers: []observe.Observer{second}}, bindings...)
		w.Send(run, 2)
		if got := flowtest.Result(w, run); got != 3 {
			t.Errorf("result %d, want 3", got)
		}
		two.Stop()

		want := w.Log(run)
		before, after := first.events(run.ID()), second.events(run.ID())
		if diff := cmp.Diff(want, slices.Concat(before, after), cmpopts.EquateEmpty()); diff != "" {
			created := want[:1] // a run that a client creates is claimed by the worker
			if diff := cmp.Diff(want, slices.Concat(created, before, after), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("reported events (-log +reported):\n%s", diff)
			}
		}
		if len(second.runs) != 1 {
			t.Fatalf("the second worker has reported %d runs, want 1", len(second.runs))
		}
		if diff := cmp.Diff(want[:len(want)-len(after)], second.runs[0].Log, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("log of the run that was taken over (-want +got):\n%s", diff)
		}
		for _, r := range []*recorder{first, second} {
			if !r.stopped || r.late > 0 {
				t.Errorf("stop was called: %t; %d commits were reported after it", r.stopped, r.late)
			}
			for _, c := range r.commits[run.ID()] {
				if c.Bytes <= 0 || c.LogBytes < c.Bytes || c.Confirmed.Before(c.Made) || c.Made.IsZero() {
					t.Errorf("commit of %d bytes in a log of %d, made at %v and confirmed at %v", c.Bytes, c.LogBytes, c.Made, c.Confirmed)
				}
				if want := len(flowtest.Filter(c.Events, event.StepCompleted, event.MessageReceived, event.RunCompleted)) > 0; c.Progress != want {
					t.Errorf("commit of %d events beginning with %s: progress is %t, want %t", len(c.Events), c.Events[0].Type, c.Progress, want)
				}
			}
		}
	})
}

// spiteful is an observer that panics, or blocks until it is released.
type spiteful struct {
	blocks chan struct{} // nil: it panics
	met    chan struct{}
}

func (s *spiteful) Run(observe.Run) observe.RunObserver {
	if s.blocks == nil {
		panic("no run, please")
	}
	return s
}

func (s *spiteful) Committed(observe.Commit) {
	select {
	case s.met <- struct{}{}:
		<-s.blocks // only the first run
	default:
	}
}

func TestOPS4_PanicOfAnObserverIsLoggedOnceAndHidesNoEvent(t *testing.T) {
	w, r := flowtest.NewMemory(t), &recorder{}
	w.Work(worker.Config{Observers: []observe.Observer{&spiteful{}, r}}, flowtest.As(watched, watchedCode), watchedStep.As(same))
	for range 3 {
		run := flowtest.Start(w, watched, 1)
		w.Send(run, 2)
		flowtest.Result(w, run)
		w.Eventually("the other observer has received the end", func() bool {
			return len(flowtest.Filter(r.events(run.ID()), event.RunCompleted)) == 1
		})
	}
	w.OneLine("an observer panicked: further panics of it are not logged", "*worker_test.spiteful", "no run, please")
}

func TestOPS4_BlockedObserverDelaysOnlyItsOwnRun(t *testing.T) {
	w := flowtest.NewMemory(t)
	s := &spiteful{blocks: make(chan struct{}), met: make(chan struct{}, 1)}
	r := &recorder{}
	// The recorder precedes the observer that blocks.
	w.Work(worker.Config{Observers: []observe.Observer{r, s}, BlockedAfter: 100 * time.Millisecond}, flowtest.As(watched, watchedCode), watchedStep.As(same))
	stuck := flowtest.Start(w, watched, 1)
	w.Eventually("the observer blocks", func() bool { return len(s.met) == 1 })
	for range 20 {
		run := flowtest.Start(w, watched, 1)
		w.Send(run, 2)
		flowtest.Result(w, run)
	}
	w.Eventually("the gauge counts the run", func() bool { return r.gauges().Blocked == 1 })
	close(s.blocks)
	w.Send(stuck, 2)
	if got := flowtest.Result(w, stuck); got != 3 {
		t.Errorf("result %d, want 3", got)
	}
}
