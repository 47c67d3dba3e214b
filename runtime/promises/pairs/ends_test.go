package pairs_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// ends waits until all runs of the cells have ended. It fails cells whose runs do not end, or end
// in another way than the rules determine.
func ends(s *stage, cells []*cell) {
	s.T.Helper()
	s.pass(120 * time.Hour)
	urged := map[*cell]time.Time{}
	await(s, cells, decided, func(c *cell) string {
		what := s.goesOn(c)
		if what != "" && time.Since(urged[c]) > 20*time.Millisecond { // the run may have begun to wait after all obstacles were removed
			s.urge(c)
			s.resume(c)
			s.skip(c)
			urged[c] = time.Now()
		}
		return what
	})
	for _, c := range cells {
		o, there := observe(s.World, c.run)
		want := c.end
		switch c.want.Effect {
		case canceled, terminated:
			want = event.StatusCanceled
		case reran, started:
			if made, ok := observe(s.World, c.got.Made); ok && made.Status != event.StatusCompleted && made.Status != c.end {
				c.breaks(c.by, "the new run %s is %s", c.got.Made, made.Status)
			}
		}
		switch {
		case c.facts.Gone || c.want.Effect == deleted:
			continue
		case !there:
			c.breaks(c.by, "it is gone")
		case o.Status != want && c.got.Code == c.want.Answer:
			c.breaks(c.by, "it ends %s, want %s", o.Status, want)
		case c.want.Effect == canceled && !c.facts.Begun && o.Begun:
			c.breaks("R7", "it was asked to end before it began, and has begun")
		case in(string(c.want.Effect), string(canceled), string(terminated)) && c.facts.Delayed && !c.turned && len(s.executions(c.key)) != c.executed:
			c.breaks(c.by, "it was ended in its delay, and a step was executed")
		case !c.facts.open() && s.load(c.run).Record.Seq != c.length:
			c.breaks("R9", "its log has grown after its end")
		}
	}
}

// goesOn describes a run of a cell that has not ended. It returns "" if all runs of the cell have
// ended.
func (s *stage) goesOn(c *cell) string {
	s.T.Helper()
	runs := []event.RunID{c.run}
	if c.got.Code == done && c.got.Made != "" {
		runs = append(runs, c.got.Made)
	}
	if c.follower != "" {
		runs = append(runs, c.follower)
	}
	if c.cmd.bulk && c.want.Effect == reran || c.turned { // the answer of the last command does not name all new runs
		for _, r := range s.runsOf(c) {
			runs = append(runs, r.ID)
		}
	}
	for _, run := range runs {
		if what := s.unended(run); what != "" {
			return what
		}
	}
	return ""
}

// skip advances time to the due times of the runs of a cell and of their children, if these sleep
// or are delayed.
func (s *stage) skip(c *cell) {
	s.T.Helper()
	now := s.Store.Clock().Now()
	for _, r := range s.runsOf(c) {
		below, err := s.Client.Page(s.Ctx, workflow.Filter{Parent: r.ID, Internal: true}, 100)
		if err != nil {
			s.T.Fatal(err)
		}
		for _, r := range append(below.Runs, r) {
			if r.Status == event.StatusSleeping || r.Status == event.StatusPending {
				s.pass(r.Due.Sub(now))
				now = s.Store.Clock().Now()
			}
		}
	}
}

// once fails cells that have executed a completed step again, or several executions with one
// idempotency key. It also fails cells whose command is not in the journal exactly once.
func once(s *stage, cells []*cell) {
	s.T.Helper()
	page, err := s.direct.Journal(s.Ctx, admin.JournalFilter{Limit: 1000})
	if err != nil {
		s.T.Fatal(err)
	}
	entries := map[string]int{}
	for _, e := range page.Entries {
		entries[e.Action+" "+e.Target]++
	}
	for _, c := range cells {
		steps, keys := s.marks(c)
		lost := 0 // attempts that the killed worker may have left without an outcome
		if s.fleet != nil {
			lost = 1
		}
		for key, n := range keys {
			if n > 1+lost {
				c.breaks("R11", "%d executions have the idempotency key %s", n, key)
			}
		}
		again := c.again + lost
		if c.repeats() {
			again++
		}
		for step, n := range steps {
			if n > max(1, c.marks[step])+again && !strings.HasSuffix(step, "[last]") {
				c.breaks("R11", "step %s was executed %d times", step, n)
			}
		}
		if slices.Contains(admin.Actions(), c.cmd.name) {
			if n := entries[c.cmd.name+" "+string(c.run)]; n != 1 {
				c.breaks("journal", "the journal has the command %d times", n)
			}
		}
	}
}

// repeats reports whether the command has created a run that executes the steps of the cell's run
// again.
func (c *cell) repeats() bool { return in(c.cmd.verb, "restart", "fork") && c.got.Code == done }

// marks returns the number of executions of the steps of a cell's run, by step and by idempotency
// key.
func (s *stage) marks(c *cell) (steps, keys map[string]int) {
	steps, keys = map[string]int{}, map[string]int{}
	for _, m := range s.executions(cmp.Or(c.plays, c.key)) {
		if strings.HasPrefix(m.Step, "mark ") {
			steps[m.Step]++
			keys[m.Key]++
		}
	}
	return steps, keys
}

// sound checks the store after all runs have ended. It fails cells if data is damaged, a limit is
// held, or an error was logged.
func sound(s *stage, cells []*cell) {
	s.T.Helper()
	blame := func(run event.RunID, rule, what string) {
		for _, c := range cells {
			if run != "" && (run == c.run || run == c.got.Made || run == c.follower) {
				c.breaks(rule, "%s", what)
				return
			}
		}
		cells[0].breaks(rule, "%s", what)
	}
	snap := s.snapshot()
	for _, f := range fsck.Check(snap) {
		blame(f.Run, "R26", "fsck: "+f.String())
	}
	if _, ok := store.As[store.Rebuilder](s.Store); ok {
		report, err := fsck.Repair(s.Ctx, s.Store, fsck.Options{})
		if err != nil {
			s.T.Fatal(err)
		}
		for _, f := range report.Fixes {
			blame(f.Run, "R26", fmt.Sprintf("repair: %s, %s", f.Action, f.Outcome))
		}
	}
	for _, l := range s.held() {
		blame("", "R10", "at the end of all runs "+l)
	}
	for line := range strings.Lines(s.Logs.String()) {
		if strings.Contains(line, `msg="run is blocked"`) && strings.HasPrefix(cells[0].scene.name, "blocked") {
			continue // the scene has blocked the run
		}
		if strings.Contains(line, `msg="a step ignores its context`) && strings.Contains(line, "step=flowgen.alert.deliver") {
			continue // the clock passed the timeout of a delivery while its target was called
		}
		if s.how == byFunctions && strings.Contains(line, `msg="abandoned: a run's code does not return"`) {
			continue // the clock passed the time that the code has to return after its invocation
		}
		if s.fleet != nil && strings.Contains(line, `error="store is closed"`) {
			continue // logged by the killed worker
		}
		if strings.Contains(line, "level=ERROR") && !strings.Contains(line, `msg="run failed"`) && !strings.Contains(line, `msg="step failed"`) { // failures of runs and steps are not errors of the runtime
			blame("", "logs", strings.TrimSpace(line))
		}
	}
}
