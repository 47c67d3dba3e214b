package worker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// unknownStepError says that a workflow called a step that the worker does not
// know.
type unknownStepError struct {
	Run            event.RunID
	Workflow, Step string
}

// Error names the step and the fix.
func (e *unknownStepError) Error() string {
	return fmt.Sprintf("run %s of %s calls step %s, which this worker does not know: call the generated Register of its package before Run; "+
		"the run is blocked until a worker comes that knows it", e.Run, e.Workflow, e.Step)
}

// block stops the work on a run that this worker's code does not fit, or whose log
// is damaged. It is given back as blocked once the steps that are under way have ended.
// The store notes that this session could not replay it, and gives it to sessions with
// other code, at once if they live; to one with the same code only when this session is
// over. So a run that fits nobody, and a damaged log, which no code fits, are read and
// reported once per build and life of a worker.
func (t *task) block(err error) {
	if t.blocked != nil {
		return
	}
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		mismatch.Here = t.w.build
	}
	t.blocked = err
	t.interrupted = nil
	if len(t.attempts) > 0 { // their end may be the run's
		t.w.log.Warn("run cannot go on here: it will be blocked when its steps have ended", "run", t.id, "workflow", t.class.Workflow, "error", err)
	}
}

// poisonFailure tells everything that is known about a run that kills workers.
func poisonFailure(f *event.Fold, recoveries int) *event.Failure {
	var b strings.Builder
	fmt.Fprintf(&b, "its workers died %d times without any progress in between; its log ends at event %d (%s)", recoveries, f.Seq, f.Last)
	for _, ref := range runningSteps(f) {
		o := f.Open(ref)
		fmt.Fprintf(&b, "; attempt %d of step %s (%s) was under way", o.Attempt, o.Name, o.Key)
	}
	if f.Run == event.StatePending {
		b.WriteString("; its code never reached a durable operation")
	}
	b.WriteString(": look for what ends the process, such as os.Exit, memory or a fatal error")
	return &event.Failure{Code: event.CodePoisoned, Message: b.String()}
}
