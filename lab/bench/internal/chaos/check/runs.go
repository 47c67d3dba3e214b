package check

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/runtime/event"
)

// checkJobs checks that each job has a run with the required outcome.
func (c *checker) checkJobs() {
	runs := map[int][]*history{}
	lines := map[string][]*history{}                           // runs by workflow ID
	for _, id := range slices.Sorted(maps.Keys(c.histories)) { // Sorted run IDs are in the order of creation.
		h := c.histories[id]
		if h.spec == nil || event.Internal(h.spec.Workflow) {
			continue // The log is unreadable, or the run is an internal part of another run.
		}
		runs[h.input.ID] = append(runs[h.input.ID], h)
		lines[h.spec.WorkflowID] = append(lines[h.spec.WorkflowID], h)
	}
	for _, job := range c.Jobs {
		before := len(c.verdict.Violations)
		c.checkJob(job, runs[job.Input.ID])
		if len(c.verdict.Violations) == before && !c.damaged(runs[job.Input.ID]) {
			c.verdict.Completed++
		}
		delete(runs, job.Input.ID)
	}
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		c.findf(Wrong, runs[id][0].run, "nobody has asked for it")
	}
	for _, wid := range slices.Sorted(maps.Keys(lines)) {
		c.checkLine(lines[wid])
	}
}

func (c *checker) checkJob(job Job, runs []*history) {
	if len(runs) == 0 {
		c.losef("", "job %d of %s, workflow id %q, has no run", job.Input.ID, job.Workflow, job.WorkflowID)
		return
	}
	last := runs[len(runs)-1]
	for _, h := range runs[:len(runs)-1] {
		if !job.Replaces {
			c.findf(Wrong, h.run, "workflow id %q has another run %s, and was to be used once", job.WorkflowID, last.run)
		} else if h.end == nil && !h.unreadable {
			c.losef(h.run, "it has not ended, and was replaced by %s", last.run)
		}
	}
	if last.unreadable {
		return // The end of the run is not known.
	}
	if last.end == nil {
		place := c.Snapshot.Runs[last.run].QueueState
		c.losef(last.run, "it has not ended: job %d of %s, workflow id %q, is %s", job.Input.ID, job.Workflow, job.WorkflowID, place)
		return
	}
	c.checkEnd(job, last)
}

// losef reports a job without the required outcome. run is empty if the job has no run.
func (c *checker) losef(run event.RunID, format string, args ...any) {
	c.verdict.Lost++
	c.findf(Lost, run, format, args...)
}

func (c *checker) checkEnd(job Job, h *history) {
	fates := map[event.Type]event.Status{
		event.RunCompleted: event.StatusCompleted, event.RunFailed: event.StatusFailed, event.RunCanceled: event.StatusCanceled,
	}
	if got, want := fates[h.end.Type], job.Fate.status(); got != want {
		reason := ""
		if h.end.Failure != nil {
			reason = h.end.Failure.Message
		}
		c.findf(Wrong, h.run, "job %d of %s ended as %s (%s), and must end as %s", job.Input.ID, job.Workflow, got, reason, want)
		return
	}
	switch job.Fate {
	case Completes:
		c.checkResult(job, h)
	case IsCanceled:
		c.checkCleaned(h)
	case Fails:
		if f := h.end.Failure; f == nil || f.Code != event.CodeFatal {
			c.findf(Wrong, h.run, "it failed with %+v, and must fail with the code %s", f, event.CodeFatal)
		}
	}
}

func (c *checker) checkResult(job Job, h *history) {
	var got flows.Result
	if err := json.Unmarshal(h.end.Payload, &got); err != nil {
		c.findf(Wrong, h.run, "its result cannot be read: %v", err)
		return
	}
	if want := job.Input.Want(job.Workflow, got); got.Sum != want {
		c.findf(Wrong, h.run, "job %d of %s has the sum %d, want %d", job.Input.ID, job.Workflow, got.Sum, want)
	}
	if got.Interrupted != (h.interrupted && job.Workflow == flows.Chain.Name()) {
		c.findf(Wrong, h.run, "its result says %t of whether a step was interrupted, its log %t", got.Interrupted, h.interrupted)
	}
	if answer, ok := c.Answers[h.run]; ok {
		if diff := cmp.Diff(got, answer); diff != "" {
			c.findf(Wrong, h.run, "somebody was given another result than its log has (-log +given):\n%s", diff)
		}
	}
	if job.Workflow == flows.Mail.Name() {
		c.checkMessages(job, h, got.Messages)
	}
}

// checkMessages checks that a run received each message once, and the messages of each sender in
// order.
func (c *checker) checkMessages(job Job, h *history, got []flows.Message) {
	last := map[int]int{}
	for _, m := range got {
		if m.Number != last[m.Sender]+1 {
			c.findf(Message, h.run, "message %d of sender %d came behind number %d", m.Number, m.Sender, last[m.Sender])
		}
		last[m.Sender] = m.Number
	}
	for sender := range job.Input.Senders {
		if n := last[sender]; n != job.Input.Messages {
			c.findf(Message, h.run, "sender %d has sent %d messages, the last that came is number %d", sender, job.Input.Messages, n)
		}
	}
}

// checkCleaned checks that a run that was canceled after its beginning executed its cleanup exactly
// once.
func (c *checker) checkCleaned(h *history) {
	begun, cleaned := false, 0
	for _, s := range h.steps {
		if s.name != flows.Steps.Clean.Name() {
			begun = begun || len(s.attempts) > 0
		} else if s.end != nil && s.end.Type == event.StepCompleted {
			cleaned++
		}
	}
	if begun && cleaned != 1 {
		c.findf(Wrong, h.run, "it was canceled, and has cleaned up %d times", cleaned)
	}
}

// slack is the maximum difference between the clocks of two workers. Both synchronize their clock
// with the clock of the store.
const slack = 250 * time.Millisecond

// checkLine checks that at most one run of a workflow ID was active at a time. The runs must have
// been active in the order of their creation.
func (c *checker) checkLine(runs []*history) {
	for i, h := range runs[:len(runs)-1] {
		next := runs[i+1]
		if h.end == nil || next.started.IsZero() {
			continue // The run is reported elsewhere, or was canceled before it began.
		}
		if early := h.end.Time.Sub(next.started); early > slack {
			c.findf(Overlap, next.run, "it was started %v before the end of run %s of the same workflow id %q", early, h.run, h.spec.WorkflowID)
		}
		for _, x := range c.executions[h.run] {
			if x.Began.After(next.started.Add(slack)) && !c.isCaught(x) {
				c.findf(Overlap, h.run, "attempt %d of %s began at %s, when run %s of the same workflow id had been started at %s",
					x.Attempt, strings.TrimSpace(x.Key), clock(x.Began), next.run, clock(next.started))
			}
		}
	}
}
