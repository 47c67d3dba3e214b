package pairs_test

import (
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A scene brings a run into a state.
type scene struct {
	name  string
	facts facts
	// play starts the runs of a cell. The cell's run then reaches the state without further calls.
	play func(s *stage, c *cell)
	// prepare is called before all cells of the scene are played, and complete afterwards. Both may
	// be nil.
	prepare, complete func(s *stage, cells []*cell)
	// everywhere marks scenes that are executed on every store, even in short tests.
	everywhere bool
	// end is the status with which the run ends if there is no command and its obstacles are
	// removed.
	end event.Status
	// noID reports that the run has no workflow ID. noStarts reports that a start with its workflow
	// ID would not find the run.
	noID, noStarts bool
	// full reports that another run holds the limit of each cell before the cell is played. filled
	// reports that another run holds it afterwards.
	full, filled bool
	// alone reports that other runs have the tags of the run, so that no bulk action can select the
	// run alone. among contains the statuses that select the run, if the others have other
	// statuses.
	alone bool
	among []string
	// builds marks scenes with workers of their own builds.
	builds bool
}

// tagCell marks all runs of a cell. tagSubject marks the run to which the command applies.
const (
	tagCell    = "cell"
	tagSubject = "subject"
)

// cell is a command in a state.
type cell struct {
	*scene
	cmd      *command
	key      string
	id       string                            // workflow ID of the run; empty if it has none
	run      event.RunID                       // the run to which the command applies
	def      workflow.Definition[work, string] // definition of the run's workflow
	follower event.RunID                       // the run behind it in a limiter queue
	first    event.RunID                       // the run that the scene has made from it
	plays    string                            // key of the run's executions; if empty, key
	start    func()                            // completes the play after all cells were played; may be nil
	unblock  func()                            // removes obstacles that free does not remove; may be nil
	want     outcome
	second   *command // sent after the first command had its effect; may be nil
	turned   bool     // whether the second command was sent
	again    int      // how often earlier commands permit that a step is executed again
	by       string   // IDs of the rules that determine want
	owed     []string
	step     string         // ID of the step "first"; empty if the log does not contain it
	marks    map[string]int // executions of the run's steps before the command, by step
	executed int            // number of attempts before the command
	length   uint64         // length of the log before the command
	offered  []string
	got      answer
	answers  chan answer
	broken   []breach
	stands   map[event.RunID]uint64 // lengths of the logs of the step runs at the pause
	freed    map[event.RunID]bool   // runs to which urge has sent a message
}

// breach is a rule that a cell has violated.
type breach struct{ rule, what string }

// kept is an option that keeps runs until the end of the test, however much virtual time passes.
var kept = workflow.WithRetention(100_000 * time.Hour)

// begin starts the run of the cell with the work do.
func (c *cell) begin(s *stage, d workflow.Definition[work, string], do string, opts ...workflow.StartOption) *workflow.Run[string] {
	s.T.Helper()
	opts = append(opts, workflow.WithTags(map[string]string{tagCell: c.key, tagSubject: c.key}), kept)
	if c.id != "" {
		opts = append(opts, workflow.WithID(c.id))
	}
	run := s.start(d, work{Do: do, Key: c.key}, opts...)
	c.run, c.def = run.ID(), d
	return run
}

// other starts another run of the cell with the work do.
func (c *cell) other(s *stage, d workflow.Definition[work, string], do string, opts ...workflow.StartOption) event.RunID {
	s.T.Helper()
	opts = append(opts, workflow.WithTags(map[string]string{tagCell: c.key}), kept)
	return s.start(d, work{Do: do, Key: c.key, By: "/other"}, opts...).ID()
}

// begins returns the play of a scene that only starts the run.
func begins(d workflow.Definition[work, string], do string, opts ...workflow.StartOption) func(*stage, *cell) {
	return func(s *stage, c *cell) { c.begin(s, d, do, opts...) }
}

// inQueue returns a play that starts the cell's run behind the run that holds its limit, and a
// third run behind the cell's run. The scene must be full.
func inQueue(do string, opts ...workflow.StartOption) func(*stage, *cell) {
	return func(s *stage, c *cell) {
		c.begin(s, pooled, do, opts...)
		s.reaches(c, c.run, "in line", func(o Observed) bool { return o.Waits })
		c.follower = c.other(s, pooled, "complete")
	}
}

// atGate starts the cell's run, and waits until a step of the run waits for its door.
func atGate(s *stage, c *cell) {
	c.begin(s, plain, "gate")
	s.needs(c, "the run is at its gate", func() bool {
		return slices.ContainsFunc(s.executions(c.key), func(m marked) bool { return strings.HasPrefix(m.Step, "gate ") })
	})
}

// then returns a play that executes another play, waits until the run has the status at, and calls
// do.
func then(play func(*stage, *cell), at event.Status, do func(s *stage, c *cell, h *workflow.Handle) error) func(*stage, *cell) {
	return func(s *stage, c *cell) {
		play(s, c)
		s.comesTo(c, at)
		s.call(c, "the command of the scene", func() error { return do(s, c, s.Client.Run(c.run)) })
	}
}

// comesTo waits until a cell's run is at rest with the status at. A run whose limit is in another
// partition waits for its permits first.
func (s *stage) comesTo(c *cell, at event.Status) {
	s.T.Helper()
	s.needs(c, "the run is "+string(at), func() bool {
		s.notes(c) // before the status is read, because the status may belong to an earlier wait
		o, _ := observe(s.World, c.run)
		switch at {
		case event.StatusRunning:
			return o.Status == at
		case event.StatusWaiting, event.StatusSleeping:
			return o.Status == at && o.Place == store.StateParked && c.step != ""
		}
		return o.Status == at && o.Place != store.StateOwned
	})
}

func pause(s *stage, _ *cell, h *workflow.Handle) error  { return h.Pause(s.Ctx) }
func cancel(s *stage, _ *cell, h *workflow.Handle) error { return h.Cancel(s.Ctx, "by the scene") }
func terminate(s *stage, _ *cell, h *workflow.Handle) error {
	return ops.New(s.Client).Terminate(s.Ctx, h.ID(), "by the scene")
}
func remove(s *stage, _ *cell, h *workflow.Handle) error {
	return ops.New(s.Client).Delete(s.Ctx, h.ID())
}

// user returns the facts of a user's run. The functions in more change these facts.
func user(o Observed, more ...func(*facts)) facts {
	f := facts{Kind: kindUser, Observed: o, Step: o.Begun}
	for _, m := range more {
		m(&f)
	}
	return f
}

// parked returns the observed facts of a parked run.
func parked(status event.Status, begun bool) Observed {
	return Observed{Place: store.StateParked, Status: status, Begun: begun}
}

func ended(status event.Status) Observed {
	return Observed{Place: store.StateEnded, Status: status, Begun: true}
}

func isWaiting(o Observed) bool {
	return o.Status == event.StatusWaiting && o.Place == store.StateParked
}
func isEnded(o Observed) bool { return o.Place == store.StateEnded }

// scenes contains all scenes of the matrix.
var scenes = slices.Concat(fresh, begun, reruns, atRest, ofTheRuntime, alerts, over, again, ofGoneBuilds)

// fresh contains the states of runs whose code has not begun.
var fresh = []scene{
	{
		name: "ready, unserved", facts: user(Observed{Place: store.StateReady, Status: event.StatusPending}, func(f *facts) { f.Unserved = true }),
		play: begins(plain, "message", workflow.WithQueue("nobody")), end: event.StatusCompleted,
	},
	{
		name: "in line", everywhere: true, facts: user(Observed{Place: store.StateReady, Status: event.StatusPending, Waits: true}),
		full: true, play: inQueue("complete"), end: event.StatusCompleted,
	},
	{name: "delayed", facts: user(parked(event.StatusPending, false)), play: begins(plain, "message", workflow.WithDelay(100*time.Hour)), end: event.StatusCompleted},
	{
		name: "delayed, with a limit", everywhere: true, facts: user(parked(event.StatusPending, false)),
		play: begins(pooled, "message", workflow.WithDelay(100*time.Hour)), end: event.StatusCompleted,
	},
	{name: "held", facts: user(parked(event.StatusHeld, false)), play: begins(plain, "message", workflow.WithHoldFor(1000*time.Hour)), end: event.StatusCompleted},
	{
		name: "held, with a limit", facts: user(parked(event.StatusHeld, false)),
		play: begins(pooled, "message", workflow.WithHoldFor(1000*time.Hour)), end: event.StatusCompleted,
	},
	{
		name: "queued", everywhere: true, facts: user(Observed{Place: store.StateQueued, Status: event.StatusPending}), noStarts: true, end: event.StatusCompleted,
		play: func(s *stage, c *cell) {
			before := c.other(s, plain, "message", workflow.WithID(c.id))
			s.reaches(c, before, "waiting", isWaiting)
			c.begin(s, plain, "message", workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.QueueActive}))
		},
	},
	{
		name: "collecting", facts: user(parked(event.StatusPending, false), func(f *facts) { f.Collecting = true }), noID: true,
		play: begins(debounced, "message"), end: event.StatusCompleted,
	},
}

