package limits_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var goAhead = workflow.NewTopic[int]("singleton.go")

// singleton returns a workflow that has one active run for all inputs. The code in these tests
// waits for a message.
func singleton(name string, p workflow.ActivePolicy) workflow.Definition[int, int] {
	return shim.NewWorkflow[int, int]("test.singleton."+name, "in", shim.WorkflowPolicy{
		Singleton: shim.Singleton(func(int) string { return shim.Key(7) }), Active: p,
	})
}

func waits(ran *flowtest.Seen[int]) func(workflow.Context, int) (int, error) {
	return func(ctx workflow.Context, n int) (int, error) {
		ran.Add(n)
		_, err := goAhead.Receive(ctx)
		return n, err
	}
}

func TestPOOL7_AStartOfASingletonReturnsTheActiveRun(t *testing.T) {
	skips := singleton("skips", workflow.UseActive)
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var ran flowtest.Seen[int]
		w.Work(worker.Config{}, flowtest.As(skips, waits(&ran)))
		first, second := flowtest.Start(w, skips, 1), flowtest.Start(w, skips, 2)
		if first.ID() != second.ID() || !first.Created() || second.Created() {
			t.Errorf("got runs %s and %s, created %v and %v", first.ID(), second.ID(), first.Created(), second.Created())
		}
		if info, err := skips.GetByID(w.Client, "test.singleton.skips:7").Info(w.Ctx); err != nil || info.ID != first.ID() {
			t.Errorf("by its id: got %s, %v", info.ID, err)
		}
		flowtest.Order(t, goAhead.Send(w.Ctx, first, 0))
		_ = flowtest.Result(w, first)
		third := flowtest.Start(w, skips, 3)
		flowtest.Order(t, goAhead.Send(w.Ctx, third, 0))
		if got := flowtest.Result(w, third); got != 3 {
			t.Errorf("after its end: got %d", got)
		}
	})
}

func TestPOOL7_QueuedStartsOfASingletonRunOneAfterTheOther(t *testing.T) {
	queues := singleton("queues", workflow.QueueActive)
	nap := flowtest.AStep[int, int]("limits.singletonnap", shim.Policy{})
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var under gauge
		var ran flowtest.Seen[int]
		for range 2 {
			w.Work(worker.Config{}, flowtest.As(queues, func(ctx workflow.Context, n int) (int, error) {
				got, err := nap.Call(ctx, n)
				switch {
				case n == 3:
					return 0, errors.New("it fails")
				case n == 0 && err == nil: // waits until all starts are queued and one of them is canceled
					_, err = goAhead.Receive(ctx)
				}
				return got, err
			}), nap.As(func(_ context.Context, n int) (int, error) {
				defer under.enter()()
				ran.Add(n)
				return n, nil
			}))
		}
		var runs []*workflow.Run[int]
		for n := range 8 {
			runs = append(runs, flowtest.Start(w, queues, n))
		}
		flowtest.Order(t, runs[5].Cancel(w.Ctx, "not wanted"))
		flowtest.Order(t, goAhead.Send(w.Ctx, runs[0], 0))
		for n, run := range runs {
			switch n {
			case 3, 5:
				flowtest.Failure(w, run)
			default:
				_ = flowtest.Result(w, run)
			}
		}
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 6, 7}, ran.Get()); diff != "" || under.most.Load() != 1 {
			t.Errorf("%d at once; order (-want +got):\n%s", under.most.Load(), diff)
		}
	})
}

