package invoke_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The steps of tests about budgets. Their input is the duration for which an attempt works, in
// minutes of virtual time.
var (
	plainStep  = flowtest.AStep[int, int]("budget.plain", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 2, Initial: time.Millisecond}})
	boundStep  = flowtest.AStep[int, int]("budget.bound", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}, Timeout: 7 * time.Minute})
	unsureStep = flowtest.AStep[int, int]("budget.unsure", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}, NonIdempotent: true})
	budgets    = flowtest.Flow[[]int, int]("budget")
)

// budget is shorter than the timeout of a step that sets none.
const budget = 9 * time.Minute

// works returns the code of a step that works for its input in minutes of virtual time. working counts
// the attempts that work.
func works(w *flowtest.World, working *atomic.Int32) func(context.Context, int) (int, error) {
	return func(ctx context.Context, n int) (int, error) {
		done := make(chan struct{})
		stop := w.Clock.AfterFunc(time.Duration(n)*time.Minute, func() { close(done) })
		defer stop()
		working.Add(1)
		defer working.Add(-1)
		select {
		case <-done:
			return n, nil
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// attempts returns the numbers of the attempts that began in a run, and of those that count.
func attempts(w *flowtest.World, run flowtest.Follows) (begun, given, failed int) {
	w.T.Helper()
	for _, e := range w.Log(run) {
		switch {
		case e.Type == event.StepStarted:
			begun++
		case e.Type == event.StepRetrying && e.Failure.Code == event.CodeStopped:
			given++
		case e.Type == event.StepRetrying, e.Type == event.StepFailed:
			failed++
		}
	}
	return begun, given, failed
}

// TestOPS7_EachStepGetsTheTimeOfItsTimeout proves that a run whose steps take longer than one budget
// together ends in a bounded number of invocations, and that no attempt is lost to the end of an
// invocation unless it has used half of a budget and may be repeated.
func TestOPS7_EachStepGetsTheTimeOfItsTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		step                 flowtest.StepOf[int, int]
		minutes              []int
		invocations          int
		begun, given, failed int
		fails                string
	}{
		"two short steps":                       {step: plainStep, minutes: []int{2, 2}, invocations: 1, begun: 2},
		"the second step lacks half a budget":   {step: plainStep, minutes: []int{6, 6}, invocations: 2, begun: 2},
		"the second step is cut off once":       {step: plainStep, minutes: []int{3, 8}, invocations: 2, begun: 3, given: 1},
		"a step is longer than the budget":      {step: plainStep, minutes: []int{2, 11}, invocations: 3, begun: 4, given: 1, failed: 2, fails: event.CodeTimeout},
		"the timeout of the second is too long": {step: boundStep, minutes: []int{3, 6}, invocations: 2, begun: 2},
		"the timeouts of both fit":              {step: boundStep, minutes: []int{1, 6}, invocations: 1, begun: 2},
		"a step that must not be cut off":       {step: unsureStep, minutes: []int{1, 8}, invocations: 2, begun: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewVirtual(t)
			var working atomic.Int32
			work := works(w, &working)
			h := handler(w, invoke.Config{Budget: budget}, flowtest.As(budgets, func(ctx workflow.Context, minutes []int) (int, error) {
				for _, n := range minutes {
					if _, err := c.step.Call(ctx, n); err != nil {
						return 0, err
					}
				}
				return len(minutes), nil
			}), plainStep.As(work), boundStep.As(work), unsureStep.As(work))
			run := flowtest.Start(w, budgets, c.minutes)
			invocations := 0
			for last := (answer{}); last.Status != invoke.StatusDone && invocations < 10; {
				if last.Due != nil {
					w.Clock.Advance(time.Until(*last.Due))
				}
				invocations++
				answers := make(chan answer, 1)
				go func() { answers <- ask(t, h, run.ID()) }()
				last = advance(t, w, &working, answers)
				if last.status != http.StatusOK {
					t.Fatalf("answer %+v", last)
				}
			}
			_, err := run.Result(w.Ctx)
			failure := ""
			if failed, ok := errors.AsType[*workflow.RunError](err); ok {
				failure = failed.Code
			}
			b, g, f := attempts(w, run)
			got := []any{invocations, b, g, f, failure}
			if diff := cmp.Diff([]any{c.invocations, c.begun, c.given, c.failed, c.fails}, got); diff != "" {
				t.Errorf("invocations, attempts begun, given back and failed, and failure (-want +got):\n%s", diff)
			}
		})
	}
}

// advance advances the time while an attempt works, until the invocation answers. After the end of the
// budget it does so slowly, because the invocation must react to each grace period in between.
func advance(t *testing.T, w *flowtest.World, working *atomic.Int32, answers <-chan answer) answer {
	t.Helper()
	over := w.Clock.Now().Add(budget)
	for {
		pause, step := time.Millisecond, 10*time.Second
		if !w.Clock.Now().Before(over) {
			pause, step = 20*time.Millisecond, time.Second
		}
		select {
		case a := <-answers:
			return a
		case <-time.After(pause):
			if working.Load() > 0 {
				w.Clock.Advance(step)
			}
		case <-w.Ctx.Done():
			t.Fatal("the invocation does not answer")
		}
	}
}

