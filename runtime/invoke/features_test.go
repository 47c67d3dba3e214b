package invoke_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The workflows of tests about features that involve other runs, limits, or requests of users.
var (
	flaky    = flowtest.AStep[int, int]("invoke.flaky", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 3, Initial: 20 * time.Millisecond}})
	scarce   = limit.New("test.invoke.scarce", limit.Config{AtOnce: 1})
	limited  = flowtest.AStep[int, int]("invoke.limited", shim.Policy{Uses: shim.Uses(func(flowtest.StepArgs[int]) []limit.Use { return []limit.Use{scarce.Use(1)} })})
	whole    = flowtest.LimitedFlow[int, int]("invoke.whole", func(int) []limit.Use { return []limit.Use{scarce.Use(1)} })
	parents  = flowtest.Flow[int, int]("invoke.parents")
	children = flowtest.Flow[int, int]("invoke.children")
	senders  = flowtest.Flow[workflow.RunID, int]("invoke.senders")
	chains   = flowtest.Flow[int, int]("invoke.chains")
	waits    = flowtest.Flow[int, int]("invoke.waits")
)

func features() []flowtest.Binding {
	return []flowtest.Binding{
		five, add, flowtest.Hold,
		flaky.As(func(ctx context.Context, n int) (int, error) {
			if step.Attempt(ctx) < 3 {
				return 0, errors.New("not yet")
			}
			return n, nil
		}),
		limited.As(func(_ context.Context, n int) (int, error) { return n, nil }),
		flowtest.As(whole, func(ctx workflow.Context, n int) (int, error) { return addStep.Call(ctx, n) }),
		flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) {
			all := make([]*workflow.Child[int], n)
			for i := range all {
				all[i] = children.StartChild(ctx, i)
			}
			sum := 0
			for _, c := range all {
				got, err := c.Get(ctx)
				if err != nil {
					return 0, err
				}
				sum += got
			}
			return sum, nil
		}),
		flowtest.As(children, func(ctx workflow.Context, n int) (int, error) {
			if n%2 == 0 {
				return limited.Call(ctx, n)
			}
			return flaky.Call(ctx, n)
		}),
		flowtest.As(senders, func(ctx workflow.Context, to workflow.RunID) (int, error) {
			return 0, flowtest.Numbers.SendFrom(ctx, to, 7)
		}),
		flowtest.As(waits, func(ctx workflow.Context, _ int) (int, error) { return flowtest.Numbers.Receive(ctx) }),
		flowtest.As(chains, func(ctx workflow.Context, n int) (int, error) {
			got, err := addStep.Call(ctx, n)
			if err != nil || got >= 4 {
				return got, err
			}
			return 0, chains.ContinueAsNew(ctx, got)
		}),
	}
}

// TestOPS7_FunctionsExecuteEverythingThatWorkersDo proves that runs which need other runs, limits or
// messages end if only functions execute them.
func TestOPS7_FunctionsExecuteEverythingThatWorkersDo(t *testing.T) {
	flowtest.OnEveryStore(t, everything)
	flowtest.OnCluster(t, 7, everything)
}

