package workflow

import (
	"bytes"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// LimitError reports that a child was not started because a limit of children is reached. Nothing
// was recorded, so the caller may repeat the call later.
type LimitError struct {
	Workflow string // workflow of the child
	What     string // the exceeded limit, for example "children at once"
	Limit    int
	Fix      string
}

// Error returns a text that contains the limit and how to raise it.
func (e *LimitError) Error() string {
	return fmt.Sprintf("start child %s: the limit of %d %s is reached: %s", e.Workflow, e.Limit, e.What, e.Fix)
}

// Child is the future result of a run that this run has started.
type Child[T any] struct {
	*Future[T]
	op *replay.Op // nil if the child was not started
}

// Child starts a child run of this workflow from the code of another workflow. It waits for the
// child and returns its result or error. See [Definition.StartChild].
func (d Definition[In, Out]) Child(ctx Context, in In) (Out, error) {
	c := d.child(ctx, in, false, nil)
	if c.op != nil {
		if err := ctx.branch().AwaitChild(c.op); err != nil {
			var zero Out
			return zero, err
		}
	}
	o := c.outcome()
	return o.Value, o.Err
}

// StartChild starts a child run of this workflow from the code of another workflow. It does not
// wait, and reports every error as the error of the returned result.
//
// Errors: a *RunError if the child failed, was canceled (it matches [ErrCanceled]) or could not be
// started because its workflow ID is in use (it matches *[ActiveRunError]); a *[LimitError] if
// there are too many children; or a *[PayloadError].
//
// If ctx ends, the child is asked to cancel, and the result becomes available when the child has
// ended. [WithParentClose] determines what happens to the child when this run ends.
func (d Definition[In, Out]) StartChild(ctx Context, in In, opts ...ChildOption) *Child[Out] {
	return d.child(ctx, in, true, opts)
}

func (d Definition[In, Out]) child(ctx Context, in In, ack bool, opts []ChildOption) *Child[Out] {
	def := d.def()
	fail := func(err error) *Child[Out] {
		p := replay.NewPromise(ctx.scope())
		p.Resolve(Outcome[Out]{Err: err})
		return &Child[Out]{Future: &Future[Out]{p: p, path: def.Name}}
	}
	b := ctx.gate()
	key := b.Key(def.Name)
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	asked, slot, err := def.childEvent(ctx, in, opts)
	if err != nil {
		return fail(fmt.Errorf("start child %s: %w", def.Name, err))
	}
	if !b.HasChild(key) { // the limits were checked when a recorded child was started
		if err := ctx.admitChild(def.Name); err != nil {
			return fail(err)
		}
	}
	asked.Key, asked.Ack = key, ack
	asked.Spec.Pin = b.Pin(b.ChildRun(key, asked.Spec, slot), asked.Spec, def.Pin)
	op := b.Child(ctx.scope(), asked, slot, func(recorded []byte) string {
		var v In
		return def.differs(b, recorded, asked.Payload, &v)
	})
	return &Child[Out]{op: op, Future: &Future[Out]{p: &op.Promise, path: key, read: func(op *replay.Op) Outcome[Out] {
		var o Outcome[Out]
		if o.Err = childError(op); o.Err == nil {
			o.Err = flow.Decode("result of child "+op.Key, op.Payload, &o.Value)
		}
		return o
	}}}
}

// differs compares the recorded input with the requested one, by value. It returns the difference,
// or "" if they are equal.
func (d definition) differs(b *replay.Branch, recorded, asked []byte, v any) string {
	if bytes.Equal(recorded, asked) {
		return ""
	}
	if _, err := d.DecodeInput(recorded, v); err == nil {
		if again, err := d.encodeInput(v); err == nil {
			if bytes.Equal(again, asked) {
				return ""
			}
			b.Renamed(replay.FindRenaming(recorded, again))
		}
	}
	return replay.DiffJSON(recorded, asked)
}

// childEvent returns the event that starts a child with the values of its directive and the given
// options. It also returns the slot of the limits that the child uses.
func (d definition) childEvent(ctx Context, in any, opts []ChildOption) (event.Event, uint16, error) {
	o := d.options()
	for _, opt := range opts {
		opt.applyChild(&o)
	}
	d.identify(&o, in)
	switch {
	case o.err != nil:
	case d.Collect != nil:
		o.err = fmt.Errorf("start child %s: its starts share a run, which would then have several parents: start it from a step", d.Name)
	case o.policy.Active == CancelActive || o.policy.Active == LatestActive:
		o.err = fmt.Errorf("start child %s: a child cannot cancel other runs of its workflow id %q: use FailActive or QueueActive, or start it from a step", d.Name, o.workflowID)
	case o.policy.Active == QueueActive && o.workflowID == ctx.branch().Spec().WorkflowID:
		o.err = fmt.Errorf("start child %s: it would wait for the end of this run, which has its workflow id %q", d.Name, o.workflowID)
	case o.policy.Active != QueueActive:
		o.policy.Active = FailActive
	}
	if o.err != nil {
		return event.Event{}, 0, o.err
	}
	payload, err := d.input(ctx.env().Limits, in, ctx.branch().Replaying())
	if err != nil {
		return event.Event{}, 0, err
	}
	d.rank(&o, in, ctx.branch().Spec().Priority)
	if o.retention == 0 { // the child must be kept for as long as its parent
		o.retention = ctx.branch().Spec().Retention
	}
	spec, slot, err := d.spec(&o, in, o.workflowID, Now(ctx), ctx.env().Partitions, ctx.branch().Spec())
	return event.Event{
		Name: d.Name, Payload: payload, Close: o.close, Spec: spec,
		Active: uint8(o.policy.Active), Finished: uint8(o.policy.Finished),
	}, slot, err
}

// admitChild returns a *LimitError if one more child would exceed a limit.
func (ctx Context) admitChild(workflow string) error {
	b := ctx.branch()
	open, all := b.Children()
	inAll := max(flow.DefaultChildrenInAll, ctx.env().Children)
	switch {
	case open >= ctx.env().Children:
		return &LimitError{workflow, "children at once", ctx.env().Children,
			"wait for some of them, use workflow.Limit, or raise it with children=N in the directive //flow:workflow of the parent"}
	case all >= inAll:
		return &LimitError{workflow, "children of one run in all", inAll,
			"continue as new, or raise it with children=N in the directive //flow:workflow of the parent"}
	case b.Spec().Depth+1 > flow.MaxDepth:
		return &LimitError{workflow, "generations of children", flow.MaxDepth, "a run that starts itself needs an end"}
	}
	return nil
}

// childError returns the error of a child that has ended, or nil if it completed.
func childError(op *replay.Op) error {
	if op.Failure == nil {
		return nil
	}
	return newRunError(op.Next, op.Name, op.Failure, op.WasCanceled())
}

// ID returns the ID of the child's run. It is empty if the child was not started. The error of the
// result then contains the reason.
func (c *Child[T]) ID() RunID {
	if c.op == nil {
		return ""
	}
	return c.op.Next
}

// Started waits until the child exists, even if no worker has begun it. It returns an error if the
// child could not be started. After Started has returned nil, a child with [ParentCloseAbandon]
// does not depend on its parent.
func (c *Child[T]) Started(ctx Context) error {
	if c.op == nil {
		return c.outcome().Err
	}
	if _, err := ctx.branch().Await(ctx.scope(), c.op.Started(), "the start of child "+c.path); err != nil {
		return err
	}
	if c.op.Done() && c.op.Failure != nil && c.op.Failure.Code == event.CodeRefused {
		return childError(c.op)
	}
	return nil
}

// Cancel requests the cancellation of the child. The child determines its outcome, which
// [Future.Get] returns. Repeated calls, and calls for a child that has ended, do nothing. If the
// reason is longer than [store.MaxReason] bytes, its middle is removed.
func (c *Child[T]) Cancel(ctx Context, reason string) {
	if c.op != nil {
		ctx.branch().CancelChild(c.op, failure.Cut(reason, store.MaxReason))
	}
}

// ContinueAsNew ends the run and continues in a new run with a new log and a new input, under the
// same workflow ID. The workflow must return its result:
//
//	return Loop.ContinueAsNew(ctx, next)
//
// The new run receives, in order, the messages that the code has not received. It also receives a
// cancel request that has not taken effect. Handles of the old run also refer to the new one. The
// new run has the queue, tags, priority, timeout and retention of the old one. Its timeout starts
// anew. For children, the run has ended.
//
// A workflow that collects the inputs of several starts continues with this input only.
//
// Only the code of the same workflow may call ContinueAsNew. It returns a *[PayloadError] if the
// input cannot be stored.
func (d Definition[In, Out]) ContinueAsNew(ctx Context, in In) error {
	def, b := d.def(), ctx.branch()
	input, err := def.input(ctx.env().Limits, in, b.Replaying())
	if err != nil {
		return err
	}
	if def.collected() == event.CollectAll {
		input = event.CollectAll.Add(nil, input)
	}
	return &flow.Continuation{Workflow: def.Name, Input: input}
}

// Compensate registers a function that undoes an earlier effect of the workflow:
//
//	receipt, err := Charge(ctx, order)
//	if err != nil {
//		return err
//	}
//	workflow.Compensate(ctx, func(ctx workflow.Context) error { return Refund(ctx, receipt) })
//
// If the run fails, including by a panic, or is canceled, the registered functions run one after
// the other, beginning with the last registered one. Each function has its own context, which no
// cancel and no timeout ends. The functions are ordinary workflow code: their steps are recorded
// and retried as usual, and after a crash the run continues in the function that was running. If a
// function returns an error or panics, the remaining functions run nevertheless. [RunError] lists
// which compensations succeeded and which did not. A run that completes or continues as new calls
// no function. withdraw unregisters this function, unless it has begun.
//
// Before the first function runs, everything under the context of the run is canceled, and the run
// waits for its open branches. A branch that waits under a [Detached] context therefore delays the
// compensation. After a panic, the run does not wait for its branches.
//
// If the engine ends a run without executing its code, because the run has crashed too many
// workers, no function is called. Compensate panics if a registered function calls it.
func Compensate(ctx Context, undo func(Context) error) (withdraw func()) {
	return ctx.branch().Compensate(func(b *replay.Branch, s *replay.Scope) *event.Failure {
		if err := undo(Context(flow.Context(ctx).On(b).Within(s))); err != nil {
			return failure.Encode(err, event.CodeError)
		}
		return nil
	}).Withdraw
}
