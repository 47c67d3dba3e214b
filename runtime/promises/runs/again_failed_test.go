package runs_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// openFailures returns the number of failing runs that the failure groups count, and the number
// that the list of runs contains.
func openFailures(w *flowtest.World) (inGroups, listed int) {
	w.T.Helper()
	page, err := ops.New(w.Client).FailureGroups(w.Ctx, ops.FailureFilter{})
	flowtest.Order(w.T, err)
	for _, g := range page.Groups {
		inGroups += g.Open
	}
	for _, err := range w.Client.List(w.Ctx, workflow.Filter{Failing: true}) {
		flowtest.Order(w.T, err)
		listed++
	}
	return inGroups, listed
}

func TestRUN10_ARetriedRunIsNoOpenFailureAndNamesTheNewRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var broken atomic.Bool
		broken.Store(true)
		w.Work(worker.Config{}, charge.As(func(_ context.Context, what string) (string, error) {
			if broken.Load() {
				return "", step.Fatal(errors.New("declined"))
			}
			return what, nil
		}), flowtest.As(paid, charge.Call))
		run := flowtest.Start(w, paid, "a", workflow.WithID("order"))
		_ = flowtest.Failure(w, run)
		open := func(what string, want int) {
			t.Helper()
			if groups, listed := openFailures(w); groups != want || listed != want {
				t.Errorf("%s: %d open failures in groups, %d in the list, want %d", what, groups, listed, want)
			}
		}
		retry := func(h flowtest.Follows) workflow.RunID {
			t.Helper()
			made, err := w.Client.Run(h.ID()).Retry(w.Ctx)
			flowtest.Order(t, err)
			return made.ID()
		}
		open("failed", 1)
		second := paid.Get(w.Client, retry(run))
		_ = flowtest.Failure(w, second)
		open("the retry has failed", 1)
		if info, err := run.Info(w.Ctx); err != nil || info.RetriedAs != second.ID() || info.Group != "" || info.Status != workflow.StatusFailed {
			t.Errorf("the old run: got %+v, %v, want it failed and retried as %s", info, err, second.ID())
		}
		listed := map[workflow.RunID]workflow.RunID{}
		for info, err := range w.Client.List(w.Ctx, workflow.Filter{}) {
			flowtest.Order(t, err)
			listed[info.ID] = info.RetriedAs
		}
		if want := map[workflow.RunID]workflow.RunID{run.ID(): second.ID(), second.ID(): ""}; !maps.Equal(listed, want) {
			t.Errorf("retried as, in the list: got %v, want %v", listed, want)
		}
		broken.Store(false)
		third := retry(run) // this retry applies to the last run of the chain
		if got := flowtest.Result(w, paid.Get(w.Client, third)); got != "a" || resumedFrom(w, paid.Get(w.Client, third)) != second.ID() {
			t.Errorf("the last run: got %q, made of %s", got, resumedFrom(w, paid.Get(w.Client, third)))
		}
		open("completed", 0)
		if again := retry(run); again != third {
			t.Errorf("retry of the first run: got %s, want %s, which has completed", again, third)
		}
		flowtest.Order(t, ops.New(w.Client).Delete(w.Ctx, third))
		fourth := retry(run)
		if fourth == third || fourth == second.ID() || fourth == run.ID() || retry(run) != fourth {
			t.Errorf("after the rerun was deleted: got %s, then %s, want a new run", fourth, retry(run))
		}
		if got := flowtest.Result(w, paid.Get(w.Client, fourth)); got != "a" {
			t.Errorf("got %q", got)
		}
	})
}

var paid = flowtest.Flow[string, string]("paid")

