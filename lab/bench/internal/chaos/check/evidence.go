package check

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Evidence contains all data that exists at the end of an experiment.
type Evidence struct {
	// Jobs contains the requested runs.
	Jobs []Job
	// Snapshot is the state of the store.
	Snapshot *store.Snapshot
	// Codec seals the user data of all runs. It is nil if they are not sealed.
	Codec store.Codec
	// Executions contains the records that steps wrote.
	Executions []record.Execution
	// Ended contains the first time at which the driver observed the end of each run.
	Ended map[event.RunID]time.Time
	// Answers contains the results that the driver received.
	Answers map[event.RunID]flows.Result
	// Stalls contains the suspensions of workers.
	Stalls []Stall
	// Procs is the number of goroutines that a worker executes at once, which is its GOMAXPROCS. 0
	// means 1.
	Procs int
	// Deaths contains the time at which each worker was stopped or killed, by worker name.
	Deaths map[string]time.Time
	// Changes contains the changes of the capacities of limits, in order.
	Changes []Change
}

// Job is a requested run with its required outcome.
type Job struct {
	Input      flows.Job // input, with a unique ID
	Workflow   string    // stored name of the workflow
	WorkflowID string
	Fate       Fate
	// Replaces reports whether the run cancels the previous run of its workflow ID. If the response
	// to the start is lost, the driver retries the start, and the second run replaces the first.
	Replaces bool
}

// Fate is the way in which a run must end.
type Fate uint8

// The fates of runs.
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

// Change describes one change of the capacity of a limit.
type Change struct {
	Limit  string
	AtOnce int
	Asked  time.Time // time before the request to the store
	// Settled is the time of the first report after the change in which the held permits do not
	// exceed the capacity. It is zero if no report before the next change meets this condition.
	Settled time.Time
}

// Kind, Violation and Stall are the types that all experiments use.
type (
	Kind      = harm.Kind
	Violation = harm.Violation
	Stall     = harm.Stall
)

// The kinds of violations.
const (
	Lost       Kind = "lost"                  // a run was not created or has not ended
	Wrong      Kind = "wrong result"          // a run ended differently than required
	Message    Kind = "message"               // a message was lost, duplicated or reordered
	Repeated   Kind = "repeated after commit" // a step was executed after the commit of its completion
	Late       Kind = "late start"            // a step was executed after its failure or after the end of its run
	Twice      Kind = "executed twice"        // one attempt or a nonidempotent step was executed twice
	Unrecorded Kind = "unrecorded"            // the log and the records of a step differ
	Overlap    Kind = "two active"            // two runs of one workflow ID were active at the same time
	BrokenLog  Kind = "broken log"            // a log has a gap, a duplicate, or frames of two concurrent writers
	Above      Kind = "above the capacity"    // the capacity of a limit was exceeded
	Together   Kind = "two attempts"          // two attempts of one step were executed at the same time
	Broken     Kind = "broken store"          // data outside of the logs is inconsistent
)

// Verdict is the result of a check.
type Verdict struct {
	Runs       int `json:"runs"`
	Completed  int `json:"completed"` // runs with the required outcome
	Lost       int `json:"lost"`
	Repeated   int `json:"repeatedAfterCommit"`
	BrokenLogs int `json:"brokenLogs"`

	Steps      int                  `json:"steps"`      // number of completed steps
	Executions int                  `json:"executions"` // number of executions of steps
	Recoveries map[store.Reason]int `json:"recoveries"`
	// Caught is the number of executions that began late because their worker was suspended between
	// its last lease check and the first instruction of the step. Such executions are unavoidable,
	// and acceptable if they are rare.
	Caught int `json:"caught"`
	// Void is the number of attempts that were executing when their fence became void. VoidAwake
	// counts only attempts on workers that had not been suspended.
	Void       int         `json:"void"`
	VoidAwake  int         `json:"voidAwake"`
	Limits     []Limit     `json:"limits,omitempty"`
	Violations []Violation `json:"violations"`
}

// Limit contains the observed use of a limit.
type Limit struct {
	Name     string `json:"name"`
	Attempts int    `json:"attempts"` // number of attempts that used the limit
	Whole    int    `json:"whole"`    // number of runs that held the limit until their end
	Most     int    `json:"most"`     // maximum total weight at one time
	// Beside is like Most, but includes use under a void fence.
	Beside  int `json:"beside"`
	Changes int `json:"changes"` // number of changes of the capacity
	Full    int `json:"full"`    // number of times at which the limit became full
	// Between is the percentage of time in which more permits were held than a lowered capacity.
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

// String returns the last line of a report.
func (v *Verdict) String() string {
	return fmt.Sprintf("runs %d completed %d lost %d repeated-after-commit %d broken-logs %d", v.Runs, v.Completed, v.Lost, v.Repeated, v.BrokenLogs)
}
