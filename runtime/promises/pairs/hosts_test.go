package pairs_test

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A hosting is the way in which the runs of a stage are executed. No rule depends on it. Workers
// execute five of six scenes, and the seed determines how the others are executed. With
// -pairs.long, each scene is executed in all ways on the in-memory store.
type hosting string

const (
	byWorkers   hosting = "workers"
	byFunctions hosting = "functions"             // functions and a dispatcher, and no worker
	pinnedHere  hosting = "pinned"                // all runs are pinned to the build of the workers
	pinnedAway  hosting = "pinned, build left"    // workers of another build replace those to whose build the runs are pinned
	pinnedOut   hosting = "pinned, build retired" // the build of the runs is retired, and its workers live
)

var hostings = []hosting{byWorkers, byFunctions, pinnedHere, pinnedAway, pinnedOut}

// hostingOf returns the hosting of a scene.
func hostingOf(sc *scene) hosting {
	n := numberOf(sc) + int(*seed)
	how := byWorkers
	switch {
	case sc.builds:
	case *onlyHosting != "":
		how = hosting(*onlyHosting)
	case *long:
		how = hostings[n%len(hostings)]
	case n%6 == 0:
		how = hostings[1+n/6%(len(hostings)-1)]
	}
	if how == pinnedAway && sc.endsEarly() {
		return pinnedHere
	}
	return how
}

// hostingsOf returns the hostings of a scene on the in-memory store.
func hostingsOf(sc *scene) (all []hosting) {
	if !*long || sc.builds || *onlyHosting != "" {
		return []hosting{hostingOf(sc)}
	}
	for _, how := range hostings {
		if how != pinnedAway || !sc.endsEarly() {
			all = append(all, how)
		}
	}
	return all
}

// endsEarly reports whether the stop of the first workers would end the state: it ends the attempt
// of a paused run, and the pause lets no other one begin.
func (sc *scene) endsEarly() bool { return sc.facts.Paused && sc.facts.Place == store.StateOwned }

func numberOf(sc *scene) int {
	return slices.IndexFunc(scenes, func(other scene) bool { return other.name == sc.name })
}

// The builds of a stage. Workers of the second one replace those of the first one. Workers of the
// third one are started by the commands about builds.
const (
	firstBuild  = "v1"
	secondBuild = "v2"
	spareBuild  = "spare"
)

// pins reports whether all runs are pinned.
func (h hosting) pins() bool { return h != byWorkers && h != byFunctions }

// host is a worker of a stage, or a function with its dispatcher.
type host struct {
	cfg      worker.Config
	bindings []flowtest.Binding
	halt     func() // stops it and waits until it has ended
	over     bool
}

