package runloop

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// An invocation executes a run for a limited time, the budget ([Params.Within]), and then gives it
// back. An attempt that is cut off by the end of the invocation is given back and does not count. So
// two rules keep a step from being cut off forever:
//   - The first attempt of an invocation always begins, and has the time of its timeout, or the whole
//     budget if its timeout is longer. If it is not over by then, it has timed out, which counts.
//   - A later attempt begins only if the rest of the budget suffices. Otherwise the run is given back
//     when its other attempts have ended, and the attempt is the first one of the next invocation.
//
// A timeout that is not shorter than the budget is usually the default, and most of these attempts take a
// small part of it. If such an attempt had to wait for a whole budget, each of them would need an
// invocation of its own. So half of the budget suffices, except for steps that are not idempotent:
// these must not be cut off, because they cannot be given back.

// A timeout that is set and longer than the budget cannot be kept: an attempt that needs it would be cut
// off in each invocation. If the directive sets it, package invoke refuses to start. If the code of the
// workflow sets it, the run is blocked, so that an invocation with a longer budget or a worker
// continues it.

// LateMost bounds how much later than its claim the first attempt of an invocation may end because
// reading and replaying the log took time. The lease of the invocation covers it.
const LateMost = 10 * time.Second

// lacksTime reports whether the rest of the budget does not suffice for an attempt of a step.
func (s *State) lacksTime(op *replay.Op) bool {
	if s.Within == 0 || !s.attempted {
		return false
	}
	plan := flow.PlanOf(op)
	need := plan.Timeout
	if need >= s.Within {
		if need = s.Within; !plan.Spec.NonIdempotent {
			need /= 2
		}
	}
	return s.moment.Now.Add(need).After(s.first.Add(s.Within + Slack(s.Within)))
}

// stepTimeoutError is the error of a run that calls a step whose timeout is longer than the budget.
type stepTimeoutError struct {
	Step            string
	Timeout, Budget time.Duration
}

func (e *stepTimeoutError) Error() string {
	return fmt.Sprintf("step %s has the timeout %v, which the code of the workflow sets, and a function executes attempts of at most %v, its budget: "+
		"set a shorter timeout, raise invoke.Config.Budget, or start a worker, which continues the run", e.Step, e.Timeout, e.Budget)
}

// checkTimeout returns an error if the timeout of a step is set and longer than the budget. Attempts of
// steps of the runtime may be cut off, because they are repeated.
func (s *State) checkTimeout(op *replay.Op) error {
	plan := flow.PlanOf(op)
	if s.Within == 0 || !plan.Bounded || plan.Timeout <= s.Within || event.Reserved(op.Name) {
		return nil
	}
	return &stepTimeoutError{Step: op.Name, Timeout: plan.Timeout, Budget: s.Within}
}

// Slack is how much longer than the budget an invocation lasts, so that attempts which begin a moment
// after the first one may use the whole budget.
func Slack(budget time.Duration) time.Duration { return budget / 50 }

// attemptTimeout returns the time after which an attempt that is launched now has timed out.
func (s *State) attemptTimeout(a *attempt, plan *flow.StepPlan) time.Duration {
	if s.Within == 0 {
		return plan.Timeout
	}
	timeout := min(plan.Timeout, s.Within)
	if a.started.Equal(s.first) { // the invocation does not last longer, and the timeout counts
		timeout = min(timeout, s.since.Add(s.Within+LateMost).Sub(s.moment.Now))
	}
	return timeout
}
