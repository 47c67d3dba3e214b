package replay

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// isCommand reports whether a recorded event came from the code. Some types come from either side,
// and their fields decide: a wait that was due and a step that failed during an attempt come from
// outside, and so do stream operations of steps.
func (r *Run) isCommand(e *event.Event) bool {
	switch e.Type {
	case event.StepCreated, event.ChildCreated, event.MessageSent, event.ValueRecorded, event.WaitCreated:
		return r.control.keeps == "" // otherwise an earlier run did it
	case event.VersionRecorded, event.RunCompleted, event.RunContinued,
		event.ChildCancelRequested, event.ValueSet,
		event.HookCreated, event.HookDisposed, event.HookConflict, event.HookAnswered, event.AskAnswered, event.AskRefused:
		return true
	case event.StreamWritten, event.StreamClosed:
		return e.Key != "" && e.Attempt == 0 // otherwise a step or an earlier run did it
	case event.RunFailed, event.RunCanceled:
		return e.By == "" // a worker that ends a run without its code sets By
	case event.CancelRequested:
		return e.Failure != nil && (e.Failure.Code == event.CodeDeadlock || e.Failure.Code == event.CodeEndIgnored)
	case event.WaitCompleted:
		return e.Outcome != event.OutcomeDue
	case event.StepFailed:
		return e.By == "" && r.state.StateOf(e.Ref) == event.StatePending
	}
	return false
}

// command records a request of the code. If the log has an event at this place, it must match, and
// command returns it. On a mismatch command does not return to code: the branch is unwound; outside
// of code it returns nil. The result is valid until the next command.
func (r *Run) command(asked *event.Event, same func(rec *event.Event) string) *event.Event {
	rec := r.expect(asked, same)
	if rec == nil && r.err == nil {
		rec = r.emit(asked)
	}
	r.abortOnError()
	return rec
}

// expect returns the recorded event at this place, or nil if the log ends here. If it does not
// match the request, expect sets r.err.
func (r *Run) expect(asked *event.Event, same func(rec *event.Event) string) *event.Event {
	r.halt()
	if len(r.feed) == 0 {
		return nil
	}
	rec := &r.feed[0]
	if !r.isCommand(rec) || !sameOperation(rec, asked) {
		r.err = r.mismatch(rec, asked, "")
		return nil
	}
	if rec.Seq <= uint64(r.kept()) {
		same = nil // it may contain the id of the run that requested it
	}
	if diff := compare(rec, same); diff != "" {
		r.err = r.mismatch(rec, asked, diff)
		return nil
	}
	if !r.met() {
		return nil
	}
	return rec
}

func sameOperation(rec, asked *event.Event) bool {
	return rec.Type == asked.Type && rec.Key == asked.Key && rec.Name == asked.Name &&
		rec.Wait == asked.Wait && rec.Outcome == asked.Outcome &&
		(rec.Ref == asked.Ref || asked.Type.Creates() && rec.Ref == rec.Seq)
}

// compare calls same, which may call user code. A panic there must not be treated as a panic of the
// workflow's code, which would fail the run.
func compare(rec *event.Event, same func(rec *event.Event) string) (diff string) {
	if same == nil {
		return ""
	}
	defer func() {
		if v := recover(); v != nil {
			diff = fmt.Sprintf("comparing them panicked: %v", v)
		}
	}()
	return same(rec)
}

// met applies the next recorded event to the state, after it was consumed, and reports whether that
// succeeded.
func (r *Run) met() bool {
	e := &r.feed[0]
	if err := r.note(e); err != nil {
		r.err = fmt.Errorf("replay run %s: event %d (%s): %w", r.id, e.Seq, e.Type, err)
		return false
	}
	r.feed = r.feed[1:]
	return true
}

// emit appends a new event to the log.
func (r *Run) emit(asked *event.Event) *event.Event {
	e := *asked
	e.Time = r.now
	r.complete(&e)
	if err := r.note(&e); err != nil {
		r.err = fmt.Errorf("run %s: %w", r.id, err)
		return nil
	}
	r.append(&e)
	return &r.out[len(r.out)-1]
}

// abortOnError unwinds the running branch if the run cannot continue.
func (r *Run) abortOnError() {
	if r.err != nil && r.current != nil {
		r.current.co.exit()
	}
}
