package pairs_test

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
)

// Each wait of a cell ends when a condition holds. Otherwise the cell fails with a description of
// the condition.
const (
	// grace is the maximum real time for conditions of cells that violate rules, or are known to do
	// so. For other cells, the maximum is most.
	grace = time.Second
	// leap is the maximum virtual time between two checks of a condition, even if the test was not
	// executed for a longer time.
	leap = time.Second
)

var most = flowtest.Patience / 2

// until waits until cond holds. Meanwhile, virtual time passes ten times as fast as real time, but
// slowly enough that no request takes a minute of virtual time and is refused. until returns false
// if cond does not hold within the real time most.
func (s *stage) until(most time.Duration, cond func() bool) bool {
	begin := time.Now()
	for last := begin; !cond(); {
		now := time.Now()
		if now.Sub(begin) > most || s.Ctx.Err() != nil {
			return false
		}
		s.pass(min(10*now.Sub(last), leap))
		last = now
		runtime.Gosched()
	}
	return true
}

// pass advances virtual time by d. It does nothing if the store uses the real clock.
func (s *stage) pass(d time.Duration) {
	if s.Clock != nil && d > 0 {
		s.Clock.Advance(d)
	}
}

// needs waits until cond holds. If cond does not hold in time, it ends the test, because the cell
// cannot be judged.
func (s *stage) needs(c *cell, what string, cond func() bool) {
	s.T.Helper()
	if !s.until(flowtest.Patience, cond) {
		s.T.Fatalf("%s: waited in vain until %s%s", c, what, s.all(c))
	}
}

// reaches waits until the observed facts of a run satisfy a condition.
func (s *stage) reaches(c *cell, run event.RunID, what string, is func(Observed) bool) {
	s.T.Helper()
	s.needs(c, fmt.Sprintf("run %s is %s", run, what), func() bool { o, _ := observe(s.World, run); return is(o) })
}

// call calls f while virtual time passes. Some methods of the client wait for time before they
// check a condition again.
func (s *stage) call(c *cell, what string, f func() error) {
	s.T.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	var err error
	s.needs(c, what+" is answered", func() bool {
		select {
		case err = <-done:
			return true
		default:
			return false
		}
	})
	if err != nil {
		s.T.Fatalf("%s: %s: %v%s", c, what, err, s.all(c))
	}
}

// await waits until missing returns "" for all cells. After the real time most, it records the
// result of missing as a violation of the rule. If only cells with known violations are left, await
// waits for grace.
func await(s *stage, cells []*cell, rule func(*cell) string, missing func(*cell) string) {
	s.T.Helper()
	left := slices.Clone(cells)
	var graceful time.Time // since when only cells with known violations are left; zero if others are left
	s.until(most, func() bool {
		before := len(left)
		left = slices.DeleteFunc(left, func(c *cell) bool { return missing(c) == "" })
		if len(left) < before || slices.ContainsFunc(left, func(c *cell) bool { return !c.known() }) {
			graceful = time.Time{}
		} else if graceful.IsZero() {
			graceful = time.Now()
		}
		return len(left) == 0 || !graceful.IsZero() && time.Since(graceful) > grace
	})
	for _, c := range left {
		if what := missing(c); what != "" {
			c.breaks(rule(c), "%s%s", what, s.all(c))
		}
	}
}

// decided returns the IDs of the rules that determine the result of a cell.
func decided(c *cell) string { return c.by }

// only returns a function that returns the same rule for each cell.
func only(rule string) func(*cell) string { return func(*cell) string { return rule } }

// known reports whether the cell is known to violate rules, or has violated a rule.
func (c *cell) known() bool { return len(c.owed) > 0 || len(c.broken) > 0 }

// patience returns the maximum real time for a condition that concerns several cells.
func patience(cells []*cell) time.Duration {
	if slices.ContainsFunc(cells, (*cell).known) {
		return grace
	}
	return most
}

// String returns the names of the scene and of the command.
func (c *cell) String() string { return c.scene.name + " × " + c.cmd.name }

// all describes the runs of a cell, each on its own line with the types of its events.
func (s *stage) all(c *cell) (text string) {
	runs := map[event.RunID]string{c.run: "the run", c.first: "the run made by the scene", c.follower: "the run behind it", c.got.Made: "the run made by the command"}
	if s.Ctx.Err() == nil {
		for _, r := range s.runsOf(c) {
			if runs[r.ID] == "" {
				runs[r.ID] = "another run of the cell"
			}
		}
	}
	for id, what := range runs {
		if id == "" {
			continue
		}
		text += fmt.Sprintf("\n    %s, %s", what, id)
		if o, there := observe(s.World, id); there {
			text += fmt.Sprintf(", is %+v: %v", o, typesOf(s.load(id).Frames))
		} else {
			text += ", is not found"
		}
	}
	return text
}

func typesOf(frames [][]byte) (all []event.Type) {
	for _, e := range eventsOf(frames) {
		all = append(all, e.Type)
	}
	return all
}
