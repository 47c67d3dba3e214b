package replay

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Op is a step or a wait that the code has asked for. Its promise is resolved
// with nil; the fields say what came of it.
type Op struct {
	Promise
	Ref   uint64 // seq of the creating event
	Kind  event.Entity
	Name  string
	Key   string
	Input []byte
	Meta  any // what the layer above keeps with a step; nil for waits

	// Payload and Failure are the outcome of a step, Outcome that of a wait.
	Payload []byte
	Failure *event.Failure
	Attempt int
	Outcome event.Outcome
	// Canceled is the reason if the operation ended because its scope did.
	Canceled error

	run        *Run
	onDue      func()
	prev, next *Op // in the scope
}

// CancelWanted reports whether the scope of the operation has ended: a step
// that fails from now on is canceled, and is not tried again.
func (op *Op) CancelWanted() bool { return op.scope.err != nil }

// CancelCause returns why the scope of the operation has ended; nil if it has not.
func (op *Op) CancelCause() error { return op.scope.err }

// settle ends the operation.
func (op *Op) settle() {
	op.scope.remove(op)
	delete(op.run.ops, op.Ref)
	op.resolve(nil)
}

// cancel ends the operation because its scope has ended. An attempt that is
// under way is left to the driver.
func (op *Op) cancel() {
	r := op.run
	e := event.Event{Type: event.WaitCompleted, Ref: op.Ref, Outcome: event.OutcomeCanceled}
	if op.Kind == event.EntityStep {
		if r.fold.StateOf(op.Ref) == event.StateRunning {
			r.cancels = append(r.cancels, op)
			return
		}
		e = event.Event{Type: event.StepFailed, Ref: op.Ref, Failure: CancelFailure(op.scope.err)}
	}
	r.command(e, nil)
	if r.err != nil {
		return
	}
	op.Failure, op.Outcome, op.Canceled = e.Failure, e.Outcome, op.scope.err
	op.settle()
}

// CancelFailure is the failure of a step whose scope has ended with err.
func CancelFailure(err error) *event.Failure {
	return &event.Failure{Code: event.CodeCanceled, Message: err.Error()}
}

// Step asks for a step. same compares the recorded input with the one asked
// for, and returns a description of the difference.
func (b *Branch) Step(s *Scope, name, key string, input []byte, meta any, same func(recorded []byte) string) *Op {
	b.enter()
	asked := event.Event{Type: event.StepCreated, Name: name, Key: key, Payload: input}
	e := b.run.command(asked, func(rec *event.Event) string { return same(rec.Payload) })
	op := &Op{Ref: e.Seq, Kind: event.EntityStep, Name: name, Key: key, Input: e.Payload, Meta: meta, run: b.run}
	b.run.ops[op.Ref] = op
	b.run.startable = append(b.run.startable, op)
	s.add(op)
	return op
}

// AwaitStep blocks until the step has ended, well or badly.
func (b *Branch) AwaitStep(op *Op) {
	b.enter()
	if !op.done {
		b.wait("step "+op.Key, op)
	}
}

func (b *Branch) newWait(s *Scope, kind event.WaitKind, key, topic string, due time.Time) *Op {
	asked := event.Event{Type: event.WaitCreated, Wait: kind, Key: key, Name: topic, Due: due}
	e := b.run.command(asked, func(rec *event.Event) string {
		if rec.Wait != kind || rec.Name != topic {
			return "- " + describeWait(rec.Wait, rec.Name) + "\n+ " + describeWait(kind, topic)
		}
		return "" // the due time is the recorded one
	})
	op := &Op{Ref: e.Seq, Kind: event.EntityWait, Name: topic, Key: key, run: b.run}
	b.run.ops[op.Ref] = op
	s.add(op)
	return op
}

func describeWait(kind event.WaitKind, topic string) string {
	if topic == "" {
		return kind.String()
	}
	return kind.String() + " of topic " + topic
}

// endWait ends a wait that the code no longer needs or whose message it took.
func (b *Branch) endWait(op *Op, outcome event.Outcome) {
	if op.done {
		return
	}
	b.run.command(event.Event{Type: event.WaitCompleted, Ref: op.Ref, Outcome: outcome}, nil)
	op.Outcome = outcome
	op.settle()
}

// Sleep blocks until due. It returns the error of the scope if that ends first.
func (b *Branch) Sleep(s *Scope, due time.Time) error {
	b.enter()
	if s.err != nil {
		return s.err
	}
	key := b.Key("sleep")
	if !due.After(b.run.now) {
		return nil
	}
	op := b.newWait(s, event.WaitSleep, key, "", due)
	b.wait("sleep "+key, op)
	return op.Canceled
}

// Record returns a value that was computed once. f gives its stored form, or a
// failure; it may not ask for anything durable.
func (b *Branch) Record(f func() ([]byte, *event.Failure)) ([]byte, *event.Failure) {
	b.enter()
	r := b.run
	asked := event.Event{Type: event.ValueRecorded, Key: b.Key("record")}
	if rec := r.expect(&asked, nil); rec != nil {
		return rec.Payload, rec.Failure
	}
	r.abortOnError()
	r.pure = asked.Key
	defer func() { r.pure = "" }()
	asked.Payload, asked.Failure = f()
	r.emit(asked)
	r.abortOnError()
	return asked.Payload, asked.Failure
}
