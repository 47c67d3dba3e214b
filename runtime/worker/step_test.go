package worker_test

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
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// work1 is a step that tests give different code.
var (
	work1 = aStep[int, int]("work1", shim.Policy{Retry: quick})
	one   = flow[int, int]("one") // calls work1 once
	calls = as(one, work1.Call)
)

// shop has a step that is a method: its dependency lives in the receiver.
type shop struct{ price int }

func (s *shop) total(_ context.Context, n int) (int, error) { return s.price * n, nil }

func TestSTEP1_AFunctionAndAMethodAreSteps(t *testing.T) {
	total := aStep[int, int]("total", shim.Policy{})
	sum := flow[int, int]("sum")
	w := newMemory(t)
	w.work(worker.Config{}, total.as((&shop{price: 5}).total), as(sum, total.Call))
	if got, err := sum.Execute(w.ctx, w.client, 3); got != 15 || err != nil {
		t.Errorf("got %d, %v, want 15", got, err)
	}
}

func TestSTEP2_ACompletedStepNeverRunsAgain(t *testing.T) {
	twice := flow[int, []int]("twice")
	onEachStore(t, func(t *testing.T, w *world) {
		var executed atomic.Int32
		bindings := []binding{
			work1.as(func(_ context.Context, n int) (int, error) { return n * int(executed.Add(1)), nil }),
			as(twice, func(ctx workflow.Context, n int) ([]int, error) {
				a, err := work1.Call(ctx, n)
				if err != nil {
					return nil, err
				}
				if _, err := wake.Receive(ctx); err != nil {
					return nil, err
				}
				b, err := work1.Call(ctx, n)
				return []int{a, b}, err
			}),
		}
		first := w.work(worker.Config{}, bindings...)
		run := start(w, twice, 10)
		w.reach(run, event.WaitCreated, 1)
		first.stop()
		w.work(worker.Config{}, bindings...)
		if err := wake.Send(w.ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		if got := result(w, run); !slices.Equal(got, []int{10, 20}) || executed.Load() != 2 {
			t.Errorf("got %v after %d executions, want [10 20] after 2", got, executed.Load())
		}
	})
}

func TestSTEP2_AnInterruptedStepRestartsFromItsBeginning(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		var begun atomic.Int32
		impl := work1.as(func(ctx context.Context, n int) (int, error) {
			if begun.Add(1) == 1 {
				<-ctx.Done() // until the worker gives up on it
				return 0, ctx.Err()
			}
			return n + step.Attempt(ctx), nil
		})
		first := w.work(worker.Config{Grace: time.Millisecond}, impl, calls)
		run := start(w, one, 40)
		w.eventually("the step has begun", func() bool { return begun.Load() == 1 })
		first.stop()
		w.work(worker.Config{}, impl, calls)
		if got := result(w, run); got != 42 {
			t.Errorf("got %d, want 42: the second attempt", got)
		}
		if n := len(filter(w.log(run), event.StepStarted)); n != 2 {
			t.Errorf("the log has %d step_started, want 2", n)
		}
	})
}

// Whatever order steps complete in, they get the same keys.
func TestSTEP3_KeysAreTheSameInWhateverOrderStepsComplete(t *testing.T) {
	fan := flow[int, workflow.None]("fan")
	keys := func(t *testing.T, reverse bool) []string {
		w := newMemory(t)
		var gate [4]chan struct{}
		for i := range gate {
			gate[i] = make(chan struct{})
		}
		w.work(worker.Config{}, work1.as(func(ctx context.Context, n int) (int, error) {
			if c, _ := step.Current(ctx); strings.Contains(c.Key, "[") {
				return n, nil
			}
			select {
			case <-gate[n]:
			case <-ctx.Done():
			}
			return n, ctx.Err()
		}), as(fan, func(ctx workflow.Context, _ int) (workflow.None, error) {
			_, err := workflow.Map(ctx, []int{0, 1, 2, 3}, func(ctx workflow.Context, n int) (int, error) {
				v, err := work1.Call(ctx, n)
				if err != nil {
					return 0, err
				}
				again := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return work1.CallKey(ctx, fmt.Sprint("k", v), v) })
				return again.Get(ctx)
			})
			return workflow.None{}, err
		}))
		run := start(w, fan, 0)
		w.reach(run, event.StepStarted, 4)
		order := []int{0, 1, 2, 3}
		if reverse {
			slices.Reverse(order)
		}
		for i, n := range order {
			close(gate[n])
			w.reach(run, event.StepCompleted, i+1)
		}
		_ = result(w, run)
		var all []string
		for _, e := range filter(w.log(run), event.StepCreated) {
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
	keyed := flow[workflow.None, workflow.None]("keyed")
	w := newMemory(t)
	w.work(worker.Config{}, work1.as(func(_ context.Context, n int) (int, error) { return n, nil }),
		as(keyed, func(ctx workflow.Context, _ workflow.None) (workflow.None, error) {
			call := func(ctx workflow.Context) error { _, err := work1.Call(ctx, 1); return err }
			_ = call(ctx)
			_, _ = work1.CallKey(ctx, "o-7", 1)
			_ = call(workflow.WithStepOptions(ctx, workflow.Key("mine")))
			_, _ = work1.CallKey(ctx, "o-7", 1)
			_ = call(ctx)
			branch := workflow.GoErr(ctx, call)
			_, err := branch.Get(ctx)
			return workflow.None{}, err
		}))
	run := start(w, keyed, workflow.None{})
	_ = result(w, run)
	var got []string
	for _, e := range filter(w.log(run), event.StepCreated) {
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
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, calls, runs, work1.as(func(ctx context.Context, n int) (int, error) {
			if n == 1 && step.Attempt(ctx) == 2 {
				return 7, nil
			}
			return explode(n), nil
		}))
		if got, err := one.Execute(w.ctx, w.client, 1); got != 7 || err != nil {
			t.Errorf("a panic and a success: got %d, %v", got, err)
		}
		err := failure(w, start(w, one, 2))
		var failed *workflow.StepError
		if !errors.As(err, &failed) || failed.Code != event.CodePanic || failed.Attempts != 4 {
			t.Fatalf("got %v, want a *StepError with code panic after 4 attempts", err)
		}
		if !containsAll(failed.Error(), "divide by zero") || !containsAll(failed.Stack(), "step_test.go", "worker_test.explode") {
			t.Errorf("the error %q with stack\n%s\ndoes not tell what happened where", failed, failed.Stack())
		}
		if got, err := echo.Execute(w.ctx, w.client, "alive"); got != "<alive>" || err != nil {
			t.Errorf("the worker after the panics: %q, %v", got, err)
		}
	})
}

