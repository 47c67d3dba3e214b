package pairs_test

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// reruns contains the states of reruns, with reruns whose delay has not passed.
var reruns = []scene{
	{
		name: "a rerun", facts: user(parked(event.StatusWaiting, true)), alone: true, noID: true, end: event.StatusCompleted,
		play: func(s *stage, c *cell) {
			begins(plain, "complete")(s, c)
			s.reaches(c, c.run, "ended", isEnded)
			c.plays = c.key + "/other"
			old := c.other(s, plain, "message")
			s.reaches(c, old, "waiting", isWaiting) // so that the executions of this run precede those of the rerun
			s.call(c, "restart", func() error {
				again, err := s.Client.Run(old).Restart(s.Ctx)
				if err == nil {
					c.run = again.ID()
				}
				return err
			})
		},
	},
	{
		name: "a rerun in its delay", everywhere: true, facts: user(parked(event.StatusSleeping, true), delayed), among: []string{"sleeping"},
		play: triedAgain(patient), end: event.StatusCompleted,
	},
	{
		name: "a rerun in its delay, with a limit", everywhere: true, facts: user(parked(event.StatusSleeping, true), delayed), among: []string{"sleeping"},
		play: func(s *stage, c *cell) {
			triedAgain(laned)(s, c)
			c.follower = c.other(s, pooled, "complete")
		}, end: event.StatusCompleted,
	},
	{
		name: "a rerun in its delay, its limit is full", everywhere: true, filled: true, facts: user(parked(event.StatusSleeping, true), delayed, full), among: []string{"sleeping"},
		play: func(s *stage, c *cell) {
			triedAgain(laned)(s, c)
			holder := c.other(s, pooled, "message")
			s.reaches(c, holder, "waiting", isWaiting)
			c.follower = c.other(s, pooled, "complete")
		}, end: event.StatusCompleted,
	},
	{
		name: "paused, a rerun in its delay", facts: user(isPaused(parked("", true)), delayed), among: []string{"paused"}, end: event.StatusCompleted,
		play: then(triedAgain(patient), event.StatusSleeping, pause),
	},
	{
		name: "paused, a rerun in its delay, with a limit", everywhere: true, facts: user(isPaused(parked("", true)), delayed), among: []string{"paused"}, end: event.StatusCompleted,
		play: func(s *stage, c *cell) {
			then(triedAgain(laned), event.StatusSleeping, pause)(s, c)
			c.follower = c.other(s, pooled, "complete")
		},
	},
}

func delayed(f *facts) { f.Delayed = true }
func full(f *facts)    { f.Full = true }

// triedAgain starts a run that fails. Its automatic rerun becomes the run of the cell, and does not
// fail.
func triedAgain(d workflow.Definition[work, string]) func(*stage, *cell) {
	return func(s *stage, c *cell) {
		c.begin(s, d, "fail")
		s.needs(c, "there is a rerun", func() bool {
			if again := s.lastRerun(c.run); again != c.run {
				c.run = again
				return true
			}
			return false
		})
		s.reaches(c, c.run, "in its delay", func(o Observed) bool { return o.Delayed })
		s.open(c.key)
	}
}

// again contains the states of failed runs that have a rerun.
var again = []scene{
	{
		name: "failed, its rerun is open", facts: user(ended(event.StatusFailed), rerun(event.StatusWaiting), func(f *facts) { f.Taken = true }), alone: true, noStarts: true, end: event.StatusFailed,
		play: retried(true, func(*stage, *cell, *workflow.Handle) error { return nil }, event.StatusWaiting),
	},
	{
		name: "failed, its rerun is in its delay", everywhere: true, facts: user(ended(event.StatusFailed), rerun(event.StatusSleeping), func(f *facts) { f.Taken = true }), among: []string{"failed"}, noStarts: true, end: event.StatusFailed,
		play: func(s *stage, c *cell) {
			triedAgain(patient)(s, c)
			c.run, c.first = eventsOf(s.load(c.run).Frames)[0].Spec.RerunOf, c.run
		},
	},
	{
		name: "failed, its rerun has failed", everywhere: true, facts: user(ended(event.StatusFailed), rerun(event.StatusFailed)), alone: true, noStarts: true, end: event.StatusFailed,
		play: retried(false, func(*stage, *cell, *workflow.Handle) error { return nil }, event.StatusFailed),
	},
	{
		name: "failed, its rerun has completed", facts: user(ended(event.StatusFailed), rerun(event.StatusCompleted)), alone: true, noStarts: true, end: event.StatusFailed,
		play: retried(true, func(s *stage, _ *cell, h *workflow.Handle) error { return goOn.Send(s.Ctx, h, "go on") }, event.StatusCompleted),
	},
	{
		name: "failed, its rerun was deleted", facts: user(ended(event.StatusFailed)), alone: true, noStarts: true, end: event.StatusFailed,
		play: func(s *stage, c *cell) {
			retried(true, func(s *stage, _ *cell, h *workflow.Handle) error { return goOn.Send(s.Ctx, h, "go on") }, event.StatusCompleted)(s, c)
			s.call(c, "delete", func() error { return ops.New(s.Client).Delete(s.Ctx, c.first) })
		},
	},
}

func rerun(status event.Status) func(*facts) { return func(f *facts) { f.Rerun = status } }

// retried starts a run that fails, retries it, calls do with the rerun, and waits until the rerun
// has the status until. If open is set, the rerun does not fail.
func retried(open bool, do func(*stage, *cell, *workflow.Handle) error, until event.Status) func(*stage, *cell) {
	return func(s *stage, c *cell) {
		begins(plain, "fail")(s, c)
		s.reaches(c, c.run, "ended", isEnded)
		if open {
			s.open(c.key)
		}
		s.call(c, "retry", func() error {
			h, err := s.Client.Run(c.run).Retry(s.Ctx)
			if err == nil {
				c.first, err = h.ID(), do(s, c, h)
			}
			return err
		})
		s.reaches(c, c.first, string(until), func(o Observed) bool { return o.Status == until })
	}
}
