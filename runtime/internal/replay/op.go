package replay

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Op is a durable operation of the code: a step, a wait, a child or a message to another run. The
// promise of a child is resolved with the Op, and the promise of another operation with nil. The
// fields contain the outcome.
type Op struct {
	Promise
	Ref   uint64 // sequence number of the creating event
	Name  string
	Key   string
	Input []byte
	Meta  any // data that the layer above stores with a step; nil for waits
	// Closes are the streams that the code of a pending attempt has closed. They are closed when
	// the attempt completes.
	Closes []string

	// Payload and Failure are the outcome of a step. Outcome is the outcome of a wait. The payload
	// belongs to the log and must not change.
	Payload []byte
	Failure *event.Failure
	Attempt int
	Outcome event.Outcome
	Kind    event.Entity
	Next    event.RunID // the ID of the child
	// Canceled is the error of the scope, if the operation ended because its scope ended.
	Canceled error

	run       *Run
	answerTo  string   // key by which answers from other runs refer to the operation
	started   *Promise // promise of the child's start; nil for other operations
	close     event.ParentClose
	told      bool       // whether a cancel of the child was requested
	ended     event.Type // type of the event that ended a child
	limits    *Scope     // scope that ends when the wait is due; nil if none
	scoped    node[Op]   // node in the list of the scope's operations
	unstarted node[Op]   // node in the list of the steps that were never started
}

// CancelWanted reports whether the scope of the operation has ended. If a step fails after that, it
// is canceled and not retried.
func (op *Op) CancelWanted() bool { return op.scope.err != nil }

// Deadline returns the earliest time at which the scope of the operation ends by itself. It returns
// the zero time if there is none.
func (op *Op) Deadline() time.Time {
	var first time.Time
	for s := op.scope; s != nil; s = s.within {
		if !s.due.IsZero() && (first.IsZero() || s.due.Before(first)) {
			first = s.due
		}
	}
	return first
}

// CancelCause returns the reason for the end of the operation's scope. It returns nil if the scope
// has not ended.
func (op *Op) CancelCause() error { return op.scope.err }

// Failed reports whether a child has ended without completing.
func (op *Op) Failed() bool { return op.Failure != nil }

// WasCanceled reports whether a child ended because it was canceled.
func (op *Op) WasCanceled() bool { return op.ended == event.ChildCanceled }

// Op returns the operation that event ref created. It returns nil if the operation has ended.
func (r *Run) Op(ref uint64) *Op { return r.ops.Get(ref) }

// Step executes a step: it requests the step and blocks until the step has completed or failed. The
// key comes from [Branch.Key] or [Branch.DeclaredKey], which have checked the caller. The scope must
// not have ended. same compares the recorded input with the requested one and returns a description
// of the difference.
func (b *Branch) Step(s *Scope, name, key string, input []byte, meta any, same func(recorded []byte) string) *Op {
	r := b.run
	asked := event.Event{Type: event.StepCreated, Name: name, Key: key, Payload: input}
	op, e, over := r.operation(s, &asked, func(rec *event.Event) string { return same(rec.Payload) })
	op.Input, op.Meta = e.Payload, meta
	if u := r.windup.undo; u != nil {
		u.steps = append(u.steps, name)
	}
	if over == nil {
		r.unstarted.push(&op.unstarted, op)
	}
	if r.settled(op, over); !op.done {
		b.wait("step ", key, op)
	}
	return op
}

// operation requests an operation under a scope. If the request matches a carried operation, it
// returns the carried operation as c.
func (r *Run) operation(s *Scope, asked *event.Event, same func(rec *event.Event) string) (op *Op, e *event.Event, c *carried) {
	if c = r.takeOver(asked, same); c != nil {
		e = &c.created
	} else {
		e = r.command(asked, same)
	}
	return r.newOp(s, e), e, c
}

// takeOver returns the carried operation that matches a request of the code: the key, type and name
// are equal, and same reports no difference. It returns nil if there is none. The request is then a
// command.
func (r *Run) takeOver(asked *event.Event, same func(rec *event.Event) string) *carried {
	r.halt()
	c := r.carried[asked.Key]
	if c == nil || c.created.Type != asked.Type || c.created.Name != asked.Name || compare(&c.created, same) != "" {
		return nil
	}
	delete(r.carried, asked.Key)
	return c
}

