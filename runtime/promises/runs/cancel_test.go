package runs_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// untilCanceled is a step that runs until its context ends.
func untilCanceled(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// suspension is a place in the code of a run. The tests cancel runs that wait at this place.
type suspension struct {
	name  string
	code  func(workflow.Context) error
	ready event.Type // the n-th event of this type shows that the run is at the place
	n     int
}

// Steps and workflows that the code of suspensions calls.
var (
	obeys     = flowtest.AStep[int, int]("obeys", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Hour}})
	objects   = flowtest.AStep[int, int]("objects", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Hour}})
	retries   = flowtest.AStep[int, int]("retries", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Hour}})
	elsewhere = flowtest.AStep[int, int]("elsewhere", shim.Policy{Queue: "elsewhere"})
	dozes     = flowtest.Flow[int, int]("dozes")
	answered  = workflow.NewHook[string]("answered")
)

var suspensions = []suspension{
	{"in a step, through its context", func(ctx workflow.Context) error { _, err := obeys.Call(ctx, 1); return err }, event.StepStarted, 1},
	{"in a step that returns an error of its own", func(ctx workflow.Context) error { _, err := objects.Call(ctx, 1); return err }, event.StepStarted, 1},
	{"in retry backoff", func(ctx workflow.Context) error { _, err := retries.Call(ctx, 1); return err }, event.StepRetrying, 1},
	{"in a sleep", func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) }, event.WaitCreated, 1},
	{"in a receive", func(ctx workflow.Context) error { _, err := flowtest.Wake.Receive(ctx); return err }, event.WaitCreated, 1},
	{"in a receive with a timeout", func(ctx workflow.Context) error {
		_, err := flowtest.Wake.Receive(ctx, workflow.Timeout(time.Hour))
		return err
	}, event.WaitCreated, 1},
	{"in a select", func(ctx workflow.Context) error {
		_, err := workflow.Select(ctx, flowtest.Wake.Case(), workflow.After(time.Hour))
		return err
	}, event.WaitCreated, 2},
	{"in Map", func(ctx workflow.Context) error {
		_, err := workflow.Map(ctx, []int{1, 2, 3}, obeys.Call, workflow.Limit(2))
		return err
	}, event.StepStarted, 2},
	{"in a branch", func(ctx workflow.Context) error {
		_, err := workflow.GoErr(ctx, func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) }).Get(ctx)
		return err
	}, event.WaitCreated, 1},
	{"under a deadline", func(ctx workflow.Context) error {
		ctx, stop := workflow.WithTimeout(ctx, time.Hour)
		defer stop()
		return workflow.Sleep(ctx, 2*time.Hour)
	}, event.WaitCreated, 2},
	{"in a child run", func(ctx workflow.Context) error { _, err := dozes.Child(ctx, 1); return err }, event.ChildCreated, 1},
	{"in a hook", func(ctx workflow.Context) error {
		hook, err := answered.Open(ctx)
		if err == nil {
			_, err = hook.Receive(ctx)
		}
		return err
	}, event.WaitCreated, 1},
	{"in a step on another queue", func(ctx workflow.Context) error { _, err := elsewhere.Call(ctx, 1); return err }, event.ChildCreated, 1},
}

func TestRUN8_CancelIsHonouredAtEverySuspensionPoint(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		refuses := func(context.Context, int) (int, error) { return 0, flowtest.ErrBusy }
		all := []flowtest.Binding{
			obeys.As(untilCanceled), elsewhere.As(untilCanceled), retries.As(refuses),
			objects.As(func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, flowtest.ErrBusy }),
			flowtest.As(dozes, func(ctx workflow.Context, _ int) (int, error) { return 0, workflow.Sleep(ctx, time.Hour) }),
		}
		flows := make([]workflow.Definition[int, int], len(suspensions))
		for i, s := range suspensions {
			flows[i] = flowtest.Flow[int, int](fmt.Sprint("suspended-", i))
			all = append(all, flowtest.As(flows[i], func(ctx workflow.Context, _ int) (int, error) {
				err := s.code(ctx)
				if !errors.Is(err, workflow.ErrCanceled) || ctx.Err() != workflow.ErrCanceled {
					t.Errorf("%s: the code got %v, its context says %v, want ErrCanceled", s.name, err, ctx.Err())
				}
				return 0, err
			}))
		}
		w.Work(worker.Config{}, all...)
		for i, s := range suspensions {
			run := flowtest.Start(w, flows[i], 1)
			w.Reach(run, s.ready, s.n)
			t.Run(s.name, func(t *testing.T) { checkCancel(t, w, run) })
		}
	})
}