// TestRUN11_AnOpenRunOfASingletonIsNotRepeated proves that an open run of a singleton cannot be
// restarted or forked, because the new run would be a second active run of the key.
func TestRUN11_AnOpenRunOfASingletonIsNotRepeated(t *testing.T) {
	single := shim.NewWorkflow[int, int]("test.single", "in", shim.WorkflowPolicy{Singleton: shim.Singleton(func(int) string { return shim.Key(7) })})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var executed flowtest.Seen[int]
		w.Work(worker.Config{}, flowtest.Noting(&executed), flowtest.As(single, func(ctx workflow.Context, n int) (int, error) {
			if _, err := flowtest.Work1.Call(ctx, n); err != nil {
				return 0, err
			}
			_, err := flowtest.Wake.Receive(ctx)
			return n, err
		}))
		run := flowtest.Start(w, single, 1)
		w.Reach(run, event.StepCompleted, 1)
		key := flowtest.Filter(w.Log(run), event.StepCreated)[0].Key
		for verb, rerun := range map[string]func() (*workflow.Run[int], error){
			"restart": func() (*workflow.Run[int], error) { return run.Restart(w.Ctx) },
			"fork":    func() (*workflow.Run[int], error) { return run.Fork(w.Ctx, key) },
		} {
			if made, err := rerun(); !isStatusError(err) {
				t.Errorf("%s of an open run: got %v, %v, want a StatusError", verb, made, err)
			}
		}
		words(t, w, run, "end")
		_ = flowtest.Result(w, run)
		again, err := run.Restart(w.Ctx)
		flowtest.Order(t, err)
		words(t, w, again, "end")
		if got := flowtest.Result(w, again); got != 1 {
			t.Errorf("got %d", got)
		}
	})
}

// TestRUN10_AFailedRunWithLimitsAndAWorkflowIDIsRetriedInEachPartition proves that a failed run
// with limits and a workflow ID can be retried in each partition. On a store with several
// partitions, such a run gets its permits through another run.
func TestRUN10_AFailedRunWithLimitsAndAWorkflowIDIsRetriedInEachPartition(t *testing.T) {
	room := limit.New("test.retryroom", limit.Config{AtOnce: 1})
	limited := flowtest.LimitedFlow[int, int]("limitedretry", func(int) []limit.Use { return []limit.Use{room.Use(1)} })
	flowtest.OnPartitions(t, 4, func(t *testing.T, w *flowtest.World) {
		var executed flowtest.Seen[string]
		var broken atomic.Bool
		broken.Store(true)
		w.Work(worker.Config{}, charging(&executed, func(what string) bool { return broken.Load() && what[:3] == "bad" }), flowtest.As(limited, func(ctx workflow.Context, n int) (int, error) {
			if _, err := charge.Call(ctx, fmt.Sprint("good ", n, workflow.UUID(ctx))); err != nil {
				return 0, err
			}
			_, err := charge.Call(ctx, fmt.Sprint("bad ", n))
			return n, err
		}))
		var failed []*workflow.Run[int]
		for n := range 4 {
			run := flowtest.Start(w, limited, n, w.In(n, fmt.Sprint("limited ", n)))
			_ = flowtest.Failure(w, run)
			failed = append(failed, run)
		}
		broken.Store(false)
		for n, run := range failed {
			again, err := run.Retry(w.Ctx)
			flowtest.Order(t, err)
			if got := flowtest.Result(w, again); got != n {
				t.Errorf("got %d, want %d", got, n)
			}
			if info, err := again.Info(w.Ctx); err != nil || info.WorkflowID != fmt.Sprint("limited ", n) && info.WorkflowID == "" {
				t.Errorf("the new run: got %+v, %v", info, err)
			}
			key := flowtest.Filter(w.Log(run), event.StepCreated)[1].Key
			forked, err := run.Fork(w.Ctx, key)
			flowtest.Order(t, err)
			if got := flowtest.Result(w, forked); got != n {
				t.Errorf("the fork: got %d, want %d", got, n)
			}
		}
		times := count(&executed)
		for what, got := range times {
			if want := map[bool]int{true: 1, false: 3}[what[:4] == "good"]; got != want {
				t.Errorf("step %q was executed %d times, want %d", what, got, want)
			}
		}
		if len(times) != 8 {
			t.Errorf("executed: got %v, want 8 steps", times)
		}
	})
}

