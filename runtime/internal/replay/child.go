package replay

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
)

// Child asks for a run of its own, described by the event: Name, Key, Spec,
// Payload, Due, Close, Ack, Active and Finished. Its id is derived from this run
// and the key: the same call, executed again after lost writes, asks for the same
// run. If it uses limits it is in their slot. same compares the recorded input with the one
// asked for.
func (b *Branch) Child(s *Scope, asked event.Event, limits uint16, same func(recorded []byte) string) *Op {
	b.enter()
	r := b.run
	slot := event.SlotOf(string(r.id) + "/" + asked.Key)
	if asked.Spec.WorkflowID != "" {
		slot = event.SlotOf(asked.Spec.WorkflowID)
	} else if len(permits.Fleet(asked.Spec.Uses)) > 0 {
		slot = limits
	}
	asked.Next = event.DerivedRunID(r.id, asked.Key, slot)
	spec := *asked.Spec
	spec.Parent, spec.ParentKey = r.id, asked.Key
	spec.Root, spec.Depth = r.state.Spec.Root, r.state.Spec.Depth+1
	spec.Held = permits.Held(r.state.Spec)
	if spec.Fair == "" { // it works for the same one
		spec.Fair, spec.Share = r.state.Spec.Fair, r.state.Spec.Share
	}
	if spec.Root == "" {
		spec.Root = r.id
	}
	asked.Spec = &spec
	op := b.begin(s, asked, same)
	if u := r.windup.undo; u != nil {
		name, _ := event.StepOfRun(asked.Name)
		u.steps = append(u.steps, name)
	}
	return op
}

// Start asks for a run that is no child of this one: it has no parent, nothing that becomes
// of this run concerns it, and the operation ends when it exists, or was refused. The event
// describes it as for Child, and Next is its id: the same run, whichever run asks for it.
func (b *Branch) Start(s *Scope, asked event.Event, same func(recorded []byte) string) *Op {
	b.enter()
	asked.Close = event.CloseAbandon
	return b.begin(s, asked, same)
}

// begin puts the start of a run into the log.
func (b *Branch) begin(s *Scope, asked event.Event, same func(recorded []byte) string) *Op {
	asked.Type = event.ChildCreated
	op, e, over := b.run.operation(s, &asked, func(rec *event.Event) string { return same(rec.Payload) })
	op.Next, op.close, op.started = e.Next, e.Close, &Promise{scope: s, op: op}
	b.run.settled(op, over)
	return op
}

// HasChild reports whether the child that the code is about to ask for by a key is in the log, so
// that it was admitted.
func (b *Branch) HasChild(key string) bool {
	b.enter()
	b.run.halt()
	return b.run.carried[key] != nil || len(b.run.feed) > 0 && b.run.feed[0].Type == event.ChildCreated && b.run.feed[0].Key == key
}

// Children returns how many children are open, and how many there were in all.
func (b *Branch) Children() (open, all int) { return b.run.state.Children() }

// AwaitChild blocks until the child has ended, even if its scope has: then it was
// asked to end, and its outcome decides. Only a child that is left alone is not
// waited for after that: then the error is that of its scope.
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

// Started returns the promise that is resolved once the child exists or cannot be
// started. It is kept for children that were asked for with Ack.
func (op *Op) Started() *Promise { return op.started }

// CancelChild asks a child to end.
func (b *Branch) CancelChild(op *Op, reason string) {
	b.enter()
	if !op.done && !op.told && b.run.state.Open(op.Ref) != nil {
		op.cancelChild(reason)
	}
}

// cancelChild records that the child was asked to end, once.
func (op *Op) cancelChild(reason string) {
	op.told = true
	op.run.command(&event.Event{Type: event.ChildCancelRequested, Ref: op.Ref, Next: op.Next, Reason: reason}, nil)
}

// awaitClosing blocks the main branch, whose code has returned, until those
// children have ended that the run's end waits for.
func (b *Branch) awaitClosing() {
	for {
		var last *Op
		b.run.state.Opens(func(o *event.Open) bool {
			if o.Entity == event.EntityChild && o.Close == event.CloseWait && (last == nil || o.Ref < last.Ref) {
				last = b.run.ops[o.Ref]
			}
			return true
		})
		if last == nil {
			return
		}
		_ = b.AwaitChild(last) // it is not left alone
	}
}

// Send asks for a message to another run, which is named by to, and blocks until
// that has accepted or refused it. It returns the refusal.
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

// Answered returns the open operation that an answer from another run is about,
// by its key; 0 if there is none: nobody waits for the answer.
func (r *Run) Answered(typ event.Type, key string) uint64 {
	ref := r.awaiting[key]
	op := r.ops[ref]
	if op == nil || op.Kind != typ.Entity() {
		return 0
	}
	return ref
}
