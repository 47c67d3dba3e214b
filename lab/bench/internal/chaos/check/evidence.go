package check

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos/record"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Evidence holds everything known at the end of an experiment.
type Evidence struct {
	// Jobs are the runs that were asked for.
	Jobs []Job
	// Snapshot is the state of the store.
	Snapshot *store.Snapshot
	// Executions are the records that steps wrote.
	Executions []record.Execution
	// Ended is when somebody outside saw that a run had ended: it had by then.
	Ended map[event.RunID]time.Time
	// Answers are the results that somebody outside was given.
	Answers map[event.RunID]flows.Result
	// Stalls are the times at which workers were suspended.
	Stalls []Stall
	// Deaths has when workers were told to end, by their names.
	Deaths map[string]time.Time
	// Changes are those of the capacities of limits, one after the other.
	Changes []Change
}

// Job describes one run that was asked for, and the outcome it must have.
type Job struct {
	Input      flows.Job // its ID tells it from all others
	Workflow   string    // stored name
	WorkflowID string
	Fate       Fate
	// Replaces says that the run was to cancel the one before it of its workflow
	// id. If the answer to such a start was lost, the next try replaces that run.
	Replaces bool
}

// Fate is how a run must end.
type Fate uint8

// The fates.
const (
	Completes Fate = iota
	Fails
	IsCanceled
)

func (f Fate) status() event.Status {
	switch f {
	case Fails:
		return event.StatusFailed
	case IsCanceled:
		return event.StatusCanceled
	default:
		return event.StatusCompleted
	}
}

// Stall is a time during which a worker was suspended.
type Stall struct {
	Worker   string
	From, To time.Time
}

// Change is a change of the capacity of a limit.
type Change struct {
	Limit  string
	AtOnce int
	Asked  time.Time // before the store was asked for it
	// Settled is when the store said, for the first time after it had done it, that no more
	// was held; zero: it did not before the next change.
	Settled time.Time
}

// Kind is a kind of broken promise.
type Kind string

// The kinds.
const (
	Lost       Kind = "lost"                  // a run was not created, or has not ended
	Wrong      Kind = "wrong result"          // a run ended otherwise than it must
	Message    Kind = "message"               // one was lost, came twice or out of order
	Repeated   Kind = "repeated after commit" // a step was executed after its completion was committed
	Late       Kind = "late start"            // a step was executed after it had failed, or after the end of its run
	Twice      Kind = "executed twice"        // one attempt, or a step that is not idempotent
	Unrecorded Kind = "unrecorded"            // the log and the step itself say different things of an execution
	Overlap    Kind = "two active"            // two runs of one workflow id
	BrokenLog  Kind = "broken log"            // it has a hole, a duplicate, or two writers at a time
	Above      Kind = "above the capacity"    // more was under way than a limit allows
	Together   Kind = "two attempts"          // of one step, under way at once
	Process    Kind = "process"               // one ended by itself, or could not be stopped
	Broken     Kind = "broken store"          // what is kept beside the logs is wrong
)

// Violation is one broken promise.
type Violation struct {
	Kind Kind        `json:"kind"`
	Run  event.RunID `json:"run,omitempty"` // empty: it is about none in particular
	What string      `json:"what"`
}

// String returns the violation on one line.
func (v Violation) String() string {
	if v.Run == "" {
		return fmt.Sprintf("%s: %s", v.Kind, v.What)
	}
	return fmt.Sprintf("%s: run %s: %s", v.Kind, v.Run, v.What)
}

// Verdict is the result of a check.
type Verdict struct {
	Runs       int `json:"runs"`
	Completed  int `json:"completed"` // ended as they must
	Lost       int `json:"lost"`
	Repeated   int `json:"repeatedAfterCommit"`
	BrokenLogs int `json:"brokenLogs"`

	Steps      int                  `json:"steps"`      // that have completed
	Executions int                  `json:"executions"` // of steps
	Recoveries map[store.Reason]int `json:"recoveries"`
	// Caught counts executions that began late because their worker was suspended
	// between its last look at the lease and the first instruction of the step:
	// nobody can help that, as long as it is rare.
	Caught int `json:"caught"`
	// Void counts attempts that were under way when their fence became void, VoidAwake those of
	// workers that had not been suspended.
	Void       int         `json:"void"`
	VoidAwake  int         `json:"voidAwake"`
	Limits     []Limit     `json:"limits,omitempty"`
	Violations []Violation `json:"violations"`
}

// Limit is how much was under way of a limit at once.
type Limit struct {
	Name     string `json:"name"`
	Attempts int    `json:"attempts"` // that used it themselves
	Whole    int    `json:"whole"`    // runs that held it to their ends
	Most     int    `json:"most"`     // weights that were under way at once
	// Beside is Most if also what went on under a void fence counts.
	Beside  int `json:"beside"`
	Changes int `json:"changes"` // of the capacity
	Full    int `json:"full"`    // how often as much was under way as there was
	// Between is the share of the time, in percent, in which a capacity had been lowered, and
	// more than that was still held.
	Between float64 `json:"between"`
}

// String returns the limit on one line.
func (l Limit) String() string {
	return fmt.Sprintf("%s: %d attempts and %d whole runs, at most %d at once (%d with those whose fence was void), %d changes of the capacity, full %d times, lowered and not yet reached %.0f%% of the time",
		l.Name, l.Attempts, l.Whole, l.Most, l.Beside, l.Changes, l.Full, l.Between)
}

// Sound reports whether every promise was kept.
func (v *Verdict) Sound() bool {
	return len(v.Violations) == 0 && v.Completed == v.Runs
}

// String returns the line that ends a report.
func (v *Verdict) String() string {
	return fmt.Sprintf("runs %d completed %d lost %d repeated-after-commit %d broken-logs %d", v.Runs, v.Completed, v.Lost, v.Repeated, v.BrokenLogs)
}
