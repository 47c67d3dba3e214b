package pairs_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// grace is how long cells are waited for that are known not to follow the rules, once all others do.
const grace = time.Second

// breaks notes that the cell does not follow a rule.
func (c *cell) breaks(rule, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if !slices.ContainsFunc(c.broken, func(b breach) bool { return b.rule == rule && b.what == what }) {
		c.broken = append(c.broken, breach{rule, what})
	}
}

// await waits until a condition holds for all cells, and returns those for which it does not.
func await(s *stage, cells []*cell, holds func(*cell) bool) []*cell {
	s.T.Helper()
	left := slices.Clone(cells)
	var graceful time.Time // since only cells with debts are left
	s.until(flowtest.Patience/2, func() bool {
		before := len(left)
		left = slices.DeleteFunc(left, holds)
		if len(left) < before {
			graceful = time.Time{} // there is progress
		}
		if slices.ContainsFunc(left, func(c *cell) bool { return len(c.owed) == 0 }) {
			graceful = time.Time{}
			return false
		}
		if graceful.IsZero() {
			graceful = time.Now()
		}
		return len(left) == 0 || time.Since(graceful) > grace
	})
	return left
}

// judge plays the cells of one scene at the same time, and notes which rules they break.
func judge(s *stage, cells []*cell) {
	s.T.Helper()
	if prepare := cells[0].prepare; prepare != nil {
		prepare(s, cells)
	}
	for _, c := range cells {
		if c.full {
			holder := c.other(s, pooled, "message")
			s.reaches(holder, func(o Observed) bool { return o.Status == event.StatusWaiting })
		}
	}
	for _, c := range cells {
		c.play(s, c)
	}
	for _, start := range []bool{false, true} {
		for _, c := range cells {
			if c.start != nil && start {
				c.start()
			} else if c.start != nil && !c.full {
				s.reaches(c.run, func(o Observed) bool { return o.Begun })
			}
		}
	}
	if complete := cells[0].complete; complete != nil {
		complete(s, cells)
	}
	setUp(s, cells)
	s.pass(time.Second) // a bulk action is about runs that are older than it
	ctx, end := context.WithCancel(s.Ctx)
	var commands sync.WaitGroup
	defer commands.Wait()
	defer end()
	ask(ctx, s, cells, &commands)
	effects(s, cells)
	inTurn(ctx, s, cells, &commands)
	facesAgree(s, cells)
	permitsFit(s, cells, "R2")
	neighbor := neighborPasses(s, cells[0])
	for _, c := range cells {
		s.free(c)
	}
	s.serve()
	s.settle(cells)
	staysPaused(s, cells)
	permitsFit(s, cells, "R3")
	followersPass(s, cells)
	nothingStarted(s, cells)
	for _, c := range cells {
		s.resume(c)
	}
	ends(s, cells)
	s.until(flowtest.Patience/2, func() bool { o, _ := observe(s.World, neighbor); return o.Place == store.StateEnded })
	s.until(flowtest.Patience/2, func() bool { return len(s.held()) == 0 }) // a run that has permits for another one is told of the end of that
	s.StopWorkers()
	once(s, cells)
	sound(s, cells)
}

// inTurn gives the second commands, and judges them by what the first ones have made of the runs. A cell that breaks a rule has none.
func inTurn(ctx context.Context, s *stage, cells []*cell, all *sync.WaitGroup) {
	s.T.Helper()
	var again []*cell
	for _, c := range cells {
		if c.second == nil || len(c.broken) > 0 || c.facts.kept() || c.got.Code != c.want.Answer {
			continue
		}
		if c.want.Effect == canceled && !c.facts.Asked { // it ends by itself, unless it cleans up
			await(s, []*cell{c}, func(c *cell) bool { o, _ := observe(s.World, c.run); return o.Place == store.StateEnded })
		}
		f := c.next(s)
		want, by, err := expect(&f, c.second.verb)
		if err != nil {
			s.T.Errorf("%s × %s, then %s: %v", c.scene.name, c.cmd.name, c.second.name, err)
			continue
		}
		first := *c.cmd
		c.cmd = &command{first.name + ", then " + c.second.name, c.second.verb, c.second.do}
		c.before, c.length, c.want, c.by = f.Observed, s.load(c.run).Record.Seq, want, by
		c.marks, _ = s.marks(c)
		if c.got.Made != "" && want.Effect == found {
			c.first = c.got.Made
		}
		sc := *c.scene
		sc.facts = f
		if !f.open() {
			sc.end = f.Status
		}
		c.scene = &sc
		again = append(again, c)
	}
	ask(ctx, s, again, all)
	effects(s, again)
}

