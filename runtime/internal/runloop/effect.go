package runloop

import (
	"errors"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failuregroup"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// effect returns the effect of the next commit on the run, and the next due time of the run.
func (s *State) effect() (store.Effect, time.Time) {
	busy := len(s.attempts) > 0
	switch {
	case s.blocked != nil:
		if busy {
			return store.EffectNone, time.Time{}
		}
		return store.EffectBlock, time.Time{}
	case s.inbox.hasUnread():
		return store.EffectNone, time.Time{}
	case s.run.Ended():
		if s.run.State().Run == event.StateContinued {
			return store.EffectContinue, time.Time{}
		}
		return store.EffectFinish, time.Time{}
	case busy:
		return store.EffectNone, time.Time{}
	case s.run.State().StandsStill(): // no operation is due
		return store.EffectPark, s.run.State().Due()
	case s.wanted():
		if s.moment.Stage >= Stopping || s.gaveWay {
			return store.EffectYield, time.Time{}
		}
		return store.EffectNone, time.Time{}
	case s.run.State().RunningSteps() > 0:
		return store.EffectYield, time.Time{} // Abandoned attempts remain. The next worker decides about them.
	}
	return store.EffectPark, s.run.State().Due()
}

// unused returns what the store does with permits that the run has not used. If the code of the run
// has not begun, the run holds no permits and consumes no rate, whatever has woken it. The same
// holds for a run that executes a step and has begun no attempt. A paused run keeps its position in
// the limiter queue.
func (s *State) unused(effect store.Effect) store.Unused {
	if effect != store.EffectPark || s.leftQueue {
		return store.UnusedNone
	}
	f := s.run.State()
	switch used := f.Run != event.StatePending && f.Delayed.IsZero(); {
	case len(f.Spec.Uses) == 0, f.Spec.Whole && used, !f.Spec.Whole && s.attempted:
		return store.UnusedNone
	case f.Paused && !f.Held() && !f.Spec.StartAt.After(s.moment.Now) && !f.Delayed.After(s.moment.Now):
		return store.UnusedInQueue
	}
	return store.UnusedBack
}

func (s *State) status(effect store.Effect) event.Status {
	switch effect {
	case store.EffectBlock:
		return event.StatusBlocked
	case store.EffectNone, store.EffectYield:
		if s.run.State().Paused {
			return event.StatusPaused
		}
	case store.EffectPark, store.EffectFinish, store.EffectContinue:
		if effect == store.EffectPark && s.run.AtGate() {
			return event.StatusPaused // the run is paused until its next step is requested
		}
		return s.run.State().Status()
	}
	return event.StatusRunning
}

// progress reports whether the events count as progress of the run. The start of an attempt does
// not count, because the attempt may kill the worker. An attempt that was given back does not count
// because it has no outcome.
func progress(events []event.Event) bool {
	return slices.ContainsFunc(events, func(e event.Event) bool {
		switch e.Type {
		case event.StepRetrying:
			return e.Failure == nil || e.Failure.Code != event.CodeStopped
		case event.StepPending, event.StepCompleted, event.StepFailed, event.WaitCompleted, event.MessageReceived, event.ValueRecorded,
			event.ChildCreated, event.ChildCompleted, event.ChildFailed, event.ChildCanceled, event.MessageSent, event.ValueSet,
			event.StreamWritten, event.StreamClosed, event.HookCreated, event.HookReceived, event.HookDisposed, event.HookAnswered,
			event.AskReceived, event.AskAccepted, event.AskAnswered:
			return true
		}
		return e.Type.Terminal()
	})
}

// label returns the failure group that a commit sets for the run. Nil keeps the recorded group; at
// the end of the run the store then decides.
func (s *State) label(g store.FailureGroup, effect store.Effect) *store.FailureGroup {
	if g.Group == s.group || g.Group == "" && (effect == store.EffectFinish || effect == store.EffectContinue) {
		return nil
	}
	label := g // allocate only if the label changes
	return &label
}

// failureGroup returns the failure group of the run after a commit with the given effect. The zero
// value means that the run is in no group. If several steps are being retried, the first one that
// began determines the group. So the group does not change with each failure of these steps.
func (s *State) failureGroup(effect store.Effect) store.FailureGroup {
	if effect == store.EffectBlock {
		return failuregroup.Blocked(s.route.Workflow, whatBlocks(s.blocked))
	}
	if s.run == nil {
		return store.FailureGroup{Group: s.group} // the log could not be read, so the group remains unchanged
	}
	state := s.run.State()
	if effect == store.EffectFinish && state.Run == event.StateFailed {
		return failuregroup.Failed(s.route.Workflow, state.Failure)
	}
	if o := state.Failing(); o != nil {
		return failuregroup.Retrying(s.route.Workflow, o.Name, o.Failure)
	}
	return store.FailureGroup{}
}

// whatBlocks returns why a run is blocked, without details of the run. If the code does not match
// the log, it returns the operation in the log and the operation that the code requested.
func whatBlocks(err error) string {
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		return mismatch.Operations()
	}
	return err.Error()
}