// checkCancel cancels a run twice, and fails the test unless the run ends as canceled with the
// first reason.
func checkCancel(t *testing.T, w *flowtest.World, run *workflow.Run[int]) {
	t.Helper()
	for _, reason := range []string{"changed my mind", "again"} {
		if err := run.Cancel(w.Ctx, reason); err != nil {
			t.Errorf("Cancel(%q): %v", reason, err)
		}
	}
	err := flowtest.Failure(w, run)
	if err.Status != workflow.StatusCanceled || err.Code != event.CodeCanceled || !errors.Is(err, workflow.ErrCanceled) {
		t.Errorf("got %v with code %s, want a cancelled run", err, err.Code)
	}
	if err := run.Cancel(w.Ctx, "too late"); err != nil {
		t.Errorf("Cancel of the cancelled run: %v", err)
	}
	requests := flowtest.Filter(w.Log(run), event.CancelRequested)
	if len(requests) != 1 || requests[0].Reason != "changed my mind" {
		t.Errorf("the log has the requests %v, want the first one", requests)
	}
	if info, err := run.Info(w.Ctx); err != nil || info.Status != workflow.StatusCanceled {
		t.Errorf("status %s, %v", info.Status, err)
	}
}

func TestRUN8_ARunThatHasNotStartedIsCanceledWithoutRunningItsCode(t *testing.T) {
	never := flowtest.Flow[int, int]("never")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		ready := flowtest.Start(w, never, 1)
		delayed := flowtest.Start(w, never, 1, workflow.WithDelay(time.Hour))
		for _, run := range []*workflow.Run[int]{ready, delayed} {
			if err := run.Cancel(w.Ctx, "changed my mind"); err != nil {
				t.Fatal(err)
			}
		}
		w.Work(worker.Config{}, flowtest.As(never, func(workflow.Context, int) (int, error) {
			t.Error("the code ran")
			return 0, nil
		}))
		for _, run := range []*workflow.Run[int]{ready, delayed} {
			checkCancel(t, w, run)
			if err := flowtest.Failure(w, run); !flowtest.ContainsAll(err.Reason, "before it started", "changed my mind") {
				t.Errorf("got reason %q", err.Reason)
			}
		}
	})
}

func TestRUN8_AStepInLineForASlotIsCanceledWithoutRunning(t *testing.T) {
	queued := flowtest.Flow[int, int]("queued")
	w := flowtest.NewMemory(t)
	g := flowtest.NewGates()
	w.Work(worker.Config{Concurrency: 1}, flowtest.Work1.As(g.Pass), flowtest.As(queued, flowtest.Work1.Call))
	first := flowtest.Start(w, queued, 0)
	w.Reach(first, event.StepStarted, 1)
	second := flowtest.Start(w, queued, 2)
	w.Eventually("the second run is the worker's", func() bool {
		loaded, err := w.Store.Load(w.Ctx, []store.Load{{Run: second.ID(), Limit: -1}})
		return err == nil && loaded[0].Record.QueueState == store.StateOwned
	})
	checkCancel(t, w, second)
	if n := len(flowtest.Filter(w.Log(second), event.StepStarted)); n != 0 {
		t.Errorf("the step was started %d times", n)
	}
	close(g.Open[0])
	_ = flowtest.Result(w, first)
	close(g.Open[4])
	if got := flowtest.Result(w, flowtest.Start(w, queued, 4)); got != 4 {
		t.Errorf("the slot afterwards: got %d", got)
	}
}

// TestRUN8_NoSlotIsLostWhenRunsEndWhileStepsBegin proves that no slot of a worker is lost when runs
// end while their steps are about to start.
func TestRUN8_NoSlotIsLostWhenRunsEndWhileStepsBegin(t *testing.T) {
	races := flowtest.Flow[int, int]("races")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{Concurrency: 2}, flowtest.Calls, flowtest.Work1.As(func(_ context.Context, n int) (int, error) { return n, nil }),
		flowtest.As(races, func(ctx workflow.Context, n int) (int, error) {
			f := workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
				if err := workflow.Sleep(ctx, time.Duration(n%3)*time.Millisecond); err != nil {
					return 0, err
				}
				return flowtest.Work1.Call(ctx, n)
			})
			_, err := workflow.Select(ctx, f, flowtest.Wake.Case())
			return n, err
		}))
	var all []*workflow.Run[int]
	for n := range 200 {
		run := flowtest.Start(w, races, n)
		if n%2 == 0 {
			_ = run.Cancel(w.Ctx, "race")
		} else if err := flowtest.Wake.Send(w.Ctx, run, "race"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
			t.Fatal(err)
		}
		all = append(all, run)
	}
	for _, run := range all {
		_, _ = run.Result(w.Ctx)
	}
	for range 4 {
		_ = flowtest.Result(w, flowtest.Start(w, flowtest.One, 1))
	}
}