func TestPOOL7_OnlyTheLatestStartOfASingletonWaits(t *testing.T) {
	latest, replaces := singleton("latest", workflow.LatestActive), singleton("replaces", workflow.CancelActive)
	flowtest.OnPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var ran flowtest.Seen[int]
		w.Work(worker.Config{}, flowtest.As(latest, waits(&ran)), flowtest.As(replaces, waits(&ran)))
		first := flowtest.Start(w, latest, 1)
		w.Eventually("the first has begun", func() bool { return ran.Len() == 1 })
		second, third := flowtest.Start(w, latest, 2), flowtest.Start(w, latest, 3)
		for _, run := range []*workflow.Run[int]{first, third} {
			flowtest.Order(t, goAhead.Send(w.Ctx, run, 0))
			_ = flowtest.Result(w, run)
		}
		if e := flowtest.Failure(w, second); !errors.Is(e, workflow.ErrCanceled) || !flowtest.ContainsAll(e.Error(), "replaced by run", string(third.ID())) {
			t.Errorf("the one between them ended with %v", e)
		}

		first, second = flowtest.Start(w, replaces, 4), flowtest.Start(w, replaces, 5)
		if e := flowtest.Failure(w, first); !errors.Is(e, workflow.ErrCanceled) {
			t.Errorf("the replaced one ended with %v", e)
		}
		flowtest.Order(t, goAhead.Send(w.Ctx, second, 0))
		_ = flowtest.Result(w, second)
		for _, n := range ran.Get() {
			if n == 2 {
				t.Error("the code of a run was executed that was never the latest when its turn came")
			}
		}
	})
}

func TestPOOL7_ASingletonHasNoOtherID(t *testing.T) {
	skips := singleton("noid", workflow.UseActive)
	w := flowtest.NewMemory(t)
	for name, opt := range map[string]workflow.RunOption{"WithID": workflow.WithID("x"), "WithIDPolicy": workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.FailActive})} {
		_, err := skips.Start(w.Ctx, w.Client, 1, opt)
		if invalid, ok := errors.AsType[*workflow.InvalidError](err); !ok || !flowtest.ContainsAll(invalid.Error(), "remove") {
			t.Errorf("%s: got %v, want an *InvalidError with the fix", name, err)
		}
	}
	err := skips.Schedule(w.Ctx, w.Client, "alone", schedule.Spec{When: "every 1h"}, 1)
	if _, ok := errors.AsType[*schedule.Error](err); !ok {
		t.Errorf("a schedule: got %v", err)
	}
}

func TestPOOL7_AChildOfASingletonWaitsOrFails(t *testing.T) {
	policies := map[string]workflow.ActivePolicy{"childskips": workflow.UseActive, "childqueues": workflow.QueueActive, "childlatest": workflow.LatestActive}
	for name, p := range policies {
		child := singleton(name, p)
		parent := flowtest.Flow[int, int]("limits.parentof" + name)
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				var ran flowtest.Seen[int]
				var second atomic.Bool
				w.Work(worker.Config{}, flowtest.As(child, waits(&ran)), flowtest.As(parent, func(ctx workflow.Context, n int) (int, error) {
					c := child.StartChild(ctx, n)
					if n == 2 {
						second.Store(true)
					}
					return c.Get(ctx)
				}))
				first := flowtest.Start(w, child, 1)
				w.Eventually("it has begun", func() bool { return ran.Len() == 1 })
				run := flowtest.Start(w, parent, 2)
				switch p {
				case workflow.UseActive:
					var active *workflow.ActiveRunError
					if e := flowtest.Failure(w, run); !errors.As(e, &active) || active.Run != first.ID() {
						t.Errorf("got %v", e)
					}
				case workflow.LatestActive:
					if e := flowtest.Failure(w, run); !flowtest.ContainsAll(e.Error(), "a child cannot cancel", "QueueActive") {
						t.Errorf("got %v", e)
					}
				}
				flowtest.Order(t, goAhead.Send(w.Ctx, first, 0))
				_ = flowtest.Result(w, first)
				if p != workflow.QueueActive {
					return
				}
				w.Eventually("the child has begun", func() bool { return ran.Len() == 2 })
				flowtest.Order(t, goAhead.Send(w.Ctx, w.Client.RunByID("test.singleton."+name+":7"), 0))
				if got := flowtest.Result(w, run); got != 2 || fmt.Sprint(ran.Get()) != "[1 2]" {
					t.Errorf("got %d of %v", got, ran.Get())
				}
			})
		})
	}
}
