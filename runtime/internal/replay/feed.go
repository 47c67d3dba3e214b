package replay

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// isCommand reports whether a recorded event came from the code. Two types come
// from either side, and the state of their entity tells which: a wait that was
// due and a step that failed while an attempt was under way come from outside.
func (r *Run) isCommand(e *event.Event) bool {
	switch e.Type {
	case event.StepCreated, event.WaitCreated, event.ValueRecorded, event.RunCompleted, event.RunContinued:
		return true
	case event.RunFailed, event.RunCanceled:
		return e.By == "" // a worker that ends a run without its code signs
	case event.WaitCompleted:
		return e.Outcome != event.OutcomeDue
	case event.StepFailed:
		return e.By == "" && r.fold.StateOf(e.Ref) == event.StatePending
	}
	return false
}

func isBookkeeping(t event.Type) bool {
	return t == event.StepStarted || t == event.StepRetrying
}

// command records what the code asks for. If the log has an event at this place
// it must be the same, and is returned instead. On a mismatch it does not
// return to code: the branch is unwound.
func (r *Run) command(asked event.Event, same func(rec *event.Event) string) *event.Event {
	rec := r.expect(&asked, same)
	if rec == nil && r.err == nil {
		rec = r.emit(asked)
	}
	r.abortOnError()
	return rec
}

// expect returns the recorded event at this place, nil if the log ends here. If
// it is another one than asked for, r.err says so.
func (r *Run) expect(asked *event.Event, same func(rec *event.Event) string) *event.Event {
	for len(r.feed) > 0 && isBookkeeping(r.feed[0].Type) {
		e := &r.feed[0]
		r.feed = r.feed[1:]
		if err := r.fold.Apply(e); err != nil {
			r.err = fmt.Errorf("replay run %s: %w", r.id, err)
			return nil
		}
	}
	if len(r.feed) == 0 {
		return nil
	}
	rec := &r.feed[0]
	if !r.isCommand(rec) || rec.Type != asked.Type || rec.Key != asked.Key || rec.Name != asked.Name ||
		!asked.Type.Creates() && rec.Ref != asked.Ref {
		r.err = r.mismatch(rec, asked, "")
		return nil
	}
	if same != nil {
		if diff := same(rec); diff != "" {
			r.err = r.mismatch(rec, asked, diff)
			return nil
		}
	}
	r.feed = r.feed[1:]
	if err := r.fold.Apply(rec); err != nil {
		r.err = fmt.Errorf("replay run %s: %w", r.id, err)
		return nil
	}
	return rec
}

// emit puts a new event at the end of the log.
func (r *Run) emit(e event.Event) *event.Event {
	e.Time = r.now
	r.complete(&e)
	if err := r.fold.Apply(&e); err != nil {
		r.err = fmt.Errorf("run %s: %w", r.id, err)
		return nil
	}
	r.out = append(r.out, e)
	return &r.out[len(r.out)-1]
}

// abortOnError unwinds the branch that is running if the run cannot go on.
func (r *Run) abortOnError() {
	if r.err != nil && r.current != nil {
		r.current.co.exit()
	}
}
