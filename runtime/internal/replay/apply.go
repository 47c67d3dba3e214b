package replay

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Replay replays recorded events in order. The run keeps their payloads, which must not change.
// Replay may be called several times, but not after Apply. Each page except the last one must end
// before an outside event.
func (r *Run) Replay(events []event.Event) error { return r.replay(events, 0) }

// ReplayPortion is like Replay for all events except the last one, which is the first of the next
// portion. It is only compared with what the code requests. Its type must be External.
func (r *Run) ReplayPortion(events []event.Event) error { return r.replay(events, 1) }

// replay replays events except for the given number at their end.
func (r *Run) replay(events []event.Event, except int) error {
	for i := range events {
		if e := &events[i]; e.Seq != r.state.Seq+1+uint64(i) {
			r.err = fmt.Errorf("replay run %s: event %d (%s) stands at %d: %w", r.id, e.Seq, e.Type, r.state.Seq+1+uint64(i), event.ErrCorrupt)
			return r.close()
		}
	}
	r.feed = events
	for len(r.feed) > except && r.err == nil {
		e := &r.feed[0]
		switch {
		case r.ended:
			r.err = fmt.Errorf("replay run %s: event %d (%s, key %q) follows the end of the run: %w", r.id, e.Seq, e.Type, e.Key, event.ErrCorrupt)
		case r.isCommand(e):
			r.err = r.mismatch(e, nil, "")
		default:
			if r.met() {
				r.react(e)
			}
		}
	}
	err := r.close() // before feed is cleared, so that the code is unwound as part of the replay
	r.feed = nil
	return err
}

// Skip applies recorded events to the state without running code, for a run that is ended without
// its code.
func (r *Run) Skip(events []event.Event) error {
	for i := range events {
		if err := r.note(&events[i]); err != nil {
			r.err = fmt.Errorf("follow the log of run %s: %w", r.id, err)
			return r.err
		}
	}
	r.ended = r.state.Run.Terminal()
	return nil
}

// Apply applies a new event that did not come from the code. It sets Seq and Since. It adjusts Time
// so that times never decrease.
func (r *Run) Apply(e event.Event) error {
	switch {
	case r.err != nil:
		return r.err
	case r.dying && !r.ended:
		return errors.New("apply event: the run is closed")
	}
	r.exact = e.Time
	if !r.ended && r.isCommand(&e) {
		r.err = fmt.Errorf("apply event %d (%s) to run %s: it comes from the code, not from outside", r.state.Seq+1, e.Type, r.id)
		return r.close()
	}
	if err := r.add(&e); err != nil { // the event precedes its consequences in the log
		err = fmt.Errorf("apply to run %s: %w", r.id, err)
		if !r.ended { // an error does not change a run that has ended
			r.err = err
			_ = r.close()
		}
		return err
	}
	r.react(&e)
	return r.close()
}

// close unwinds the code if the run has ended or cannot continue. It returns the error if the run
// cannot continue.
func (r *Run) close() error {
	if r.ended || r.err != nil {
		r.unwind()
	}
	return r.err
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

// add appends a new event to the log: to its state, and to the events that Take returns next.
func (r *Run) add(e *event.Event) error {
	r.complete(e)
	if r.Build != r.state.Build && r.Build != "" && r.state.Run != event.StateNone && r.state.Run != event.StatePending {
		e.Build = r.Build // the code of another build was executed up to this event
	}
	if err := r.note(e); err != nil {
		return err
	}
	if cap(r.out) == 0 {
		r.out = r.pool.Buffer()
	}
	r.out = append(r.out, *e)
	return nil
}

// note applies an event to the state of the log.
func (r *Run) note(e *event.Event) error {
	if err := r.state.Apply(e); err != nil {
		return err
	}
	if e.Time.After(r.latest) { // even if the times in a damaged log decrease
		r.latest = e.Time
	}
	return nil
}

// complete sets the fields of a new event that follow from its position in the log.
func (r *Run) complete(e *event.Event) {
	e.Seq = r.state.Seq + 1
	if e.Time.Before(r.latest) {
		e.Time = r.latest
	}
	e.Time = e.Time.UTC().Truncate(time.Millisecond) // the time as it is read back from the log
	e.Due = event.Instant(e.Due)
	switch {
	case e.Ref != 0:
		if o := r.state.Open(e.Ref); o != nil {
			e.Since = o.Since
			if o.Entity == event.EntityStep && endsAttempt(e.Type) {
				e.Token = o.Token // the event closes the hook of the attempt
			}
		}
	case e.Type.Creates() && e.Type != event.RunCreated:
		e.Ref, e.Since = e.Seq, e.Time
	}
}

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

// react applies an event that is not a command to the code. It is the only way in which such an
// event takes effect, whether it is recorded or new. The state of the log contains the event before
// the call.
func (r *Run) react(e *event.Event) {
	if e.Token != "" || e.Type == event.StepPending {
		r.noteStepHook(e)
	}
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
	for r.outside == 0 && r.branches.n > 0 && r.deadlocked() {
		r.breakDeadlock()
		r.drain()
	}
}

// consume applies an event to the code.
func (r *Run) consume(e *event.Event) {
	if !r.control.past {
		r.now = r.latest
	}
	if !r.dispatch(e) {
		r.err = fmt.Errorf("replay run %s: event %d (%s, key %q, of event %d) is consumed by nothing in this release", r.id, e.Seq, e.Type, e.Key, e.Ref)
	}
	r.drain()
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
			op.started.Resolve(op)
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
		r.control.gate.notifyAll(nil)
	case event.RunFailed, event.RunCanceled:
		r.ended = true
	default:
		return false
	}
	return true
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

// open adds a branch. Its code begins when the driver resumes the branch.
func (r *Run) open(path string, f func(*Branch)) *Branch {
	b := &Branch{run: r, path: path, code: f}
	r.branches.push(&b.place, b)
	r.wake(b)
	return b
}

func (r *Run) wake(b *Branch) {
	if b.runnable.in == nil && !b.finished {
		r.queue.push(&b.runnable, b)
	}
}

// drain resumes runnable branches, first in first out, until all are blocked or the run has ended.
func (r *Run) drain() {
	for r.queue.n > 0 && r.err == nil && !r.ended && r.control.halted == nil {
		r.resume(r.queue.first.item)
	}
}

// resume runs a branch until it blocks or ends.
func (r *Run) resume(b *Branch) {
	b.runnable.remove()
	if b.co == nil {
		b.co = r.pool.get()
		b.co.job, b.co.branch = b.code, b
	}
	r.current = b
	ended := b.co.resume()
	r.current = nil
	if r.strayed(); !ended {
		return
	}
	co := b.co
	crash := co.crash
	if co.exited && crash == nil && !co.dying {
		crash = &crashUnknown
	}
	r.forget(b)
	r.pool.put(co)
	switch {
	case r.dying || r.err != nil || r.ended:
	case b.failed != nil:
		r.crashed(Ending{Type: event.RunFailed, Failure: b.failed})
	case crash != nil:
		r.crashed(b.panicked(crash))
	}
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
	if rec.Seq <= uint64(r.state.Spec.Kept) {
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

// emit appends a new event of the code to the log.
func (r *Run) emit(asked *event.Event) *event.Event {
	e := *asked
	e.Time = r.now
	if err := r.add(&e); err != nil {
		r.err = fmt.Errorf("run %s: %w", r.id, err)
		return nil
	}
	return &r.out[len(r.out)-1]
}

// abortOnError unwinds the running branch if r.err is set.
func (r *Run) abortOnError() {
	if r.err != nil && r.current != nil {
		r.current.co.exit()
	}
}