func everything(t *testing.T, w *flowtest.World) {
	dispatch(w, function(w, invoke.Config{}, features()...).URL)
	t.Run("children, limits and retries", func(*testing.T) {
		if got := flowtest.Result(w, flowtest.Start(w, parents, 6)); got != 15 {
			t.Errorf("result %d, want 15", got)
		}
	})
	t.Run("messages between runs", func(*testing.T) {
		run := flowtest.Start(w, waits, 0)
		w.ReachWaiting(run)
		flowtest.Result(w, flowtest.Start(w, senders, run.ID()))
		if got := flowtest.Result(w, run); got != 7 {
			t.Errorf("result %d, want 7", got)
		}
	})
	t.Run("hooks", func(*testing.T) {
		token := "invoke-" + string(event.NewRunID(time.Now(), 0))
		run := flowtest.Start(w, flowtest.Holds, token)
		w.Opened(run)
		w.Eventually("the hook accepts a payload", func() bool { return flowtest.Paid.Send(w.Ctx, w.Client, token, 3) == nil })
		if got := flowtest.Result(w, run); got != 3 {
			t.Errorf("result %d, want 3", got)
		}
	})
	t.Run("limits of runs", func(*testing.T) {
		var runs []*workflow.Run[int]
		for i := range 5 {
			runs = append(runs, flowtest.Start(w, whole, i))
		}
		for i, run := range runs {
			if got := flowtest.Result(w, run); got != i+1 {
				t.Errorf("result %d, want %d", got, i+1)
			}
		}
	})
	t.Run("continue as new", func(*testing.T) {
		if got := flowtest.Result(w, flowtest.Start(w, chains, 0)); got != 4 {
			t.Errorf("result %d, want 4", got)
		}
	})
	t.Run("pause, resume and cancel", func(*testing.T) {
		run, other := flowtest.Start(w, waits, 0), flowtest.Start(w, waits, 0)
		w.ReachWaiting(run)
		flowtest.Order(t, run.Pause(w.Ctx))
		w.Send(run, 9)
		flowtest.Order(t, run.Resume(w.Ctx))
		if got := flowtest.Result(w, run); got != 9 {
			t.Errorf("result %d, want 9", got)
		}
		flowtest.Order(t, other.Cancel(w.Ctx, "enough"))
		if e := flowtest.Failure(w, other); e.Code != event.CodeCanceled {
			t.Errorf("failure %v, want a cancel", e)
		}
	})
	w.Healthy()
}

// TestOPS7_ACancelReachesAStepThatIsRunning proves that an invocation receives items for its run while
// it executes a step.
func TestOPS7_ACancelReachesAStepThatIsRunning(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan struct{})
		dispatch(w, function(w, invoke.Config{}, five, addStep.As(func(ctx context.Context, _ int) (int, error) {
			close(begun)
			<-ctx.Done()
			return 0, context.Cause(ctx)
		})).URL)
		run := flowtest.Start(w, fives, 1)
		<-begun
		flowtest.Order(t, run.Cancel(w.Ctx, "enough"))
		if e := flowtest.Failure(w, run); e.Code != event.CodeCanceled {
			t.Errorf("failure %v, want a cancel", e)
		}
		w.Healthy()
	})
}

// TestOPS7_WorkersAndFunctionsServeTheSameRoutes proves that each step is executed once if workers and
// functions serve the same workflows, and that both do some of the work.
func TestOPS7_WorkersAndFunctionsServeTheSameRoutes(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		by := map[string]*flowtest.Seen[int]{"function": {}, "worker": {}}
		acted := make(chan struct{}) // closed when the function has begun a step of the last runs
		dispatch(w, function(w, invoke.Config{}, order, addStep.As(func(_ context.Context, n int) (int, error) {
			if by["function"].Add(n); n >= 1000 {
				closeOnce(acted)
			}
			return n + 1, nil
		})).URL)
		flowtest.Result(w, flowtest.Start(w, orders, 0)) // from now on the dispatcher knows the function
		w.Work(worker.Config{Concurrency: 1, Runs: 1}, order, addStep.As(func(_ context.Context, n int) (int, error) {
			<-acted
			by["worker"].Add(n)
			return n + 1, nil
		}))
		var runs []*workflow.Run[int]
		for i := range 59 {
			runs = append(runs, flowtest.Start(w, orders, 1000+i))
		}
		for i, run := range runs {
			if got := flowtest.Result(w, run); got != 1000+i+3 {
				t.Errorf("result %d, want %d", got, 1000+i+3)
			}
		}
		f, o := len(by["function"].Get()), len(by["worker"].Get())
		if f+o != 180 || f == 0 || o == 0 {
			t.Errorf("functions have executed %d attempts, workers %d, want 180 in all", f, o)
		}
		w.Healthy()
	})
}

