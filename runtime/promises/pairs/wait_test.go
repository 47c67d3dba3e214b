package pairs_test

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
)

// Every wait of a cell ends by a condition, or fails the cell with a description of the condition.
const (
	// most is the maximum real time for a condition of a cell. grace is the maximum for cells that
	// are known to violate rules, or were seen to violate them.
	grace = time.Second
	// leap is the longest virtual time between two checks of a condition, even if the test itself
	// was not executed for longer.
	leap = time.Second
)

var most = flowtest.Patience / 2

// until waits until cond holds, while virtual time passes ten times as fast as real time; a request
// that takes more than a minute of virtual time is refused. It returns false after the real time
// most.
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

// pass advances virtual time. If the time of the store is real it does nothing.
func (s *stage) pass(d time.Duration) {
	if s.Clock != nil && d > 0 {
		s.Clock.Advance(d)
	}
}

// needs waits until cond holds, and ends the test otherwise: the cell cannot be judged.
func (s *stage) needs(c *cell, what string, cond func() bool) {
	s.T.Helper()
	if !s.until(flowtest.Patience, cond) {
		s.T.Fatalf("%s: waited in vain until %s%s", c, what, s.all(c))
	}
}

// reaches waits until the observed facts of a run fulfill a condition.
func (s *stage) reaches(c *cell, run event.RunID, what string, is func(Observed) bool) {
	s.T.Helper()
	s.needs(c, fmt.Sprintf("run %s is %s", run, what), func() bool { o, _ := observe(s.World, run); return is(o) })
}

// call calls a method of the client while virtual time passes, because some methods wait for time
// before they recheck a condition.
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

// await waits until nothing is missing in any cell. After the real time most it records what is
// missing as a breach of a rule. Cells with a known breach are awaited as long as there are others,
// and for grace after that.
func await(s *stage, cells []*cell, rule func(*cell) string, missing func(*cell) string) {
	s.T.Helper()
	left := slices.Clone(cells)
	var graceful time.Time // when only cells with breaches are left
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

// decided returns the rules that apply to a cell.
func decided(c *cell) string { return c.by }

// only returns the same rule for each cell.
func only(rule string) func(*cell) string { return func(*cell) string { return rule } }

// known reports whether the cell is known to violate rules, or was seen to violate them.
func (c *cell) known() bool { return len(c.owed) > 0 || len(c.broken) > 0 }

// patience is the maximum time for a condition that involves several cells.
func patience(cells []*cell) time.Duration {
	if slices.ContainsFunc(cells, (*cell).known) {
		return grace
	}
	return most
}

// String returns the names of the scene and the command.
func (c *cell) String() string { return c.scene.name + " × " + c.cmd.name }

// all describes the runs of a cell, one per line, with the types of their events.
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