// setUp waits until each run is in the state of its scene.
func setUp(s *stage, cells []*cell) {
	s.T.Helper()
	for _, c := range cells {
		if c.facts.Gone {
			s.until(flowtest.Patience, func() bool { _, there := observe(s.World, c.run); return !there })
			continue
		}
		s.reaches(c.run, func(o Observed) bool { c.before = o; return o == c.facts.Observed })
		c.marks, _ = s.marks(c)
		l := s.load(c.run)
		c.length = l.Record.Seq
		for _, e := range eventsOf(l.Frames) {
			if e.Type == event.StepCreated && strings.HasSuffix(e.Key, "[first]") {
				c.step = e.Correlation(c.run)
			}
		}
		r, err := s.direct.Run(s.Ctx, string(c.run))
		if err != nil {
			s.T.Fatalf("%s: %v", c.key, err)
		}
		c.offered = r.Actions
	}
}

// ask gives all commands, and waits for the answers.
func ask(ctx context.Context, s *stage, cells []*cell, all *sync.WaitGroup) {
	s.T.Helper()
	for _, c := range cells {
		if !c.facts.open() {
			s.open(c.key) // what is made of it succeeds
		}
	}
	answers := make([]chan answer, len(cells))
	at := map[*cell]int{}
	for i, c := range cells {
		answers[i], at[c] = make(chan answer, 1), i
		all.Go(func() { answers[i] <- c.cmd.do(ctx, s, c) })
	}
	for _, c := range await(s, cells, func(c *cell) bool {
		select {
		case c.got = <-answers[at[c]]:
			return true
		default:
			return false
		}
	}) {
		c.got = answer{Code: waits}
	}
	for _, c := range cells {
		if c.got.Code != c.want.Answer {
			c.breaks(c.by, "answer: got %s (%v), want %s", c.got.Code, c.got.Err, c.want.Answer)
			continue
		}
		refusal(c)
		if verb := c.cmd.name; slices.Contains(admin.Actions(), verb) && !c.facts.Gone {
			offers(c, verb)
		}
	}
}

// refusal judges the text of a refusal: it names the run, its state and the fix.
func refusal(c *cell) {
	p := admin.ProblemOf(c.got.Err)
	if p == nil || p.Code != admin.CodeRefused || strings.HasPrefix(c.cmd.name, "bulk") {
		return
	}
	if !strings.Contains(p.Detail, string(c.run)) && (c.id == "" || !strings.Contains(p.Detail, c.id)) {
		c.breaks("R27", "the refusal does not name the run: %s", p.Detail)
	}
	if p.Fix == "" {
		c.breaks("R27", "the refusal has no fix: %s", p.Detail)
	}
}

// offers judges whether the actions of the run before the command have it exactly if it has an effect.
func offers(c *cell, verb string) {
	offered := slices.Contains(c.offered, verb)
	switch {
	case offered && c.got.Code != done:
		c.breaks("R17", "%s was offered, and is refused", verb)
	case !offered && c.got.Code == done && c.want.Effect != unchanged && c.want.Effect != found:
		c.breaks("R17", "%s was not offered, and has an effect", verb)
	}
}

