package steps_test

import (
	"context"
	"errors"
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

func TestSTEP4_AnAttemptThatTakesTooLongIsCanceledAndRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		policy shim.Policy
		opts   []workflow.StepOption
		want   time.Duration
	}{
		"default":       {shim.Policy{}, nil, 10 * time.Minute},
		"of the step":   {shim.Policy{Timeout: 3 * time.Second}, nil, 3 * time.Second},
		"of an options": {shim.Policy{Timeout: 3 * time.Second}, []workflow.StepOption{workflow.AttemptTimeout(time.Hour)}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			slow := flowtest.AStep[int, int]("slow", tt.policy)
			waits := flowtest.Flow[int, int]("waits")
			w := flowtest.NewVirtual(t)
			begun, ended := make(chan struct{}), make(chan error, 1)
			w.Work(worker.Config{}, slow.As(func(ctx context.Context, n int) (int, error) {
				if step.Attempt(ctx) == 2 {
					return n, nil
				}
				if d, ok := ctx.Deadline(); !ok || d.Sub(w.Clock.Now()) != tt.want {
					t.Errorf("the deadline is %v from now, %v, want %v", d.Sub(w.Clock.Now()), ok, tt.want)
				}
				close(begun)
				<-ctx.Done()
				ended <- ctx.Err()
				return 0, ctx.Err()
			}), flowtest.As(waits, func(ctx workflow.Context, n int) (int, error) {
				return slow.Call(workflow.WithStepOptions(ctx, tt.opts...), n)
			}))
			run := flowtest.Start(w, waits, 5)
			<-begun
			w.Clock.Advance(tt.want - time.Millisecond)
			select {
			case err := <-ended:
				t.Fatalf("ended too early: %v", err)
			default:
			}
			w.Clock.Advance(time.Millisecond)
			if err := <-ended; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the context said %v, want context.DeadlineExceeded", err)
			}
			if e := w.Reach(run, event.StepRetrying, 1); e.Failure.Code != event.CodeTimeout {
				t.Errorf("got code %s, want timeout", e.Failure.Code)
			}
			w.Clock.Advance(time.Second)
			if got := flowtest.Result(w, run); got != 5 {
				t.Errorf("got %d", got)
			}
		})
	}
}

func TestSTEP4_AStepThatIgnoresItsContextIsLeftBehindAfterTheGracePeriod(t *testing.T) {
	deaf := flowtest.AStep[int, int]("deaf", shim.Policy{Timeout: time.Minute, Retry: workflow.RetryPolicy{Attempts: 1}})
	waits := flowtest.Flow[int, int]("waits")
	w := flowtest.NewVirtual(t)
	begun, release := make(chan struct{}), make(chan struct{})
	wk := w.Work(worker.Config{Grace: 5 * time.Second}, flowtest.As(waits, deaf.Call), deaf.As(func(context.Context, int) (int, error) {
		close(begun)
		<-release
		return 1, nil
	}))
	run := flowtest.Start(w, waits, 1)
	<-begun
	w.Clock.Advance(time.Minute)
	w.Clock.Advance(5 * time.Second)
	err := flowtest.Failure(w, run)
	var failed *workflow.StepError
	if !errors.As(err, &failed) || failed.Code != event.CodeTimeout || !flowtest.ContainsAll(failed.Error(), "1m0s", "watch its context") {
		t.Errorf("got %v, want code timeout", err)
	}
	if errors.Is(err, workflow.ErrTimeout) || errors.Is(failed, workflow.ErrTimeout) {
		t.Error("an attempt's timeout matches ErrTimeout: it cannot be told from the caller's own")
	}
	if logs := w.Logs.String(); !flowtest.ContainsAll(logs, "ignores its context", "test.deaf", "attempt_test.go") {
		t.Errorf("the log does not say where the step hangs:\n%s", logs)
	}
	close(release) // the step returns too late, without effect
	wk.Stop()
	if n := len(flowtest.Filter(w.Log(run), event.StepCompleted)); n != 0 {
		t.Errorf("the log has %d step_completed", n)
	}
}

func TestSTEP7_ANonIdempotentStepThatTimesOutIsNotRepeated(t *testing.T) {
	once := flowtest.AStep[int, int]("once", shim.Policy{NonIdempotent: true, Timeout: time.Minute})
	waits := flowtest.Flow[int, int]("waits")
	w := flowtest.NewVirtual(t)
	begun := make(chan struct{})
	w.Work(worker.Config{}, flowtest.As(waits, once.Call), once.As(func(ctx context.Context, _ int) (int, error) {
		close(begun) // panics in a second attempt
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	run := flowtest.Start(w, waits, 1)
	<-begun
	w.Clock.Advance(time.Minute)
	if err := flowtest.Failure(w, run); err.Code != event.CodeTimeout {
		t.Errorf("got %v, want code timeout", err)
	}
}

func TestSTEP8_TheContextTellsWhichAttemptThisIs(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var got flowtest.Seen[step.Call]
		var keys flowtest.Seen[string]
		impl := flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			c, ok := step.Current(ctx)
			if !ok || c.Attempt != step.Attempt(ctx) {
				t.Errorf("Current: %v, %v; Attempt: %d", c, ok, step.Attempt(ctx))
			}
			c.Tags["mine"] = "changed" // the change must not affect other code
			got.Add(c)
			keys.Add(step.IdempotencyKey(ctx))
			switch c.Attempt {
			case 1:
				return 0, flowtest.ErrBusy
			case 2:
				<-ctx.Done() // ends when the first worker stops
				return 0, ctx.Err()
			}
			return n, nil
		})
		tags := workflow.WithTags(map[string]string{"a": "b"})
		first := w.Work(worker.Config{Grace: time.Millisecond}, impl, flowtest.Calls)
		run := flowtest.Start(w, flowtest.One, 5, workflow.WithID("o"), tags)
		w.Eventually("the second attempt has begun", func() bool { return got.Len() == 2 })
		first.Stop()
		w.Work(worker.Config{}, impl, flowtest.Calls)
		_ = flowtest.Result(w, run)
		var want []step.Call
		for n := 1; n <= 3; n++ {
			want = append(want, step.Call{
				RunID: run.ID(), WorkflowID: "o", Workflow: "test.one", Step: "test.work1", Key: "one/test.work1#1", Attempt: n,
				Tags: map[string]string{"a": "b", "mine": "changed"},
			})
		}
		if diff := cmp.Diff(want, got.Get()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if info, err := run.Info(w.Ctx); err != nil || len(info.Tags) != 1 {
			t.Errorf("the step has changed the tags of its run: %v, %v", info.Tags, err)
		}
		k := keys.Get()
		if k[0] != k[1] || k[1] != k[2] || len(k[0]) != 32 {
			t.Errorf("the idempotency keys of the attempts are %q, want one of 32 characters", k)
		}
	})
}