// moody is an error that is hard to look at.
type moody struct{ inner error }

func (m *moody) Error() string                { return "moody" }
func (m *moody) Unwrap() error                { return m.inner } // panics for a nil pointer
func (m *moody) As(any) bool                  { panic("do not ask me") }
func (m *moody) MarshalJSON() ([]byte, error) { panic("nor this") }

func TestSTEP6_ErrorsWhoseMethodsPanicAreFailuresAndDoNotKillTheWorker(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, calls, runs, work1.as(func(_ context.Context, n int) (int, error) {
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
		err := failure(w, start(w, one, n))
		var failed *workflow.StepError
		if !errors.As(err, &failed) || failed.Attempts != 4 {
			t.Errorf("%d: got %v, want a *StepError after 4 attempts", n, err)
		}
	}
	if _, err := echo.Execute(w.ctx, w.client, "alive"); err != nil {
		t.Error(err)
	}
}

func TestSTEP6_GoexitInAStepIsAFailedAttempt(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{Concurrency: 1}, calls, work1.as(func(ctx context.Context, n int) (int, error) {
		if step.Attempt(ctx) < n {
			runtime.Goexit()
		}
		return n, nil
	}))
	if got, err := one.Execute(w.ctx, w.client, 3); got != 3 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
	err := failure(w, start(w, one, 9))
	var failed *workflow.StepError
	if !errors.As(err, &failed) || failed.Code != event.CodePanic || !containsAll(failed.Error(), "Goexit") {
		t.Errorf("got %v", err)
	}
}

func TestSTEP7_InterruptedNonIdempotentStepFailsInsteadOfRunningTwice(t *testing.T) {
	once := aStep[int, int]("once", shim.Policy{NonIdempotent: true, Retry: quick})
	pay := flow[int, int]("pay")
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open(t), workflow.ClientConfig{})
			var executed atomic.Int32
			impl := once.as(func(ctx context.Context, n int) (int, error) {
				executed.Add(1)
				<-ctx.Done()
				return n, ctx.Err()
			})
			code := as(pay, once.Call)
			first := w.work(worker.Config{Grace: time.Millisecond}, impl, code)
			run := start(w, pay, 1)
			w.eventually("the step has begun", func() bool { return executed.Load() == 1 })
			first.stop()
			w.work(worker.Config{}, impl, code)
			err := failure(w, run)
			var failed *workflow.StepError
			if !errors.As(err, &failed) || failed.Code != event.CodeInterrupted || failed.Step != "test.once" || failed.Attempts != 1 {
				t.Errorf("got %v, want a *StepError with code interrupted", err)
			}
			if text := fmt.Sprint(failed); !containsAll(text, "stopped") || strings.Contains(text, "died") {
				t.Errorf("the message is %q, want that the worker stopped", text)
			}
			if executed.Load() != 1 {
				t.Errorf("the step was executed %d times", executed.Load())
			}
		})
	}
}

