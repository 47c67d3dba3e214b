package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// untilCanceled is a step that ends when its context does.
func untilCanceled(ctx context.Context, _ int) (int, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

// suspension is a place where a run may be when it is canceled.
type suspension struct {
	name  string
	code  func(workflow.Context) error
	ready event.Type // is in the log when the run is where it should be
	n     int
}

// The steps and workflows that suspended code calls.
var (
	obeys     = aStep[int, int]("obeys", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Hour}})
	objects   = aStep[int, int]("objects", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Hour}})
	retries   = aStep[int, int]("retries", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Hour}})
	elsewhere = aStep[int, int]("elsewhere", shim.Policy{Queue: "elsewhere"})
	dozes     = flow[int, int]("dozes")
	answered  = workflow.NewHook[string]("answered")
)

var suspensions = []suspension{
	{"in a step, through its context", func(ctx workflow.Context) error { _, err := obeys.Call(ctx, 1); return err }, event.StepStarted, 1},
	{"in a step that returns an error of its own", func(ctx workflow.Context) error { _, err := objects.Call(ctx, 1); return err }, event.StepStarted, 1},
	{"in retry backoff", func(ctx workflow.Context) error { _, err := retries.Call(ctx, 1); return err }, event.StepRetrying, 1},
	{"in a sleep", func(ctx workflow.Context) error { return workflow.Sleep(ctx, time.Hour) }, event.WaitCreated, 1},
	{"in a receive", func(ctx workflow.Context) error { _, err := wake.Receive(ctx); return err }, event.WaitCreated, 1},
	{"in a receive with a timeout", func(ctx workflow.Context) error {
		_, err := wake.Receive(ctx, workflow.Timeout(time.Hour))
		return err
	}, event.WaitCreated, 1},
	{"in a select", func(ctx workflow.Context) error {
		_, err := workflow.Select(ctx, wake.Case(), workflow.After(time.Hour))
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
	onEveryStore(t, func(t *testing.T, w *world) {
		refuses := func(context.Context, int) (int, error) { return 0, errBusy }
		all := []binding{
			obeys.as(untilCanceled), elsewhere.as(untilCanceled), retries.as(refuses),
			objects.as(func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, errBusy }),
			as(dozes, func(ctx workflow.Context, _ int) (int, error) { return 0, workflow.Sleep(ctx, time.Hour) }),
		}
		flows := make([]workflow.Definition[int, int], len(suspensions))
		for i, s := range suspensions {
			flows[i] = flow[int, int](fmt.Sprint("suspended-", i))
			all = append(all, as(flows[i], func(ctx workflow.Context, _ int) (int, error) {
				err := s.code(ctx)
				if !errors.Is(err, workflow.ErrCanceled) || ctx.Err() != workflow.ErrCanceled {
					t.Errorf("%s: the code got %v, its context says %v, want ErrCanceled", s.name, err, ctx.Err())
				}
				return 0, err
			}))
		}
		w.work(worker.Config{}, all...)
		for i, s := range suspensions {
			run := start(w, flows[i], 1)
			w.reach(run, s.ready, s.n)
			t.Run(s.name, func(t *testing.T) { checkCancel(t, w, run) })
		}
	})
}

// checkCancel cancels a run twice and looks at what becomes of it.
func checkCancel(t *testing.T, w *world, run *workflow.Run[int]) {
	t.Helper()
	for _, reason := range []string{"changed my mind", "again"} {
		if err := run.Cancel(w.ctx, reason); err != nil {
			t.Errorf("Cancel(%q): %v", reason, err)
		}
	}
	err := failure(w, run)
	if err.Status != workflow.StatusCanceled || err.Code != event.CodeCanceled || !errors.Is(err, workflow.ErrCanceled) {
		t.Errorf("got %v with code %s, want a cancelled run", err, err.Code)
	}
	if err := run.Cancel(w.ctx, "too late"); err != nil {
		t.Errorf("Cancel of the cancelled run: %v", err)
	}
	requests := filter(w.log(run), event.CancelRequested)
	if len(requests) != 1 || requests[0].Reason != "changed my mind" {
		t.Errorf("the log has the requests %v, want the first one", requests)
	}
	if info, err := run.Info(w.ctx); err != nil || info.Status != workflow.StatusCanceled {
		t.Errorf("status %s, %v", info.Status, err)
	}
}

func TestRUN8_ARunThatHasNotStartedIsCanceledWithoutRunningItsCode(t *testing.T) {
	never := flow[int, int]("never")
	onEachStore(t, func(t *testing.T, w *world) {
		ready := start(w, never, 1)
		delayed := start(w, never, 1, workflow.WithDelay(time.Hour))
		for _, run := range []*workflow.Run[int]{ready, delayed} {
			if err := run.Cancel(w.ctx, "changed my mind"); err != nil {
				t.Fatal(err)
			}
		}
		w.work(worker.Config{}, as(never, func(workflow.Context, int) (int, error) {
			t.Error("the code ran")
			return 0, nil
		}))
		for _, run := range []*workflow.Run[int]{ready, delayed} {
			checkCancel(t, w, run)
			if err := failure(w, run); !containsAll(err.Reason, "before it started", "changed my mind") {
				t.Errorf("got reason %q", err.Reason)
			}
		}
	})
}

func TestRUN8_AStepInLineForASlotIsCanceledWithoutRunning(t *testing.T) {
	queued := flow[int, int]("queued")
	w := newMemory(t)
	g := newGates()
	w.work(worker.Config{Concurrency: 1}, work1.as(g.pass), as(queued, work1.Call))
	first := start(w, queued, 0)
	w.reach(first, event.StepStarted, 1)
	second := start(w, queued, 2)
	w.eventually("the second run is the worker's", func() bool {
		loaded, err := w.store.Load(w.ctx, []store.Load{{Run: second.ID(), Limit: -1}})
		return err == nil && loaded[0].Record.Place == store.PlaceOwned
	})
	checkCancel(t, w, second)
	if n := len(filter(w.log(second), event.StepStarted)); n != 0 {
		t.Errorf("the step was started %d times", n)
	}
	close(g.open[0])
	_ = result(w, first)
	close(g.open[4])
	if got := result(w, start(w, queued, 4)); got != 4 {
		t.Errorf("the slot afterwards: got %d", got)
	}
}

// Runs end while steps of theirs are about to start: each of them gives its slot back.
func TestRUN8_NoSlotIsLostWhenRunsEndWhileStepsBegin(t *testing.T) {
	races := flow[int, int]("races")
	w := newMemory(t)
	w.work(worker.Config{Concurrency: 2}, calls, work1.as(func(_ context.Context, n int) (int, error) { return n, nil }),
		as(races, func(ctx workflow.Context, n int) (int, error) {
			f := workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
				if err := workflow.Sleep(ctx, time.Duration(n%3)*time.Millisecond); err != nil {
					return 0, err
				}
				return work1.Call(ctx, n)
			})
			_, err := workflow.Select(ctx, f, wake.Case())
			return n, err
		}))
	var all []*workflow.Run[int]
	for n := range 200 {
		run := start(w, races, n)
		if n%2 == 0 {
			_ = run.Cancel(w.ctx, "race")
		} else if err := wake.Send(w.ctx, run, "race"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
			t.Fatal(err)
		}
		all = append(all, run)
	}
	for _, run := range all {
		_, _ = run.Result(w.ctx)
	}
	for range 4 {
		_ = result(w, start(w, one, 1))
	}
}

