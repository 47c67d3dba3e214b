package worker

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/pins"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// served contains the routes of a worker.
type served struct {
	code    map[store.Route]bool // routes whose code the worker has, without the routes of pinned runs
	own     []store.Route        // the routes of the code, and those of runs that are pinned to the build of the worker
	claimed atomic.Pointer[claimed]
}

// claimed contains the routes from which a worker claims runs. It never changes.
type claimed struct {
	routes []store.Route
	has    map[store.Route]bool
}

func newClaimed(routes []store.Route) *claimed {
	c := &claimed{routes: routes, has: make(map[store.Route]bool, len(routes))}
	for _, r := range routes {
		c.has[r] = true
	}
	return c
}

// routes returns the routes from which the worker claims runs. The result must not be changed.
func (s *served) routes() []store.Route { return s.claimed.Load().routes }

// claims reports whether the worker claims runs of a route.
func (s *served) claims(r store.Route) bool { return s.claimed.Load().has[r] }

// among returns those of the given routes from which the worker claims runs.
func (s *served) among(routes []store.Route) []store.Route {
	has := s.claimed.Load().has
	left := func(r store.Route) bool { return !has[r] }
	if !slices.ContainsFunc(routes, left) {
		return routes
	}
	return slices.DeleteFunc(slices.Clone(routes), left)
}

// executes reports whether the worker has the code of a route. It may then execute the runs of the
// route that are pinned to any build, if their logs match the code.
func (s *served) executes(r store.Route) bool {
	plain, _ := pins.Plain(r)
	return s.code[plain]
}

// isPinned reports whether the runs of a route are pinned to a build.
func isPinned(r store.Route) bool {
	_, build := event.SplitQueue(r.Queue)
	return build != ""
}

// queueOf returns the queue of the runs of a route, without the build to which they are pinned.
func queueOf(r store.Route) string {
	queue, _ := event.SplitQueue(r.Queue)
	return queue
}

// setRoutes determines the routes that the worker serves.
func (w *Worker) setRoutes() {
	var routes []store.Route
	w.served.code = map[store.Route]bool{}
	add := func(c store.Route) {
		if !w.served.code[c] {
			w.served.code[c] = true
			routes = append(routes, c)
		}
	}
	w.addWorkflows(add)
	called := slices.Clone(routes)
	limited := slices.Clone(called)
	for _, c := range called { // runs that hold a token or permits, or that start runs by the clock, are in the queue of the runs they belong to
		add(store.Route{Queue: c.Queue, Workflow: event.HookRun})
		add(store.Route{Queue: c.Queue, Workflow: event.PermitRun})
		add(store.Route{Queue: c.Queue, Workflow: event.ScheduleRun})
	}
	for _, name := range w.code.LimitedSteps() { // limited steps are executed in the queue of the run that calls them
		for _, c := range called {
			step := store.Route{Queue: c.Queue, Workflow: event.StepRun(name)}
			add(step)
			limited = append(limited, step)
		}
	}
	for _, c := range w.code.StepRuns(w.cfg.Queues) {
		add(c)
	}
	if len(w.queues) > 0 {
		for _, c := range w.code.StepRuns(w.queues) {
			add(c)
		}
	}
	if w.alerting != nil {
		for _, c := range w.alerting.Routes() {
			add(c)
		}
	}
	if w.pins() {
		routes = append(routes, pinned(limited, w.build)...)
	}
	w.served.own = routes
	w.served.claimed.Store(newClaimed(routes))
}

func (w *Worker) addWorkflows(add func(store.Route)) {
	for _, c := range w.code.WorkflowNames() {
		if c.Workflow == event.AlertRun {
			continue
		}
		queues := w.cfg.Queues
		if len(queues) == 0 {
			queues = []string{c.Queue, workflow.DefaultQueue}
		}
		for _, q := range slices.Concat(queues, w.queues) {
			add(store.Route{Queue: q, Workflow: c.Workflow})
		}
	}
}

// pinned returns the routes of runs that are pinned to a build, for each of the given routes.
func pinned(routes []store.Route, build string) []store.Route {
	all := make([]store.Route, 0, len(routes))
	for _, r := range routes {
		r.Queue = event.PinnedQueue(r.Queue, build)
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}

// pins reports whether the worker pins runs and serves the runs that are pinned to its build.
func (w *Worker) pins() bool { return w.build != "" && (w.cfg.Pin || flow.DeclaresPinned()) }

// joinPins makes the build of the worker available to new runs of its client and of its code. The
// caller must call leave when the worker claims no more runs.
func (w *Worker) joinPins() (leave func()) {
	if !w.pins() {
		return func() {}
	}
	own, leave := w.loop.client.Pins().Join(w.build, w.cfg.Pin, w.served.claims)
	w.loop.params.Pin = func(run event.RunID, spec *event.Spec, inherit, declared bool) string {
		return own.Build(run, store.Route{Queue: spec.Queue, Workflow: spec.Workflow}, inherit, declared)
	}
	return leave
}

// lookAtPins reads how new runs are distributed over the builds. If the store does not answer soon,
// the worker begins without, and its code pins new runs to its own build.
func (w *Worker) lookAtPins(ctx context.Context) {
	if !w.pins() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, hardStop)
	defer cancel()
	_, _ = w.loop.client.Pins().Look(ctx)
}
