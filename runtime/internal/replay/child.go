package replay

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
)

// Child requests a child run. asked describes it by the fields Name, Key, Spec, Payload, Due,
// Close, Ack, Active and Finished. The ID of the child is derived from this run and the key. So if
// the call is repeated after lost writes, it requests the same run. If the child uses limits, it is
// created in their slot. same compares the recorded input with the requested one.
func (b *Branch) Child(s *Scope, asked event.Event, limits uint16, same func(recorded []byte) string) *Op {
	b.enter()
	r := b.run
	asked.Next = b.ChildRun(asked.Key, asked.Spec, limits)
	spec := *asked.Spec
	spec.Parent, spec.ParentKey = r.id, asked.Key
	spec.Root, spec.Depth = r.state.Spec.Root, r.state.Spec.Depth+1
	spec.Held = permits.Held(r.state.Spec)
	if spec.Fair == "" { // the child has the fairness key of its parent
		spec.Fair, spec.Share = r.state.Spec.Fair, r.state.Spec.Share
	}
	if spec.Root == "" {
		spec.Root = r.id
	}
	switch {
	case event.IsStepRun(spec.Workflow): // the step has the attributes of this run
		spec.Build = r.state.Spec.Build
	case !event.Helper(spec.Workflow):
		spec.Build = r.Build
	}
	asked.Spec = &spec
	op := b.begin(s, asked, same)
	if u := r.windup.undo; u != nil {
		name, _ := event.StepOfRun(asked.Name)
		u.steps = append(u.steps, name)
	}
	return op
}

// ChildRun returns the ID of the child with the given key and Spec, see Child.
func (b *Branch) ChildRun(key string, spec *event.Spec, limits uint16) event.RunID {
	slot := event.SlotOf(string(b.run.id) + "/" + key)
	if spec.WorkflowID != "" {
		slot = event.SlotOf(spec.WorkflowID)
	} else if len(permits.Fleet(spec.Uses)) > 0 {
		slot = limits
	}
	return event.DerivedRunID(b.run.id, key, slot)
}

// Pin returns the build to which a run is pinned that the code requests with the given ID and Spec.
// declared is set if the workflow of that run is pinned. The result belongs to the Spec in the log,
// so it does not matter that a replay gets another one.
func (b *Branch) Pin(run event.RunID, spec *event.Spec, declared bool) string {
	if b.run.Pin == nil {
		return ""
	}
	return b.run.Pin(run, spec, b.run.state.Spec.Pin != "", declared)
}

// Start requests a run that is not a child: it has no parent and is not affected by the end of this
// run. The operation ends when the run exists or was refused. asked describes the run as for Child.
// Its field Next is the ID of the run, which does not depend on the requesting run.
func (b *Branch) Start(s *Scope, asked event.Event, same func(recorded []byte) string) *Op {
	b.enter()
	spec := *asked.Spec
	spec.Build = b.run.Build
	asked.Close, asked.Spec = event.CloseAbandon, &spec
	return b.begin(s, asked, same)
}

// begin records the request of a run in the log.
func (b *Branch) begin(s *Scope, asked event.Event, same func(recorded []byte) string) *Op {
	asked.Type = event.ChildCreated
	op, e, over := b.run.operation(s, &asked, func(rec *event.Event) string { return same(rec.Payload) })
	op.Next, op.close, op.started = e.Next, e.Close, &Promise{scope: s, op: op}
	b.run.settled(op, over)
	return op
}

// HasChild reports whether the log contains the child with the given key, which the code is about
// to request. Such a child was admitted.
func (b *Branch) HasChild(key string) bool {
	b.enter()
	b.run.halt()
	return b.run.carried[key] != nil || len(b.run.feed) > 0 && b.run.feed[0].Type == event.ChildCreated && b.run.feed[0].Key == key
}

// Children returns the number of open children and the number of all children.
func (b *Branch) Children() (open, all int) { return b.run.state.Children() }

// AwaitChild blocks until the child has ended, even if the scope of the child has ended: the child
// was then canceled, and its outcome decides. If the scope of a child with CloseAbandon ends,
// AwaitChild returns the error of the scope.
func (b *Branch) AwaitChild(op *Op) error {
	b.enter()
	switch {
	case op.done:
	case op.close != event.CloseAbandon:
		b.wait("child ", op.Key, op)
	case op.scope.err != nil:
		return op.scope.err
	default:
		if won, _ := b.wait("child ", op.Key, op, &op.scope.ended); won == 1 {
			return op.scope.err
		}
	}
	return nil
}

// Started returns the promise that is resolved when the child exists or cannot be started. If the
// child was requested without Ack, it is resolved when the child ends.
func (op *Op) Started() *Promise { return op.started }

// CancelChild requests a cancel of a child.
func (b *Branch) CancelChild(op *Op, reason string) {
	b.enter()
	if !op.done && !op.told && b.run.state.Open(op.Ref) != nil {
		op.cancelChild(reason)
	}
}

// cancelChild records the cancel of a child. It must be called at most once.
func (op *Op) cancelChild(reason string) {
	op.told = true
	op.run.command(&event.Event{Type: event.ChildCancelRequested, Ref: op.Ref, Next: op.Next, Reason: reason}, nil)
}

// awaitClosing blocks the main branch after its code has returned. It waits until the children with
// CloseWait have ended.
func (b *Branch) awaitClosing() {
	for {
		var last *Op
		b.run.state.Opens(func(o *event.Open) bool {
			if o.Entity == event.EntityChild && o.Close == event.CloseWait && (last == nil || o.Ref < last.Ref) {
				last = b.run.ops.Get(o.Ref)
			}
			return true
		})
		if last == nil {
			return
		}
		_ = b.AwaitChild(last) // the error is nil, because the child is not CloseAbandon
	}
}

// Send sends a message to another run. It blocks until that run has accepted or refused the
// message, and returns the refusal.
func (b *Branch) Send(s *Scope, topic, key string, to event.RunID, item event.ItemID, payload []byte, same func(recorded []byte) string) *event.Failure {
	b.enter()
	asked := event.Event{Type: event.MessageSent, Name: topic, Key: key, Next: to, Item: item, Payload: payload}
	op, _, over := b.run.operation(s, &asked, func(rec *event.Event) string {
		if rec.Next != to {
			return "- to " + string(rec.Next) + "\n+ to " + string(to)
		}
		return same(rec.Payload)
	})
	if b.run.settled(op, over); !op.done {
		b.wait("the answer of run "+string(to)+" to ", key, op)
	}
	return op.Failure
}

// Answered returns the number of the open operation to which an answer from another run belongs.
// key is the key in the answer. It returns 0 if no operation waits for the answer.
func (r *Run) Answered(typ event.Type, key string) uint64 {
	ref := r.awaiting[key]
	op := r.ops.Get(ref)
	if op == nil || op.Kind != typ.Entity() {
		return 0
	}
	return ref
}
