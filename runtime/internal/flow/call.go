package flow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// plan returns the plan of a call. Calls without options use the shared plan.
func (ctx Context) plan(shared *StepPlan) *StepPlan {
	if ctx.steps == nil {
		return shared
	}
	p := *shared
	if ctx.steps.Retry != nil {
		p.Retry = *ctx.steps.Retry
	}
	if ctx.steps.Timeout > 0 {
		p.Timeout, p.Bounded = ctx.steps.Timeout, true
	}
	if q := ctx.steps.Queue; q != "" {
		if p.Queue = q; q == ctx.Branch().Spec().Queue {
			p.Queue = ""
		}
	}
	return &p
}

// NewPlan returns the plan of a step without options.
func NewPlan(spec *StepSpec) *StepPlan {
	return &StepPlan{
		Spec: spec, Retry: spec.Retry, Timeout: cmp.Or(max(spec.Timeout, 0), DefaultAttemptTimeout), Bounded: spec.Timeout > 0, Queue: spec.Queue,
		Input: "input of step " + spec.Name, Result: "result of step " + spec.Name,
	}
}

// Call creates a step, waits for its end, and decodes its result into out, which may be nil. If keyed
// is set, the step's key contains key instead of an ordinal.
func Call(ctx Context, p *StepPlan, key string, keyed bool, args, out any) error {
	b := ctx.Branch()
	b.Gate(ctx.s)
	if err := ctx.s.Err(); err != nil {
		// This also holds during a replay, because the log contains the end of the context.
		return &StepError{Run: b.Run().ID(), Step: p.Spec.Name, Code: event.CodeCanceled, Key: p.Spec.Name,
			failure: replay.CancelFailure(err), cause: err}
	}
	input, err := ctx.env.Limits.Encode(p.Input, args, b.Replaying())
	if err != nil {
		return err
	}
	if ctx.steps != nil && ctx.steps.Key != nil {
		key, keyed = *ctx.steps.Key, true
	}
	if keyed {
		if err := store.CheckName("key of step "+p.Spec.Name, key); err != nil {
			return err
		}
		key = b.DeclaredKey(p.Spec.Name, key)
	} else {
		key = b.Key(p.Spec.Name)
	}
	plan, err := limited(ctx.plan(p), args, b.Spec())
	if err != nil {
		return err
	}
	op, err := ctx.await(plan, key, input, func(recorded []byte) string { return Differs(b, reflect.TypeOf(args), recorded, input) })
	if err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	return Decode(p.Result, op.Payload, out)
}

// limited returns the plan with the limits that the step uses. It leaves out limits that the run or
// the runs above it hold.
func limited(p *StepPlan, args any, by *event.Spec) (*StepPlan, error) {
	if p.Spec.Uses == nil {
		return p, nil
	}
	with := *p
	var err error
	with.Uses, with.Slot, err = permits.Merge(p.Spec.Uses(args))
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", p.Spec.Name, err)
	}
	with.Uses = permits.Missing(with.Uses, by)
	return &with, nil
}

// await requests a step, in this run or in a separate run, and waits until the step has ended.
func (ctx Context) await(p *StepPlan, key string, input []byte, same func(recorded []byte) string) (*replay.Op, error) {
	b := ctx.Branch()
	remote := p.Queue != "" || bounded(b.Run(), p.Uses)
	if b.Replaying() {
		remote = b.Apart(p.Spec.Name, remote)
	}
	if remote {
		return ctx.callRemote(p, key, input, same)
	}
	op := b.Step(ctx.s, p.Spec.Name, key, input, p, same)
	if op.Failure != nil {
		return nil, &StepError{Run: b.Run().ID(), Step: op.Name, Key: op.Key, Attempts: op.Attempt, Code: op.Failure.Code,
			failure: op.Failure, cause: op.Canceled}
	}
	return op, nil
}

// bounded reports whether limits may delay a step. In that case a separate run takes the permits,
// and waits for them in the limiter queue. The result is always true for a limit with keys, because
// each key may have its own configuration, and for a limit per worker.
func bounded(r *replay.Run, uses []event.Use) bool {
	return slices.ContainsFunc(uses, func(u event.Use) bool {
		return u.Local || u.Key != "" || r.Unbounded == nil || !r.Unbounded(u.Limit)
	})
}

// Differs compares the recorded arguments with the requested ones, by value. It decodes the
// recorded arguments into the type today and encodes them again, so that added or removed fields
// make no difference. It returns the difference, or "" if they are equal, and reports a renamed
// field to b.
func Differs(b *replay.Branch, today reflect.Type, recorded, asked []byte) string {
	if bytes.Equal(recorded, asked) {
		return ""
	}
	args := reflect.New(today)
	if err := json.Unmarshal(recorded, args.Interface()); err == nil {
		if again, err := json.Marshal(args.Elem().Interface()); err == nil {
			if bytes.Equal(again, asked) {
				return ""
			}
			b.Renamed(replay.FindRenaming(recorded, again))
		}
	}
	return replay.DiffJSON(recorded, asked)
}

// remoteCall is the input of a run that executes one step of another run, on the queue of the step
// or with the limits that the step uses.
type remoteCall struct {
	Args       json.RawMessage   `json:"args,omitempty"`
	Retry      Retry             `json:"retry"`
	Timeout    time.Duration     `json:"timeout"`
	WorkflowID string            `json:"workflowID,omitempty"` // workflow ID of the calling run
	Workflow   string            `json:"workflow,omitempty"`   // stored name of the workflow of the calling run
	Tags       map[string]string `json:"tags,omitempty"`       // tags of the calling run
}