func TestRUN8_TheRunsOwnOutcomeStandsIfItSwallowsTheCancel(t *testing.T) {
	stubborn := flow[int, int]("stubborn")
	w := newMemory(t)
	w.work(worker.Config{}, as(stubborn, func(ctx workflow.Context, n int) (int, error) {
		_ = workflow.Sleep(ctx, time.Hour)
		if n == 0 {
			return 0, errors.New("an error of its own")
		}
		return n, nil
	}))
	completes, fails := start(w, stubborn, 7), start(w, stubborn, 0)
	for _, run := range []*workflow.Run[int]{completes, fails} {
		w.reach(run, event.WaitCreated, 1)
		if err := run.Cancel(w.ctx, "please"); err != nil {
			t.Fatal(err)
		}
	}
	if got := result(w, completes); got != 7 {
		t.Errorf("got %d", got)
	}
	if err := failure(w, fails); err.Status != workflow.StatusFailed || errors.Is(err, workflow.ErrCanceled) {
		t.Errorf("got %v, want a failed run", err)
	}
}

func TestRUN8_CleanupRunsUnderADetachedContext(t *testing.T) {
	cleans := flow[int, int]("cleans")
	onEachStore(t, func(t *testing.T, w *world) {
		var got seen[int]
		w.work(worker.Config{}, work1.as(func(_ context.Context, n int) (int, error) { got.add(n); return n, nil }),
			as(cleans, func(ctx workflow.Context, _ int) (int, error) {
				defer func() {
					if _, err := work1.Call(ctx, 1); !errors.Is(err, workflow.ErrCanceled) {
						t.Errorf("a step under the canceled context: %v", err)
					}
					d := workflow.Detached(workflow.WithValue(ctx, "k", "v"))
					if _, err := work1.Call(d, 2); err != nil || d.Err() != nil || d.Value("k") != "v" {
						t.Errorf("a step under the detached context: %v, %v, %v", err, d.Err(), d.Value("k"))
					}
					if err := workflow.Sleep(d, time.Millisecond); err != nil {
						t.Errorf("a sleep under the detached context: %v", err)
					}
				}()
				return 0, workflow.Sleep(ctx, time.Hour)
			}))
		run := start(w, cleans, 1)
		w.reach(run, event.WaitCreated, 1)
		if err := run.Cancel(w.ctx, "x"); err != nil {
			t.Fatal(err)
		}
		if err := failure(w, run); err.Status != workflow.StatusCanceled {
			t.Errorf("got %v", err)
		}
		if diff := cmp.Diff([]int{2}, got.get()); diff != "" {
			t.Errorf("executed steps (-want +got):\n%s", diff)
		}
	})
}