func TestRUN8_TheRunsOwnOutcomeStandsIfItSwallowsTheCancel(t *testing.T) {
	stubborn := flowtest.Flow[int, int]("stubborn")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(stubborn, func(ctx workflow.Context, n int) (int, error) {
		_ = workflow.Sleep(ctx, time.Hour)
		if n == 0 {
			return 0, errors.New("an error of its own")
		}
		return n, nil
	}))
	completes, fails := flowtest.Start(w, stubborn, 7), flowtest.Start(w, stubborn, 0)
	for _, run := range []*workflow.Run[int]{completes, fails} {
		w.Reach(run, event.WaitCreated, 1)
		if err := run.Cancel(w.Ctx, "please"); err != nil {
			t.Fatal(err)
		}
	}
	if got := flowtest.Result(w, completes); got != 7 {
		t.Errorf("got %d", got)
	}
	if err := flowtest.Failure(w, fails); err.Status != workflow.StatusFailed || errors.Is(err, workflow.ErrCanceled) {
		t.Errorf("got %v, want a failed run", err)
	}
}

func TestRUN8_CleanupRunsUnderADetachedContext(t *testing.T) {
	cleans := flowtest.Flow[int, int]("cleans")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var got flowtest.Seen[int]
		w.Work(worker.Config{}, flowtest.Work1.As(func(_ context.Context, n int) (int, error) { got.Add(n); return n, nil }),
			flowtest.As(cleans, func(ctx workflow.Context, _ int) (int, error) {
				defer func() {
					if _, err := flowtest.Work1.Call(ctx, 1); !errors.Is(err, workflow.ErrCanceled) {
						t.Errorf("a step under the canceled context: %v", err)
					}
					d := workflow.Detached(workflow.WithValue(ctx, "k", "v"))
					if _, err := flowtest.Work1.Call(d, 2); err != nil || d.Err() != nil || d.Value("k") != "v" {
						t.Errorf("a step under the detached context: %v, %v, %v", err, d.Err(), d.Value("k"))
					}
					if err := workflow.Sleep(d, time.Millisecond); err != nil {
						t.Errorf("a sleep under the detached context: %v", err)
					}
				}()
				return 0, workflow.Sleep(ctx, time.Hour)
			}))
		run := flowtest.Start(w, cleans, 1)
		w.Reach(run, event.WaitCreated, 1)
		if err := run.Cancel(w.Ctx, "x"); err != nil {
			t.Fatal(err)
		}
		if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff([]int{2}, got.Get()); diff != "" {
			t.Errorf("executed steps (-want +got):\n%s", diff)
		}
	})
}

// TestRUN8_AStepThatSucceedsAllTheSameKeepsItsResult proves that the result of a step counts if the
// step completes after it was canceled.
func TestRUN8_AStepThatSucceedsAllTheSameKeepsItsResult(t *testing.T) {
	w := flowtest.NewMemory(t)
	begun := make(chan struct{})
	w.Work(worker.Config{}, flowtest.Calls, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		close(begun)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, workflow.ErrCanceled) {
			t.Errorf("the cause is %v, want ErrCanceled", cause)
		}
		return n, nil
	}))
	run := flowtest.Start(w, flowtest.One, 9)
	<-begun // a step that has not begun would not begin after the cancel
	if err := run.Cancel(w.Ctx, "x"); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != 9 {
		t.Errorf("got %d", got)
	}
}

func TestRUN8_CancelOfAFinishedRunIsATypedError(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Runs)
		run := flowtest.Start(w, flowtest.Echo, "x")
		_ = flowtest.Result(w, run)
		if err := run.Cancel(w.Ctx, "late"); !errors.Is(err, workflow.ErrRunTerminal) || !flowtest.ContainsAll(err.Error(), "completed") {
			t.Errorf("got %v, want ErrRunTerminal with the status", err)
		}
	})
}

func TestRUN8_AttemptsBeforeTheCancelAreCounted(t *testing.T) {
	slow := flowtest.AStep[int, int]("slow", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Hour}})
	waits := flowtest.Flow[int, int]("waits")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(waits, slow.Call), slow.As(func(context.Context, int) (int, error) { return 0, flowtest.ErrBusy }))
	run := flowtest.Start(w, waits, 1)
	w.Reach(run, event.StepRetrying, 1)
	if err := run.Cancel(w.Ctx, "x"); err != nil {
		t.Fatal(err)
	}
	var failed *workflow.StepError
	if err := flowtest.Failure(w, run); !errors.As(err, &failed) || failed.Attempts != 1 || failed.Code != event.CodeCanceled {
		t.Errorf("got %v, want code cancelled after 1 attempt", err)
	}
}
