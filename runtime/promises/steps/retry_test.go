package steps_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
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

// delays executes a step that always fails. It returns the planned delays between the attempts, and
// the error of the step. It fails the test if an attempt begins before its time.
func delays(t *testing.T, p shim.Policy, opts ...workflow.StepOption) ([]time.Duration, *workflow.StepError) {
	t.Helper()
	broken := flowtest.AStep[int, int]("broken", p)
	fails := flowtest.Flow[int, int]("fails")
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, broken.As(func(context.Context, int) (int, error) { return 0, flowtest.ErrBusy }),
		flowtest.As(fails, func(ctx workflow.Context, n int) (int, error) {
			if len(opts) > 0 {
				ctx = workflow.WithStepOptions(ctx, opts...)
			}
			return broken.Call(ctx, n)
		}))
	run := flowtest.Start(w, fails, 1)
	w.FastForward(run)
	events := w.Log(run)
	var planned []time.Duration
	started := flowtest.Filter(events, event.StepStarted)
	for i, e := range flowtest.Filter(events, event.StepRetrying) {
		planned = append(planned, e.Due.Sub(e.Time))
		if started[i+1].Time.Before(e.Due) {
			t.Errorf("attempt %d started %v before it was due", i+2, e.Due.Sub(started[i+1].Time))
		}
	}
	err := flowtest.Failure(w, run)
	var failed *workflow.StepError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	if failed.Attempts != len(planned)+1 || len(started) != len(planned)+1 {
		t.Errorf("the error says %d attempts, the log has %d, want %d", failed.Attempts, len(started), len(planned)+1)
	}
	return planned, failed
}

func TestSTEP4_PoliciesDecideWhenAnAttemptIsRepeated(t *testing.T) {
	const ms, s, m = time.Millisecond, time.Second, time.Minute
	for name, tt := range map[string]struct {
		policy workflow.RetryPolicy
		want   []time.Duration
	}{
		"default: 4 attempts, exponential":  {workflow.RetryPolicy{}, []time.Duration{s, 2 * s, 4 * s}},
		"default cap of a minute":           {workflow.RetryPolicy{Attempts: 9}, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, m, m}},
		"one attempt":                       {workflow.RetryPolicy{Attempts: 1}, nil},
		"constant":                          {workflow.RetryPolicy{Attempts: 4, Initial: 3 * s, Factor: 1}, []time.Duration{3 * s, 3 * s, 3 * s}},
		"linear":                            {workflow.RetryPolicy{Attempts: 5, Initial: s, Increment: 2 * s, Max: 6 * s}, []time.Duration{s, 3 * s, 5 * s, 6 * s}},
		"exponential":                       {workflow.RetryPolicy{Attempts: 5, Initial: 100 * ms, Factor: 3, Max: 2 * s}, []time.Duration{100 * ms, 300 * ms, 900 * ms, 2 * s}},
		"total time":                        {workflow.RetryPolicy{Attempts: 100, Initial: 10 * s, Factor: 1, Total: 35 * s}, []time.Duration{10 * s, 10 * s, 10 * s}},
		"total time below the first repeat": {workflow.RetryPolicy{Total: 500 * ms}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, failed := delays(t, shim.Policy{Retry: tt.policy})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("delays (-want +got):\n%s", diff)
			}
			if failed.Code != event.CodeError {
				t.Errorf("got code %s, want error", failed.Code)
			}
		})
	}
}

