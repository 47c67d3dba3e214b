package replay

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// isCommand reports whether a recorded event came from the code. Events of some types may come from
// the code or from outside, and their fields decide. Examples from outside are a wait that was due,
// a step that failed during an attempt, and a stream operation of a step.
func (r *Run) isCommand(e *event.Event) bool {
	switch e.Type {
	case event.StepCreated, event.ChildCreated, event.MessageSent, event.ValueRecorded, event.WaitCreated:
		return r.control.keeps == "" // otherwise the event belongs to the part taken over from an earlier run
	case event.VersionRecorded, event.RunCompleted, event.RunContinued,
		event.ChildCancelRequested, event.ValueSet,
		event.HookCreated, event.HookDisposed, event.HookConflict, event.HookAnswered, event.AskAnswered, event.AskRefused:
		return true
	case event.StreamWritten, event.StreamClosed:
		return e.Key != "" && e.Attempt == 0 // otherwise a step or an earlier run has written the event
	case event.RunFailed, event.RunCanceled:
		return e.By == "" // By is set if a worker has ended the run without its code
	case event.CancelRequested:
		return e.Failure != nil && (e.Failure.Code == event.CodeDeadlock || e.Failure.Code == event.CodeEndIgnored)
	case event.WaitCompleted:
		return e.Outcome != event.OutcomeDue
	case event.StepFailed:
		return e.By == "" && r.state.StateOf(e.Ref) == event.StatePending
	}
	return false
}

// command records a request of the code and returns its event. If the log has an event at this
// position, the event must match the request, and command returns the recorded event. If it does
// not match, command unwinds the branch and does not return; outside of code it returns nil. The
// result is valid until the next call.
func (r *Run) command(asked *event.Event, same func(rec *event.Event) string) *event.Event {
	rec := r.expect(asked, same)
	if rec == nil && r.err == nil {
		rec = r.emit(asked)
	}
	r.abortOnError()
	return rec
}

// expect returns the recorded event at this position. It returns nil if the log ends here. If the
// event does not match the request, expect sets r.err.
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
		same = nil // the contents may contain the ID of the run that requested the operation
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

// compare calls same, which may call user code. A panic of that code blocks the run. It must not
// count as a panic of the workflow's code, which would fail the run.
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

// met applies the next recorded event to the state and removes it from the feed. It reports whether
// the state has accepted the event.
func (r *Run) met() bool {
	e := &r.feed[0]
	if err := r.note(e); err != nil {
		r.err = fmt.Errorf("replay run %s: event %d (%s): %w", r.id, e.Seq, e.Type, err)
		return false
	}
	r.feed = r.feed[1:]
	return true
}

// emit appends a new event of the code to the log.
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

// abortOnError unwinds the running branch if r.err is set.
func (r *Run) abortOnError() {
	if r.err != nil && r.current != nil {
		r.current.co.exit()
	}
}
