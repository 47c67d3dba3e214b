package flow

import (
	"errors"
	"math"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// standInTimeout is longer than the execution of any stand-in.
const standInTimeout = 200 * 365 * 24 * time.Hour

// StandIn makes a test kit's step replace the code of a workflow, whether the code is bound before,
// later or never. The step has the name of the workflow. Its argument is the stored input, its
// result is the result of the run, and its error is the error with which the run fails. The step is
// repeated only if its worker dies. StandIn panics if the worker has started.
func (r *Registry) StandIn(d *DefinitionSpec) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.admit("stand-in for workflow", d.Name, "", "")
	r.put(&boundWorkflow{def: d, code: "a stand-in", standIn: NewPlan(&StepSpec{
		Name: d.Name, Timeout: standInTimeout,
		Retry: Retry{Attempts: math.MaxInt32, Initial: time.Nanosecond, Max: time.Nanosecond},
		Fatal: func(error) bool { return true }, // the first failure is final, because a failed workflow is not retried
	})})
}

// standInProgram returns the code of a run of a workflow that has a stand-in.
func standInProgram(plan *StepPlan) replay.Program {
	return func(b *replay.Branch, s *replay.Scope, input []byte) replay.Ending {
		op := b.Step(s, plan.Spec.Name, b.Key(plan.Spec.Name), input, plan, func([]byte) string { return "" })
		if op.Failure == nil {
			return replay.Ending{Type: event.RunCompleted, Payload: op.Payload}
		}
		failed := *op.Failure
		switch {
		case failed.Code == event.CodeCanceled && errors.Is(s.Err(), replay.ErrCanceled):
			return replay.Ending{Type: event.RunCanceled, Failure: &failed}
		case failed.Code == event.CodeFatal:
			failed.Code = event.CodeError
		}
		return replay.Ending{Type: event.RunFailed, Failure: &failed}
	}
}
