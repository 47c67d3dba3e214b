package steps_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// shop has a method that is a step. Its receiver contains the dependency of the step.
type shop struct{ price int }

func (s *shop) total(_ context.Context, n int) (int, error) { return s.price * n, nil }

func TestSTEP1_AFunctionAndAMethodAreSteps(t *testing.T) {
	total := flowtest.AStep[int, int]("total", shim.Policy{})
	sum := flowtest.Flow[int, int]("sum")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, total.As((&shop{price: 5}).total), flowtest.As(sum, total.Call))
	if got, err := sum.Execute(w.Ctx, w.Client, 3); got != 15 || err != nil {
		t.Errorf("got %d, %v, want 15", got, err)
	}
}

func TestSTEP2_ACompletedStepNeverRunsAgain(t *testing.T) {
	twice := flowtest.Flow[int, []int]("twice")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var executed atomic.Int32
		bindings := []flowtest.Binding{
			flowtest.Work1.As(func(_ context.Context, n int) (int, error) { return n * int(executed.Add(1)), nil }),
			flowtest.As(twice, func(ctx workflow.Context, n int) ([]int, error) {
				a, err := flowtest.Work1.Call(ctx, n)
				if err != nil {
					return nil, err
				}
				if _, err := flowtest.Wake.Receive(ctx); err != nil {
					return nil, err
				}
				b, err := flowtest.Work1.Call(ctx, n)
				return []int{a, b}, err
			}),
		}
		first := w.Work(worker.Config{}, bindings...)
		run := flowtest.Start(w, twice, 10)
		w.Reach(run, event.WaitCreated, 1)
		first.Stop()
		w.Work(worker.Config{}, bindings...)
		if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); !slices.Equal(got, []int{10, 20}) || executed.Load() != 2 {
			t.Errorf("got %v after %d executions, want [10 20] after 2", got, executed.Load())
		}
	})
}

func TestSTEP2_AnInterruptedStepRestartsFromItsBeginning(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var begun atomic.Int32
		impl := flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			if begun.Add(1) == 1 {
				<-ctx.Done() // blocks until the worker stops
				return 0, ctx.Err()
			}
			return n + step.Attempt(ctx), nil
		})
		first := w.Work(worker.Config{Grace: time.Millisecond}, impl, flowtest.Calls)
		run := flowtest.Start(w, flowtest.One, 40)
		w.Eventually("the step has begun", func() bool { return begun.Load() == 1 })
		first.Stop()
		w.Work(worker.Config{}, impl, flowtest.Calls)
		if got := flowtest.Result(w, run); got != 42 {
			t.Errorf("got %d, want 42: the second attempt", got)
		}
		if n := len(flowtest.Filter(w.Log(run), event.StepStarted)); n != 2 {
			t.Errorf("the log has %d step_started, want 2", n)
		}
	})
}