func TestOPS7_RegistrationRefusesStepsThatDoNotFitTheBudget(t *testing.T) {
	w := flowtest.NewMemory(t)
	remote := flowtest.AStep[int, int]("budget.remote", shim.Policy{Timeout: time.Hour, Queue: "gpu"})
	nothing := func(context.Context, int) (int, error) { return 0, nil }
	code := registers(five, add, boundStep.As(nothing), plainStep.As(nothing), remote.As(nothing))
	cfg := invoke.Config{Secrets: [][]byte{secret}, Budget: time.Minute}
	_, err := invoke.Handler(w.Client, code, cfg)
	slow, ok := errors.AsType[*invoke.StepTimeoutError](err)
	if !ok {
		t.Fatalf("error %v, want a *StepTimeoutError", err)
	}
	want := []invoke.SlowStep{{Name: "test.budget.bound", Timeout: 7 * time.Minute}, {Name: "test.budget.remote", Timeout: time.Hour}}
	if diff := cmp.Diff(want, slow.Steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	cfg.Budget = 7 * time.Minute
	cfg.Worker.Queues = []string{"default"} // workers serve the queue gpu
	if _, err := invoke.Handler(w.Client, code, cfg); err != nil {
		t.Errorf("with another budget, and the queue of the other step left to workers: %v", err)
	}
}

// TestOPS7_RegistrationRefusesAFunctionWithoutCode proves that a forgotten Register is reported at the
// start, and not by runs that wait.
func TestOPS7_RegistrationRefusesAFunctionWithoutCode(t *testing.T) {
	w := flowtest.NewMemory(t)
	for name, register := range map[string]func(workflow.Registrar){"nil": nil, "empty": func(workflow.Registrar) {}} {
		_, err := invoke.Handler(w.Client, register, invoke.Config{Secrets: [][]byte{secret}})
		if err == nil || !strings.Contains(err.Error(), "call the generated Register") {
			t.Errorf("%s: error %v, want one that names Register", name, err)
		}
	}
}

// TestOPS7_RegistrationRefusesInvalidSettingsOfTheWorker proves that Handler returns a typed error with
// the fix, where New of package worker panics.
func TestOPS7_RegistrationRefusesInvalidSettingsOfTheWorker(t *testing.T) {
	w := flowtest.NewMemory(t)
	for name, c := range map[string]struct {
		cfg  worker.Config
		fix  string
		want any // pointer to the type of the error
	}{
		"build":       {worker.Config{Build: "release 7"}, "letters, digits and . _ - +", new(*store.InvalidError)},
		"queue":       {worker.Config{Queues: []string{event.PinnedQueue("mail", "v1")}}, "use another name in Queues", new(*store.InvalidError)},
		"interceptor": {worker.Config{Interceptors: []workflow.Interceptor{7}}, "implement InterceptWorkflow or InterceptStep", new(*store.InvalidError)},
		"alerts":      {worker.Config{Alerts: alert.Config{Rules: []alert.Rule{{Name: "failures", Target: "ops"}}}}, "add alert.Failed", new(*alert.ConfigError)},
	} {
		_, err := invoke.Handler(w.Client, registers(order, add), invoke.Config{Secrets: [][]byte{secret}, Worker: c.cfg})
		if err == nil || !errors.As(err, c.want) || !flowtest.ContainsAll(err.Error(), "invoke: Config.Worker: ", c.fix) {
			t.Errorf("%s: error %v, want a %T with %q", name, err, c.want, c.fix)
		}
	}
	ignored := worker.Config{Heartbeat: time.Hour, ClaimExpiry: time.Second}
	if _, err := invoke.Handler(w.Client, registers(order, add), invoke.Config{Secrets: [][]byte{secret}, Worker: ignored}); err != nil {
		t.Errorf("with an invalid ClaimExpiry, which is ignored: %v", err)
	}
}

// TestOPS7_ATimeoutInCodeThatExceedsTheBudgetBlocksTheRun proves that an attempt is not cut off before
// the timeout that the code of its workflow sets: the run is blocked before, with the reason, and a
// function with a longer budget or a worker continues it.
func TestOPS7_ATimeoutInCodeThatExceedsTheBudgetBlocksTheRun(t *testing.T) {
	coded := flowtest.Flow[time.Duration, int]("budget.coded")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		code := []flowtest.Binding{add, flowtest.As(coded, func(ctx workflow.Context, d time.Duration) (int, error) {
			if _, err := addStep.Call(ctx, 1); err != nil {
				return 0, err
			}
			return addStep.Call(workflow.WithStepOptions(ctx, workflow.AttemptTimeout(d)), 2)
		})}
		short, long := handler(w, invoke.Config{Budget: time.Minute}, code...), handler(w, invoke.Config{Budget: time.Hour}, code...)
		fits, byFunction, byWorker := flowtest.Start(w, coded, time.Minute), flowtest.Start(w, coded, time.Hour), flowtest.Start(w, coded, time.Hour)
		if a := ask(t, short, fits.ID()); a.Status != invoke.StatusDone {
			t.Errorf("answer %+v for a timeout of the budget, want done", a)
		}
		for _, run := range []*workflow.Run[int]{byFunction, byWorker} {
			a := ask(t, short, run.ID())
			if a.code() != invoke.CodeBlocked || !flowtest.ContainsAll(a.Error.Message, "test.invoke.add", "1h0m0s", "1m0s", "Config.Budget") {
				t.Errorf("answer %+v for a longer timeout, want blocked with the reason", a)
			}
		}
		if a := ask(t, long, byFunction.ID()); a.Status != invoke.StatusDone {
			t.Errorf("answer %+v of a function with a longer budget, want done", a)
		}
		w.Work(worker.Config{}, code...)
		if got := flowtest.Result(w, byWorker); got != 3 {
			t.Errorf("result %d of a worker, want 3", got)
		}
		w.Healthy()
	})
}
