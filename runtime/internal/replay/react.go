package replay

import (
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
)

// react applies an event that is not a command to the code. It is the only way in which such an
// event takes effect, whether it is recorded or new. The state of the log contains the event before
// the call.
func (r *Run) react(e *event.Event) {
	r.noteStepHook(e)
	switch e.Type {
	case event.StepStarted:
		if op := r.ops.Get(e.Ref); op != nil {
			op.unstarted.remove()
		}
		return
	case event.StepRetrying, event.StepHookCreated, event.StepPending, event.ValuesKept, event.ResourceWait:
		return
	case event.StepCreated, event.ChildCreated, event.MessageSent, event.ValueRecorded, event.WaitCreated: // these events are no commands if isCommand reports false
		r.carry(e)
		return
	}
	if !r.steer(e) && !r.keepForLater(e) && !r.ended {
		r.consume(e)
	}
	r.breakDeadlock()
}

// dispatch makes the branches runnable that wait for the event. It reports false if no branch or
// object can consume the event.
func (r *Run) dispatch(e *event.Event) bool {
	switch e.Type {
	case event.RunCreated:
		r.input, r.control.gated = e.Payload, r.state.Spec.Debug
	case event.InputReceived:
		r.input = r.state.Spec.Collect.Add(r.input, e.Payload)
	case event.RunStarted:
		r.start()
	case event.ChildStarted:
		op := r.ops.Get(e.Ref)
		if op == nil {
			return r.carriedEnd(e)
		}
		if !op.started.done {
			op.started.resolve(op)
		}
	case event.StepCompleted, event.StepFailed, event.WaitCompleted,
		event.ChildCompleted, event.ChildFailed, event.ChildCanceled, event.SendCompleted, event.SendFailed:
		op := r.ops.Get(e.Ref)
		if op == nil {
			return r.carriedEnd(e)
		}
		r.settle(op, e)
	case event.MessageReceived:
		if e.Name == event.NoticeTopic {
			break // package effects answers the notice from the log
		}
		kept := *e
		kept.Payload = slices.Clone(e.Payload) // a copy, because the code may modify it
		r.topic(e.Name).push(&kept)
	case event.StreamWritten:
	case event.StreamClosed:
		r.closeStream(e.Name)
	case event.HookReceived:
		kept := *e
		kept.Payload = slices.Clone(e.Payload)
		r.hookReceived(&kept)
	case event.AskReceived, event.AskAccepted:
		kept := *e
		r.question(&kept)
	case event.HookMissed:
		r.miss(e)
	case event.CancelRequested:
		r.requestCancel(e)
		r.control.gated = false
		r.control.gate.tell()
	case event.RunFailed, event.RunCanceled:
		r.ended = true
	default:
		return false
	}
	return true
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

func (r *Run) requestCancel(e *event.Event) {
	switch {
	case r.state.Run != event.StatePending:
		r.root.cancel(ErrCanceled)
	case e.Failure != nil:
		r.end(Ending{Type: event.RunFailed, Failure: e.Failure})
	default:
		r.end(Ending{Type: event.RunCanceled, Failure: &event.Failure{Code: event.CodeCanceled, Message: cancelText(e.Reason)}})
	}
}

func cancelText(reason string) string {
	if reason == "" {
		return "canceled before it started"
	}
	return "canceled before it started: " + reason
}

// start opens the main branch of the code.
func (r *Run) start() {
	input := r.input
	r.input = nil
	r.open(r.name, func(b *Branch) {
		if t := r.state.Spec.Timeout; t > 0 {
			b.limit(&r.root, r.state.CreatedAt.Add(t), t)
		}
		ending := r.code(b, &r.root, input)
		b.enter()
		ending = b.compensate(r.fallen(ending))
		b.awaitClosing()
		if ending.Type == event.RunContinued {
			b.CloseAsks()
		}
		r.end(ending)
	})
}

// end appends the terminal event of the ending to the log.
func (r *Run) end(how Ending) {
	r.strayed()
	r.abortOnError()
	asked := event.Event{Type: how.Type, Payload: how.Payload, Failure: how.Failure}
	if how.Type == event.RunContinued {
		asked.Next = event.NextRunID(r.id, r.state.Seq+1, r.now)
		if how.Queue != "" {
			asked.Spec = &event.Spec{Queue: how.Queue}
		}
	}
	rec := r.command(&asked, func(rec *event.Event) string {
		if rec.Failure != nil && how.Failure != nil && rec.Failure.Code != how.Failure.Code {
			return describeFailures(rec.Failure, how.Failure)
		}
		return sameJSON(rec.Payload, how.Payload)
	})
	r.ended = rec != nil
}

func describeFailures(recorded, asked *event.Failure) string {
	return fmt.Sprintf("- %s: %s\n+ %s: %s", recorded.Code, recorded.Message, asked.Code, asked.Message)
}