// effects waits for what the commands do.
func effects(s *stage, cells []*cell) {
	s.T.Helper()
	for _, c := range await(s, cells, func(c *cell) bool { return c.got.Code != done || s.shows(c) == "" }) {
		c.breaks(c.by, "%s", s.shows(c))
	}
}

// shows returns what is missing of the effect of a command; empty: nothing.
func (s *stage) shows(c *cell) string {
	o, there := observe(s.World, c.run)
	switch c.want.Effect {
	case canceled:
		if !c.facts.Begun && o.Place != store.StateEnded {
			return fmt.Sprintf("it has not begun, and does not end: %+v", o)
		}
		if !o.Asked && o.Place != store.StateEnded && o.Place != store.StateBlocked {
			return fmt.Sprintf("it is not asked to end: %+v", o)
		}
	case terminated:
		if o.Place != store.StateEnded || o.Status != event.StatusCanceled {
			return fmt.Sprintf("it has not ended: %+v", o)
		}
	case paused:
		if !o.Paused && !c.facts.kept() { // else a worker records the pause before the run begins
			return fmt.Sprintf("it is not paused: %+v", o)
		}
	case resumed:
		if o.Paused {
			return fmt.Sprintf("it is still paused: %+v", o)
		}
	case reran, started:
		if strings.HasPrefix(c.cmd.name, "bulk") {
			return ""
		}
		if c.got.Made == "" || c.got.Made == c.run || c.got.Made == c.first {
			return fmt.Sprintf("there is no new run: got %q", c.got.Made)
		}
	case found:
		if strings.HasPrefix(c.cmd.name, "bulk") {
			return ""
		}
		if want := c.found(); c.got.Made != want {
			return fmt.Sprintf("got run %s, want %s", c.got.Made, want)
		}
	case deleted:
		if there {
			return fmt.Sprintf("it is still there: %+v", o)
		}
	}
	return ""
}

// found is the run that the command must find.
func (c *cell) found() event.RunID {
	if c.first != "" {
		return c.first
	}
	return c.run
}

// neighborPasses judges that runs of another key do not wait for those of the scene.
func neighborPasses(s *stage, control *cell) event.RunID {
	s.T.Helper()
	neighbor := flowtest.Start(s.World, pooled, work{Do: "complete", Key: control.key + "/neighbor"}, kept)
	if len(await(s, []*cell{control}, func(*cell) bool {
		o, _ := observe(s.World, neighbor.ID())
		return o.Status == event.StatusCompleted
	})) > 0 {
		o, _ := observe(s.World, neighbor.ID())
		control.breaks("R4", "a run of another key does not finish: it is %+v", o)
	}
	return neighbor.ID()
}

// free removes what holds up the runs of a cell, but no pause.
func (s *stage) free(c *cell) {
	s.T.Helper()
	s.open(c.key)
	for _, r := range s.runsOf(c) {
		h := s.Client.Run(r.ID)
		_ = h.Release(s.Ctx) // one that is not held is not changed
		_ = goOn.Send(s.Ctx, h, "freed")
		if r.Workflow == plain.Name() || r.Workflow == pooled.Name() {
			if token, ok, err := tokens.Get(s.Ctx, h); err == nil && ok {
				_ = approved.Send(s.Ctx, s.Client, token, "freed")
			}
		}
	}
	s.mu.Lock()
	open := append([]string{"token-" + c.key}, s.tokens[c.key]...)
	s.mu.Unlock()
	for _, token := range open {
		_ = approved.Send(s.Ctx, s.Client, token, "freed") // if there is such a hook
	}
	if c.unblock != nil {
		c.unblock()
	}
}

// resume ends the pauses of the runs of a cell.
func (s *stage) resume(c *cell) {
	for _, r := range s.runsOf(c) {
		_ = s.Client.Run(r.ID).Resume(s.Ctx) // one that is not paused is not changed
	}
}