// The step completes although it is asked to stop: what it did counts.
func TestRUN8_AStepThatSucceedsAllTheSameKeepsItsResult(t *testing.T) {
	w := newMemory(t)
	begun := make(chan struct{})
	w.work(worker.Config{}, calls, work1.as(func(ctx context.Context, n int) (int, error) {
		close(begun)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, workflow.ErrCanceled) {
			t.Errorf("the cause is %v, want ErrCanceled", cause)
		}
		return n, nil
	}))
	run := start(w, one, 9)
	<-begun // before that, it would not begin any more
	if err := run.Cancel(w.ctx, "x"); err != nil {
		t.Fatal(err)
	}
	if got := result(w, run); got != 9 {
		t.Errorf("got %d", got)
	}
}

func TestRUN8_CancelOfAFinishedRunIsATypedError(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, runs)
		run := start(w, echo, "x")
		_ = result(w, run)
		if err := run.Cancel(w.ctx, "late"); !errors.Is(err, workflow.ErrRunTerminal) || !containsAll(err.Error(), "completed") {
			t.Errorf("got %v, want ErrRunTerminal with the status", err)
		}
	})
}

func TestRUN8_AttemptsBeforeTheCancelAreCounted(t *testing.T) {
	slow := aStep[int, int]("slow", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Hour}})
	waits := flow[int, int]("waits")
	w := newMemory(t)
	w.work(worker.Config{}, as(waits, slow.Call), slow.as(func(context.Context, int) (int, error) { return 0, errBusy }))
	run := start(w, waits, 1)
	w.reach(run, event.StepRetrying, 1)
	if err := run.Cancel(w.ctx, "x"); err != nil {
		t.Fatal(err)
	}
	var failed *workflow.StepError
	if err := failure(w, run); !errors.As(err, &failed) || failed.Attempts != 1 || failed.Code != event.CodeCanceled {
		t.Errorf("got %v, want code cancelled after 1 attempt", err)
	}
}