// begun contains the states of runs whose code has begun.
var begun = []scene{
	{name: "running", everywhere: true, facts: user(Observed{Place: store.StateOwned, Status: event.StatusRunning, Begun: true}), play: atGate, end: event.StatusCompleted},
	{name: "backoff", facts: user(parked(event.StatusSleeping, true)), play: begins(plain, "backoff"), end: event.StatusCompleted},
	{name: "sleeping", facts: user(parked(event.StatusSleeping, true)), play: begins(plain, "sleep"), end: event.StatusCompleted},
	{name: "waiting for a message", everywhere: true, facts: user(parked(event.StatusWaiting, true)), play: begins(plain, "message"), end: event.StatusCompleted},
	{
		name: "waiting for a message, with a limit", facts: user(parked(event.StatusWaiting, true)), end: event.StatusCompleted,
		play: func(s *stage, c *cell) {
			c.begin(s, pooled, "message")
			c.start = func() {
				s.comesTo(c, event.StatusWaiting)
				c.follower = c.other(s, pooled, "complete")
			}
		},
	},
	{name: "waiting for a hook", facts: user(parked(event.StatusWaiting, true), hooked), play: begins(plain, "hook"), end: event.StatusCompleted},
	{name: "waiting for a child", facts: user(parked(event.StatusWaiting, true)), play: begins(plain, "child"), end: event.StatusCompleted},
	{name: "waiting for a step that others complete", facts: user(parked(event.StatusWaiting, true), hookedStep), play: begins(plain, "later"), end: event.StatusCompleted},
	{
		name: "its step in line", full: true, facts: user(parked(event.StatusWaiting, true)), end: event.StatusCompleted,
		play: func(s *stage, c *cell) {
			c.begin(s, plain, "gate using")
			s.reaches(c, s.stepRun(c, c.run), "in line", func(o Observed) bool { return o.Waits })
		},
	},
	{name: "its step in backoff elsewhere", everywhere: true, facts: user(parked(event.StatusWaiting, true)), play: withStep("backoff using", parked(event.StatusSleeping, true)), end: event.StatusCompleted},
	{name: "its step under way elsewhere", facts: user(parked(event.StatusWaiting, true)), play: withStep("gate away", Observed{Place: store.StateOwned, Status: event.StatusRunning, Begun: true}), end: event.StatusCompleted},
	{name: "its step completed by others elsewhere", facts: user(parked(event.StatusWaiting, true), hookedStep), play: withStep("later using", parked(event.StatusWaiting, true)), end: event.StatusCompleted},
	{name: "a singleton", facts: user(parked(event.StatusWaiting, true), func(f *facts) { f.Singleton = true }), play: begins(single, "message"), end: event.StatusCompleted, noID: true},
	{
		name: "child", everywhere: true, facts: childFacts(parked(event.StatusWaiting, true)), noID: true, play: childOf("child subject"), end: event.StatusCompleted,
	},
	{
		name: "child, abandoned", facts: childFacts(parked(event.StatusWaiting, true)), noID: true, play: childOf("child abandoned"), end: event.StatusCompleted,
	},
	{
		name: "being cancelled", facts: user(Observed{Place: store.StateOwned, Status: event.StatusRunning, Begun: true, Asked: true}),
		play: then(begins(plain, "clean"), event.StatusWaiting, cancel), end: event.StatusCanceled,
	},
	{
		name: "blocked", facts: user(Observed{Place: store.StateBlocked, Status: event.StatusBlocked, Begun: true}), end: event.StatusCompleted,
		prepare: func(s *stage, _ []*cell) {
			if s.before = s.Work(worker.Config{Queues: []string{"odd"}}, s.bindings()...); s.how.pins() {
				s.serving("odd", s.build)
			}
		},
		play: func(s *stage, c *cell) {
			c.begin(s, plain, "message", workflow.WithQueue("odd"))
			c.unblock = s.mend
		},
		complete: func(s *stage, cells []*cell) {
			odd := map[event.RunID]bool{}
			for _, c := range cells {
				s.reaches(c, c.run, "waiting", isWaiting)
				odd[c.run] = true
			}
			s.stop(s.before)
			s.setOdd(odd)
			s.Work(worker.Config{Queues: []string{"odd"}}, s.bindings()...)
			for _, c := range cells {
				flowtest.Order(s.T, goOn.Send(s.Ctx, s.Client.Run(c.run), "does not fit"))
			}
		},
	},
	{
		name: "later run of a chain", facts: user(parked(event.StatusWaiting, true)), alone: true, noStarts: true, end: event.StatusCompleted,
		play: func(s *stage, c *cell) {
			begins(plain, "continue")(s, c)
			s.reaches(c, c.run, "continued", func(o Observed) bool { return o.Status == event.StatusContinued })
			c.run, c.plays = s.load(c.run).Record.Next, c.key+"/next"
		},
	},
}