// runsOf returns the runs of a cell that have not ended.
func (s *stage) runsOf(c *cell) (all []workflow.RunInfo) {
	s.T.Helper()
	for _, tag := range []string{c.key, c.key + "/started"} {
		for r, err := range s.Client.List(s.Ctx, workflow.Filter{Tags: map[string]string{tagCell: tag}, Internal: true}) {
			if err != nil {
				s.T.Fatal(err)
			}
			if r.EndedAt.IsZero() {
				all = append(all, r)
			}
		}
	}
	return all
}

// settle lets three hours pass, in which attempts begin again and what was freed goes on, also where a run is paused.
func (s *stage) settle(cells []*cell) {
	s.T.Helper()
	for range 4 {
		s.pass(time.Hour)
		await(s, cells, func(c *cell) bool { return c.want.Effect == paused || s.moved(c) })
	}
}

// moved reports whether the run of a cell has ended, or waits for nothing that settle gives it.
func (s *stage) moved(c *cell) bool {
	o, there := observe(s.World, c.run)
	return !there || o.Place != store.StateOwned
}

// staysPaused judges that a pause that was asked for before a worker came is there, and holds.
func staysPaused(s *stage, cells []*cell) {
	s.T.Helper()
	for _, c := range await(s, cells, func(c *cell) bool {
		o, _ := observe(s.World, c.run)
		return c.want.Effect != paused || c.facts.Collecting || c.facts.Place == store.StateQueued && o.Place != store.StateEnded || o.Paused
	}) {
		o, _ := observe(s.World, c.run)
		c.breaks(c.by, "it is not paused any more: it is %+v", o)
	}
}

// followersPass judges that what is paused in line, or has left it, does not hold up the run behind it.
func followersPass(s *stage, cells []*cell) {
	s.T.Helper()
	crowded := slices.DeleteFunc(slices.Clone(cells), func(c *cell) bool { return c.follower == "" || c.facts.Begun })
	for _, c := range await(s, crowded, func(c *cell) bool {
		o, _ := observe(s.World, c.follower)
		return o.Place == store.StateEnded
	}) {
		c.breaks("R3", "the run behind it does not begin")
	}
}

// began are the types of events by which something begins.
var began = []event.Type{event.RunStarted, event.StepCreated, event.StepStarted, event.WaitCreated, event.ChildCreated, event.MessageSent}

// nothingStarted judges that nothing has begun since the pause, in the run and in its step runs.
func nothingStarted(s *stage, cells []*cell) {
	s.T.Helper()
	for _, c := range cells {
		if c.want.Effect != paused || c.got.Code != done {
			continue
		}
		since, seq := s.pausedAt(c.run)
		for run, log := range s.family(c) {
			for _, e := range log {
				if slices.Contains(began, e.Type) && (run == c.run && e.Seq > seq || run != c.run && e.Time.After(since)) {
					c.breaks("R1", "in the pause %s: event %d of run %s", e.Type, e.Seq, run)
				}
			}
		}
	}
}

// pausedAt returns when a run was paused, and the number of that event.
func (s *stage) pausedAt(run event.RunID) (at time.Time, seq uint64) {
	for _, e := range eventsOf(s.load(run).Frames) {
		if e.Type == event.RunPaused {
			at, seq = e.Time, e.Seq
		}
	}
	return at, seq
}

// family returns the logs of a run and of its step runs.
func (s *stage) family(c *cell) map[event.RunID][]event.Event {
	logs := map[event.RunID][]event.Event{c.run: eventsOf(s.load(c.run).Frames)}
	for r, err := range s.Client.List(s.Ctx, workflow.Filter{Parent: c.run, Internal: true}) {
		if err != nil {
			s.T.Fatal(err)
		}
		if strings.HasPrefix(r.Workflow, event.StepRunPrefix) {
			logs[r.ID] = eventsOf(s.load(r.ID).Frames)
		}
	}
	return logs
}

// permitsFit judges that each limit is held by what has begun, and by as much as it shows. A run that a worker is about to begin
// holds permits for a moment.
func permitsFit(s *stage, cells []*cell, rule string) {
	s.T.Helper()
	var found []func()
	s.until(grace, func() bool { found = misfits(s, cells, rule); return len(found) == 0 })
	for _, note := range found {
		note()
	}
}

