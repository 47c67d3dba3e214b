package worker

import (
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/workflow"
)

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