func childFacts(o Observed) facts {
	f := user(o)
	f.Kind = kindChild
	return f
}

// childOf returns a play that starts a parent. The child of the parent becomes the run of the cell.
func childOf(do string) func(s *stage, c *cell) {
	return func(s *stage, c *cell) {
		parent := c.other(s, plain, do)
		s.reaches(c, parent, "waiting", isWaiting)
		c.run, c.plays = s.below(c, parent, plain.Name()), c.key+"/child"
	}
}

// withStep returns a play that starts a run with a step in a step run. The play is complete when
// the step run has the facts at.
func withStep(do string, at Observed) func(s *stage, c *cell) {
	return func(s *stage, c *cell) {
		c.begin(s, plain, do)
		c.start = func() {
			s.reaches(c, s.stepRun(c, c.run), string(at.Status), func(o Observed) bool { return o == at })
		}
	}
}

// stepRun returns the run that executes a step of another run.
func (s *stage) stepRun(c *cell, parent event.RunID) event.RunID {
	s.T.Helper()
	return s.below(c, parent, event.StepRunPrefix)
}

// below waits until a run has a child whose workflow name begins with workflowName, and returns the
// child.
func (s *stage) below(c *cell, parent event.RunID, workflowName string) (id event.RunID) {
	s.T.Helper()
	s.needs(c, "there is a run of "+workflowName+" below "+string(parent), func() bool {
		for r, err := range s.Client.List(s.Ctx, workflow.Filter{Parent: parent, Internal: true}) {
			if err != nil {
				s.T.Fatal(err)
			}
			if strings.HasPrefix(r.Workflow, workflowName) {
				id = r.ID
			}
		}
		return id != ""
	})
	return id
}