func TestRUN18_ARetryWithTheSameKeyReturnsItsRunWhateverHasBecomeOfIt(t *testing.T) {
	declines := charge.As(func(context.Context, string) (string, error) { return "", step.Fatal(errors.New("declined")) })
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, declines, flowtest.As(paid, charge.Call))
		run := flowtest.Start(w, paid, "a", workflow.WithID("order"))
		_ = flowtest.Failure(w, run)
		retry := func(opts ...workflow.CommandOption) workflow.RunID {
			t.Helper()
			made, err := run.Retry(w.Ctx, opts...)
			flowtest.Order(t, err)
			_ = flowtest.Failure(w, made)
			return made.ID()
		}
		key := workflow.IdempotencyKey("request 1")
		first := retry(key, workflow.Reason("the card is valid"))
		if got := w.Log(paid.Get(w.Client, first))[0].Reason; got != "the card is valid" {
			t.Errorf("the reason in the first event of the rerun: got %q", got)
		}
		second := retry()
		third := retry(workflow.IdempotencyKey("request 2"))
		if first == second || second == third || resumedFrom(w, paid.Get(w.Client, third)) != second {
			t.Errorf("got reruns %s, %s and %s, want each of the one before", first, second, third)
		}
		restarted, err := run.Restart(w.Ctx)
		flowtest.Order(t, err)
		_ = flowtest.Failure(w, restarted)
		for name, want := range map[string]workflow.RunID{"request 1": first, "request 2": third} {
			if got := retry(workflow.IdempotencyKey(name)); got != want {
				t.Errorf("%s again: got %s, want %s", name, got, want)
			}
		}
		var conflict *workflow.KeyConflictError
		if _, err := run.Restart(w.Ctx, key); !errors.As(err, &conflict) || conflict.New != first {
			t.Errorf("restart with the key of a retry: got %v, want a KeyConflictError about run %s", err, first)
		}
		other := workflow.IdempotencyKey("request 3")
		_, err = run.Restart(w.Ctx, other)
		flowtest.Order(t, err)
		if _, err := run.Retry(w.Ctx, other); !errors.As(err, &conflict) {
			t.Errorf("retry with the key of a restart: got %v, want a KeyConflictError", err)
		}
	})
}

func TestRUN18_OfManyRetriesWithTheSameKeyOneMakesARun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, charge.As(func(context.Context, string) (string, error) { return "", step.Fatal(errors.New("declined")) }), flowtest.As(paid, charge.Call))
		run := flowtest.Start(w, paid, "a")
		_ = flowtest.Failure(w, run)
		made := make(chan workflow.RunID, 16)
		for range cap(made) {
			go func() {
				again, err := run.Retry(w.Ctx, workflow.IdempotencyKey("request"))
				if err != nil {
					t.Errorf("retry: %v", err)
					made <- ""
					return
				}
				made <- again.ID()
			}()
		}
		first := <-made
		for range cap(made) - 1 {
			if got := <-made; got != first {
				t.Errorf("one key has made run %s and run %s", first, got)
			}
		}
	})
}

// TestRUN18_AKeyOfARetryThatFindsAnOpenRerunNamesNone proves that a retry that finds an open rerun
// does not bind its idempotency key to this rerun. When the rerun has failed, the same key creates
// a run.
func TestRUN18_AKeyOfARetryThatFindsAnOpenRerunNamesNone(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var calls atomic.Int64
		decline := make(chan struct{})
		w.Work(worker.Config{}, flowtest.As(paid, charge.Call), charge.As(func(ctx context.Context, _ string) (string, error) {
			if calls.Add(1) == 2 { // the call of the rerun
				select {
				case <-decline:
				case <-ctx.Done():
					return "", ctx.Err()
				}
			}
			return "", step.Fatal(errors.New("declined"))
		}))
		run := flowtest.Start(w, paid, "a", workflow.WithID("order"))
		_ = flowtest.Failure(w, run)
		open, err := run.Retry(w.Ctx)
		flowtest.Order(t, err)
		retry := func() *workflow.Run[string] {
			t.Helper()
			got, err := run.Retry(w.Ctx, workflow.IdempotencyKey("request"))
			flowtest.Order(t, err)
			return got
		}
		if got := retry(); got.ID() != open.ID() {
			t.Errorf("the key while a rerun is open: got run %s, want %s", got.ID(), open.ID())
		}
		close(decline)
		_ = flowtest.Failure(w, open)
		made := retry()
		_ = flowtest.Failure(w, made)
		if made.ID() == open.ID() || resumedFrom(w, made) != open.ID() {
			t.Errorf("the key once the rerun has failed: got run %s of %s, want a rerun of %s", made.ID(), resumedFrom(w, made), open.ID())
		}
		if got := retry(); got.ID() != made.ID() {
			t.Errorf("the key after it has made a run: got run %s, want %s", got.ID(), made.ID())
		}
	})
}
