package workflow

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/seam"
)

// standInTimeout is longer than any stand-in takes.
const standInTimeout = 200 * 365 * 24 * time.Hour

// StandIn lets a test kit execute one step in place of the code of a workflow,
// whether that is bound before, later or never. The step is named like the workflow;
// its arguments are the stored input, what it returns is the result of the run, and
// the error that it returns is that with which the run fails. It is executed again
// if its worker dies, and for no other reason. It panics if the worker has started.
func StandIn[In, Out any](_ seam.Gate, r *Registry, d Definition[In, Out], fake func(context.Context, In) (Out, error)) StepFunc {
	def := d.def()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admit("stand-in for workflow", def.name, "a stand-in", func() (string, bool) { return "", false })
	r.workflows[def.name] = &boundWorkflow{def: def, code: "a stand-in", standIn: standInPlan(def.name)}
	return func(ctx context.Context, args []byte) ([]byte, error) {
		var in In
		if _, err := def.decodeInput(args, &in); err != nil {
			return nil, err
		}
		var out Out
		if fake != nil {
			var err error
			if out, err = fake(ctx, in); err != nil {
				return nil, err
			}
		}
		if _, none := any(out).(None); none {
			return nil, nil
		}
		data, err := marshal("result of the stand-in for workflow", out)
		return data, about(err, def.name)
	}
}

func standInPlan(name string) *StepPlan {
	spec := &StepSpec{
		Name: name, Timeout: standInTimeout,
		Retry: RetryPolicy{Attempts: math.MaxInt32, Initial: time.Nanosecond, Max: time.Nanosecond},
		Fatal: func(error) bool { return true }, // a workflow that has failed is not tried again
	}
	return NewPlan(seam.Gate{}, spec)
}

// standInProgram is the code of a run that has a stand-in.
func standInProgram(plan *StepPlan) replay.Program {
	return func(b *replay.Branch, s *replay.Scope, input []byte) replay.Ending {
		op := b.Step(s, plan.Spec.Name, b.Key(plan.Spec.Name), input, plan, func([]byte) string { return "" })
		b.AwaitStep(op)
		if op.Failure == nil {
			return replay.Ending{Type: event.RunCompleted, Payload: op.Payload}
		}
		failed := *op.Failure
		switch {
		case failed.Code == event.CodeCanceled && errors.Is(s.Err(), ErrCanceled):
			return replay.Ending{Type: event.RunCanceled, Failure: &failed}
		case failed.Code == event.CodeFatal:
			failed.Code = event.CodeError
		}
		return replay.Ending{Type: event.RunFailed, Failure: &failed}
	}
}