// misfits returns what notes each permit that does not fit.
func misfits(s *stage, cells []*cell, rule string) (found []func()) {
	s.T.Helper()
	snap := s.snapshot()
	held := map[store.LimitID]int{}
	for id, r := range snap.Runs {
		if r.QueueState == store.StateEnded || !r.Permits {
			continue
		}
		for _, u := range r.Uses {
			held[u.LimitID] += u.Weight
		}
		if state := stateOf(r.Frames); state.StartedAt.IsZero() {
			for _, c := range cells {
				if r.Tags[tagCell] == c.key || id == c.run {
					found = append(found, func() {
						c.breaks(rule, "run %s holds permits, and has not begun: it is %s, %s", id, r.Status, r.QueueState)
					})
				}
			}
		}
	}
	for id, l := range snap.Limits {
		if l.Held != held[id] {
			found = append(found, func() { cells[0].breaks("R2", "limit %v holds %d, its runs hold %d", id, l.Held, held[id]) })
		}
	}
	return found
}

// held returns the limits of which something is held, or for which something waits, in order.
func (s *stage) held() (all []string) {
	s.T.Helper()
	for id, l := range s.snapshot().Limits {
		if l.Held != 0 || l.Waits != 0 {
			all = append(all, fmt.Sprintf("limit %v holds %d, and %d wait", id, l.Held, l.Waits))
		}
	}
	slices.Sort(all)
	return all
}

func (s *stage) snapshot() *store.Snapshot {
	s.T.Helper()
	inspector, _ := store.As[store.Inspector](s.Store)
	snap, err := inspector.Inspect(s.Ctx)
	if err != nil {
		s.T.Fatal(err)
	}
	return snap
}

// ends waits for the ends of all runs, and judges them.
func ends(s *stage, cells []*cell) {
	s.T.Helper()
	s.pass(120 * time.Hour)
	for _, c := range await(s, cells, func(c *cell) bool {
		s.pass(time.Second)
		if c.got.Code == done && c.got.Made != "" {
			if o, there := observe(s.World, c.got.Made); there && o.Place != store.StateEnded {
				return false
			}
		}
		if c.follower != "" {
			if o, there := observe(s.World, c.follower); there && o.Place != store.StateEnded {
				return false
			}
		}
		if strings.HasPrefix(c.cmd.name, "bulk") && c.want.Effect == reran && len(s.runsOf(c)) > 0 { // a bulk action does not name the new run
			return false
		}
		o, there := observe(s.World, c.run)
		return !there || o.Place == store.StateEnded
	}) {
		o, _ := observe(s.World, c.run)
		c.breaks(c.by, "it does not end once nothing holds it up: it is %+v", o)
	}
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
		case !c.facts.open() && s.load(c.run).Record.Seq != c.length:
			c.breaks("R9", "its log has grown after its end")
		}
	}
}

// once judges what was executed: no completed step again, each with an idempotency key of its own, and that the journal has the command
// once.
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
		for key, n := range keys {
			if n > 1 {
				c.breaks("R11", "%d executions have the idempotency key %s", n, key)
			}
		}
		again := 0 // how often a step may be executed beside the first time
		if in(c.cmd.verb, "restart", "fork") && c.got.Code == done {
			again = 1
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

// marks returns how often steps of the run of a cell were executed, by step and by idempotency key.
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

// sound judges the store once all runs have ended: nothing is damaged, nothing is held, and nothing was logged as an error.
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
	if _, ok := store.As[store.Repairer](s.Store); ok {
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
			continue // by the scene
		}
		if strings.Contains(line, "level=ERROR") && !strings.Contains(line, `msg="run failed"`) && !strings.Contains(line, `msg="step failed"`) { // which are no errors of the runtime
			blame("", "logs", strings.TrimSpace(line))
		}
	}
}