// isPaused returns o, changed to the observed facts of a paused run.
func isPaused(o Observed) Observed {
	o.Paused = true
	if o.Status != event.StatusHeld {
		o.Status = event.StatusPaused
	}
	return o
}

// atRest contains the states of runs that a command has stopped.
var atRest = []scene{
	{
		name: "paused, delayed", facts: user(isPaused(parked(event.StatusPending, false))), end: event.StatusCompleted,
		play: then(begins(plain, "message", workflow.WithDelay(100*time.Hour)), event.StatusPending, pause),
	},
	{
		name: "paused, held", facts: user(isPaused(parked(event.StatusHeld, false))), end: event.StatusCompleted,
		play: then(begins(plain, "message", workflow.WithHoldFor(1000*time.Hour)), event.StatusHeld, pause),
	},
	{
		name: "paused, running", facts: user(isPaused(Observed{Place: store.StateOwned, Begun: true})), end: event.StatusCompleted,
		play: then(atGate, event.StatusRunning, pause),
	},
	{name: "paused, backoff", facts: user(isPaused(parked("", true))), end: event.StatusCompleted, play: then(begins(plain, "backoff"), event.StatusSleeping, pause)},
	{name: "paused, sleeping", facts: user(isPaused(parked("", true))), end: event.StatusCompleted, play: then(begins(plain, "sleep"), event.StatusSleeping, pause)},
	{name: "paused, waiting", everywhere: true, facts: user(isPaused(parked("", true))), end: event.StatusCompleted, play: then(begins(plain, "message"), event.StatusWaiting, pause)},
	{
		name: "paused, with a limit", facts: user(isPaused(parked("", true))), end: event.StatusCompleted,
		play: then(begins(pooled, "message"), event.StatusWaiting, pause),
	},
	{
		name: "paused, waiting for a hook", everywhere: true, facts: user(isPaused(parked("", true)), hooked), end: event.StatusCompleted,
		play: then(begins(plain, "hook"), event.StatusWaiting, pause),
	},
	{
		name: "debug", facts: user(parked(event.StatusPaused, true), func(f *facts) { f.Debug, f.Step = true, false }), end: event.StatusCompleted,
		play: begins(plain, "message", workflow.WithDebug()),
	},
}

