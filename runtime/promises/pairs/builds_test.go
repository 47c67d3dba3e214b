package pairs_test

import (
	"context"
	"slices"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The verbs of the commands about builds. These concern all runs, also those of the other cells.
const (
	verbRamp     = "ramp"
	verbRetire   = "retire"
	verbUnretire = "unretire"
)

// buildRules are the rules for the commands about builds.
var buildRules = []rule{
	// OPS10: A run goes on and ends as it would, whatever becomes of the build to which it is pinned.
	{"OPS10", func(_ *facts, verb string) (outcome, bool) {
		return does(unchanged), in(verb, verbRamp, verbRetire, verbUnretire)
	}},
}

// ofBuilds returns the commands about the build of the stage. Before, workers of another build are
// started, which takes over.
func ofBuilds() []command {
	return []command{
		{"ramp", verbRamp, false, onBuild(func(ctx context.Context, s *stage) error {
			_, err := s.service.Ramp(ctx, admin.Ramp{Percent: map[string]int{spareBuild: 100}})
			return err
		})},
		{"retire", verbRetire, false, onBuild(func(ctx context.Context, s *stage) error {
			_, err := s.service.ActOnDeploy(ctx, s.build, admin.DeployAction{Verb: verbRetire})
			return err
		})},
		{"unretire", verbUnretire, false, onBuild(func(ctx context.Context, s *stage) error {
			_, err := s.service.ActOnDeploy(ctx, s.build, admin.DeployAction{Verb: verbUnretire})
			return err
		})},
	}
}

// leavesOut reports whether a command about builds has no cell in a scene. By default, one of them
// has a cell in each scene with other hosts than workers of one build.
func leavesOut(sc *scene, how hosting, cmd *command) bool {
	i := slices.Index([]string{verbRamp, verbRetire, verbUnretire}, cmd.verb)
	return i >= 0 && !*long && (how == byWorkers && !sc.builds || i != (numberOf(sc)+int(*seed))%3)
}

func onBuild(do func(context.Context, *stage) error) func(context.Context, *stage, *cell) answer {
	return func(ctx context.Context, s *stage, _ *cell) answer {
		s.spare()
		for !s.serves(spareBuild, store.Route{Queue: workflow.DefaultQueue, Workflow: plain.Name()}) {
			select {
			case <-ctx.Done():
				return answer{Code: waits, Err: ctx.Err()}
			case <-time.After(2 * time.Millisecond):
			}
		}
		return answeredWith("", do(ctx, s))
	}
}

// goneBuild is the build of the workers that the scenes about builds stop.
const goneBuild = "gone"

// ofGoneBuilds contains the states of runs that are pinned to a build without workers.
var ofGoneBuilds = []scene{
	{
		name: "ready, its build has left", builds: true, facts: user(Observed{Place: store.StateReady, Status: event.StatusPending}, func(f *facts) { f.Unserved = true }), end: event.StatusCompleted,
		prepare: func(s *stage, cells []*cell) {
			s.leaving()
			s.pinning()
			cells[0].other(s, plain, "complete", workflow.WithQueue("gone")) // the client has read the workers
			s.before.halt()                                                  // and begins the other runs before it reads them again, because no time passes
		},
		play: func(s *stage, c *cell) {
			c.begin(s, plain, "message", workflow.WithQueue("gone"))
			c.unblock = s.replace
		},
	},
	{
		name: "waiting, its build has left", builds: true, facts: user(parked(event.StatusWaiting, true), func(f *facts) { f.Unserved = true }), end: event.StatusCompleted,
		prepare: func(s *stage, _ []*cell) { s.leaving() },
		play: func(s *stage, c *cell) {
			c.begin(s, plain, "message", workflow.WithQueue("gone"))
			c.unblock = s.replace
		},
		complete: func(s *stage, cells []*cell) { s.leave(cells, "waiting", isWaiting) },
	},
	{
		name: "paused, its build has left", builds: true, facts: user(isPaused(parked("", true)), func(f *facts) { f.Unserved = true }), end: event.StatusCompleted,
		prepare: func(s *stage, _ []*cell) { s.leaving() },
		play: func(s *stage, c *cell) {
			then(begins(plain, "message", workflow.WithQueue("gone")), event.StatusWaiting, pause)(s, c)
			c.unblock = s.replace
		},
		complete: func(s *stage, cells []*cell) { s.leave(cells, "paused", func(o Observed) bool { return o.Paused }) },
	},
	{
		name: "blocked, its build has left", builds: true, facts: user(Observed{Place: store.StateBlocked, Status: event.StatusBlocked, Begun: true}), end: event.StatusCompleted,
		prepare: func(s *stage, _ []*cell) { s.leaving() },
		play: func(s *stage, c *cell) {
			c.begin(s, plain, "message", workflow.WithQueue("gone"))
			c.unblock = func() { s.setOdd(nil); s.replace() }
		},
		complete: func(s *stage, cells []*cell) {
			odd := s.leave(cells, "waiting", isWaiting)
			s.setOdd(odd)
			s.Work(worker.Config{Queues: []string{"gone"}, Pin: true}, s.bindings()...)
			for run := range odd {
				flowtest.Order(s.T, goOn.Send(s.Ctx, s.Client.Run(run), "does not fit"))
			}
		},
	},
}

// leaving starts a worker that pins runs to its build, which will leave.
func (s *stage) leaving() {
	s.T.Helper()
	s.before = s.Work(worker.Config{Queues: []string{"gone"}, Build: goneBuild, Pin: true}, s.bindings()...)
	s.serving("gone", goneBuild)
}

// pinning starts a worker that makes the client pin all runs, and serves none of them. It never reads
// the workers again.
func (s *stage) pinning() {
	s.T.Helper()
	s.World.Work(worker.Config{Queues: []string{"pinning"}, Build: s.build, Pin: true}, append(s.bindings(), flowtest.MovesEvery(forever))...)
	s.serving("pinning", s.build)
}

// leave stops the worker of leaving after the runs of the cells satisfy a condition. It returns these
// runs.
func (s *stage) leave(cells []*cell, what string, is func(Observed) bool) map[event.RunID]bool {
	s.T.Helper()
	runs := map[event.RunID]bool{}
	for _, c := range cells {
		s.reaches(c, c.run, what, is)
		runs[c.run] = true
	}
	s.stop(s.before)
	return runs
}
