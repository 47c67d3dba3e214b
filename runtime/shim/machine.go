package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/machine"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// MachineArgs are the stored arguments of a machine's step. They consist of the scratchpad, which
// contains the exported fields of M as last committed, and the arguments of the step itself.
type MachineArgs[M, A any] struct {
	State *M `json:"state"`
	Args  A  `json:"args"`
}

// machineResult is the stored result of a machine's step.
type machineResult struct {
	State json.RawMessage `json:"state,omitempty"` // absent if the scratchpad is unchanged
	Next  machine.Next    `json:"next"`
}

// Goto returns a transition to a step with the given arguments.
func Goto[M, R, F, A any](s Step[F], args A) step.Next[M, R] {
	data, err := flow.EncodePayload("input of step ", s.Name(), args)
	return step.Next[M, R](machine.To(machine.Next{Step: s.Name(), Args: data}, err))
}

// Await returns a transition to a step when a message of the topic arrives. The message becomes the
// argument of the step named param. args are the other arguments.
func Await[M, R, F, A, T any](s Step[F], args A, param string, topic workflow.Topic[T]) step.Next[M, R] {
	if topic.Name() == "" {
		return step.Next[M, R](machine.To(machine.Next{}, fmt.Errorf("wait for step %s: zero Topic: declare it with workflow.NewTopic", s.Name())))
	}
	data, err := flow.EncodePayload("input of step ", s.Name(), args)
	wait := machine.Wait{Topic: topic.Name(), Step: s.Name(), Args: data, Message: param}
	return step.Next[M, R](machine.To(machine.Next{Waits: []machine.Wait{wait}}, err))
}

// Done returns the transition that ends the run with a result.
func Done[M, R any](result R) step.Next[M, R] {
	data, err := flow.EncodePayload("result of machine", "", result)
	return step.Next[M, R](machine.To(machine.Next{Done: true, Result: data}, err))
}

// HandleMachine returns a Handler that calls a method of a machine. f receives a machine that
// contains the scratchpad. The unexported fields of the machine are zero.
func HandleMachine[M, A, R any](f func(context.Context, *M, A) (step.Next[M, R], error)) Handler {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		var in MachineArgs[M, A]
		if err := decodeArgs(ctx, args, &in); err != nil {
			return nil, err
		}
		if in.State == nil {
			in.State = new(M)
		}
		before, err := flow.EncodePayload("scratchpad before step ", stepName(ctx), in.State)
		if err != nil {
			return nil, err
		}
		if a := attempt.From(ctx); a != nil {
			a.Hooks = noHooks{}
		}
		to, err := f(ctx, in.State, in.Args)
		if err != nil {
			return nil, err
		}
		var out machineResult
		if out.Next, err = machine.Transition(to).Next(); err != nil {
			return nil, step.Fatal(fmt.Errorf("next of step %s: %w", stepName(ctx), err)) // fatal, because another attempt would run the same code
		}
		after, err := flow.EncodePayload("scratchpad after step ", stepName(ctx), in.State)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(before, after) {
			out.State = after
		}
		return flow.EncodePayload("result of step ", stepName(ctx), out)
	}
}

// noHooks refuses to open hooks in a step of a machine. The holder of a hook's token would send the
// result of the step, which cannot contain the next step.
type noHooks struct{}

// OpenHook returns a fatal error, because another attempt would run the same code.
func (noHooks) OpenHook(_ context.Context, h attempt.Hook) (string, error) {
	return "", step.Fatal(&workflow.InvalidError{What: "hook", Value: h.Name, Reason: "would finish a step of a machine from outside, and return nothing about the next step: " +
		"return what an await… method of the machine returns, and have other code send to its topic"})
}

// MachineStep is a step of a machine of type M whose result has type R.
type MachineStep[M, R any] struct {
	name  string
	catch func(step.Failure) step.Next[M, R]
	begin func(ctx workflow.Context, state *M, args json.RawMessage, out *machineResult) error
}

// NewMachineStep declares a step of a machine, with arguments of type A. key returns the declared
// key of the step; nil: the step has no declared key. catch returns the transition for a failure of
// the step; nil: the machine fails.
func NewMachineStep[A, M, R, F any](s Step[F], key func(A) string, catch func(step.Failure) step.Next[M, R]) MachineStep[M, R] {
	begin := func(ctx workflow.Context, state *M, args json.RawMessage, out *machineResult) error {
		in := MachineArgs[M, A]{State: state}
		if err := flow.DecodeArgs(workflow.Info(ctx).ID, s.Name(), args, &in.Args); err != nil {
			return fitting(ctx, err)
		}
		if key != nil {
			return flow.Call(flow.Context(ctx), s.in().Plan(), key(in.Args), true, in, out)
		}
		return flow.Call(flow.Context(ctx), s.in().Plan(), "", false, in, out)
	}
	return MachineStep[M, R]{name: s.Name(), catch: catch, begin: begin}
}

