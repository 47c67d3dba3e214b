package limits_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var seat = limit.New("test.seat", limit.Config{AtOnce: 1})

// waitsIn returns the events in the log of a run that record waits for limits.
func waitsIn(w *flowtest.World, run flowtest.Follows) (all []event.Event) {
	for _, e := range w.Log(run) {
		if e.Type == event.ResourceWait {
			all = append(all, e)
		}
	}
	return all
}

// waitsFor waits until Info reports that the run waits for the named limit. It returns when this
// wait began.
func waitsFor(w *flowtest.World, run *workflow.Run[int], name string) time.Time {
	w.T.Helper()
	var since time.Time
	w.Eventually("it says for what it waits", func() bool {
		info, err := run.Info(w.Ctx)
		since = info.WaitsSince
		return err == nil && slices.Equal(info.Waits, []string{name}) && !since.IsZero()
	})
	return since
}

func TestPOOL4_ARunSaysInInfoAndLogForWhichLimitItWaitedAndSinceWhen(t *testing.T) {
	seated := flowtest.LimitedFlow[int, int]("limits.seated", func(int) []limit.Use { return []limit.Use{seat.Use(1)} })
	topic := workflow.NewTopic[int]("go")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(seated, func(ctx workflow.Context, _ int) (int, error) { return topic.Receive(ctx) }))
		first := flowtest.Start(w, seated, 1)
		w.Reach(first, event.RunStarted, 1)
		second := flowtest.Start(w, seated, 2)
		since := waitsFor(w, second, "test.seat")
		for _, run := range []*workflow.Run[int]{first, second} {
			flowtest.Order(t, topic.Send(w.Ctx, run, 9))
			flowtest.Result(w, run)
		}
		if got := waitsIn(w, first); len(got) > 0 {
			t.Errorf("the first has not waited, its log says %v", got)
		}
		got := waitsIn(w, second)
		if len(got) != 1 || !got[0].From.Equal(since) || !slices.Equal(got[0].Uses, []event.Use{{Limit: "test.seat", Weight: 1}}) || got[0].Key != "" {
			t.Errorf("the log says %+v, want one wait for test.seat since %v", got, since)
		}
		if log := w.Log(second); log[1].Type != event.ResourceWait && log[2].Type != event.ResourceWait {
			t.Errorf("it is not said before the code begins: %v", log)
		}
		if info, err := second.Info(w.Ctx); err != nil || len(info.Waits) > 0 || !info.WaitsSince.IsZero() {
			t.Errorf("it has ended, and waits for %v since %v, %v", info.Waits, info.WaitsSince, err)
		}
	})
}

func TestPOOL4_TheWaitOfAStepIsInTheLogOfItsCallerMeanwhile(t *testing.T) {
	render := flowtest.AStep[int, int]("limits.sits", using(func(int) []limit.Use { return []limit.Use{seat.Use(1)} }))
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		free, begun := make(chan struct{}), make(chan int, 2)
		w.Work(worker.Config{}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) { return render.Call(ctx, n) }),
			render.As(func(ctx context.Context, n int) (int, error) {
				begun <- n
				select {
				case <-free:
				case <-ctx.Done():
				}
				return n, nil
			}))
		first := flowtest.Start(w, renders, 1)
		<-begun
		second := flowtest.Start(w, renders, 2)
		w.Reach(second, event.ResourceWait, 1)
		close(free)
		for _, run := range []*workflow.Run[int]{first, second} {
			flowtest.Result(w, run)
		}
		if got := waitsIn(w, first); len(got) > 0 {
			t.Errorf("the step of the first has not waited, its log says %v", got)
		}
		created, got := event.Event{}, waitsIn(w, second)
		for _, e := range w.Log(second) {
			if e.Type == event.ChildCreated {
				created = e
			}
		}
		if len(got) != 1 || got[0].Key != created.Key || got[0].Next != created.Next || got[0].From.IsZero() ||
			!slices.Equal(got[0].Uses, []event.Use{{Limit: "test.seat", Weight: 1}}) {
			t.Errorf("the log of its caller says %+v, want one wait of %s for test.seat", got, created.Key)
		}
		if own := waitsIn(w, w.Client.Run(created.Next)); len(own) != 1 || !own[0].From.Equal(got[0].From) {
			t.Errorf("the log of the run that executes the step says %+v, want the same", own)
		}
	})
}

func TestPOOL4_TheWaitOfAPermitRunIsInTheLogOfItsRun(t *testing.T) {
	topic := workflow.NewTopic[int]("go")
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(named, func(ctx workflow.Context, _ int) (int, error) { return topic.Receive(ctx) }))
		first := flowtest.Start(w, named, 1, elsewhere(w, 1))
		w.Reach(first, event.WaitCreated, 1)
		second := flowtest.Start(w, named, 2, elsewhere(w, 2))
		if w.Store.Partitions() == 1 {
			return // with one partition, the run gets its permits itself
		}
		since := waitsFor(w, second, "test.room")
		w.Reach(second, event.ResourceWait, 1)
		if got := waitsIn(w, second); len(got) != 1 || got[0].Key != event.PermitRun || !got[0].From.Equal(since) {
			t.Errorf("the log says %+v, want one wait of %s since %v", got, event.PermitRun, since)
		}
		for _, run := range []*workflow.Run[int]{first, second} {
			flowtest.Order(t, topic.Send(w.Ctx, run, 9))
			flowtest.Result(w, run)
		}
	})
}
