package machine

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// RemovedError is the error of a run whose log leads to a step that its machine does not have. The
// run is blocked, not failed: it continues on a worker whose code has the step.
type RemovedError struct {
	Run     event.RunID
	Machine string
	From    string // the step that leads there; empty if the machine begins there
	Step    string
}

// Error names both steps and the fix.
func (e *RemovedError) Error() string {
	from := "it begins with step"
	if e.From != "" {
		from = "step " + e.From + " has led to step"
	}
	return fmt.Sprintf("run %s does not fit this code: %s %s, which machine %s does not have: it was removed or renamed while this run was under way. "+
		"If it has another name now, keep the stored one: write name=%s on its //flow:step. If it was removed, put it back until no such run is left; "+
		"the run is blocked until a worker with fitting code comes, and then goes on by itself", e.Run, from, e.Step, e.Machine, e.Step)
}