// BindMachine registers a machine in r. start returns the first transition of the machine. limit is
// the maximum number of steps; 0: no maximum.
func BindMachine[M, In, R any](r workflow.Registrar, d workflow.Definition[In, R], limit int, start func(In) step.Next[M, R], steps ...MachineStep[M, R]) {
	byName := make(map[string]MachineStep[M, R], len(steps))
	for _, s := range steps {
		byName[s.name] = s
	}
	decides := machine.Machine{Max: limit, Has: func(name string) bool { _, ok := byName[name]; return ok }}
	BindWorkflow(r, d, func(ctx workflow.Context, in In) (R, error) {
		m := running[M, R]{Machine: decides, name: d.Name(), steps: byName, state: new(M)}
		return m.run(ctx, start(in))
	})
}

// running is the state of a machine while its run executes.
type running[M, R any] struct {
	machine.Machine
	name  string
	steps map[string]MachineStep[M, R]

	state *M     // scratchpad as last committed
	begun int    // number of steps that have begun
	last  string // last step that has begun; empty: none
	err   error  // error of that step
}

// run executes the actions of the machine until it completes or fails.
func (m *running[M, R]) run(ctx workflow.Context, start step.Next[M, R]) (result R, err error) {
	to, err := machine.Transition(start).Next()
	if err != nil {
		return result, err
	}
	happened := machine.Event{Kind: machine.Returned, Next: &to}
	for {
		a := m.Decide(happened, m.begun)
		switch a.Do {
		case machine.Start:
			happened, err = m.start(ctx, a)
		case machine.Await:
			happened, err = await(ctx, a.Next)
		case machine.Complete:
			err = flow.DecodePayload("result of machine ", m.name, a.Result, &result)
			return result, err
		case machine.Block:
			flow.Context(ctx).Branch().Block(&machine.RemovedError{Run: workflow.Info(ctx).ID, Machine: m.name, From: m.last, Step: a.Step})
		case machine.Fail:
			return result, m.failure(a)
		}
		if err != nil {
			return result, err
		}
	}
}

// start begins a step and waits until it has ended. If ctx has ended, start returns the error of
// the step, which the machine does not catch.
func (m *running[M, R]) start(ctx workflow.Context, a machine.Action) (machine.Event, error) {
	m.begun++
	m.last = a.Step
	s := m.steps[a.Step]
	var out machineResult
	if m.err = s.begin(ctx, m.state, a.Args, &out); m.err == nil && len(out.State) > 0 {
		state := new(M)
		if m.err = fitting(ctx, flow.DecodeFitting(workflow.Info(ctx).ID, "scratchpad of machine ", m.name, "", out.State, state)); m.err == nil {
			m.state = state
		}
	}
	switch {
	case m.err == nil:
		return machine.Event{Kind: machine.Returned, Next: &out.Next}, nil
	case ctx.Err() != nil:
		return machine.Event{}, m.err
	case s.catch == nil:
		return machine.Event{Kind: machine.Failed}, nil
	}
	to, err := machine.Transition(s.catch(caught(s.name, m.err))).Next()
	return machine.Event{Kind: machine.Failed, Next: &to}, err
}

// await waits for a message or for the time limit of n.
func await(ctx workflow.Context, n *machine.Next) (machine.Event, error) {
	var cases []workflow.Case
	for _, w := range n.Waits {
		cases = append(cases, workflow.NewTopic[json.RawMessage](w.Topic).Case())
	}
	if n.Then != nil {
		cases = append(cases, workflow.After(n.After))
	}
	won, err := workflow.Select(ctx, cases...)
	if err != nil {
		return machine.Event{}, err
	}
	for i, c := range cases {
		if message, ok := c.(*workflow.ReceiveCase[json.RawMessage]); ok && c == won {
			return machine.Event{Kind: machine.Received, Next: n, Case: i, Message: message.Value()}, nil
		}
	}
	return machine.Event{Kind: machine.TimeUp, Next: n}, nil
}

// failure returns the error with which the machine fails.
func (m *running[M, R]) failure(a machine.Action) error {
	switch a.Reason {
	case machine.StepFailed:
		return m.err
	case machine.TooMany:
		return &step.TransitionsError{Machine: m.name, Max: m.Max, Next: a.Step}
	}
	return fmt.Errorf("next of step %s: %w", m.last, machine.ErrNowhere)
}

// caught converts the error of a step into the Failure for the step that catches it. The Failure
// contains no number of attempts and no stack, because these differ between executions.
func caught(name string, err error) step.Failure {
	f := failure.Encode(err, event.CodeError)
	if _, ok := errors.AsType[*workflow.StepError](err); ok && len(f.Causes) > 0 {
		cause := *f.Causes[0]
		cause.Stack = ""
		return step.Failure{Step: name, Code: f.Code, Cause: &cause}
	}
	return step.Failure{Step: name, Code: f.Code, Cause: f}
}

// fitting blocks the run if err reports that the code does not match the stored data.
func fitting(ctx workflow.Context, err error) error {
	if _, ok := errors.AsType[*replay.RenamedError](err); ok {
		flow.Context(ctx).Branch().Block(err)
	}
	return err
}