// Work starts a worker, or a function if the stage has functions. It has the interceptors of the
// stage, and its build unless cfg names another one.
func (s *stage) Work(cfg worker.Config, bindings ...flowtest.Binding) *host {
	s.T.Helper()
	cfg.Interceptors = s.interceptors()
	h := &host{cfg: cfg, bindings: bindings}
	s.begin(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts = append(s.hosts, h)
	return h
}

func (s *stage) begin(h *host) {
	s.T.Helper()
	cfg := h.cfg
	if cfg.Build == "" {
		cfg.Build, cfg.Pin = s.build, cfg.Pin || s.how.pins()
	}
	bindings := slices.Clone(h.bindings)
	if cfg.Pin {
		bindings = append(bindings, flowtest.MovesEvery(250*time.Millisecond))
	}
	if s.how == byFunctions {
		h.halt = s.function(cfg, bindings)
		return
	}
	h.halt = s.World.Work(cfg, bindings...).Stop
}

// stop stops a host while virtual time passes, because steps may delay it.
func (s *stage) stop(h *host) {
	s.T.Helper()
	h.over = true
	stopped := make(chan struct{})
	go func() { defer close(stopped); h.halt() }()
	if !s.until(flowtest.Patience, func() bool {
		select {
		case <-stopped:
			return true
		default:
			return false
		}
	}) {
		s.T.Fatal("a worker does not stop")
	}
}

// StopWorkers stops all workers and functions.
func (s *stage) StopWorkers() {
	s.T.Helper()
	for _, h := range s.hosts {
		h.halt()
	}
	s.World.StopWorkers()
}

// forever is the budget of a function. It is longer than the virtual time of a test.
const forever = 100_000 * time.Hour

// function starts a function and a dispatcher that calls it.
func (s *stage) function(cfg worker.Config, bindings []flowtest.Binding) (stop func()) {
	s.T.Helper()
	secret, halt := []byte("0123456789abcdef0123456789abcdef"), make(chan struct{})
	h, err := invoke.Handler(s.Client, func(r workflow.Registrar) {
		for _, b := range bindings {
			b(r)
		}
	}, invoke.Config{Secrets: [][]byte{secret}, Budget: forever, Lease: 2 * forever, Concurrency: 4000, Stop: halt, Worker: cfg})
	if err != nil {
		s.T.Fatal(err)
	}
	d, err := invoke.NewDispatcher(s.Client, invoke.DispatcherConfig{
		Targets: []invoke.Target{{URL: "http://localhost", Secret: secret, Concurrency: 4000}}, HTTP: &http.Client{Transport: through{withoutDeadline(h)}},
	})
	if err != nil {
		s.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	over := false
	stop = func() {
		if over {
			return
		}
		over = true
		close(halt)
		cancel()
		select {
		case err := <-done:
			if err != nil {
				s.T.Errorf("Run of the dispatcher returned %v", err)
			}
		case <-time.After(flowtest.Patience):
			s.T.Error("the dispatcher did not stop")
		}
	}
	s.T.Cleanup(stop)
	return stop
}

// withoutDeadline returns a handler whose requests end when they are answered, as over a network. The
// deadline of the caller would end before the budget of the function.
func withoutDeadline(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(context.WithoutCancel(r.Context())))
	})
}

// serving waits until live workers of a build serve the pinned runs of plain on a queue. No time
// passes meanwhile.
func (s *stage) serving(queue, build string) {
	s.T.Helper()
	route := store.Route{Queue: event.PinnedQueue(queue, build), Workflow: plain.Name()}
	s.Eventually("build "+build+" serves queue "+queue, func() bool { return s.serves(build, route) })
}

// serves reports whether workers of a build serve a route.
func (s *stage) serves(build string, route store.Route) bool {
	teller, _ := store.As[store.FleetTeller](s.Store)
	fleet, err := teller.Fleet(s.Ctx)
	return err == nil && slices.ContainsFunc(fleet.Sessions, func(f store.FleetSession) bool {
		return ops.BuildOf(f.Fingerprint) == build && slices.Contains(f.Routes, route)
	})
}

// replaceBuild lets the runs of the cells leave the build to which they are pinned.
func (s *stage) replaceBuild(cells []*cell) {
	s.T.Helper()
	if s.how != pinnedAway && s.how != pinnedOut {
		return
	}
	s.build = secondBuild
	for _, h := range slices.Clone(s.hosts) {
		switch {
		case h.over || h.cfg.Build != "":
		case s.how == pinnedAway:
			s.stop(h)
			*h = host{cfg: h.cfg, bindings: h.bindings}
			s.begin(h)
		default:
			s.Work(h.cfg, h.bindings...)
		}
	}
	s.serving(workflow.DefaultQueue, secondBuild)
	if s.how == pinnedOut {
		s.call(cells[0], "retire", func() error { return ops.New(s.Client).Retire(s.Ctx, firstBuild, "") })
	}
}

// pinFits fails a cell whose run is not pinned although it should be, or to another build.
func (s *stage) pinFits(c *cell, pin string) {
	s.T.Helper()
	want := ""
	switch {
	case c.facts.Kind.own():
		return
	case c.builds:
		want = goneBuild
	case s.how.pins() && !c.facts.Unserved:
		want = firstBuild
	}
	if pin != want {
		c.breaks("OPS10", "it is pinned to build %q, want %q", pin, want)
	}
}
