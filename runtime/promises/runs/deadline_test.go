package runs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestSTEP4_DeadlineIsTheEarliestOfAttemptRunAndCaller proves that a step has the earliest of three
// deadlines: the deadlines of the attempt, of the run and of the caller.
func TestSTEP4_DeadlineIsTheEarliestOfAttemptRunAndCaller(t *testing.T) {
	for name, tt := range map[string]struct {
		attempt, run, caller time.Duration // 0 means no deadline
		want                 time.Duration
	}{
		"attempt":          {time.Minute, time.Hour, 2 * time.Hour, time.Minute},
		"run":              {time.Hour, time.Minute, 2 * time.Hour, time.Minute},
		"caller":           {time.Hour, 2 * time.Hour, time.Minute, time.Minute},
		"default":          {0, 0, 0, flow.DefaultAttemptTimeout},
		"caller alone":     {0, 0, time.Second, time.Second},
		"caller too late":  {time.Second, 0, time.Minute, time.Second},
		"run, long caller": {0, time.Second, time.Hour, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewVirtual(t)
			wk := worker.New(w.Client, worker.Config{})
			ask := shim.NewStep("deadline.ask", shim.Policy{Timeout: tt.attempt}, func(f func(context.Context) (time.Time, error)) shim.Handler {
				return shim.Handle(func(ctx context.Context, _ struct{}) (time.Time, error) { return f(ctx) })
			})
			ask.Bind(wk, func(ctx context.Context) (time.Time, error) {
				d, ok := ctx.Deadline()
				if !ok {
					return d, errors.New("no deadline")
				}
				return d, nil
			})
			flow := shim.NewWorkflow[workflow.None, time.Time]("deadline.flow", "", shim.WorkflowPolicy{Timeout: tt.run})
			shim.BindWorkflow(wk, flow, func(ctx workflow.Context, _ workflow.None) (time.Time, error) {
				if tt.caller > 0 {
					var cancel workflow.CancelFunc
					ctx, cancel = workflow.WithTimeout(ctx, tt.caller)
					defer cancel()
				}
				return shim.Call[time.Time](ctx, ask, struct{}{})
			})
			ctx, stop := context.WithCancel(w.Ctx)
			worked := make(chan error, 1)
			go func() { worked <- wk.Run(ctx) }()
			start := w.Clock.Now()
			got, err := flow.Execute(w.Ctx, w.Client, workflow.None{})
			if err != nil || !got.Equal(start.Add(tt.want)) {
				t.Errorf("the step sees a deadline in %v (%v), want %v", got.Sub(start), err, tt.want)
			}
			stop()
			if err := <-worked; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRUN2_WorkflowIDOfAnotherWorkflowsRunIsAnError(t *testing.T) {
	w := flowtest.NewMemory(t)
	one := shim.NewWorkflow[workflow.None, int]("other.one", "", shim.WorkflowPolicy{})
	two := shim.NewWorkflow[workflow.None, string]("other.two", "", shim.WorkflowPolicy{})
	run, err := one.Start(w.Ctx, w.Client, workflow.None{}, workflow.WithID("x"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = two.Start(w.Ctx, w.Client, workflow.None{}, workflow.WithID("x"))
	if !errors.Is(err, workflow.ErrWrongWorkflow) || !flowtest.ContainsAll(err.Error(), string(run.ID()), "other.one", "other.two") {
		t.Errorf("got %v, want an ErrWrongWorkflow about run %s", err, run.ID())
	}
}
