package workflow

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

func isEnd(err, end error) bool { return errors.Is(err, end) }

// plan returns the plan of a call. Calls without options use the shared plan.
func (ctx Context) plan(shared *flow.StepPlan) *flow.StepPlan {
	if ctx.steps == nil {
		return shared
	}
	p := *shared
	if ctx.steps.retry != nil {
		p.Retry = flow.Retry(*ctx.steps.retry)
	}
	if ctx.steps.timeout > 0 {
		p.Timeout = ctx.steps.timeout
	}
	if q := ctx.steps.queue; q != "" {
		if p.Queue = q; q == ctx.branch().Spec().Queue {
			p.Queue = ""
		}
	}
	return &p
}

// newPlan implements [flow.NewPlan].
func newPlan(spec *flow.StepSpec) *flow.StepPlan {
	p := &flow.StepPlan{
		Spec: spec, Retry: spec.Retry, Timeout: spec.Timeout, Queue: spec.Queue,
		Input: "input of step " + spec.Name, Result: "result of step " + spec.Name,
	}
	if p.Timeout <= 0 {
		p.Timeout = flow.DefaultAttemptTimeout
	}
	return p
}

// callStep implements [flow.CallStep].
func callStep(ctx Context, p *flow.StepPlan, key string, keyed bool, args, out any) error {
	b := ctx.branch()
	b.Gate(ctx.s)
	if err := ctx.Err(); err != nil {
		// This also holds during a replay, because the log contains the end of the context.
		return &StepError{Run: b.Run().ID(), Step: p.Spec.Name, Code: event.CodeCanceled, Key: p.Spec.Name,
			failure: replay.CancelFailure(err), cause: err}
	}
	input, err := ctx.encode(p.Input, args)
	if err != nil {
		return err
	}
	if ctx.steps != nil && ctx.steps.key != nil {
		key, keyed = *ctx.steps.key, true
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
	op, err := ctx.await(plan, key, input, func(recorded []byte) string { return differs(b, reflect.TypeOf(args), recorded, input) })
	if err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	return decode(p.Result, op.Payload, out)
}

// limited returns the plan with the limits that the step uses. It leaves out limits that the run or
// the runs above it hold.
func limited(p *flow.StepPlan, args any, by *event.Spec) (*flow.StepPlan, error) {
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
func (ctx Context) await(p *flow.StepPlan, key string, input []byte, same func(recorded []byte) string) (*replay.Op, error) {
	b := ctx.branch()
	if b.Apart(p.Spec.Name, p.Queue != "" || bounded(b.Run(), p.Uses)) {
		return ctx.callRemote(p, key, input, same)
	}
	op := b.Step(ctx.s, p.Spec.Name, key, input, p, same)
	b.AwaitStep(op)
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

// differs compares the recorded arguments with the requested ones, by value. It decodes the
// recorded arguments into the type today and encodes them again, so that added or removed fields
// make no difference. It returns the difference, or "" if they are equal, and reports a renamed
// field to b.
func differs(b *replay.Branch, today reflect.Type, recorded, asked []byte) string {
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
	Retry      remoteRetry       `json:"retry"`
	Timeout    time.Duration     `json:"timeout"`
	WorkflowID string            `json:"workflowID,omitempty"` // workflow ID of the calling run
	Tags       map[string]string `json:"tags,omitempty"`       // tags of the calling run
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

// callRemote executes a step in a child on the queue of the step, and waits for the child. The
// child holds the permits of the step while an attempt runs. The failure of the child is the error
// of the step.
func (ctx Context) callRemote(p *flow.StepPlan, key string, input []byte, same func(recorded []byte) string) (*replay.Op, error) {
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
	if op.Failure.Type == wireStepError && loadStep(&stored, op.Failure) == nil {
		e.Attempts, e.Code, e.failure = stored.Attempts, stored.Code, stored.failure
	}
	return nil, e
}

// stepProgram returns the code of a run that executes one step.
func stepProgram(spec *flow.StepSpec) replay.Program {
	return func(b *replay.Branch, s *replay.Scope, input []byte) replay.Ending {
		var call remoteCall
		if err := json.Unmarshal(input, &call); err != nil {
			return ending(s, &PayloadError{What: "input of step " + spec.Name, Err: err})
		}
		own := b.Spec()
		plan := &flow.StepPlan{Spec: spec, Retry: flow.Retry(call.Retry), Timeout: call.Timeout, Caller: &flow.Caller{
			Run: own.Parent, WorkflowID: call.WorkflowID, Key: own.ParentKey, Tags: call.Tags,
		}}
		op := b.Step(s, spec.Name, b.Key(spec.Name), call.Args, plan, func([]byte) string { return "" })
		b.AwaitStep(op)
		if op.Failure == nil {
			return replay.Ending{Type: event.RunCompleted, Payload: op.Payload}
		}
		e := &StepError{Run: own.Parent, Step: spec.Name, Key: own.ParentKey, Attempts: op.Attempt, Code: op.Failure.Code, failure: op.Failure}
		canceled, limit := op.Failure.Code == event.CodeCanceled && errors.Is(s.Err(), ErrCanceled), s.Limit()
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

// stepOfRun returns the step that the runs of a workflow execute. It returns nil if they do not
// execute a step, or if the step is not registered.
func (r *registry) stepOfRun(name string) *flow.StepSpec {
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

// A run takes its permits in the action in which a worker claims it. Therefore it must be in the
// partition of its limits. If its workflow ID determines another partition, a child of workflow
// event.PermitRun in the partition of the limits takes the permits, and holds them until the run
// ends.
//
// The code of the run begins when the message of that child is in the log of the run. The message
// is part of a commit of the child's first owner, so the child sends it only when it holds its
// permits. The creation of the child and the message go through outboxes. Therefore each happens
// exactly once, regardless of crashes. When the run ends, it ends the child, like any child. If the
// run has ended earlier, the child's message is refused, which ends the child. [L10, L11]

// grant returns the ID of the message by which the run permits reports that it holds its permits.
func grant(permits RunID) event.ItemID { return event.DerivedItemID(permits, event.PermitRun) }

// awaitPermits waits until another run holds the permits for this run. If the permits cannot be
// obtained, it returns how this run ends. A run that is canceled meanwhile ends without executing
// its code, like a run that waits for permits itself.
func awaitPermits(b *replay.Branch, s *replay.Scope) *replay.Ending {
	spec := b.Spec()
	if spec.PermitSlot == 0 {
		return nil
	}
	if s.Err() != nil {
		end := ending(s, s.Err())
		return &end
	}
	op := b.Child(b.NewScope(nil), event.Event{
		Name: event.PermitRun, Key: event.PermitRun, Active: uint8(FailActive),
		Spec: &event.Spec{
			Workflow: event.PermitRun, Queue: spec.Queue, Priority: spec.Priority, Retention: spec.Retention, Uses: permits.Fleet(spec.Uses), Whole: true,
		},
	}, uint16(spec.PermitSlot-1), func([]byte) string { return "" })
	cases := []replay.Case{{Topic: event.PermitRun}, {Promise: &op.Promise}}
	if by := b.Run().State().PermitsBy(); !by.IsZero() {
		cases = append(cases, replay.Case{Due: by})
	}
	for {
		won, message, err := b.Select(s, cases)
		switch {
		case err != nil:
			end := ending(s, err)
			return &end
		case won == 1:
			return &replay.Ending{Type: event.RunFailed, Failure: op.Failure}
		case won == 2:
			return &replay.Ending{Type: event.RunFailed, Failure: &event.Failure{
				Code: event.CodeNotStarted, Message: fmt.Sprintf("it did not receive its permits within %v", spec.StartWithin),
			}}
		case message.Item == grant(op.Next): // ignore messages of other senders
			return nil
		}
	}
}

// holdPermits is the code of a run that holds permits for another run. It reports to that run that
// it holds them, and waits until it is canceled.
func holdPermits(b *replay.Branch, s *replay.Scope, _ []byte) replay.Ending {
	self := b.Run().ID()
	refused := b.Send(s, event.PermitRun, event.PermitRun, b.Spec().Parent, grant(self), nil, func([]byte) string { return "" })
	if refused != nil {
		return replay.Ending{Type: event.RunFailed, Failure: refused}
	}
	return holdToken(b, s, nil)
}

// waits returns the record of the run that takes the permits for a run. Usually this is the record
// r of the run itself.
func (c *Client) waits(ctx context.Context, r *store.Record, spec *event.Spec) (*store.Record, error) {
	if spec.PermitSlot == 0 || r.QueueState == store.StateEnded {
		return r, nil
	}
	l, err := c.load(ctx, store.Load{Run: event.DerivedRunID(r.Run, event.PermitRun, uint16(spec.PermitSlot-1)), Limit: -1})
	if errors.Is(err, ErrRunNotFound) { // the run that takes the permits does not exist yet
		return &store.Record{}, nil
	}
	return &l.Record, err
}

func waitsOf(r *store.Record) (names []string) {
	if r.Waits() {
		for _, u := range r.Uses {
			names = append(names, u.LimitID.String())
		}
	}
	return names
}

func waitsSince(r *store.Record) (since time.Time) {
	if r.Waits() {
		since = r.WaitsSince
	}
	return since
}

// overweight returns a [store.LimitError] if a start needs more permits of a limit than its AtOnce
// and the store would not refuse the start. The store does not refuse it before a worker has
// declared the limit, or if another run takes the permits because of a workflow ID. A configuration
// in the store takes precedence, but overweight reads it only if the start exceeds the declaration
// in this process.
func (c *Client) overweight(ctx context.Context, uses []event.Use, slot uint16, permitSlot int) error {
	for _, u := range permits.Stored(permits.Fleet(uses)) {
		most := permits.Default(u.Name).AtOnce
		if most == 0 || u.Weight <= most {
			continue
		}
		if permitSlot != 0 {
			slot = uint16(permitSlot - 1)
		}
		limiter, ok := store.As[store.Limiter](c.store)
		if !ok {
			return store.ErrNoLimits
		}
		states, err := permits.States(ctx, limiter, []int{int(slot) % c.store.Partitions()})
		if err != nil {
			return err
		}
		whole := true // most is the maximum of the limit as a whole
		for _, s := range states {
			switch known := s.Name == u.Name && (s.Set || s.Default); {
			case known && s.Key == u.Key:
				most, whole = s.Config.AtOnce, false
			case known && s.Key == "" && whole:
				most = s.Config.AtOnce
			}
		}
		if most > 0 && u.Weight > most {
			return &store.LimitError{Limit: u.LimitID, Weight: u.Weight, AtOnce: most}
		}
	}
	return nil
}