// TestSTEP4_AnErrorOfTheTotalTimeSaysHowLongItWas proves that the error of a step whose total time
// has passed contains this reason and the error of the last attempt. The workflow and the outcome
// of the run contain the same error.
func TestSTEP4_AnErrorOfTheTotalTimeSaysHowLongItWas(t *testing.T) {
	const total = "its total timeout of 35s leaves no time for another attempt: "
	for name, tt := range map[string]struct {
		do   func() error
		code string
		want string
	}{
		"an error":               {func() error { return fmt.Errorf("pay: %w", io.ErrUnexpectedEOF) }, event.CodeError, total + "pay: unexpected EOF"},
		"a panic":                {func() error { panic("no money") }, event.CodePanic, total + "panic: no money"},
		"an error of great size": {func() error { return errors.New(strings.Repeat("x", 1<<20)) }, event.CodeError, total + "xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			broken := flowtest.AStep[int, int]("broken", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 100, Initial: 20 * time.Second, Total: 35 * time.Second}})
			fails := flowtest.Flow[int, int]("fails")
			w := flowtest.NewVirtual(t)
			var inside error
			w.Work(worker.Config{}, broken.As(func(context.Context, int) (int, error) { return 0, tt.do() }),
				flowtest.As(fails, func(ctx workflow.Context, n int) (int, error) {
					_, inside = broken.Call(ctx, n)
					return 0, inside
				}))
			run := flowtest.Start(w, fails, 1)
			w.FastForward(run)
			outside := flowtest.Failure(w, run)
			for where, err := range map[string]error{"in the workflow": inside, "outside": outside} {
				failed, ok := errors.AsType[*workflow.StepError](err)
				switch {
				case !ok:
					t.Errorf("%s: got %v", where, err)
				case failed.Code != tt.code || !strings.Contains(failed.Error(), "failed after 2 attempts: "+tt.want):
					t.Errorf("%s: got %s, %.300s, want %s, %q", where, failed.Code, failed, tt.code, tt.want)
				case name == "an error" && !errors.Is(err, io.ErrUnexpectedEOF):
					t.Errorf("%s: %v is not what the step returned", where, err)
				case name == "a panic" && !strings.Contains(failed.Stack(), "retry_test.go"):
					t.Errorf("%s: the stack of the panic is %q", where, failed.Stack())
				}
			}
			if outside.Code != tt.code || len(outside.Reason) > 70_000 || !strings.Contains(outside.Reason, tt.want) {
				t.Errorf("got %s, %.300s with %d bytes", outside.Code, outside.Reason, len(outside.Reason))
			}
		})
	}
}

func TestSTEP4_JitterShortensADelayByItsPartAtMost(t *testing.T) {
	got, _ := delays(t, shim.Policy{Retry: workflow.RetryPolicy{Attempts: 21, Initial: 10 * time.Second, Factor: 1, Jitter: 0.5}})
	different := map[time.Duration]bool{}
	for _, d := range got {
		different[d] = true
		if d < 5*time.Second-time.Millisecond || d > 10*time.Second {
			t.Errorf("got a delay of %v, want one of 5 s to 10 s", d)
		}
	}
	if len(got) != 20 || len(different) < 10 {
		t.Errorf("got %d delays, %d of them different", len(got), len(different))
	}
}

func TestSTEP4_OptionsOfTheContextReplaceThePolicy(t *testing.T) {
	got, _ := delays(t, shim.Policy{Retry: workflow.RetryPolicy{Attempts: 50}}, workflow.Retry(workflow.RetryPolicy{Attempts: 2, Initial: 7 * time.Second}))
	if diff := cmp.Diff([]time.Duration{7 * time.Second}, got); diff != "" {
		t.Errorf("delays (-want +got):\n%s", diff)
	}
}

func TestSTEP5_ErrorsChangeThePolicyAlsoWhenWrapped(t *testing.T) {
	for name, tt := range map[string]struct {
		err  func(attempt int) error
		want []time.Duration
		code string
	}{
		"fatal":         {func(int) error { return step.Fatal(flowtest.ErrBusy) }, nil, event.CodeFatal},
		"fatal wrapped": {func(int) error { return fmt.Errorf("a: %w", step.Fatal(flowtest.ErrBusy)) }, nil, event.CodeFatal},
		"fatal joined":  {func(int) error { return errors.Join(errors.New("a"), step.Fatal(flowtest.ErrBusy)) }, nil, event.CodeFatal},
		"retry after": {
			func(n int) error { return step.RetryAfter(flowtest.ErrBusy, time.Duration(n)*time.Hour) },
			[]time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour}, event.CodeError,
		},
		"retry after wrapped": {
			func(int) error { return fmt.Errorf("a: %w", step.RetryAfter(flowtest.ErrBusy, time.Minute)) },
			[]time.Duration{time.Minute, time.Minute, time.Minute}, event.CodeError,
		},
		"retry after is fatal": {func(int) error { return step.Fatal(step.RetryAfter(flowtest.ErrBusy, time.Minute)) }, nil, event.CodeFatal},
		"at once":              {func(int) error { return step.RetryAfter(flowtest.ErrBusy, -time.Hour) }, []time.Duration{0, 0, 0}, event.CodeError},
	} {
		t.Run(name, func(t *testing.T) {
			picky := flowtest.AStep[int, int]("picky", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 2, Waits: 2}})
			fails := flowtest.Flow[int, int]("fails")
			w := flowtest.NewVirtual(t)
			w.Work(worker.Config{}, flowtest.As(fails, picky.Call), picky.As(func(ctx context.Context, _ int) (int, error) {
				return 0, tt.err(step.Attempt(ctx))
			}))
			run := flowtest.Start(w, fails, 1)
			w.FastForward(run)
			var got []time.Duration
			for _, e := range flowtest.Filter(w.Log(run), event.StepRetrying) {
				got = append(got, e.Due.Sub(e.Time))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("delays (-want +got):\n%s", diff)
			}
			if err := flowtest.Failure(w, run); err.Code != tt.code || !flowtest.ContainsAll(err.Reason, "busy") {
				t.Errorf("got code %s of %v, want %s", err.Code, err, tt.code)
			}
		})
	}
}

