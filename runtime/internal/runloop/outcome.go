package runloop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// Outcome is the outcome of an attempt in its stored form. The goroutine of the attempt creates it,
// because encoding an error calls methods of user code, which may panic or take long.
type Outcome struct {
	Payload []byte
	Failure *event.Failure // nil if the attempt completed
	Gone    bool           // the code has called runtime.Goexit; Failure is not set yet
	Fatal   bool           // no further attempt may follow
	Stopped bool           // the attempt failed after the stopping worker had canceled it
	After   *time.Duration // delay before the next attempt, if the step set one
	Hold    time.Duration  // how long the rates of the step are closed; 0 if they stay open
	Closes  []string       // streams to close if the attempt completed
	Pending bool           // the code has left the outcome to the holder of its hook's token
	item    event.ItemID   // item that contained an outcome from outside; empty if the code returned the outcome
	key     string         // idempotency key of the item
	sender  string         // sender of the item; empty if unknown

	attributes map[string]string // attributes of the item
	Unfit      error             // why the stored arguments do not fit this code; nil if they do
}

// Failed returns the outcome of an attempt that the runtime itself has ended with err.
func Failed(err error, code string) Outcome {
	f := failure.Encode(err, code)
	f.Code = code
	return Outcome{Failure: f}
}

// Panicked returns the outcome of an attempt whose code has panicked.
func Panicked(text string, stack []byte) Outcome {
	return Outcome{Failure: failure.Panicked(text, stack)}
}

// Judge returns the outcome of an attempt that ended with err. fatal is the user's predicate for
// errors that must not be retried; it may be nil.
func Judge(err error, fatal func(error) bool) Outcome {
	f := failure.Encode(err, event.CodeError)
	if f.Code != event.CodePayload {
		f.Code = event.CodeError // err may be the failure of another run, which has its own code
	}
	out := Outcome{Failure: f}
	if r, ok := errors.AsType[*replay.RenamedError](err); ok {
		out.Unfit = r
	}
	var stop *at.FatalError
	if errors.As(err, &stop) || fatal != nil && isFatal(fatal, err) {
		out.Fatal = true
	}
	if later, ok := errors.AsType[*at.RetryAfterError](err); ok {
		delay := later.Delay
		if out.After = &delay; later.Hold {
			out.Hold = delay
		}
	}
	return out
}

// TimeoutError is the cause of the end of an attempt that has timed out.
type TimeoutError struct{ After time.Duration }

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("attempt took longer than its timeout of %v", e.After)
}

// Is reports that the error is a context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// isFatal calls the user's predicate. If the predicate panics, isFatal returns false.
func isFatal(fatal func(error) bool, err error) (yes bool) {
	defer func() { _ = recover() }()
	return fatal(err)
}

// rerun records in the terminal event whether, and when, the retry policy of the workflow reruns
// the run. Every commit that ends a run calls rerun, so the policy of the worker that ends the run
// applies.
func (s *State) rerun(end *event.Event) {
	f := s.run.State()
	policy := s.Code.Rerun(s.route.Workflow)
	n := f.Spec.Reruns + 1
	if end.Type != event.RunFailed || n >= policy.Attempts || !worthRerun(f) || s.leavesUnsure() {
		return
	}
	end.Attempt, end.Due = n, event.Instant(s.moment.Now.Add(policy.Delay(n, s.Chance())))
	end.Reason = fmt.Sprintf("rerun %d of %d by the policy of its workflow", n, policy.Attempts-1)
}

// alert records in the terminal event the alerts about the failure of the run. Every commit that ends
// a run calls alert, so the rules of the worker that ends the run apply. A run that is rerun has
// not failed finally, and the failure of its last rerun is reported instead.
func (s *State) alert(end *event.Event) {
	if s.Alerts == nil || end.Type != event.RunFailed || !end.Due.IsZero() || event.Internal(s.route.Workflow) {
		return
	}
	end.Meta = effects.EncodeAlerts(s.Alerts(s.id, s.run.State(), end))
}

// worthRerun reports whether a rerun of a failed run may succeed.
func worthRerun(f *event.LogState) bool {
	switch {
	case f.Spec.Parent != "": // the parent of the run decides about a rerun
		return false
	case f.Spec.Debug: // an operator executes the run step by step
		return false
	case f.StartedAt.IsZero() || !f.Delayed.IsZero(): // the code of the run has not begun
		return false
	case f.Ending(): // the run was canceled, its log is too long, or it uses more of a limit than the limit allows
		return false
	case f.Unsure: // a rerun might repeat an effect that must happen once
		return false
	case len(f.Failure.Undone)+len(f.Failure.NotUndone) > 0: // compensations were executed, so effects of the run are missing
		return false
	}
	return !hopeless(f.Failure)
}

// hopeless reports whether a rerun must not follow a failure: the failure or one of its causes
// would occur again, or must not be risked again.
func hopeless(f *event.Failure) bool {
	switch f.Code {
	case event.CodeFatal, event.CodePoisoned, event.CodeTransitions:
		return true
	}
	return slices.ContainsFunc(f.Causes, hopeless)
}

// leavesUnsure reports whether the run ends while an attempt of a step that is not idempotent is
// unfinished.
func (s *State) leavesUnsure() bool {
	for o := range s.run.State().Opens {
		if op := s.run.Op(o.Ref); op != nil && flow.PlanOf(op) != nil && flow.PlanOf(op).Spec.NonIdempotent && o.State != event.StatePending {
			return true
		}
	}
	return false
}
