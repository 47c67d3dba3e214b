package pairs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// breaks records that the cell violates a rule.
func (c *cell) breaks(rule, format string, args ...any) {
	what := fmt.Sprintf(format, args...)
	if !slices.ContainsFunc(c.broken, func(b breach) bool { return b.rule == rule && b.what == what }) {
		c.broken = append(c.broken, breach{rule, what})
	}
}

// judge executes the cells of one scene concurrently. It records the rules that they violate.
func judge(s *stage, cells []*cell) {
	s.T.Helper()
	if prepare := cells[0].prepare; prepare != nil {
		prepare(s, cells)
	}
	for _, c := range cells {
		if c.full {
			holder := c.other(s, pooled, "message")
			s.reaches(c, holder, "waiting", isWaiting)
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
				s.reaches(c, c.run, "begun", func(o Observed) bool { return o.Begun })
			}
		}
	}
	if complete := cells[0].complete; complete != nil {
		complete(s, cells)
	}
	s.replaceBuild(cells)
	setUp(s, cells)
	s.pass(time.Second) // a bulk action applies only to runs that are older than the action
	ctx, end := context.WithCancel(s.Ctx)
	var commands sync.WaitGroup
	defer commands.Wait()
	defer end()
	ask(ctx, s, cells, &commands)
	effects(s, cells)
	inTurn(ctx, s, cells, &commands)
	facesAgree(s, cells)
	cliAgrees(s, cells)
	permitsFit(s, cells, "R2")
	neighbor := neighborPasses(s, cells[0])
	unanswered(cells)
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
	answered(s, cells)
	await(s, cells[:1], only("R4"), func(*cell) string { return s.unended(neighbor) })
	s.until(patience(cells), func() bool { return len(s.held()) == 0 }) // the ends of runs must reach their permit runs, which sound requires
	s.StopWorkers()
	if s.fleet != nil {
		s.fleet.Stop()
	}
	once(s, cells)
	attributesFit(s, cells)
	watchedRight(s, cells[0])
	sound(s, cells)
}

// inTurn sends the second commands of cells, and judges them by the states that the first commands
// have left. A cell that has violated a rule gets no second command.
func inTurn(ctx context.Context, s *stage, cells []*cell, all *sync.WaitGroup) {
	s.T.Helper()
	var again []*cell
	for _, c := range cells {
		if c.second == nil || len(c.broken) > 0 || c.facts.kept() || c.want.Answer == waits || c.got.Code != c.want.Answer {
			continue
		}
		if c.want.Effect == canceled && !c.facts.Asked { // the run ends by itself, unless it cleans up
			await(s, []*cell{c}, decided, func(c *cell) string { return s.unended(c.run) })
		}
		if s.settled(c); len(c.broken) > 0 {
			continue
		}
		f := c.next(s)
		want, by, err := expect(&f, c.second.verb)
		if err != nil {
			s.T.Errorf("%s × %s, then %s: %v", c.scene.name, c.cmd.name, c.second.name, err)
			continue
		}
		if c.second.bulk {
			want = inBulk(&f, c.second.verb, want)
		}
		first := *c.cmd
		if c.repeats() {
			c.again++
		}
		c.turned, c.cmd = true, &command{first.name + ", then " + c.second.name, c.second.verb, c.second.bulk, c.second.do}
		c.want, c.by = want, by
		if again := s.lastRerun(c.run); want.Effect == found && in(c.second.verb, "retry", "resume-new") {
			c.first = again
		} else if c.got.Made != "" && want.Effect == found {
			c.first = c.got.Made
		}
		sc := *c.scene
		sc.facts = f
		if sc.among != nil {
			sc.among = []string{string(f.Status)}
		}
		if !f.open() {
			sc.end = f.Status
		}
		c.scene = &sc
		again = append(again, c)
	}
	if len(again) > 0 {
		ask(ctx, s, again, all)
		effects(s, again)
	}
}

// setUp waits until each run is in the state that its scene declares.
func setUp(s *stage, cells []*cell) {
	s.T.Helper()
	for _, c := range cells {
		if c.facts.Gone {
			s.needs(c, "it is gone", func() bool { _, there := observe(s.World, c.run); return !there })
			continue
		}
		s.reaches(c, c.run, fmt.Sprintf("%+v", c.facts.Observed), func(o Observed) bool { return o == c.facts.Observed })
		s.needs(c, "its first step is in its log", func() bool { s.notes(c); return c.step != "" || !c.facts.Step })
		r, err := s.direct.Run(s.Ctx, string(c.run))
		if err != nil {
			s.T.Fatalf("%s: %v", c.key, err)
		}
		c.offered = r.Actions
		s.pinFits(c, r.Pin)
	}
}

