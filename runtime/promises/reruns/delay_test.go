package reruns_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var greets = rerun[int, string]("greets", hourly)

// greeting calls order and then receives a message.
func greeting(ctx workflow.Context, n int) (string, error) {
	n, err := order(ctx, n)
	if err != nil {
		return "", err
	}
	word, err := flowtest.Wake.Receive(ctx)
	return fmt.Sprint(n, word), err
}

// delayed starts a run that fails, and returns its rerun, which is delayed for an hour.
func delayed(w *flowtest.World, s *shop) *workflow.Run[string] {
	w.T.Helper()
	s.fails.Store(1)
	w.Work(worker.Config{}, append(s.steps(), flowtest.As(greets, greeting))...)
	again := next(w, greets, flowtest.Start(w, greets, 1, workflow.WithID("greeted")))
	waits(w, again)
	return again
}

// waits waits until a rerun is parked until its due time.
func waits(w *flowtest.World, run flowtest.Follows) {
	w.T.Helper()
	w.Eventually("the rerun waits for its time", func() bool {
		r := w.Record(run)
		return r.QueueState == store.StateParked && r.Status == workflow.StatusSleeping && r.Due.After(w.Store.Clock().Now())
	})
}

func TestRUN17_AMessageInTheDelayIsRecordedAndStartsNothing(t *testing.T) {
	flowtest.OnVirtualTimeInPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var s shop
		again := delayed(w, &s)
		due := w.Record(again).Due
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, again, " hello"))
		w.Reach(again, event.MessageReceived, 1)
		waits(w, again)
		if info, err := again.Info(w.Ctx); err != nil || info.Status != workflow.StatusSleeping || !info.Due.Equal(due) || !info.Delayed || info.Paused {
			t.Errorf("the rerun is %+v, %v, want that it sleeps until %v", info, err, due)
		}
		if n := s.charged.Load(); n != 1 {
			t.Errorf("charged %d times before the time of the rerun", n)
		}
		w.Clock.Advance(time.Hour)
		if got := flowtest.Result(w, again); got != "20 hello" {
			t.Errorf("result %q", got)
		}
		if s.reserved.Load() != 1 || s.charged.Load() != 2 {
			t.Errorf("reserved %d times, charged %d times, want 1 and 2", s.reserved.Load(), s.charged.Load())
		}
		sound(w)
	})
}

func TestRUN17_APauseInTheDelayLastsUntilItIsResumed(t *testing.T) {
	flowtest.OnVirtualTimeInPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var s shop
		again := delayed(w, &s)
		due := w.Record(again).Due
		flowtest.Order(t, again.Pause(w.Ctx))
		w.Status(again, workflow.StatusPaused)
		flowtest.Order(t, again.Resume(w.Ctx))
		w.Status(again, workflow.StatusSleeping)
		waits(w, again)
		if got := w.Record(again).Due; !got.Equal(due) {
			t.Errorf("after a pause it goes on at %v, want %v", got, due)
		}
		flowtest.Order(t, again.Pause(w.Ctx))
		w.Status(again, workflow.StatusPaused)
		w.Clock.Advance(3 * time.Hour)
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, again, " hello"))
		w.Reach(again, event.MessageReceived, 1)
		w.Status(again, workflow.StatusPaused)
		if n := s.charged.Load(); n != 1 {
			t.Errorf("charged %d times while it was paused", n)
		}
		flowtest.Order(t, again.Resume(w.Ctx))
		if got := flowtest.Result(w, again); got != "20 hello" {
			t.Errorf("result %q", got)
		}
		sound(w)
	})
}

func TestRUN17_AResumeInTheDelayLetsTheRerunGoOnAtOnce(t *testing.T) {
	flowtest.OnVirtualTimeInPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var s shop
		again := delayed(w, &s)
		flowtest.Order(t, again.Resume(w.Ctx))
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, again, " hello"))
		w.Status(again, workflow.StatusCompleted)
		if n := len(flowtest.Filter(w.Log(again), event.RunResumed)); n != 1 || s.charged.Load() != 2 {
			t.Errorf("resumed %d times, charged %d times, want 1 and 2", n, s.charged.Load())
		}
		sound(w)
	})
}