// TestSTEP3_KeysAreTheSameInWhateverOrderStepsComplete proves that steps have the same keys in
// whatever order they complete.
func TestSTEP3_KeysAreTheSameInWhateverOrderStepsComplete(t *testing.T) {
	fan := flowtest.Flow[int, workflow.None]("fan")
	keys := func(t *testing.T, reverse bool) []string {
		w := flowtest.NewMemory(t)
		var gate [4]chan struct{}
		for i := range gate {
			gate[i] = make(chan struct{})
		}
		w.Work(worker.Config{}, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			if c, _ := step.Current(ctx); strings.Contains(c.Key, "[") {
				return n, nil
			}
			select {
			case <-gate[n]:
			case <-ctx.Done():
			}
			return n, ctx.Err()
		}), flowtest.As(fan, func(ctx workflow.Context, _ int) (workflow.None, error) {
			_, err := workflow.Map(ctx, []int{0, 1, 2, 3}, func(ctx workflow.Context, n int) (int, error) {
				v, err := flowtest.Work1.Call(ctx, n)
				if err != nil {
					return 0, err
				}
				again := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.Work1.CallKey(ctx, fmt.Sprint("k", v), v) })
				return again.Get(ctx)
			})
			return workflow.None{}, err
		}))
		run := flowtest.Start(w, fan, 0)
		w.Reach(run, event.StepStarted, 4)
		order := []int{0, 1, 2, 3}
		if reverse {
			slices.Reverse(order)
		}
		for i, n := range order {
			close(gate[n])
			w.Reach(run, event.StepCompleted, i+1)
		}
		_ = flowtest.Result(w, run)
		var all []string
		for _, e := range flowtest.Filter(w.Log(run), event.StepCreated) {
			all = append(all, e.Key)
		}
		slices.Sort(all)
		return all
	}
	var want []string
	for i := range 4 {
		want = append(want, fmt.Sprintf("fan/map#1.%d/go#1/test.work1[k%d]", i+1, i), fmt.Sprintf("fan/map#1.%d/test.work1#1", i+1))
	}
	for name, reverse := range map[string]bool{"first to last": false, "last to first": true} {
		if diff := cmp.Diff(want, keys(t, reverse)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSTEP3_OrdinalsCountPerScopeAndDeclaredKeysReplaceThem(t *testing.T) {
	keyed := flowtest.Flow[workflow.None, workflow.None]("keyed")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Work1.As(func(_ context.Context, n int) (int, error) { return n, nil }),
		flowtest.As(keyed, func(ctx workflow.Context, _ workflow.None) (workflow.None, error) {
			call := func(ctx workflow.Context) error { _, err := flowtest.Work1.Call(ctx, 1); return err }
			_ = call(ctx)
			_, _ = flowtest.Work1.CallKey(ctx, "o-7", 1)
			_ = call(workflow.WithStepOptions(ctx, workflow.Key("mine")))
			_, _ = flowtest.Work1.CallKey(ctx, "o-7", 1)
			_ = call(ctx)
			branch := workflow.GoErr(ctx, call)
			_, err := branch.Get(ctx)
			return workflow.None{}, err
		}))
	run := flowtest.Start(w, keyed, workflow.None{})
	_ = flowtest.Result(w, run)
	var got []string
	for _, e := range flowtest.Filter(w.Log(run), event.StepCreated) {
		got = append(got, e.Key)
	}
	want := []string{
		"keyed/test.work1#1", "keyed/test.work1[o-7]", "keyed/test.work1[mine]", "keyed/test.work1[o-7]#2",
		"keyed/test.work1#2", "keyed/go#1/test.work1#1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func explode(n int) int {
	zero := 0
	return n / zero
}

func TestSTEP6_APanicIsAFailedAttemptWithTheUsersLine(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Calls, flowtest.Runs, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			if n == 1 && step.Attempt(ctx) == 2 {
				return 7, nil
			}
			return explode(n), nil
		}))
		if got, err := flowtest.One.Execute(w.Ctx, w.Client, 1); got != 7 || err != nil {
			t.Errorf("a panic and a success: got %d, %v", got, err)
		}
		err := flowtest.Failure(w, flowtest.Start(w, flowtest.One, 2))
		var failed *workflow.StepError
		if !errors.As(err, &failed) || failed.Code != event.CodePanic || failed.Attempts != 4 {
			t.Fatalf("got %v, want a *StepError with code panic after 4 attempts", err)
		}
		if !flowtest.ContainsAll(failed.Error(), "divide by zero") || !flowtest.ContainsAll(failed.Stack(), "step_test.go", "steps_test.explode") {
			t.Errorf("the error %q with stack\n%s\ndoes not tell what happened where", failed, failed.Stack())
		}
		if got, err := flowtest.Echo.Execute(w.Ctx, w.Client, "alive"); got != "<alive>" || err != nil {
			t.Errorf("the worker after the panics: %q, %v", got, err)
		}
	})
}

// moody is an error whose methods panic. Unwrap panics only for a nil pointer.
type moody struct{ inner error }

func (m *moody) Error() string { return "moody" }

func (m *moody) Unwrap() error { return m.inner } // panics if m is nil

func (m *moody) As(any) bool { panic("do not ask me") }

func (m *moody) MarshalJSON() ([]byte, error) { panic("nor this") }

func TestSTEP6_ErrorsWhoseMethodsPanicAreFailuresAndDoNotKillTheWorker(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Calls, flowtest.Runs, flowtest.Work1.As(func(_ context.Context, n int) (int, error) {
		switch n {
		case 1:
			return 0, (*moody)(nil)
		case 2:
			return 0, &moody{inner: errors.New("x")}
		case 3:
			return 0, (*workflow.StepError)(nil)
		}
		return 0, fmt.Errorf("wrapped: %w", (*moody)(nil))
	}))
	for n := 1; n <= 4; n++ {
		err := flowtest.Failure(w, flowtest.Start(w, flowtest.One, n))
		var failed *workflow.StepError
		if !errors.As(err, &failed) || failed.Attempts != 4 {
			t.Errorf("%d: got %v, want a *StepError after 4 attempts", n, err)
		}
	}
	if _, err := flowtest.Echo.Execute(w.Ctx, w.Client, "alive"); err != nil {
		t.Error(err)
	}
}