// notes records the state of a cell's run before a command.
func (s *stage) notes(c *cell) {
	s.T.Helper()
	c.marks, _ = s.marks(c)
	c.executed = len(s.executions(c.key))
	l := s.load(c.run)
	c.length = l.Record.Seq
	for _, e := range eventsOf(l.Frames) {
		if e.Type == event.StepCreated && strings.HasSuffix(e.Key, "[first]") {
			c.step = e.Correlation(c.run)
		}
	}
}

// takes returns the run to which commands for the cell's run apply. This is the last run of the
// chain if the cell's run was continued, and the cell's run otherwise.
func (c *cell) takes() event.RunID {
	if c.facts.Status == event.StatusContinued {
		return c.first
	}
	return c.run
}

// settled waits until the runs of a cell have processed the first command as far as the state
// permits.
func (s *stage) settled(c *cell) {
	s.T.Helper()
	await(s, []*cell{c}, decided, func(c *cell) string {
		if what := s.busy(c, c.takes()); what != "" {
			return what
		}
		for _, r := range s.runsOf(c) {
			if what := s.busy(c, r.ID); what != "" {
				return what
			}
		}
		return ""
	})
}

// busy describes why a run is not at rest, or returns "" if it is.
func (s *stage) busy(c *cell, run event.RunID) string {
	l := s.load(run)
	at := l.Record.QueueState
	if at == store.StateOwned && c.facts.Place == at {
		return "" // a step of the run is executing, and an item without effect stays in the inbox until the step ends
	}
	if l.Err == nil && !l.Record.Waits() && (len(l.Inbox) > 0 || at == store.StateReady || at == store.StateOwned) {
		return fmt.Sprintf("run %s is still %s, with %d items in its inbox", run, at, len(l.Inbox))
	}
	return ""
}