// newOp registers the operation that e has created.
func (r *Run) newOp(s *Scope, e *event.Event) *Op {
	op := &Op{Ref: e.Seq, Kind: e.Type.Entity(), Name: e.Name, Key: e.Key, run: r}
	op.scope, op.op = s, op
	s.ops.push(&op.scoped, op)
	r.ops.Add(op.Ref, op)
	if op.Kind == event.EntityChild || op.Kind == event.EntitySend {
		if r.awaiting == nil {
			r.awaiting = map[string]uint64{}
		}
		if op.answerTo = op.Key; e.Type == event.MessageSent && e.Name == event.NoticeTopic {
			op.answerTo = string(e.Item)
		}
		r.awaiting[op.answerTo] = op.Ref
	}
	return op
}

// settled ends an operation if the outcome of its carried operation took effect before the request.
func (r *Run) settled(op *Op, c *carried) {
	if c != nil && c.end != nil {
		r.settle(op, c.end)
	}
}

// settle ends an operation with the outcome that the event contains.
func (r *Run) settle(op *Op, e *event.Event) {
	op.Payload, op.Failure, op.Attempt, op.Outcome = e.Payload, e.Failure, e.Attempt, e.Outcome
	op.ended = e.Type
	if e.Next != "" {
		op.Next = e.Next
	}
	if e.Failure != nil && e.Failure.Code == event.CodeCanceled {
		op.Canceled = op.scope.err
	}
	op.settle()
	if op.limits != nil {
		op.limits.timedOut()
	}
}

// settle removes the operation from the run and resolves its promise.
func (op *Op) settle() {
	op.scoped.remove()
	op.unstarted.remove()
	op.run.ops.Delete(op.Ref)
	delete(op.run.awaiting, op.answerTo)
	if op.Kind != event.EntityChild {
		op.Resolve(nil)
		return
	}
	if !op.started.done {
		op.started.Resolve(op)
	}
	op.Resolve(op)
}

// cancel ends the operation because its scope has ended. The outcome decides in three cases: the
// driver ends a running or pending attempt, a child receives a cancel, and a sent message is not
// withdrawn.
func (op *Op) cancel() {
	r := op.run
	if r.state.Open(op.Ref) == nil {
		return // the outcome is in the log and takes effect when the run is resumed
	}
	switch op.Kind {
	case event.EntitySend:
		return
	case event.EntityChild:
		if !op.told && op.close != event.CloseAbandon {
			op.cancelChild(op.scope.err.Error())
		}
		return
	}
	asked := event.Event{Type: event.WaitCompleted, Ref: op.Ref, Outcome: event.OutcomeCanceled}
	if op.Kind == event.EntityStep {
		if s := r.state.StateOf(op.Ref); s == event.StateRunning || s == event.StateWaiting {
			r.cancels = append(r.cancels, op)
			return
		}
		asked = event.Event{Type: event.StepFailed, Ref: op.Ref, Attempt: r.state.Open(op.Ref).Attempt, Failure: CancelFailure(op.scope.err)}
	}
	e := r.command(&asked, nil)
	if e == nil {
		return
	}
	op.Failure, op.Attempt, op.Outcome, op.Canceled = e.Failure, e.Attempt, e.Outcome, op.scope.err
	op.settle()
}

// CancelFailure returns the failure of a step whose scope has ended with err.
func CancelFailure(err error) *event.Failure {
	return &event.Failure{Code: event.CodeCanceled, Message: err.Error()}
}

// newWait creates a wait. If it is in the log, its due time is the recorded one.
func (b *Branch) newWait(s *Scope, kind event.WaitKind, key, topic string, due time.Time) *Op {
	asked := event.Event{Type: event.WaitCreated, Wait: kind, Key: key, Name: topic, Due: due}
	return b.run.newOp(s, b.run.command(&asked, nil))
}

// endWait records the end of a wait that the code does not need any longer or whose message the
// code has received.
func (b *Branch) endWait(op *Op, outcome event.Outcome) {
	if op.done {
		return
	}
	b.run.command(&event.Event{Type: event.WaitCompleted, Ref: op.Ref, Outcome: outcome}, nil)
	op.Outcome = outcome
	op.settle()
}

// Sleep blocks until due. It returns the error of the scope if the scope ends first.
func (b *Branch) Sleep(s *Scope, due time.Time) error {
	b.enter()
	if s.err != nil {
		return s.err
	}
	key := b.Key("sleep")
	if !due.After(b.run.now) {
		return nil
	}
	op, _, over := b.run.operation(s, &event.Event{Type: event.WaitCreated, Wait: event.WaitSleep, Key: key, Due: due}, nil)
	if b.run.settled(op, over); !op.done {
		b.wait("sleep ", key, op)
	}
	return op.Canceled
}