func TestSTEP6_GoexitInAStepIsAFailedAttempt(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{Concurrency: 1}, flowtest.Calls, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		if step.Attempt(ctx) < n {
			runtime.Goexit()
		}
		return n, nil
	}))
	if got, err := flowtest.One.Execute(w.Ctx, w.Client, 3); got != 3 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	err := flowtest.Failure(w, flowtest.Start(w, flowtest.One, 9))
	var failed *workflow.StepError
	if !errors.As(err, &failed) || failed.Code != event.CodePanic || !flowtest.ContainsAll(failed.Error(), "Goexit") {
		t.Errorf("got %v", err)
	}
}

func TestSTEP7_InterruptedNonIdempotentStepFailsInsteadOfRunningTwice(t *testing.T) {
	once := flowtest.AStep[int, int]("once", shim.Policy{NonIdempotent: true, Retry: flowtest.Quick})
	pay := flowtest.Flow[int, int]("pay")
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewWorld(t, open(t), workflow.ClientConfig{})
			var executed atomic.Int32
			impl := once.As(func(ctx context.Context, n int) (int, error) {
				executed.Add(1)
				<-ctx.Done()
				return n, ctx.Err()
			})
			code := flowtest.As(pay, once.Call)
			first := w.Work(worker.Config{Grace: time.Millisecond}, impl, code)
			run := flowtest.Start(w, pay, 1)
			w.Eventually("the step has begun", func() bool { return executed.Load() == 1 })
			first.Stop()
			w.Work(worker.Config{}, impl, code)
			err := flowtest.Failure(w, run)
			var failed *workflow.StepError
			if !errors.As(err, &failed) || failed.Code != event.CodeInterrupted || failed.Step != "test.once" || failed.Attempts != 1 {
				t.Errorf("got %v, want a *StepError with code interrupted", err)
			}
			if text := fmt.Sprint(failed); !flowtest.ContainsAll(text, "stopped") || strings.Contains(text, "died") {
				t.Errorf("the message is %q, want that the worker stopped", text)
			}
			if executed.Load() != 1 {
				t.Errorf("the step was executed %d times", executed.Load())
			}
		})
	}
}

func TestSTEP7_ANonIdempotentStepWhoseWorkerDiedFailsInsteadOfRunningTwice(t *testing.T) {
	once := flowtest.AStep[int, int]("once", shim.Policy{NonIdempotent: true, Retry: flowtest.Quick})
	pay := flowtest.Flow[int, int]("pay")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var executed atomic.Int32
		w.Keep(2, worker.Config{}, func(die func()) []flowtest.Binding {
			return []flowtest.Binding{flowtest.As(pay, once.Call), once.As(func(_ context.Context, n int) (int, error) {
				executed.Add(1)
				die()
				return n, nil
			})}
		})
		err := flowtest.Failure(w, flowtest.Start(w, pay, 1))
		var failed *workflow.StepError
		if !errors.As(err, &failed) || failed.Code != event.CodeInterrupted || failed.Attempts != 1 || !flowtest.ContainsAll(failed.Error(), "died") {
			t.Errorf("got %v, want a *StepError with code interrupted that says that the worker died", err)
		}
		if n := executed.Load(); n != 1 {
			t.Errorf("the step was executed %d times", n)
		}
	})
}