// callRemote executes a step in a child on the queue of the step, and waits for the child. The
// child holds the permits of the step while an attempt runs. The failure of the child is the error
// of the step.
func (ctx Context) callRemote(p *StepPlan, key string, input []byte, same func(recorded []byte) string) (*replay.Op, error) {
	b := ctx.Branch()
	spec := b.Spec()
	call, err := json.Marshal(remoteCall{Args: input, Retry: p.Retry, Timeout: p.Timeout, WorkflowID: spec.WorkflowID, Workflow: spec.Workflow, Tags: spec.Tags})
	if err != nil {
		return nil, &PayloadError{What: p.Input, Err: err}
	}
	name := event.StepRun(p.Spec.Name)
	child := &event.Spec{Workflow: name, Queue: cmp.Or(p.Queue, spec.Queue), Priority: spec.Priority, Retention: spec.Retention, Uses: p.Uses}
	if p.Queue == "" { // a step that any worker of its queue may execute is not pinned, because no replay depends on its code
		child.Pin = b.Pin(b.ChildRun(key, child, p.Slot), child, false)
	}
	op := b.Child(ctx.s, event.Event{
		Name: name, Key: key, Payload: call, Active: uint8(store.ActiveFail), Spec: child,
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
	if stored := StepErrorOf(op.Failure); stored != nil {
		e.Attempts, e.Code, e.failure = stored.Attempts, stored.Code, stored.failure
	}
	return nil, e
}

// stepProgram returns the code of a run that executes one step.
func stepProgram(spec *StepSpec) replay.Program {
	return func(b *replay.Branch, s *replay.Scope, input []byte) replay.Ending {
		var call remoteCall
		if err := json.Unmarshal(input, &call); err != nil {
			return Ending(s, &PayloadError{What: "input of step " + spec.Name, Err: err})
		}
		own := b.Spec()
		bounded := spec.Timeout > 0 || call.Timeout != DefaultAttemptTimeout
		plan := &StepPlan{Spec: spec, Retry: call.Retry, Timeout: call.Timeout, Bounded: bounded, Caller: &Caller{
			Run: own.Parent, WorkflowID: call.WorkflowID, Workflow: call.Workflow, Key: own.ParentKey, Tags: call.Tags,
		}}
		op := b.Step(s, spec.Name, b.Key(spec.Name), call.Args, plan, func([]byte) string { return "" })
		if op.Failure == nil {
			return replay.Ending{Type: event.RunCompleted, Payload: op.Payload}
		}
		e := &StepError{Run: own.Parent, Step: spec.Name, Key: own.ParentKey, Attempts: op.Attempt, Code: op.Failure.Code, failure: op.Failure}
		canceled, limit := op.Failure.Code == event.CodeCanceled && errors.Is(s.Err(), replay.ErrCanceled), s.Limit()
		if canceled && limit != nil { // the run was not canceled by a request, but has exceeded a limit
			e.Code, e.failure = limit.Code, &event.Failure{Code: limit.Code, Message: limit.Message, Causes: []*event.Failure{op.Failure}}
		}
		end := replay.Ending{Type: event.RunFailed, Failure: failure.Encode(e, e.Code)}
		if canceled && limit == nil {
			end.Type = event.RunCanceled
		}
		return end
	}
}

// Failure returns the stored form of an error that code of a workflow has returned. If that code has
// wrapped the error of a step, the result has the code of that error.
func Failure(err error) *event.Failure {
	return failure.Encode(err, cmp.Or(failure.CodeOf(err), event.CodeError))
}

// Ending returns how a run ends whose code returned err. The run ends canceled only if it was asked
// to cancel and err was caused by the cancellation.
func Ending(root *replay.Scope, err error) replay.Ending {
	e := replay.Ending{Type: event.RunFailed, Failure: Failure(err)}
	switch {
	case errors.Is(root.Err(), replay.ErrCanceled) && errors.Is(err, replay.ErrCanceled):
		if limit := root.Limit(); limit != nil {
			e.Failure = &event.Failure{Code: limit.Code, Message: limit.Message, Causes: []*event.Failure{e.Failure}}
			break
		}
		e.Type, e.Failure.Code = event.RunCanceled, event.CodeCanceled
		if why := root.CancelReason(); why != "" {
			e.Failure.Message = failure.Cut(e.Failure.Message+": "+why, failure.MaxText)
		}
	case errors.Is(root.Err(), replay.ErrTimeout) && errors.Is(err, replay.ErrTimeout):
		e.Failure.Code = event.CodeTimeout
	}
	return e
}

// ReadPlan is the plan of the step that reads from another run. The step is retried until the store
// responds. During an outage of the store, an attempt waits until its timeout.
var ReadPlan = NewPlan(&StepSpec{Name: event.ReadStep, Timeout: time.Minute, Retry: Retry{Attempts: 1 << 30}})

// reads is the implementation of the step that reads from another run.
var reads = &boundStep{spec: ReadPlan.Spec, code: "the step that reads from other runs", call: func(ctx context.Context, args []byte) ([]byte, error) {
	return attempt.From(ctx).Client.(Engine).Read(ctx, args)
}}