// ask sends the commands of all cells and waits for their answers. It fails cells with wrong
// answers.
func ask(ctx context.Context, s *stage, cells []*cell, all *sync.WaitGroup) {
	s.T.Helper()
	for _, c := range cells {
		if !c.facts.open() {
			s.open(c.key) // the runs that the command creates succeed
		}
	}
	for _, c := range cells {
		answers, do := make(chan answer, 1), c.cmd.do
		c.answers, c.got = answers, answer{Code: waits}
		with := workflow.WithAttribute(ctx, attrCommand, c.key)
		all.Go(func() { answers <- do(with, s, c) })
	}
	s.kill()
	await(s, cells, decided, func(c *cell) string {
		if !c.answered() && c.want.Answer != waits {
			return "there is no answer"
		}
		return ""
	})
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

// refusal fails a cell if the text of its refusal does not contain the run and a fix.
func refusal(c *cell) {
	p := admin.ProblemOf(c.got.Err)
	if p == nil || p.Code != admin.CodeRefused || c.cmd.bulk {
		return
	}
	if !strings.Contains(p.Detail, string(c.run)) && !strings.Contains(p.Detail, string(c.takes())) && (c.id == "" || !strings.Contains(p.Detail, c.id)) {
		c.breaks("R27", "the refusal does not name the run: %s", p.Detail)
	}
	if p.Fix == "" {
		c.breaks("R27", "the refusal has no fix: %s", p.Detail)
	}
}

// offers fails a cell if the run offered an action that was refused, or did not offer an action
// that had an effect.
func offers(c *cell, verb string) {
	offered := slices.Contains(c.offered, verb)
	switch {
	case offered && c.got.Code != done:
		c.breaks("R17", "%s was offered, and is refused", verb)
	case !offered && c.got.Code == done && c.want.Effect != unchanged && c.want.Effect != found:
		c.breaks("R17", "%s was not offered, and has an effect", verb)
	}
}

// effects waits for the effects of the commands.
func effects(s *stage, cells []*cell) {
	s.T.Helper()
	await(s, cells, decided, func(c *cell) string {
		if c.got.Code != done {
			return ""
		}
		return s.shows(c)
	})
	standStill(s, cells)
}

// standStill waits until the pauses of runs have reached their step runs. From then on, the step
// runs must begin no attempt. Attempts that began before may continue.
func standStill(s *stage, cells []*cell) {
	s.T.Helper()
	await(s, cells, only("R1"), func(c *cell) string {
		if c.want.Effect != paused || c.got.Code != done {
			return ""
		}
		c.stands = map[event.RunID]uint64{}
		for _, r := range s.stepRuns(c) {
			l := s.load(r)
			state := stateOf(l.Frames)
			if l.Record.QueueState != store.StateEnded && !state.Paused && !pauseComes(&l) {
				return fmt.Sprintf("its step run %s is not paused: it is %s, %s", r, l.Record.Status, l.Record.QueueState)
			}
			c.stands[r] = state.Seq
		}
		return ""
	})
}

// pauseComes reports whether a run has a pause in its inbox and waits in a limiter queue. Such a
// run will record the pause before it begins.
func pauseComes(l *store.Loaded) bool {
	return l.Record.Waits() && slices.ContainsFunc(l.Inbox, func(i store.Item) bool {
		e, err := event.DecodeItem(i.Body)
		return err == nil && e.Type == event.RunPaused
	})
}

// shows describes the effect of a command that is missing, or returns "".
func (s *stage) shows(c *cell) string {
	o, there := observe(s.World, c.run)
	switch c.want.Effect {
	case canceled:
		if !c.facts.Begun && o.Place != store.StateEnded {
			return fmt.Sprintf("it has not begun, and does not end: %+v", o)
		}
		if !o.Asked && o.Place != store.StateEnded && o.Place != store.StateBlocked && !c.facts.Unserved {
			return fmt.Sprintf("it is not asked to end: %+v", o)
		}
	case terminated:
		if o.Place != store.StateEnded || o.Status != event.StatusCanceled {
			return fmt.Sprintf("it has not ended: %+v", o)
		}
	case paused:
		if !o.Paused && !c.facts.kept() { // a kept run records the pause later, before it begins
			return fmt.Sprintf("it is not paused: %+v", o)
		}
	case resumed:
		if o.Paused && !c.facts.Unserved || c.facts.gated() && o.Status == event.StatusPaused {
			return fmt.Sprintf("it is still paused: %+v", o)
		}
		if c.facts.Delayed && o.Delayed != c.facts.Paused && !(c.facts.Full && o.Waits) { // the pause ends before the delay, or afterwards in a limiter queue
			return fmt.Sprintf("its delay is not as before: %+v", o)
		}
	case reran, started:
		if c.cmd.bulk {
			return ""
		}
		if c.got.Made == "" || c.got.Made == c.run || c.got.Made == c.first {
			return fmt.Sprintf("there is no new run: got %q", c.got.Made)
		}
	case found:
		if c.cmd.bulk {
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

// found returns the run that a command with the effect found must return.
func (c *cell) found() event.RunID {
	if c.first != "" {
		return c.first
	}
	return c.run
}

// neighborPasses starts a run with another key. It fails the control cell unless this run completes
// while the runs of the scene are not free.
func neighborPasses(s *stage, control *cell) event.RunID {
	s.T.Helper()
	neighbor := s.start(pooled, work{Do: "complete", Key: control.key + "/neighbor"}, kept)
	await(s, []*cell{control}, only("R4"), func(*cell) string {
		if o, _ := observe(s.World, neighbor.ID()); o.Status != event.StatusCompleted {
			return fmt.Sprintf("a run of another key does not finish: it is %+v", o)
		}
		return ""
	})
	return neighbor.ID()
}

// free removes the obstacles of a cell's runs, except their pauses.
func (s *stage) free(c *cell) {
	s.T.Helper()
	s.open(c.key)
	s.urge(c)
	if c.unblock != nil {
		c.unblock()
	}
}

// urge sends the open runs of a cell the messages and payloads for which they wait, each message
// once.
func (s *stage) urge(c *cell) {
	s.T.Helper()
	s.mu.Lock()
	open := append([]string{"token-" + c.key}, s.tokens[c.key]...)
	s.mu.Unlock()
	for _, r := range s.runsOf(c) {
		h := s.Client.Run(r.ID)
		_ = h.Release(s.Ctx) // without effect unless the run is held
		if !c.freed[r.ID] {
			c.freed[r.ID] = goOn.Send(s.Ctx, h, "freed") == nil
		}
		if r.Workflow == plain.Name() || r.Workflow == pooled.Name() {
			if token, ok, err := tokens.Get(s.Ctx, h); err == nil && ok {
				open = append(open, token)
			}
		}
	}
	for _, token := range open {
		_ = approved.Send(s.Ctx, s.Client, token, "freed") // without effect unless the hook is open
	}
}

// resume ends the pauses of a cell's runs. It does not end the delay of a rerun.
func (s *stage) resume(c *cell) {
	for _, r := range s.runsOf(c) {
		if r.Status != event.StatusSleeping {
			_ = s.Client.Run(r.ID).Resume(s.Ctx) // without effect unless the run is paused
		}
	}
}

// runsOf returns the open runs of a cell.
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

// settle lets four hours pass. In this time, failed attempts are retried, and runs without
// obstacles continue even if another run is paused.
func (s *stage) settle(cells []*cell) {
	s.T.Helper()
	for range 4 {
		s.pass(time.Hour)
		await(s, cells, decided, func(c *cell) string {
			if o, there := observe(s.World, c.run); c.want.Effect != paused && there && o.Place == store.StateOwned {
				return "it neither ends nor waits for time to pass"
			}
			return ""
		})
	}
}

// staysPaused fails cells whose run is not paused, although it was paused before the start of its
// worker.
func staysPaused(s *stage, cells []*cell) {
	s.T.Helper()
	await(s, cells, decided, func(c *cell) string {
		o, _ := observe(s.World, c.run)
		if c.want.Effect != paused || c.facts.Collecting || c.facts.Place == store.StateQueued && o.Place != store.StateEnded || o.Paused {
			return ""
		}
		return fmt.Sprintf("it is not paused any more: it is %+v", o)
	})
}

// followersPass fails cells whose run delays the run behind it in a limiter queue, although it is
// paused or has left the queue.
func followersPass(s *stage, cells []*cell) {
	s.T.Helper()
	await(s, cells, only("R3"), func(c *cell) string {
		if c.follower == "" || c.facts.Begun && !c.facts.Delayed || s.unended(c.follower) == "" {
			return ""
		}
		return "the run behind it does not begin"
	})
}

// unended describes a run that has not ended. It returns "" if the run has ended or does not exist.
func (s *stage) unended(run event.RunID) string {
	if o, there := observe(s.World, run); there && o.Place != store.StateEnded {
		return fmt.Sprintf("run %s does not end once nothing holds it up: it is %+v", run, o)
	}
	return ""
}

// began contains the types of events with which an operation begins.
var began = []event.Type{event.RunStarted, event.StepCreated, event.StepStarted, event.WaitCreated, event.ChildCreated, event.MessageSent}

// nothingStarted fails cells if an operation has begun during a pause, in the run or in its step
// runs.
func nothingStarted(s *stage, cells []*cell) {
	s.T.Helper()
	for _, c := range cells {
		if c.want.Effect != paused || c.got.Code != done {
			continue
		}
		c.stands[c.run] = s.pausedAt(c.run)
		for run, length := range c.stands {
			for _, e := range eventsOf(s.load(run).Frames) {
				if e.Seq > length && slices.Contains(began, e.Type) {
					c.breaks("R1", "in the pause %s: event %d of run %s", e.Type, e.Seq, run)
				}
			}
		}
		for _, r := range s.stepRuns(c) {
			if _, there := c.stands[r]; !there {
				c.breaks("R1", "in the pause there is a new step run, %s", r)
			}
		}
	}
}

// pausedAt returns the number of the last run_paused event of a run, or 0 if there is none.
func (s *stage) pausedAt(run event.RunID) (seq uint64) {
	for _, e := range eventsOf(s.load(run).Frames) {
		if e.Type == event.RunPaused {
			seq = e.Seq
		}
	}
	return seq
}

// stepRuns returns the step runs of a cell's run.
func (s *stage) stepRuns(c *cell) (all []event.RunID) {
	s.T.Helper()
	for r, err := range s.Client.List(s.Ctx, workflow.Filter{Parent: c.run, Internal: true}) {
		if err != nil {
			s.T.Fatal(err)
		}
		if strings.HasPrefix(r.Workflow, event.StepRunPrefix) {
			all = append(all, r.ID)
		}
	}
	return all
}
