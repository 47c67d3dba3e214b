package interceptors_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// patient is a step with enough attempts for a hostile interceptor and several crashes.
var patient = flowtest.AStep[int, int]("patient", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 10, Initial: time.Second, Max: time.Second}})

// hostile is an interceptor that is slow, replaces contexts, and misuses next or panics in the first
// attempt of each step.
type hostile struct{}

type hostileKey struct{}

func (hostile) InterceptClient(_ context.Context, _ *workflow.ClientCall, next func(context.Context) error) error {
	return next(context.WithValue(context.Background(), hostileKey{}, 1))
}

func (hostile) InterceptWorkflow(ctx workflow.Context, next func(workflow.Context) error) error {
	ctx, cancel := workflow.WithTimeout(workflow.WithValue(ctx, hostileKey{}, 1), 1000*time.Hour)
	defer cancel()
	return next(ctx)
}

func (hostile) InterceptStep(ctx context.Context, call step.Call, next func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, hostileKey{}, 1), time.Hour)
	defer cancel()
	if call.Attempt == 1 {
		switch len(call.Key) % 3 {
		case 0:
			panic("hostile")
		case 1:
			return nil
		case 2:
			return next(context.Background())
		}
	}
	return next(ctx)
}

func TestOPS8_AHostileInterceptorChangesNoOutcomeWhereverTheWorkerDies(t *testing.T) {
	d := flowtest.Flow[int, int]("hostile")
	topic := workflow.NewTopic[int]("more")
	report := workflowtest.CrashEverywhere(t, d, 3, func(e *workflowtest.Env) {
		flowtest.As(d, func(ctx workflow.Context, n int) (int, error) {
			sum, err := patient.CallKey(ctx, "a", n)
			if err != nil {
				return 0, err
			}
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return 0, err
			}
			more, err := topic.Receive(ctx)
			if err != nil {
				return 0, err
			}
			for _, key := range []string{"bb", "ccc"} {
				next, err := patient.CallKey(ctx, key, more)
				if err != nil {
					return 0, err
				}
				sum += next
			}
			return sum, nil
		})(e)
		patient.As(twice)(e)
		e.At(time.Second, func(ctx context.Context) {
			if err := topic.Send(ctx, e.Run(), 5); err != nil {
				t.Error(err)
			}
		})
	}, workflowtest.WithInterceptors(hostile{}), workflowtest.Pairs(40), workflowtest.Check(func(t testing.TB, _ *workflowtest.Env, run workflowtest.Outcome) {
		t.Helper()
		if string(run.Result) != "26" {
			t.Errorf("the run is %s with result %s, failure %v", run.Status, run.Result, run.Failure)
		}
	}))
	if report.Tried < 20 {
		t.Errorf("only %d crashes were tried: %+v", report.Tried, report)
	}
}
