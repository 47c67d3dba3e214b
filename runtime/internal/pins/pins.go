// Package pins determines to which builds new runs of pinned workflows are pinned.
//
// A [Picker] belongs to a client and its workers. It keeps a copy of the record of deployments and
// of the routes that live workers serve. The copy is at most Fresh old when a client starts a
// pinned run. Programs without pinned workflows make no copy.
package pins

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/store"
)

// Fresh is the maximum age of the copy from which a client determines the build of a new run.
const Fresh = 5 * time.Second

// Picker determines the builds of new runs. It is safe for concurrent use.
type Picker struct {
	store   store.Store
	buildOf func(fingerprint string) string

	view    atomic.Pointer[View] // nil: nothing was read
	reading sync.Mutex

	mu  sync.Mutex
	own []*Worker
	all atomic.Int32 // number of workers in own that pin the runs of all workflows
}

// New returns a picker for the runs of a store. buildOf returns the build of a worker with the given
// fingerprint.
func New(s store.Store, buildOf func(fingerprint string) string) *Picker {
	return &Picker{store: s, buildOf: buildOf}
}

// View is a copy of the record of deployments and of the fleet.
type View struct {
	State deploy.State
	Fleet store.Fleet

	at      time.Time
	serving map[store.Route][]string // builds whose live workers serve a route
	live    map[store.Route][]string // builds whose workers serve the pinned runs of a route, by the route of runs that are not pinned
}

// Live returns the builds with live workers that serve the pinned runs of a route. The queue of the
// route contains no build.
func (v *View) Live(route store.Route) []string {
	if v == nil {
		return nil
	}
	return v.live[route]
}

// Serving returns the builds with live workers that serve a route.
func (v *View) Serving(route store.Route) []string { return v.serving[route] }

// Takes reports whether the build takes new pinned runs of a route.
func (v *View) Takes(build string, route store.Route) bool {
	return slices.Contains(v.Live(route), build) && !v.State.Retired(build)
}

// Plain returns the route of the runs that are not pinned, and the build of a route.
func Plain(route store.Route) (plain store.Route, build string) {
	route.Queue, build = event.SplitQueue(route.Queue)
	return route, build
}

// Look returns a copy that is at most Fresh old. It reads the store if necessary. If the store does
// not answer, it returns an older copy, or an error if there is none.
func (p *Picker) Look(ctx context.Context) (*View, error) { return p.look(ctx, Fresh) }

// Read reads the store and returns the new copy.
func (p *Picker) Read(ctx context.Context) (*View, error) {
	p.reading.Lock()
	defer p.reading.Unlock()
	return p.read(ctx)
}

func (p *Picker) look(ctx context.Context, fresh time.Duration) (*View, error) {
	if v := p.view.Load(); p.isFresh(v, fresh) {
		return v, nil
	}
	p.reading.Lock()
	defer p.reading.Unlock()
	old := p.view.Load()
	if p.isFresh(old, fresh) {
		return old, nil
	}
	v, err := p.read(ctx)
	if err != nil && old != nil && ctx.Err() == nil {
		return old, nil
	}
	return v, err
}

func (p *Picker) isFresh(v *View, fresh time.Duration) bool {
	if v == nil {
		return false
	}
	age := p.store.Clock().Now().Sub(v.at)
	return age >= 0 && age < fresh
}

func (p *Picker) read(ctx context.Context) (*View, error) {
	v := &View{at: p.store.Clock().Now(), serving: map[store.Route][]string{}, live: map[store.Route][]string{}}
	var err error
	if entries, ok := store.As[store.Entries](p.store); ok {
		if v.State, err = deploy.Load(ctx, entries); err != nil {
			return nil, fmt.Errorf("determine the build of a run: %w", err)
		}
	}
	if teller, ok := store.As[store.FleetTeller](p.store); ok {
		if v.Fleet, err = teller.Fleet(ctx); err != nil {
			return nil, fmt.Errorf("determine the build of a run: read the workers: %w", err)
		}
	}
	for i := range v.Fleet.Sessions {
		s := &v.Fleet.Sessions[i]
		own := p.buildOf(s.Fingerprint)
		if !s.Live(v.Fleet.Now) || own == "" {
			continue
		}
		for _, route := range s.Routes {
			add(v.serving, route, own)
			if plain, build := Plain(route); build == own {
				add(v.live, plain, own)
			}
		}
	}
	p.view.Store(v)
	return v, nil
}

// Retired reports whether the record contains the build as retired. If the store does not answer, it
// returns false.
func (p *Picker) Retired(ctx context.Context, build string) bool {
	entries, ok := store.As[store.Entries](p.store)
	if !ok {
		return false
	}
	state, err := deploy.Load(ctx, entries)
	return err == nil && state.Retired(build)
}

func add(builds map[store.Route][]string, route store.Route, build string) {
	if !slices.Contains(builds[route], build) {
		builds[route] = append(builds[route], build)
	}
}

// Worker is a worker of this process.
type Worker struct {
	p      *Picker
	build  string
	serves func(store.Route) bool
}

// Join adds a worker of this process. serves reports whether the worker claims runs of a route. If
// all is set, the runs of all workflows are pinned until the worker leaves, and not only those whose
// directive has the flag pin. The worker calls leave once, when it ends.
func (p *Picker) Join(build string, all bool, serves func(store.Route) bool) (w *Worker, leave func()) {
	w = &Worker{p: p, build: build, serves: serves}
	p.mu.Lock()
	defer p.mu.Unlock()
	pinning := int32(0)
	if all {
		pinning = 1
	}
	p.own = append(p.own, w)
	p.all.Add(pinning)
	return w, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.own = slices.DeleteFunc(p.own, func(other *Worker) bool { return other == w })
		p.all.Add(-pinning)
	}
}

// Pins reports whether the runs of a workflow are pinned. declared is the flag of its directive.
func (p *Picker) Pins(workflow string, declared bool) bool {
	return (declared || p.all.Load() > 0) && !event.Internal(workflow)
}

// Build returns the build to which a new run of a pinned workflow is pinned. It returns "" if no
// worker serves pinned runs of the route. It reads nothing, see Look.
func (p *Picker) Build(run event.RunID, route store.Route) string {
	v := p.view.Load()
	own := ""
	p.mu.Lock()
	for _, w := range p.own {
		if w.takes(v, route) {
			own = w.build
			break
		}
	}
	p.mu.Unlock()
	return draw(v, run, route, own)
}

// Build is like Picker.Build, for a run that code of the worker starts. If inherit is set, the
// starting run is pinned, and the new run is its child. The child is pinned to the build that
// executes its parent, if that build serves the child. Otherwise it is pinned only if declared is
// set.
func (w *Worker) Build(run event.RunID, route store.Route, inherit, declared bool) string {
	v := w.p.view.Load()
	own := ""
	if w.takes(v, route) {
		own = w.build
	}
	switch {
	case inherit && own != "":
		return own
	case !w.p.Pins(route.Workflow, declared):
		return ""
	}
	return draw(v, run, route, own)
}

// takes reports whether the worker claims new runs of the route that are pinned to its build.
func (w *Worker) takes(v *View, route store.Route) bool {
	if v != nil && v.State.Retired(w.build) {
		return false
	}
	return w.serves(store.Route{Queue: event.PinnedQueue(route.Queue, w.build), Workflow: route.Workflow})
}

func draw(v *View, run event.RunID, route store.Route, own string) string {
	if v == nil {
		return own
	}
	live := v.Live(route)
	if own != "" && !slices.Contains(live, own) {
		live = append(slices.Clone(live), own)
	}
	return v.State.Draw(run, live, own)
}