func TestRUN17_ARunIsEndedInTheDelayWithoutItsSteps(t *testing.T) {
	for name, end := range map[string]func(w *flowtest.World, run *workflow.Run[string]) error{
		"cancel": func(w *flowtest.World, run *workflow.Run[string]) error { return run.Cancel(w.Ctx, "enough") },
		"terminate": func(w *flowtest.World, run *workflow.Run[string]) error {
			return ops.New(w.Client).Terminate(w.Ctx, run.ID(), "enough")
		},
		"cancel while paused": func(w *flowtest.World, run *workflow.Run[string]) error {
			err := run.Pause(w.Ctx)
			w.Status(run, workflow.StatusPaused)
			return errors.Join(err, run.Cancel(w.Ctx, "enough"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				var s shop
				again := delayed(w, &s)
				flowtest.Order(t, end(w, again))
				w.Status(again, workflow.StatusCanceled)
				if n := s.charged.Load(); n != 1 {
					t.Errorf("charged %d times", n)
				}
				if name == "cancel" { // the run that continues this one keeps the steps that this one took over
					more, err := again.RetryCanceled(w.Ctx)
					flowtest.Order(t, err)
					flowtest.Order(t, flowtest.Wake.Send(w.Ctx, more, " hello"))
					if got := flowtest.Result(w, more); got != "20 hello" || s.reserved.Load() != 1 {
						t.Errorf("result %q, reserved %d times", got, s.reserved.Load())
					}
				}
				sound(w)
			})
		})
	}
}

var lane = limit.New("reruns.lane", limit.Config{AtOnce: 1})

func TestRUN17_TheDelayHoldsNoPermits(t *testing.T) {
	uses := shim.Uses(func(int) []limit.Use { return []limit.Use{lane.Use(1)} })
	limited := shim.NewWorkflow[int, string]("test.limited", "in", shim.WorkflowPolicy{Rerun: hourly, Uses: uses})
	quick := shim.NewWorkflow[int, int]("test.quick", "in", shim.WorkflowPolicy{Uses: uses})
	for name, opts := range map[string][]workflow.StartOption{"without a workflow id": nil, "with a workflow id": {workflow.WithID("limited")}} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnVirtualTimeInPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
				var s shop
				s.fails.Store(1)
				w.Work(worker.Config{}, append(s.steps(), flowtest.As(limited, greeting), flowtest.As(quick, func(_ workflow.Context, n int) (int, error) { return n, nil }))...)
				again := next(w, limited, flowtest.Start(w, limited, 1, opts...))
				waits(w, again)
				passes := func(when string) {
					t.Helper()
					w.Status(flowtest.Start(w, quick, 1), workflow.StatusCompleted)
					if n := s.charged.Load(); n != 1 {
						t.Errorf("%s: charged %d times", when, n)
					}
				}
				passes("in the delay")
				flowtest.Order(t, flowtest.Wake.Send(w.Ctx, again, " hello"))
				w.Reach(again, event.MessageReceived, 1)
				passes("after a message")
				flowtest.Order(t, again.Pause(w.Ctx))
				w.Status(again, workflow.StatusPaused)
				passes("in a pause")
				w.Clock.Advance(2 * time.Hour)
				passes("in a pause beyond its time")
				flowtest.Order(t, again.Resume(w.Ctx))
				if got := flowtest.Result(w, again); got != "20 hello" || s.reserved.Load() != 1 {
					t.Errorf("result %q, reserved %d times", got, s.reserved.Load())
				}
				sound(w)
			})
		})
	}
}