func TestSTEP7_ANonIdempotentStepThatReturnedAnErrorIsTriedAgain(t *testing.T) {
	once := aStep[int, int]("once", shim.Policy{NonIdempotent: true, Retry: quick})
	pay := flow[int, int]("pay")
	w := newMemory(t)
	w.work(worker.Config{}, as(pay, once.Call), once.as(func(ctx context.Context, n int) (int, error) {
		if step.Attempt(ctx) == 1 {
			return 0, errors.New("refused before it had any effect")
		}
		return n, nil
	}))
	if got, err := pay.Execute(w.ctx, w.client, 5); got != 5 || err != nil {
		t.Errorf("got %d, %v", got, err)
	}
}

// closeSessions ends all sessions under their workers, as if these were dead: they
// have not been heard of for long.
func (w *world) closeSessions() {
	w.t.Helper()
	inspector, _ := store.As[store.Inspector](w.store)
	snap, err := inspector.Inspect(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for id, l := range snap.Leases {
		if err := w.store.CloseSession(w.ctx, l.Partition, id); err != nil {
			w.t.Fatal(err)
		}
	}
}

func TestSTEP2_StepsThatEveryWorkerLeavesUnendedUseUpTheirAttempts(t *testing.T) {
	w := newWorld(t, openSQLite(t, filepath.Join(t.TempDir(), "flows.db")), workflow.ClientConfig{})
	var executed atomic.Int32
	impl := work1.as(func(ctx context.Context, n int) (int, error) {
		executed.Add(1)
		<-ctx.Done()
		return n, ctx.Err()
	})
	w.work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Hour}, impl, calls)
	run := start(w, one, 1)
	for n := int32(1); n <= 4; n++ {
		w.eventually("the step has begun", func() bool { return executed.Load() == n })
		w.closeSessions()
	}
	err := failure(w, run)
	var failed *workflow.StepError
	if !errors.As(err, &failed) || failed.Code != event.CodeInterrupted || failed.Attempts != 4 || executed.Load() != 4 || !containsAll(failed.Error(), "died") {
		t.Errorf("got %v after %d executions, want code interrupted after 4", err, executed.Load())
	}
}

// A step with a single attempt outlives any number of stops: none of them failed it.
func TestSTEP2_StopsUseUpNoAttempts(t *testing.T) {
	single := aStep[int, int]("single", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	pay := flow[int, int]("pay")
	onEveryStore(t, func(t *testing.T, w *world) {
		var executed atomic.Int32
		stuck := make(chan struct{})
		defer close(stuck)
		const stops = 6
		impl := single.as(func(ctx context.Context, n int) (int, error) {
			switch nth := executed.Add(1); {
			case nth > stops:
				return n, nil
			case nth%3 == 0:
				<-stuck // ignores that it must end: it is abandoned
			}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		code := as(pay, single.Call)
		run := start(w, pay, 7)
		for n := int32(1); n <= stops; n++ {
			bound := obeysWithin(patience)
			if n%3 == 0 { // it never ends
				bound = obeysWithin(10 * time.Millisecond)
			}
			wk := w.work(worker.Config{Grace: time.Millisecond}, impl, code, bound)
			w.eventually("the step has begun", func() bool { return executed.Load() == n })
			wk.stop()
		}
		w.work(worker.Config{}, impl, code)
		if got := result(w, run); got != 7 {
			t.Errorf("got %d", got)
		}
		// What obeys is no news; what hangs is told with the line where it does.
		if n := w.logs.count("grace period is over: a step is still running"); n != stops/3 || !containsAll(w.logs.String(), "step_test.go") {
			t.Errorf("%d steps are said to be running still, or not where, want %d", n, stops/3)
		}
		if n := len(filter(w.log(run), event.StepRetrying)); n != stops {
			t.Errorf("the log has %d step_retrying, want one for each of %d stops", n, stops)
		}
		if inspector, ok := store.As[store.Inspector](w.store); ok {
			snap, err := inspector.Inspect(w.ctx)
			if err != nil || len(snap.Audit) > 0 {
				t.Errorf("recoveries: %v, %v, want none", snap.Audit, err)
			}
		}
	})
}

// The value that a step returns after it was told to end is its result, even if it may not run twice.
func TestSTEP7_AResultThatAStopBroughtForthIsNoInterruption(t *testing.T) {
	once := aStep[int, int]("once", shim.Policy{NonIdempotent: true, Retry: quick})
	pay := flow[int, int]("pay")
	onEveryStore(t, func(t *testing.T, w *world) {
		begun := make(chan struct{}, 2)
		impl := once.as(func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return n, nil
		})
		first := w.work(worker.Config{Grace: time.Millisecond}, impl, as(pay, once.Call))
		run := start(w, pay, 7)
		<-begun
		first.stop()
		w.work(worker.Config{}, impl, as(pay, once.Call))
		if got := result(w, run); got != 7 || len(begun) > 0 {
			t.Errorf("got %d, executed again: %t", got, len(begun) > 0)
		}
	})
}