// ofTheRuntime contains the states of internal runs.
var ofTheRuntime = []scene{
	{
		name: "step run, in line", full: true, facts: facts{Kind: kindStep, Observed: Observed{Place: store.StateReady, Status: event.StatusPending, Waits: true}},
		alone: true, noID: true, end: event.StatusCompleted,
		play: func(s *stage, c *cell) {
			c.run = s.stepRun(c, c.other(s, plain, "gate using"))
		},
	},
	{
		name: "step run, attempt", facts: facts{Kind: kindStep, Observed: Observed{Place: store.StateOwned, Status: event.StatusRunning, Begun: true}},
		alone: true, noID: true, end: event.StatusCompleted,
		play: func(s *stage, c *cell) { c.run = s.stepRun(c, c.other(s, plain, "gate using")) },
	},
	{
		name: "step run, backoff", everywhere: true, facts: facts{Kind: kindStep, Observed: parked(event.StatusSleeping, true)},
		alone: true, noID: true, end: event.StatusCompleted,
		play: func(s *stage, c *cell) { c.run = s.stepRun(c, c.other(s, plain, "backoff using")) },
	},
	{
		name: "step run, completed by others", facts: facts{Kind: kindStep, Observed: parked(event.StatusWaiting, true), Hook: true, OfStep: true},
		alone: true, noID: true, end: event.StatusCompleted,
		play: func(s *stage, c *cell) { c.run = s.stepRun(c, c.other(s, plain, "later using")) },
	},
	{
		name: "token run", facts: facts{Kind: kindToken, Observed: parked(event.StatusWaiting, true), Hook: true},
		alone: true, noID: true, end: event.StatusCanceled,
		play: func(s *stage, c *cell) {
			c.other(s, plain, "own hook")
			s.needs(c, "there is a token run", func() bool {
				var err error
				c.run, err = s.Store.Resolve(s.Ctx, event.HookRunID("token-"+c.key))
				return err == nil
			})
		},
	},
	{
		name: "schedule", everywhere: true, facts: facts{Kind: kindSchedule, Observed: parked(event.StatusWaiting, true)},
		alone: true, noID: true, end: event.StatusCanceled, play: scheduled(func(*stage, *cell) error { return nil }),
	},
	{
		name: "schedule, paused", facts: facts{Kind: kindSchedule, Observed: parked(event.StatusWaiting, true)},
		alone: true, noID: true, end: event.StatusCanceled,
		play: scheduled(func(s *stage, c *cell) error {
			return ops.New(s.Client).Schedules().Pause(s.Ctx, c.key, "by the scene")
		}),
	},
}

