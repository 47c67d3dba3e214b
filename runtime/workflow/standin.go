package workflow

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// standInTimeout is longer than any stand-in takes.
const standInTimeout = 200 * 365 * 24 * time.Hour

// standIn makes fake replace the code of the workflow. fake is a func(context.Context, In) (Out,
// error), or a function that takes the inputs of several starts.
func (d Definition[In, Out]) standIn(r *registry, fake any) engine.StepFunc {
	if all, ok := fake.(func(context.Context, []In) (Out, error)); ok {
		return standIn(r, d.def(), all)
	}
	return standIn(r, d.def(), fake.(func(context.Context, In) (Out, error)))
}

// standIn registers the stand-in code. In is the type of the stored input.
func standIn[In, Out any](r *registry, def *definition, code func(context.Context, In) (Out, error)) engine.StepFunc {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admit("stand-in for workflow", def.name, "a stand-in", func() (string, bool) { return "", false })
	r.put(&boundWorkflow{def: def, code: "a stand-in", standIn: standInPlan(def.name)})
	return func(ctx context.Context, args []byte) ([]byte, error) {
		var in In
		if _, err := def.decodeInput(args, &in); err != nil {
			return nil, err
		}
		var out Out
		if code != nil {
			var err error
			if out, err = code(ctx, in); err != nil {
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

func standInPlan(name string) *engine.StepPlan {
	spec := &engine.StepSpec{
		Name: name, Timeout: standInTimeout,
		Retry: engine.Retry{Attempts: math.MaxInt32, Initial: time.Nanosecond, Max: time.Nanosecond},
		Fatal: func(error) bool { return true }, // a failed workflow is not retried
	}
	return newPlan(spec)
}

// standInProgram is the code of a run that has a stand-in.
func standInProgram(plan *engine.StepPlan) replay.Program {
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
