package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/chaos/flows"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/event"
)

// checkSteps compares the records of the steps of a run with its log.
func (c *checker) checkSteps(h *history) {
	durable := c.durable(h)
	seen := map[string]int{} // number of executions by step and attempt
	once := map[string]int{} // number of executions by step
	done := map[string]bool{}
	for _, x := range c.executions[h.run] {
		name := fmt.Sprintf("attempt %d of %s", x.Attempt, x.Key)
		seen[name]++
		if seen[name] == 2 {
			c.findf(Twice, h.run, "%s was executed more than once", name)
		}
		if x.Outcome == record.Done {
			done[name] = true
		}
		s := h.steps[x.Key]
		if s == nil {
			c.findf(Unrecorded, h.run, "%s was executed by %s, and the log does not know the step", name, x.Worker)
			continue
		}
		if s.name == flows.Steps.Once.Name() {
			once[x.Key]++
			if once[x.Key] == 2 {
				c.findf(Twice, h.run, "%s is not idempotent, and was executed more than once", x.Key)
			}
		}
		if a, ok := s.attempts[x.Attempt]; !ok || a.by != x.Worker {
			c.findf(Unrecorded, h.run, "%s was executed by %s, the log says that %q has started it", name, x.Worker, a.by)
		}
		c.checkBeginning(h, s, x, durable)
	}
	for _, key := range slices.Sorted(maps.Keys(h.steps)) {
		s := h.steps[key]
		if s.end == nil || s.end.Type != event.StepCompleted {
			continue
		}
		c.verdict.Steps++
		if name := fmt.Sprintf("attempt %d of %s", s.end.Attempt, key); !done[name] {
			c.findf(Unrecorded, h.run, "%s has completed, and the step itself does not say that it returned", name)
		}
	}
}

// durable returns an upper bound of the commit time of each frame. The bound is the beginning of a
// step that the frame starts, or the bound of a later frame. The creation time of a frame is not an
// upper bound, because the commit may take long.
func (c *checker) durable(h *history) []bound {
	bounds := make([]bound, h.frames)
	for i := range bounds {
		if at, ok := c.Ended[h.run]; ok && h.end != nil {
			bounds[i] = bound{at: at, by: "somebody outside saw the end of the run"}
		}
	}
	for _, x := range c.executions[h.run] {
		s := h.steps[x.Key]
		if s == nil {
			continue
		}
		a, ok := s.attempts[x.Attempt]
		if !ok {
			continue
		}
		for i := a.frame; i >= 0; i-- {
			if bounds[i].at.IsZero() || x.Began.Before(bounds[i].at) {
				bounds[i] = bound{at: x.Began, by: x.Key + " began, which was started in or after that commit", key: x.Key}
			}
		}
	}
	return bounds
}

// bound is an upper bound of the time of an event, with its evidence.
type bound struct {
	at  time.Time
	by  string
	key string // key of the step whose beginning is the evidence
}

// checkBeginning checks that an execution did not begin after the end of its step.
func (c *checker) checkBeginning(h *history, s *stepHistory, x *record.Execution, durable []bound) {
	name := fmt.Sprintf("attempt %d of %s", x.Attempt, x.Key)
	kind, ended, frame := Late, "the run had ended", h.frames-1
	switch {
	case s.end != nil && s.end.Type == event.StepCompleted:
		kind, ended, frame = Repeated, fmt.Sprintf("attempt %d had completed", s.end.Attempt), s.endFrame
	case s.end != nil:
		ended, frame = fmt.Sprintf("attempt %d had failed for good", s.end.Attempt), s.endFrame
	case h.end == nil:
		return
	}
	limit := durable[frame]
	late := !limit.at.IsZero() && limit.key != x.Key && x.Began.After(limit.at)
	switch {
	case s.end != nil && x.Attempt > s.end.Attempt:
		c.findf(kind, h.run, "%s was executed by %s, but %s", name, x.Worker, ended)
	case !late || c.isCaught(x):
		return
	default:
		c.findf(kind, h.run, "%s was begun by %s at %s, but %s before %s, when %s", name, x.Worker, clock(x.Began), ended, clock(limit.at), limit.by)
	}
	if kind == Repeated {
		c.verdict.Repeated++
	}
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000000") }

const (
	// wake is the maximum time after a stall within which a caught execution begins, even on a busy
	// machine.
	wake = 100 * time.Millisecond
	// rarely is the minimum number of stalls per stall that has caught executions. The number of
	// allowed stalls is rounded up. Only a few microseconds pass between the lease check and the step, so an
	// execution is rarely caught. A worker without the check would be caught more often.
	rarely = 10
)

// isCaught reports whether a stall excuses the late beginning of an execution. The stall must have
// suspended the worker between the last lease check and the first instruction of the step. Each
// goroutine that the worker was executing may have been there, so a stall excuses at most that many
// executions.
func (c *checker) isCaught(x *record.Execution) bool {
	for i := range c.Stalls {
		s := &c.Stalls[i]
		if s.Worker != x.Worker || x.Began.Before(s.From) || x.Began.After(s.To.Add(wake)) {
			continue
		}
		of := c.caught[s]
		if slices.Contains(of, x) {
			return true
		}
		if len(of) >= max(c.Procs, 1) || of == nil && len(c.caught) >= (len(c.Stalls)+rarely-1)/rarely {
			return false
		}
		c.caught[s] = append(of, x)
		c.verdict.Caught++
		return true
	}
	return false
}
