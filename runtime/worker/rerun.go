package worker

import (
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// rerun records in the event that ends a run whether the policy of its workflow has the run tried again, and when. Every commit
// that ends a run comes by here, so that the policy is that of the worker that ends it.
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

// worthRerun reports whether another run may do better than one that has failed.
func worthRerun(f *event.LogState) bool {
	switch {
	case f.Spec.Parent != "": // its parent decides
		return false
	case f.Spec.Debug: // it is led by hand
		return false
	case f.StartedAt.IsZero() || !f.Delayed.IsZero(): // its code has not begun
		return false
	case f.Ending(): // it was asked to end, or is longer or waits for more than any run may
		return false
	case f.Unsure: // an effect that must happen once might happen again
		return false
	case len(f.Failure.Undone)+len(f.Failure.NotUndone) > 0: // what it did is missing
		return false
	}
	return !hopeless(f.Failure)
}

// hopeless reports whether a failure, or one of its causes, is one that another run would not avoid, or must not risk.
func hopeless(f *event.Failure) bool {
	switch f.Code {
	case event.CodeFatal, event.CodePoisoned, event.CodeTransitions:
		return true
	}
	return slices.ContainsFunc(f.Causes, hopeless)
}

// leavesUnsure reports whether the run leaves an attempt of a step behind that is not idempotent.
func (d *draft) leavesUnsure() bool {
	for o := range d.run.State().Opens {
		if op := d.run.Op(o.Ref); op != nil && engine.PlanOf(op) != nil && engine.PlanOf(op).Spec.NonIdempotent && o.State != event.StatePending {
			return true
		}
	}
	return false
}
