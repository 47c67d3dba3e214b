package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// outcome is the outcome of an attempt, in its stored form. The goroutine of the attempt creates
// it, because encoding an error calls methods of user code, which may panic or take long.
type outcome struct {
	payload []byte
	failure *event.Failure // nil if the attempt completed
	gone    bool           // the code has ended its goroutine; the failure is not created yet
	fatal   bool           // another attempt is useless
	stopped bool           // it failed after the stopping worker had canceled it
	after   *time.Duration // delay before the next attempt, if the step set one
	hold    time.Duration  // for how long the rates of the step are closed
	closes  []string       // streams that are closed if the attempt completed
	pending bool           // the code has left the outcome to the holder of its hook's token
	item    event.ItemID   // item that carried an outcome from outside; empty if the code returned the outcome
	key     string         // idempotency key of that item
	sender  string         // sender of that item; empty if unknown
	unfit   error          // the stored arguments do not fit this code; nil if they do
}

// failed returns the outcome of an attempt that the runtime itself has ended.
func failed(err error, code string) outcome {
	f := failure.Encode(err, code)
	f.Code = code
	return outcome{failure: f}
}

func panicked(text string) outcome {
	return outcome{failure: failure.Panicked(text, debug.Stack())}
}

// exited returns the outcome of an attempt whose code has ended its goroutine.
func exited() outcome {
	return outcome{failure: &event.Failure{Code: event.CodePanic, Message: "the step called runtime.Goexit"}}
}

// callStep calls the user's code and stores its outcome in out. A panic is a failed attempt with
// its stack. If the code ends its goroutine (runtime.Goexit, as FailNow of a test does), callStep
// does not return, but out is set.
func callStep(ctx context.Context, fn engine.StepFunc, judge func(error) outcome, args []byte, out *outcome) {
	*out = outcome{gone: true} // the default if the code ends its goroutine
	defer func() {
		if r := recover(); r != nil {
			*out = panicked(fmt.Sprintf("panic: %v", r))
		}
	}()
	payload, err := fn(ctx, args)
	if err == nil {
		*out = outcome{payload: payload}
		return
	}
	*out = judge(err)
}

// judge returns the outcome for the error of an attempt.
func judge(err error, fatal func(error) bool) outcome {
	f := failure.Encode(err, event.CodeError)
	if f.Code != event.CodePayload {
		f.Code = event.CodeError // even if it is the error of another run, which has its own code
	}
	out := outcome{failure: f}
	if r, ok := errors.AsType[*replay.RenamedError](err); ok {
		out.unfit = r
	}
	var stop *at.FatalError
	if errors.As(err, &stop) || fatal != nil && isFatal(fatal, err) {
		out.fatal = true
	}
	if later, ok := errors.AsType[*at.RetryAfterError](err); ok {
		delay := later.Delay
		if out.after = &delay; later.Hold {
			out.hold = delay
		}
	}
	return out
}

// isFatal calls the user's predicate. A panic counts as false.
func isFatal(fatal func(error) bool, err error) (yes bool) {
	defer func() { _ = recover() }()
	return fatal(err)
}

// rerun records in the terminal event whether the retry policy of the workflow reruns the run, and
// when. Every commit that ends a run calls it, so the policy of the worker that ends the run
// applies.
func (d *draft) rerun(end *event.Event) {
	f := d.run.State()
	policy := workflow.RetryPolicy(d.stepping.code.Rerun(d.route.Workflow))
	n := f.Spec.Reruns + 1
	if end.Type != event.RunFailed || n >= policy.Attempts || !worthRerun(f) || d.leavesUnsure() {
		return
	}
	end.Attempt, end.Due = n, event.Instant(d.clock.Now().Add(policy.Delay(n, d.chance())))
	end.Reason = fmt.Sprintf("rerun %d of %d by the policy of its workflow", n, policy.Attempts-1)
}

// worthRerun reports whether a rerun of a failed run may succeed.
func worthRerun(f *event.LogState) bool {
	switch {
	case f.Spec.Parent != "": // its parent decides
		return false
	case f.Spec.Debug: // an operator steps through it
		return false
	case f.StartedAt.IsZero() || !f.Delayed.IsZero(): // its code has not begun
		return false
	case f.Ending(): // it was canceled, its log is too long, or it needs more of a limit than the limit allows
		return false
	case f.Unsure: // a rerun might repeat an effect that must happen once
		return false
	case len(f.Failure.Undone)+len(f.Failure.NotUndone) > 0: // compensations were executed, so its effects are missing
		return false
	}
	return !hopeless(f.Failure)
}

// hopeless reports whether a failure, or one of its causes, would recur in a rerun or must not be
// risked again.
func hopeless(f *event.Failure) bool {
	switch f.Code {
	case event.CodeFatal, event.CodePoisoned, event.CodeTransitions:
		return true
	}
	return slices.ContainsFunc(f.Causes, hopeless)
}

// leavesUnsure reports whether the run leaves an unfinished attempt of a step that is not
// idempotent.
func (d *draft) leavesUnsure() bool {
	for o := range d.run.State().Opens {
		if op := d.run.Op(o.Ref); op != nil && engine.PlanOf(op) != nil && engine.PlanOf(op).Spec.NonIdempotent && o.State != event.StatePending {
			return true
		}
	}
	return false
}
