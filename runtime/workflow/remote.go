package workflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// remoteCall is the input of a run that executes one step of another run, on the step's own queue
// or with the limits that the step uses.
type remoteCall struct {
	Args       json.RawMessage   `json:"args,omitempty"`
	Retry      remoteRetry       `json:"retry"`
	Timeout    time.Duration     `json:"timeout"`
	WorkflowID string            `json:"workflowID,omitempty"` // of the caller
	Tags       map[string]string `json:"tags,omitempty"`       // of the caller
}

// remoteRetry is the stored form of a RetryPolicy.
type remoteRetry struct {
	Attempts  int           `json:"attempts,omitempty"`
	Initial   time.Duration `json:"initial,omitempty"`
	Increment time.Duration `json:"increment,omitempty"`
	Max       time.Duration `json:"max,omitempty"`
	Factor    float64       `json:"factor,omitempty"`
	Jitter    float64       `json:"jitter,omitempty"`
	Total     time.Duration `json:"total,omitempty"`
	Waits     int           `json:"waits,omitempty"`
}

// callRemote executes a step in a child on the step's queue and waits for it. The child holds the
// permits of the step while an attempt runs. The failure of the child is the error of the step.
func (ctx Context) callRemote(p *engine.StepPlan, key string, input []byte, same func(recorded []byte) string) (*replay.Op, error) {
	b := ctx.branch()
	spec := b.Spec()
	call, err := json.Marshal(remoteCall{
		Args: input, Retry: remoteRetry(p.Retry), Timeout: p.Timeout, WorkflowID: spec.WorkflowID, Tags: spec.Tags,
	})
	if err != nil {
		return nil, &PayloadError{What: "input of step " + p.Spec.Name, Err: err}
	}
	name := event.StepRun(p.Spec.Name)
	op := b.Child(ctx.s, event.Event{
		Name: name, Key: key, Payload: call, Active: uint8(FailActive),
		Spec: &event.Spec{Workflow: name, Queue: cmp.Or(p.Queue, spec.Queue), Priority: spec.Priority, Retention: spec.Retention, Uses: p.Uses},
	}, p.Slot, func(recorded []byte) string {
		var was remoteCall
		if err := json.Unmarshal(recorded, &was); err != nil {
			return err.Error()
		}
		return same(was.Args)
	})
	if err := b.AwaitChild(op); err != nil {
		return nil, err
	}
	if op.Failure == nil {
		return op, nil
	}
	e := &StepError{Run: b.Run().ID(), Step: p.Spec.Name, Key: key, Code: op.Failure.Code, failure: op.Failure, cause: op.Canceled}
	var stored StepError
	if op.Failure.Type == wireStepError && stored.UnmarshalFailure(op.Failure) == nil {
		e.Attempts, e.Code, e.failure = stored.Attempts, stored.Code, stored.failure
	}
	return nil, e
}

// stepProgram is the code of a run that executes one step.
func stepProgram(spec *engine.StepSpec) replay.Program {
	return func(b *replay.Branch, s *replay.Scope, input []byte) replay.Ending {
		var call remoteCall
		if err := json.Unmarshal(input, &call); err != nil {
			return ending(s, &PayloadError{What: "input of step " + spec.Name, Err: err})
		}
		own := b.Spec()
		plan := &engine.StepPlan{Spec: spec, Retry: engine.Retry(call.Retry), Timeout: call.Timeout, Caller: &engine.Caller{
			Run: own.Parent, WorkflowID: call.WorkflowID, Key: own.ParentKey, Tags: call.Tags,
		}}
		op := b.Step(s, spec.Name, b.Key(spec.Name), call.Args, plan, func([]byte) string { return "" })
		b.AwaitStep(op)
		if op.Failure == nil {
			return replay.Ending{Type: event.RunCompleted, Payload: op.Payload}
		}
		e := &StepError{Run: own.Parent, Step: spec.Name, Key: own.ParentKey, Attempts: op.Attempt, Code: op.Failure.Code, failure: op.Failure}
		canceled, limit := op.Failure.Code == event.CodeCanceled && errors.Is(s.Err(), ErrCanceled), s.Limit()
		if canceled && limit != nil { // not canceled by a request: the run exceeded a limit
			e.Code, e.failure = limit.Code, &event.Failure{Code: limit.Code, Message: limit.Message, Causes: []*event.Failure{op.Failure}}
		}
		end := replay.Ending{Type: event.RunFailed, Failure: failure.Encode(e, e.Code)}
		if canceled && limit == nil {
			end.Type = event.RunCanceled
		}
		return end
	}
}

// stepOfRun returns the step that runs of a workflow execute, or nil if the workflow is not of that
// kind or its step is not registered.
func (r *registry) stepOfRun(name string) *engine.StepSpec {
	step, ok := event.StepOfRun(name)
	if !ok {
		return nil
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s := r.steps[step]; s != nil {
		return s.spec
	}
	return nil
}

// lastName returns the last element of a stored name.
func lastName(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