// TestOPS7_StepsOfOtherQueuesAreExecutedByWorkers proves that a step which takes longer than the
// budget can be left to workers by its queue.
func TestOPS7_StepsOfOtherQueuesAreExecutedByWorkers(t *testing.T) {
	remote := flowtest.AStep[int, int]("invoke.remote", shim.Policy{Timeout: time.Hour, Queue: "gpu"})
	calls := flowtest.Flow[int, int]("invoke.calls")
	call := flowtest.As(calls, func(ctx workflow.Context, n int) (int, error) { return remote.Call(ctx, n) })
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		dispatch(w, function(w, invoke.Config{Worker: worker.Config{Queues: []string{"default"}}}, call,
			remote.As(func(context.Context, int) (int, error) { return 0, errors.New("executed by the function") })).URL)
		w.Work(worker.Config{Queues: []string{"gpu"}}, remote.As(func(_ context.Context, n int) (int, error) { return 2 * n, nil }))
		if got := flowtest.Result(w, flowtest.Start(w, calls, 21)); got != 42 {
			t.Errorf("result %d, want 42", got)
		}
		w.Healthy()
	})
}

// TestOPS7_TwoDispatchersAndTwoTargetsExecuteEachStepOnce proves that dispatchers need no
// coordination.
func TestOPS7_TwoDispatchersAndTwoTargetsExecuteEachStepOnce(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		seen := &flowtest.Seen[string]{}
		count := addStep.As(func(ctx context.Context, n int) (int, error) {
			call, _ := step.Current(ctx)
			seen.Add(fmt.Sprint(call.RunID, " ", call.Key))
			return n + 1, nil
		})
		urls := []string{function(w, invoke.Config{}, order, count).URL, function(w, invoke.Config{}, order, count).URL}
		for range 2 {
			dispatch(w, urls...)
		}
		var runs []*workflow.Run[int]
		for range 30 {
			runs = append(runs, flowtest.Start(w, orders, 0))
		}
		for _, run := range runs {
			flowtest.Result(w, run)
		}
		all := seen.Get()
		slices.Sort(all)
		if n := len(slices.Compact(all)); n != 90 || len(seen.Get()) != 90 {
			t.Errorf("%d attempts of %d steps, want 90 of 90", len(seen.Get()), n)
		}
		w.Healthy()
	})
}

var closing sync.Mutex

// closeOnce closes a channel unless it is closed.
func closeOnce(c chan struct{}) {
	closing.Lock()
	defer closing.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

// TestOPS7_ABlockedRunContinuesOnAFunctionWithCodeThatFits proves that a run whose log does not match
// the code of one function is blocked, and that a function with other code continues it, without a
// worker.
func TestOPS7_ABlockedRunContinuesOnAFunctionWithCodeThatFits(t *testing.T) {
	t.Parallel()
	changed := flowtest.AStep[int, int]("invoke.changed", shim.Policy{})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		flow := func(s flowtest.StepOf[int, int]) flowtest.Binding {
			return flowtest.As(waits, func(ctx workflow.Context, n int) (int, error) {
				if _, err := s.Call(ctx, n); err != nil {
					return 0, err
				}
				return flowtest.Numbers.Receive(ctx)
			})
		}
		other := changed.As(func(_ context.Context, n int) (int, error) { return n, nil })
		before := function(w, invoke.Config{Worker: worker.Config{Build: "before"}}, flow(addStep), add)
		after := function(w, invoke.Config{Worker: worker.Config{Build: "after"}}, flow(changed), other)
		stop := dispatch(w, before.URL)
		run := flowtest.Start(w, waits, 1)
		w.ReachWaiting(run)
		stop()
		stop = dispatch(w, after.URL)
		w.Send(run, 5)
		w.Eventually("the run is blocked", func() bool {
			info, err := run.Info(w.Ctx)
			flowtest.Order(t, err)
			return info.Status == workflow.StatusBlocked
		})
		stop()
		dispatch(w, after.URL, before.URL)
		if got := flowtest.Result(w, run); got != 5 {
			t.Errorf("result %d, want 5", got)
		}
		w.Healthy()
	})
}