func TestSTEP8_TheContextIsMadeFromTheBaseContext(t *testing.T) {
	type key struct{}
	w := flowtest.NewMemory(t)
	base := func() context.Context { return context.WithValue(context.Background(), key{}, 42) }
	w.Work(worker.Config{BaseContext: base}, flowtest.Calls, flowtest.Work1.As(func(ctx context.Context, _ int) (int, error) {
		n, _ := ctx.Value(key{}).(int)
		return n, nil
	}))
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.One, 1)); got != 42 {
		t.Errorf("got %d", got)
	}
}

func TestSTEP8_IdempotencyKeysOfOtherStepsAndRunsDiffer(t *testing.T) {
	several := flowtest.Flow[int, workflow.None]("several")
	w := flowtest.NewMemory(t)
	var keys flowtest.Seen[string]
	w.Work(worker.Config{}, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		keys.Add(step.IdempotencyKey(ctx))
		return n, nil
	}), flowtest.As(several, func(ctx workflow.Context, n int) (workflow.None, error) {
		_, err := workflow.Map(ctx, make([]int, n), flowtest.Work1.Call)
		return workflow.None{}, err
	}))
	for range 2 {
		_ = flowtest.Result(w, flowtest.Start(w, several, 3))
	}
	different := map[string]bool{}
	for _, k := range keys.Get() {
		different[k] = true
	}
	if len(different) != 6 {
		t.Errorf("6 steps have %d keys: %v", len(different), keys.Get())
	}
}

func TestSTEP8_TheNextAttemptReadsTheLastHeartbeat(t *testing.T) {
	type progress struct{ Done int }
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		if _, ok := store.As[store.StepDataStore](w.Store); !ok {
			t.Fatal("the store keeps no step data")
		}
		var told atomic.Int32
		impl := flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			last, ok := step.LastHeartbeat[progress](ctx)
			if _, wrong := step.LastHeartbeat[string](ctx); wrong {
				t.Error("the details were read as something else")
			}
			if want := 10 * (step.Attempt(ctx) - 1); ok != (want > 0) || last.Done != want {
				t.Errorf("attempt %d reads %v, %v, want %d", step.Attempt(ctx), last, ok, want)
			}
			for i := range 10 {
				if err := step.Heartbeat(ctx, progress{last.Done + i + 1}); err != nil {
					return 0, step.Fatal(err)
				}
			}
			told.Add(1)
			switch step.Attempt(ctx) {
			case 1:
				return 0, flowtest.ErrBusy
			case 2:
				<-ctx.Done()
				return 0, step.Heartbeat(ctx, 1) // fails because the context has ended
			}
			return last.Done, nil
		})
		first := w.Work(worker.Config{Grace: time.Millisecond}, impl, flowtest.Calls)
		run := flowtest.Start(w, flowtest.One, 1)
		w.Eventually("the second attempt has told how far it is", func() bool { return told.Load() == 2 })
		first.Stop()
		w.Work(worker.Config{}, impl, flowtest.Calls)
		if got := flowtest.Result(w, run); got != 20 {
			t.Errorf("got %d", got)
		}
	})
}

func TestSTEP8_AHeartbeatThatCannotBeStoredIsAnError(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Calls, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		var payload *workflow.PayloadError
		if err := step.Heartbeat(ctx, make(chan int)); !errors.As(err, &payload) || !flowtest.ContainsAll(err.Error(), "test.work1") {
			t.Errorf("got %v, want a *PayloadError that names the step", err)
		}
		return n, nil
	}))
	_ = flowtest.Result(w, flowtest.Start(w, flowtest.One, 1))
}

// TestSTEP9_ACPUBoundStepKeepsItsClaim proves that a worker keeps its claim while a step uses one
// processor and makes no calls. The step takes several times as long as the lease.
func TestSTEP9_ACPUBoundStepKeepsItsClaim(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		cfg := worker.Config{Heartbeat: 40 * time.Millisecond, ClaimExpiry: 160 * time.Millisecond}
		var executed atomic.Int32
		impl := flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			executed.Add(1)
			for begun := time.Now(); time.Since(begun) < 600*time.Millisecond; {
				n = n*1103515245 + 12345
			}
			return step.Attempt(ctx), ctx.Err()
		})
		w.Work(cfg, impl, flowtest.Calls)
		w.Work(cfg, impl, flowtest.Calls) // this worker would take over the run
		if got := flowtest.Result(w, flowtest.Start(w, flowtest.One, 1)); got != 1 || executed.Load() != 1 {
			t.Errorf("attempt %d completed the step after %d executions, want 1 and 1", got, executed.Load())
		}
	})
}