type declinedError struct{ Code int }

func (e *declinedError) Error() string { return fmt.Sprint("declined ", e.Code) }

func TestSTEP5_ThePredicateOfTheDirectiveEndsTheStep(t *testing.T) {
	for name, tt := range map[string]struct {
		fatal    func(error) bool
		err      error
		attempts int
		code     string
	}{
		"its type":      {shim.AsFatal[*declinedError], fmt.Errorf("a: %w", &declinedError{3}), 1, event.CodeFatal},
		"another error": {shim.AsFatal[*declinedError], flowtest.ErrBusy, 4, event.CodeError},
		"a sentinel":    {func(err error) bool { return errors.Is(err, flowtest.ErrBusy) }, fmt.Errorf("a: %w", flowtest.ErrBusy), 1, event.CodeFatal},
		"it panics":     {func(error) bool { panic("no idea") }, flowtest.ErrBusy, 4, event.CodeError},
	} {
		t.Run(name, func(t *testing.T) {
			picky := flowtest.AStep[int, int]("picky", shim.Policy{Retry: flowtest.Quick, Fatal: tt.fatal})
			fails := flowtest.Flow[int, int]("fails")
			w := flowtest.NewMemory(t)
			w.Work(worker.Config{}, flowtest.As(fails, picky.Call), picky.As(func(context.Context, int) (int, error) { return 0, tt.err }))
			err := flowtest.Failure(w, flowtest.Start(w, fails, 1))
			var failed *workflow.StepError
			if !errors.As(err, &failed) || failed.Attempts != tt.attempts || failed.Code != tt.code {
				t.Errorf("got %v, want code %s after %d attempts", err, tt.code, tt.attempts)
			}
		})
	}
}

// TestSTEP5_AStepThatReturnsAnotherRunsErrorIsTriedAgain proves that a step is retried if it
// returns the error of another run. The code of that error concerns the other run and not this
// step.
func TestSTEP5_AStepThatReturnsAnotherRunsErrorIsTriedAgain(t *testing.T) {
	for _, code := range []string{event.CodeCanceled, event.CodeTimeout, event.CodePanic} {
		w := flowtest.NewMemory(t)
		asks := flowtest.AStep[int, int]("asks", shim.Policy{Retry: flowtest.Quick, NonIdempotent: true})
		outer := flowtest.Flow[int, int]("outer")
		w.Work(worker.Config{}, flowtest.As(outer, asks.Call), asks.As(func(context.Context, int) (int, error) {
			return 0, &workflow.RunError{Workflow: "other", Code: code, Status: workflow.StatusFailed, Reason: "theirs"}
		}))
		err := flowtest.Failure(w, flowtest.Start(w, outer, 1))
		var failed *workflow.StepError
		if !errors.As(err, &failed) || failed.Code != event.CodeError || failed.Attempts != 4 || err.Status != workflow.StatusFailed {
			t.Errorf("%s: got %v, want code error after 4 attempts", code, err)
		}
		var theirs *workflow.RunError
		if !errors.As(failed, &theirs) || theirs.Code != code || theirs.Workflow != "other" {
			t.Errorf("%s: the other run's error is lost: %v", code, theirs)
		}
	}
}
