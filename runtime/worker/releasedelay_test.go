package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// tell sends numbers to a run. It waits until each number is in the log before it sends the next.
func tell(w *flowtest.World, run *workflow.Run[[]int], from, to int) {
	w.T.Helper()
	for n := from; n < to; n++ {
		if err := flowtest.Numbers.Send(w.Ctx, run, n); err != nil {
			w.T.Fatal(err)
		}
		w.Reach(run, event.MessageReceived, n+1)
	}
}

// TestLinger_ARunThatIsWokenAgainAndAgainStaysWhereItIs proves that one of two workers keeps a run
// that is woken repeatedly. The run is claimed at most twice: when it begins, and after the first
// message. On a busy machine it is also claimed after each pause between messages that is long
// enough for its release.
func TestLinger_ARunThatIsWokenAgainAndAgainStaysWhereItIs(t *testing.T) {
	flowtest.OnVirtualTimeAndRedis(t, func(t *testing.T, w *flowtest.World) {
		const messages = 40
		w.Work(worker.Config{NoLocalStart: true}, flowtest.Collect)
		w.Work(worker.Config{NoLocalStart: true}, flowtest.Collect)
		run := flowtest.Start(w, flowtest.Collects, messages)
		pauses := 0
		for n := range messages {
			began := w.Store.Clock().Now()
			tell(w, run, n, n+1)
			if w.Store.Clock().Now().Sub(began) > 100*time.Millisecond {
				pauses++
			}
		}
		if got := flowtest.Result(w, run); len(got) != messages {
			t.Errorf("it got %v", got)
		}
		if n := w.Record(run).Fence.Epoch; n > uint64(2+pauses) {
			t.Errorf("it was claimed %d times for %d messages with %d pauses, want 2 times and once for each pause at most", n, messages, pauses)
		}
		w.Healthy()
	})
}

// TestLinger_ARunThatStaysIsGivenBackWhenNothingComesForIt proves that a run whose release is
// delayed has the status waiting, and is given back if no item arrives.
func TestLinger_ARunThatStaysIsGivenBackWhenNothingComesForIt(t *testing.T) {
	flowtest.OnVirtualTimeAndRedis(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{NoLocalStart: true}, flowtest.Collect)
		run := flowtest.Start(w, flowtest.Collects, 4)
		w.Eventually("it was begun", func() bool { return w.Parked(run) })
		tell(w, run, 0, 2)
		if got := w.Record(run).QueueState; got != store.StateOwned {
			t.Fatalf("it was woken twice at once, and is %v", got)
		}
		w.Status(run, workflow.StatusWaiting)
		w.Clock.Advance(time.Second)
		w.Eventually("it was given back", func() bool { return w.Parked(run) })
		w.Clock.Advance(time.Hour)
		tell(w, run, 2, 3) // this message arrives long after the previous one
		w.Eventually("it was given back at once", func() bool { return w.Parked(run) })
		tell(w, run, 3, 4)
		if got := flowtest.Result(w, run); len(got) != 4 {
			t.Errorf("it got %v", got)
		}
		w.Healthy()
	})
}

// TestLinger_ARunDoesNotStayWithWhatOthersMayNeed proves that a run is given back at once if it
// holds slots or permits that other runs may need.
func TestLinger_ARunDoesNotStayWithWhatOthersMayNeed(t *testing.T) {
	held := limit.New("held", limit.Config{AtOnce: 1})
	takes := flowtest.LimitedFlow[int, []int]("takes", func(int) []limit.Use { return []limit.Use{held.Use(1)} })
	busy, work := flowtest.Flow[int, int]("busy"), flowtest.AStep[int, int]("busy.work", shim.Policy{})
	collect := func(ctx workflow.Context, n int) ([]int, error) {
		var all []int
		for range n {
			v, err := flowtest.Numbers.Receive(ctx)
			if err != nil {
				return all, err
			}
			all = append(all, v)
		}
		return all, nil
	}
	for name, tt := range map[string]struct {
		cfg    worker.Config
		flow   workflow.Definition[int, []int]
		others int // number of other runs that the worker executes
	}{
		"the only place of the worker": {worker.Config{Runs: 1, NoLocalStart: true}, flowtest.Collects, 0},
		"the second of three places":   {worker.Config{Runs: 3, NoLocalStart: true}, flowtest.Collects, 1},
		"one of few places of a queue": {worker.Config{AtOnce: map[string]int{"default": 2}, NoLocalStart: true}, flowtest.Collects, 0},
		"permits":                      {worker.Config{NoLocalStart: true}, takes, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewVirtual(t)
			over := make(chan struct{})
			w.Work(tt.cfg, flowtest.Collect, flowtest.As(takes, collect), flowtest.As(busy, work.Call), work.As(func(_ context.Context, n int) (int, error) {
				<-over
				return n, nil
			}))
			t.Cleanup(func() { close(over) }) // runs before the cleanup that stops the worker
			for n := range tt.others {
				w.Reach(flowtest.Start(w, busy, n), event.StepStarted, 1)
			}
			run := flowtest.Start(w, tt.flow, 3)
			w.Eventually("it was begun", func() bool { return w.Parked(run) })
			tell(w, run, 0, 2)
			w.Eventually("it was given back, though no time has passed", func() bool { return w.Parked(run) })
		})
	}
}

// TestLinger_ARunIsGivenBackWhenTheWorkerStops proves that a stopping worker gives a run back
// without waiting for the delayed release.
func TestLinger_ARunIsGivenBackWhenTheWorkerStops(t *testing.T) {
	flowtest.OnVirtualTimeAndRedis(t, func(t *testing.T, w *flowtest.World) {
		r := w.Work(worker.Config{NoLocalStart: true}, flowtest.Collect)
		run := flowtest.Start(w, flowtest.Collects, 3)
		w.Eventually("it was begun", func() bool { return w.Parked(run) })
		tell(w, run, 0, 2)
		r.Stop()
		if got := w.Record(run).QueueState; got != store.StateParked {
			t.Errorf("the worker has stopped, and the run is %v", got)
		}
		w.Work(worker.Config{NoLocalStart: true}, flowtest.Collect)
		tell(w, run, 2, 3)
		if got := flowtest.Result(w, run); len(got) != 3 {
			t.Errorf("it got %v", got)
		}
	})
}