// whileFull executes a test with a rerun that is delayed and a run that holds the limit of the
// rerun.
func whileFull(t *testing.T, test func(t *testing.T, w *flowtest.World, s *shop, again, holder *workflow.Run[string])) {
	t.Helper()
	uses := shim.Uses(func(int) []limit.Use { return []limit.Use{lane.Use(1)} })
	limited := shim.NewWorkflow[int, string]("test.full", "in", shim.WorkflowPolicy{Rerun: hourly, Uses: uses})
	holds := shim.NewWorkflow[int, string]("test.holds", "in", shim.WorkflowPolicy{Uses: uses})
	for name, opts := range map[string][]workflow.StartOption{"without a workflow id": nil, "with a workflow id": {workflow.WithID("full")}} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnVirtualTimeInPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
				var s shop
				s.fails.Store(1)
				w.Work(worker.Config{}, append(s.steps(), flowtest.As(limited, greeting),
					flowtest.As(holds, func(ctx workflow.Context, _ int) (string, error) { return flowtest.Wake.Receive(ctx) }))...)
				again := next(w, limited, flowtest.Start(w, limited, 1, opts...))
				waits(w, again)
				holder := flowtest.Start(w, holds, 1)
				w.Status(holder, workflow.StatusWaiting)
				test(t, w, &s, again, holder)
				sound(w)
			})
		})
	}
}

// TestRUN17_APauseInTheDelayIsSeenWhileTheLimitIsFull proves that a pause of a delayed rerun has
// its effect while the limit of the rerun is full. A message makes the rerun wait in the queue of
// the limit, and only an admitted run is given to a worker. The pause must not wait for that.
func TestRUN17_APauseInTheDelayIsSeenWhileTheLimitIsFull(t *testing.T) {
	whileFull(t, func(t *testing.T, w *flowtest.World, s *shop, again, holder *workflow.Run[string]) {
		due := w.Record(again).Due
		flowtest.Order(t, again.Pause(w.Ctx))
		w.Status(again, workflow.StatusPaused)
		if info, err := again.Info(w.Ctx); err != nil || !info.Paused || len(info.Waits)+len(info.Holds) > 0 {
			t.Errorf("paused while the limit is full: got %+v, %v, want that it waits for no limit and holds none", info, err)
		}
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, holder, ""))
		_ = flowtest.Result(w, holder)
		flowtest.Order(t, again.Resume(w.Ctx))
		w.Status(again, workflow.StatusSleeping)
		waits(w, again)
		if got := w.Record(again).Due; !got.Equal(due) || s.charged.Load() != 1 {
			t.Errorf("after the pause it goes on at %v, and has charged %d times, want %v and 1", got, s.charged.Load(), due)
		}
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, again, " hello"))
		w.Clock.Advance(time.Hour)
		if got := flowtest.Result(w, again); got != "20 hello" || s.reserved.Load() != 1 {
			t.Errorf("result %q, reserved %d times", got, s.reserved.Load())
		}
	})
}

// TestRUN17_ARerunIsShownAsDelayedWhileItWaitsInLineWithAMessage proves that a delayed rerun that
// waits in the queue of its limit because of a message is shown as delayed. A resume ends its
// delay, and the rerun continues when it is admitted.
func TestRUN17_ARerunIsShownAsDelayedWhileItWaitsInLineWithAMessage(t *testing.T) {
	whileFull(t, func(t *testing.T, w *flowtest.World, s *shop, again, holder *workflow.Run[string]) {
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, again, " hello"))
		if info, err := again.Info(w.Ctx); err != nil || !info.Delayed || info.Status != workflow.StatusSleeping {
			t.Errorf("after a message: got %+v, %v, want that it is delayed", info, err)
		}
		flowtest.Order(t, again.Resume(w.Ctx))
		flowtest.Order(t, flowtest.Wake.Send(w.Ctx, holder, ""))
		if got := flowtest.Result(w, again); got != "20 hello" || s.charged.Load() != 2 {
			t.Errorf("result %q, charged %d times, want that it goes on before its time", got, s.charged.Load())
		}
		if info, err := again.Info(w.Ctx); err != nil || info.Delayed {
			t.Errorf("once it has gone on: got %+v, %v, want that it is not delayed", info, err)
		}
	})
}
