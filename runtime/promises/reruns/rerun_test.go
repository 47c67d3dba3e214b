package reruns_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// often is a policy with two reruns, after 10 and 20 milliseconds.
var often = workflow.RetryPolicy{Attempts: 3, Initial: 10 * time.Millisecond, Max: time.Second, Factor: 2}

// hourly is a policy whose delays are longer than the test takes in real time.
var hourly = workflow.RetryPolicy{Attempts: 3, Initial: time.Hour, Max: 2 * time.Hour, Factor: 2}

// rerun declares a workflow with a policy for reruns of its failed runs.
func rerun[In, Out any](name string, p workflow.RetryPolicy) workflow.Definition[In, Out] {
	return shim.NewWorkflow[In, Out]("test."+name, "in", shim.WorkflowPolicy{Rerun: p})
}

var (
	reserve = flowtest.AStep[int, int]("reserve", shim.Policy{})
	charge  = flowtest.AStep[int, int]("charge", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
)

var errBusy = errors.New("the bank is busy")

// order is a workflow with two steps, of which the second may fail.
func order(ctx workflow.Context, n int) (int, error) {
	n, err := reserve.Call(ctx, n)
	if err != nil {
		return 0, err
	}
	return charge.Call(ctx, n)
}

// shop counts the executions of the steps of order. The step charge fails as often as fails
// requires.
type shop struct {
	reserved, charged atomic.Int64
	fails             atomic.Int64
	keys              flowtest.Seen[string]
}

func (s *shop) steps() []flowtest.Binding {
	return []flowtest.Binding{
		reserve.As(func(_ context.Context, n int) (int, error) { s.reserved.Add(1); return n + 1, nil }),
		charge.As(func(ctx context.Context, n int) (int, error) {
			s.keys.Add(step.IdempotencyKey(ctx))
			if s.charged.Add(1) <= s.fails.Load() {
				return 0, errBusy
			}
			return 10 * n, nil
		}),
	}
}

// next waits for the rerun of a run, and returns it.
func next[T any](w *flowtest.World, d workflow.Definition[int, T], run flowtest.Follows) *workflow.Run[T] {
	w.T.Helper()
	var id workflow.RunID
	w.Eventually("there is a rerun of "+string(run.ID()), func() bool {
		id = w.Record(run).Rerun
		return id != ""
	})
	return d.Get(w.Client, id)
}

// sound stops all workers and checks the store.
func sound(w *flowtest.World) {
	w.T.Helper()
	w.StopWorkers()
	for _, f := range w.Check() {
		w.T.Errorf("fsck: %v", f)
	}
}

func TestRUN17_AFailedRunIsTriedAgainAndWhatWasCompletedIsCarriedOver(t *testing.T) {
	again := rerun[int, int]("again", often)
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(2)
		w.Work(worker.Config{}, append(s.steps(), flowtest.As(again, order))...)
		first := flowtest.Start(w, again, 1, workflow.WithID("order"), workflow.WithTags(map[string]string{"k": "v"}))
		if err := flowtest.Failure(w, first); !errors.Is(err, errBusy) && err.Status != workflow.StatusFailed {
			t.Errorf("the first run: %v", err)
		}
		run := first
		for n := 1; n <= 2; n++ {
			failed := w.Log(run)
			end := &failed[len(failed)-1]
			run = next(w, again, run)
			log := w.Log(run)
			created := &log[0]
			if want := fmt.Sprintf("rerun %d of 2 by the policy of its workflow", n); created.Reason != want || created.By != "rerun policy" || created.Spec.Reruns != n {
				t.Errorf("rerun %d was created for %q by %q as number %d, want %q", n, created.Reason, created.By, created.Spec.Reruns, want)
			}
			if delay := end.Due.Sub(end.Time); end.Attempt != n || delay < time.Duration(n)*10*time.Millisecond {
				t.Errorf("failure %d announces rerun %d after %v", n, end.Attempt, delay)
			}
			if info, err := run.Info(w.Ctx); err != nil || info.WorkflowID != "order" || info.Tags["k"] != "v" {
				t.Errorf("rerun %d is %+v, %v", n, info, err)
			}
			if n == 1 {
				_ = flowtest.Failure(w, run)
			}
			resumed := flowtest.Filter(w.Log(run), event.RunResumed)
			if n == 1 && (len(resumed) != 1 || resumed[0].Time.Before(end.Due)) {
				t.Errorf("rerun %d goes on with %v, want once and not before %v", n, resumed, end.Due)
			}
		}
		if got := flowtest.Result(w, run); got != 20 {
			t.Errorf("result %d, want 20", got)
		}
		if s.reserved.Load() != 1 || s.charged.Load() != 3 {
			t.Errorf("reserved %d times, charged %d times, want 1 and 3", s.reserved.Load(), s.charged.Load())
		}
		seen := map[string]bool{}
		for _, key := range s.keys.Get() {
			seen[key] = true
		}
		if len(seen) != 3 {
			t.Errorf("idempotency keys %v, want three", s.keys.Get())
		}
		sound(w)
	})
}

func TestRUN17_RerunsAreBoundedAndTheLastFailureStaysOpen(t *testing.T) {
	again := rerun[int, int]("bounded", often)
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(100)
		w.Work(worker.Config{}, append(s.steps(), flowtest.As(again, order))...)
		first := flowtest.Start(w, again, 1)
		last := first
		for range 2 {
			last = next(w, again, last)
		}
		_ = flowtest.Failure(w, last)
		sound(w)
		end := w.Log(last)[len(w.Log(last))-1]
		if id := w.Record(last).Rerun; id != "" || !end.Due.IsZero() || s.charged.Load() != 3 {
			t.Errorf("the last run is tried again as %q at %v, after %d attempts", id, end.Due, s.charged.Load())
		}
		var open []workflow.RunID
		for info, err := range w.Client.List(w.Ctx, workflow.Filter{Failing: true}) {
			flowtest.Order(t, err)
			open = append(open, info.ID)
		}
		if diff := cmp.Diff([]workflow.RunID{last.ID()}, open); diff != "" {
			t.Errorf("open failures (-want +got):\n%s", diff)
		}
	})
}
