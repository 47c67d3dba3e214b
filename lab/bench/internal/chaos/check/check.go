// Package check decides whether a fleet under disturbance has kept its promises. It compares the
// final contents of the store with the records that steps wrote and with the orders given to runs.
// It changes nothing and makes no requests.
//
// Begin with evidence.go and check.go. history.go summarizes a log. The checks are in steps.go,
// limits.go and runs.go. dump.go prints the evidence about a run.
package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

// Check compares the evidence of an experiment with the promises and returns the verdict.
func Check(e Evidence) *Verdict {
	c := &checker{
		Evidence:   &e,
		verdict:    &Verdict{Runs: len(e.Jobs), Executions: len(e.Executions), Recoveries: map[store.Reason]int{}},
		histories:  map[event.RunID]*history{},
		executions: map[event.RunID][]*record.Execution{},
		broken:     map[event.RunID]bool{},
		caught:     map[*Stall][]*record.Execution{},
		voids:      map[fence]time.Time{},
		last:       map[string]time.Time{},
	}
	c.readFences()
	for _, a := range e.Snapshot.Audit {
		c.verdict.Recoveries[a.Reason]++
	}
	c.checkStore()
	for run, r := range e.Snapshot.Runs {
		h := read(r, e.Codec)
		if c.histories[run] = h; len(h.plain) > 0 || h.unreadable && e.Codec != nil {
			c.findf(Broken, run, "its user data are not all sealed (%v), or cannot be opened (%v)", h.plain, h.unreadable)
		}
	}
	c.assign()
	for _, run := range slices.Sorted(maps.Keys(c.histories)) {
		if h := c.histories[run]; !h.unreadable { // A log that is unreadable may lack steps that the store contains, so its steps are not checked.
			c.checkSteps(h)
			c.checkAttempts(h)
		}
	}
	for _, run := range slices.Sorted(maps.Keys(c.executions)) {
		if e.Snapshot.Runs[run] == nil {
			c.findf(Unrecorded, run, "its steps were executed, and the store does not know it")
		}
	}
	c.checkJobs()
	c.checkLimits()
	slices.SortStableFunc(c.verdict.Violations, func(a, b Violation) int { return cmp.Compare(a.Kind, b.Kind) })
	return c.verdict
}

// checker collects the violations.
type checker struct {
	*Evidence
	verdict    *Verdict
	histories  map[event.RunID]*history
	executions map[event.RunID][]*record.Execution
	broken     map[event.RunID]bool           // runs whose logs are broken
	caught     map[*Stall][]*record.Execution // the late executions that each stall excuses; see isCaught
	voids      map[fence]time.Time
	last       map[string]time.Time // last time at which each worker is known to have been alive
}

// assign assigns each execution to the run whose log contains its step. A step that uses limits is
// executed by a separate run, but its record names the run that called it.
func (c *checker) assign() {
	type place struct {
		run event.RunID
		key string
	}
	elsewhere := map[place]*history{}
	for _, h := range c.histories {
		if h.spec != nil && event.Internal(h.spec.Workflow) {
			elsewhere[place{h.spec.Parent, h.spec.ParentKey}] = h
		}
	}
	for i := range c.Executions {
		x := c.Executions[i]
		if h := elsewhere[place{x.Run, x.Key}]; h != nil {
			x.Run = h.run
			for key := range h.steps { // The run of a step has exactly one step.
				x.Key = key
			}
		}
		c.executions[x.Run] = append(c.executions[x.Run], &x)
	}
}

func (c *checker) findf(kind Kind, run event.RunID, format string, args ...any) {
	c.verdict.Violations = append(c.verdict.Violations, Violation{Kind: kind, Run: run, What: fmt.Sprintf(format, args...)})
}

// damaged reports whether the log of one of the runs is broken.
func (c *checker) damaged(runs []*history) bool {
	return slices.ContainsFunc(runs, func(h *history) bool { return c.broken[h.run] })
}

// logInvariants is the number of invariants of fsck that concern a single log.
const logInvariants = 3

// checkStore adds a violation for each finding of fsck.
func (c *checker) checkStore() {
	for _, f := range fsck.Check(c.Snapshot) {
		kind := Broken
		if f.Invariant <= logInvariants {
			kind = BrokenLog
			c.broken[f.Run] = true
		}
		c.findf(kind, f.Run, "invariant %d: %s: %s", f.Invariant, f.What, f.Explain)
	}
	c.verdict.BrokenLogs = len(c.broken)
}