func TestSTEP7_ANonIdempotentStepThatReturnedAnErrorIsTriedAgain(t *testing.T) {
	once := flowtest.AStep[int, int]("once", shim.Policy{NonIdempotent: true, Retry: flowtest.Quick})
	pay := flowtest.Flow[int, int]("pay")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(pay, once.Call), once.As(func(ctx context.Context, n int) (int, error) {
		if step.Attempt(ctx) == 1 {
			return 0, errors.New("refused before it had any effect")
		}
		return n, nil
	}))
	if got, err := pay.Execute(w.Ctx, w.Client, 5); got != 5 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestSTEP2_StepsThatEveryWorkerLeavesUnendedUseUpTheirAttempts(t *testing.T) {
	w := flowtest.NewWorld(t, flowtest.OpenSQLite(t, filepath.Join(t.TempDir(), "flows.db")), workflow.ClientConfig{})
	var executed atomic.Int32
	impl := flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		executed.Add(1)
		<-ctx.Done()
		return n, ctx.Err()
	})
	w.Work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Hour}, impl, flowtest.Calls)
	run := flowtest.Start(w, flowtest.One, 1)
	for n := int32(1); n <= 4; n++ {
		w.Eventually("the step has begun", func() bool { return executed.Load() == n })
		w.CloseSessions()
	}
	err := flowtest.Failure(w, run)
	var failed *workflow.StepError
	if !errors.As(err, &failed) || failed.Code != event.CodeInterrupted || failed.Attempts != 4 || executed.Load() != 4 || !flowtest.ContainsAll(failed.Error(), "died") {
		t.Errorf("got %v after %d executions, want code interrupted after 4", err, executed.Load())
	}
}

// TestSTEP2_StopsUseUpNoAttempts proves that the stop of a worker does not count as a failed
// attempt. A step with a single attempt survives any number of stops.
func TestSTEP2_StopsUseUpNoAttempts(t *testing.T) {
	single := flowtest.AStep[int, int]("single", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	pay := flowtest.Flow[int, int]("pay")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var executed atomic.Int32
		stuck := make(chan struct{})
		defer close(stuck)
		const stops = 6
		impl := single.As(func(ctx context.Context, n int) (int, error) {
			switch nth := executed.Add(1); {
			case nth > stops:
				return n, nil
			case nth%3 == 0:
				<-stuck // this attempt ignores the end of its context, so the worker abandons it
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		code := flowtest.As(pay, single.Call)
		run := flowtest.Start(w, pay, 7)
		for n := int32(1); n <= stops; n++ {
			bound := flowtest.ObeysWithin(flowtest.Patience)
			if n%3 == 0 { // the attempt will not end
				bound = flowtest.ObeysWithin(10 * time.Millisecond)
			}
			wk := w.Work(worker.Config{Grace: time.Millisecond}, impl, code, bound)
			w.Eventually("the step has begun", func() bool { return executed.Load() == n })
			wk.Stop()
		}
		w.Work(worker.Config{}, impl, code)
		if got := flowtest.Result(w, run); got != 7 {
			t.Errorf("got %d", got)
		}
		// The worker logs nothing about an attempt that ends in time. For an attempt that hangs, it
		// logs the line of code.
		if n := w.Logs.Count("grace period is over: a step is still running"); n != stops/3 || !flowtest.ContainsAll(w.Logs.String(), "step_test.go") {
			t.Errorf("%d steps are said to be running still, or not where, want %d", n, stops/3)
		}
		if n := len(flowtest.Filter(w.Log(run), event.StepRetrying)); n != stops {
			t.Errorf("the log has %d step_retrying, want one for each of %d stops", n, stops)
		}
		if inspector, ok := store.As[store.Inspector](w.Store); ok {
			snap, err := inspector.Inspect(w.Ctx)
			if err != nil || len(snap.Audit) > 0 {
				t.Errorf("recoveries: %v, %v, want none", snap.Audit, err)
			}
		}
	})
}

// TestSTEP7_AResultThatAStopBroughtForthIsNoInterruption proves that the value which a step returns
// after the end of its context is its result. This also holds for a step that must not be executed
// twice.
func TestSTEP7_AResultThatAStopBroughtForthIsNoInterruption(t *testing.T) {
	once := flowtest.AStep[int, int]("once", shim.Policy{NonIdempotent: true, Retry: flowtest.Quick})
	pay := flowtest.Flow[int, int]("pay")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan struct{}, 2)
		impl := once.As(func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return n, nil
		})
		first := w.Work(worker.Config{Grace: time.Millisecond}, impl, flowtest.As(pay, once.Call))
		run := flowtest.Start(w, pay, 7)
		<-begun
		first.Stop()
		w.Work(worker.Config{}, impl, flowtest.As(pay, once.Call))
		if got := flowtest.Result(w, run); got != 7 || len(begun) > 0 {
			t.Errorf("got %d, executed again: %t", got, len(begun) > 0)
		}
	})
}