// scheduled returns a play that creates a schedule and calls and. The schedule is deleted in the
// end.
func scheduled(and func(*stage, *cell) error) func(s *stage, c *cell) {
	return func(s *stage, c *cell) {
		s.call(c, "the schedule", func() error {
			err := plain.Schedule(s.carrying(c.key), s.Client, c.key, schedule.Spec{When: "every 8000h"}, work{Do: "message", Key: c.key})
			if err == nil {
				err = and(s, c)
			}
			if err == nil {
				c.run, err = s.Store.Resolve(s.Ctx, event.ScheduleRunID(c.key))
			}
			return err
		})
		c.unblock = func() {
			s.call(c, "delete the schedule", func() error { return ops.New(s.Client).Schedules().Delete(s.Ctx, c.key) })
		}
	}
}

func asked(o Observed) Observed {
	o.Asked = true
	return o
}

// over contains the states of runs that have ended.
var over = []scene{
	{name: "completed", facts: user(ended(event.StatusCompleted)), play: begins(plain, "complete"), end: event.StatusCompleted},
	{name: "completed, with a limit", facts: user(ended(event.StatusCompleted)), play: begins(pooled, "complete"), end: event.StatusCompleted},
	{name: "failed", facts: user(ended(event.StatusFailed)), play: begins(plain, "fail"), end: event.StatusFailed},
	{name: "failed, with a limit", everywhere: true, facts: user(ended(event.StatusFailed)), play: begins(pooled, "fail"), end: event.StatusFailed},
	{name: "failed, a branch completed later", facts: user(ended(event.StatusFailed)), play: begins(plain, "fail beside"), end: event.StatusFailed},
	{name: "failed and undone", facts: user(ended(event.StatusFailed), undone), play: begins(plain, "fail undone"), end: event.StatusFailed},
	{
		name: "not begun in time", full: true, facts: user(Observed{Place: store.StateEnded, Status: event.StatusFailed}), end: event.StatusFailed,
		play: func(s *stage, c *cell) {
			inQueue("message", workflow.WithStartBy(time.Hour))(s, c)
			c.start = func() {
				s.pass(2 * time.Hour)
				for _, r := range s.runsOf(c) {
					if r.ID != c.run {
						_ = goOn.Send(s.Ctx, s.Client.Run(r.ID), "freed") // the run behind the cell's run waits for no message
					}
				}
			}
		},
	},
	{name: "cancelled", everywhere: true, facts: user(asked(ended(event.StatusCanceled))), play: then(begins(plain, "message"), event.StatusWaiting, cancel), end: event.StatusCanceled},
	{
		name: "cancelled before it began", facts: user(Observed{Place: store.StateEnded, Status: event.StatusCanceled, Asked: true}), end: event.StatusCanceled,
		play: then(begins(plain, "message", workflow.WithDelay(100*time.Hour)), event.StatusPending, cancel),
	},
	{
		name: "cancelled and undone", facts: user(asked(ended(event.StatusCanceled)), undone), end: event.StatusCanceled,
		play: then(begins(plain, "wait undone"), event.StatusWaiting, cancel),
	},
	{
		name: "terminated", facts: user(ended(event.StatusCanceled), func(f *facts) { f.Terminated = true }), end: event.StatusCanceled,
		play: then(begins(plain, "message"), event.StatusWaiting, terminate),
	},
	{
		name: "continued", facts: user(ended(event.StatusContinued)), alone: true, end: event.StatusContinued,
		play: func(s *stage, c *cell) {
			begins(plain, "continue")(s, c)
			s.reaches(c, c.run, "continued", func(o Observed) bool { return o.Status == event.StatusContinued })
			c.first = s.load(c.run).Record.Next
		},
	},
	{
		name: "deleted", facts: user(ended(event.StatusCompleted), func(f *facts) { f.Gone = true }), alone: true, end: event.StatusCompleted,
		play: then(begins(plain, "complete"), event.StatusCompleted, remove),
	},
}

func undone(f *facts) { f.Undone = true }
