package worker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/internal/pins"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// Pinned runs of a build without workers move to the other builds: their workers add the routes of
// such runs to those from which they claim. A worker of a retired build does the opposite: it claims
// no runs of the routes that other builds serve. Each worker decides this alone, from a copy of the
// record of deployments and of the fleet.
//
// The protocol of the store does not change. A worker may pass any routes to Claim and Wait, and
// OpenSession of an open session replaces its routes; see [lease.Lease.Announce]. If several workers
// add a route, each run is claimed by one of them, as on any route. A run whose log does not match
// the code is blocked, and is tried by the workers of each other build that serve the route [B2].

// movesEvery is the interval at which a worker checks whether runs must move. A worker that pins no
// runs reads only whether its build is retired, which is one entry of the store, until it is, or
// until the worker finds a pinned run that no worker serves.
const movesEvery = 5 * time.Second

// mover determines from which routes a worker claims runs.
type mover struct {
	*env
	picker *pins.Picker
	outage *outage.Log
	leases lease.Set
	always bool                                             // whether the worker checks at intervals; otherwise only while it has found pinned runs
	found  wait.Notifier                                    // notified when a pinned run was found that no worker serves
	moved  func()                                           // called when the routes have changed
	away   func() bool                                      // reports whether the functions of a dispatch do not answer; nil in a worker
	full   func() bool                                      // reports whether no run can be claimed at present
	claim  func(ctx context.Context, run event.RunID) error // claims a run by its ID
	// reserve reserves capacity for a run before it is claimed; see [runs.reserveFor].
	reserve func(*store.Record) (done func())

	empty map[store.Route]time.Time // when the build of a route was first seen without workers
	stuck map[store.Route]time.Time // when blocked runs of a route were first seen
	tried map[event.RunID]uint64    // blocked runs that the worker has claimed, with the lengths of their logs
}

func (w *Worker) newMover() *mover {
	return &mover{
		env: w.env, picker: w.loop.client.Pins(), outage: w.outage, leases: w.leases, always: w.pins(), found: w.movable, moved: w.runs.reroute,
		full: w.runs.full, reserve: w.runs.reserveFor, claim: w.claimer.claimByName,
		empty: map[store.Route]time.Time{}, stuck: map[store.Route]time.Time{}, tried: map[event.RunID]uint64{},
	}
}

// begin determines the first routes of a worker whose build was retired before its start. If the store
// does not answer, the worker leaves the other routes at the next check.
func (m *mover) begin(ctx context.Context) {
	v, err := m.picker.Read(ctx)
	if err != nil {
		return
	}
	routes, _ := m.routes(v)
	m.served.claimed.Store(newClaimed(routes))
}

// run checks at intervals until ctx ends.
func (m *mover) run(ctx context.Context) {
	for active := m.always; ; {
		if !active && !m.await(ctx) {
			continue
		}
		if ctx.Err() != nil || !wait.For(ctx, m.clock, m.moves) {
			return
		}
		active = m.look(ctx) || m.always
	}
}

// await waits until the worker has found a pinned run that no worker serves, or until it is time to
// check whether the build is retired. It reports whether the routes may have to change, or ctx has
// ended.
func (m *mover) await(ctx context.Context) bool {
	due := make(chan struct{})
	stop := m.clock.AfterFunc(m.moves, func() { close(due) })
	defer stop()
	select {
	case <-m.found:
		return true
	case <-ctx.Done():
		return true
	case <-due:
		return m.picker.Retired(ctx, m.build)
	}
}

// look reads the state of the builds and updates the routes. It reports whether there may be pinned
// runs of other builds. If the store does not answer, the routes do not change.
func (m *mover) look(ctx context.Context) (more bool) {
	v, err := m.picker.Read(ctx)
	if err == nil {
		more = m.update(ctx, v)
		err = m.rescue(ctx, v)
	}
	if ctx.Err() == nil {
		m.outage.Note(ctx, "find runs of builds without workers", err)
	}
	return more || err != nil
}

// update replaces the routes if they have changed. Where the worker claims no more, the store is
// notified after the last claim was answered. So if no session of a build has routes, the sessions
// own all runs that its workers will ever execute.
func (m *mover) update(ctx context.Context, v *pins.View) (more bool) {
	routes, more := m.routes(v)
	before, next := m.served.claimed.Load(), newClaimed(routes)
	if !maps.Equal(before.has, next.has) {
		m.served.claimed.Store(next)
		m.moved()
		m.log.Info("the worker claims runs of other routes", "worker", m.cfg.Name, "build", m.build, "before", len(before.routes), "now", len(routes))
	}
	patience, cancel := context.WithTimeout(ctx, m.moves)
	defer cancel()
	var all sync.WaitGroup
	for _, l := range m.leases {
		if l.Announced() {
			continue
		}
		all.Go(func() {
			for !l.Quiet() || m.creating.Load() > 0 {
				if !wait.For(patience, m.clock, claimsEnd) {
					return // the next look tries again
				}
			}
			l.Announce(patience)
		})
	}
	all.Wait()
	return more || slices.ContainsFunc(m.leases, func(l *lease.Lease) bool { return !l.Announced() })
}

// claimsEnd is the interval at which a worker checks whether its claims were answered.
const claimsEnd = 20 * time.Millisecond

// routes returns the routes from which the worker claims runs. It reports whether there are pinned
// runs of other builds that the worker may have to claim.
func (m *mover) routes(v *pins.View) (routes []store.Route, more bool) {
	retired, away := v.State.Retired(m.build), m.away != nil && m.away()
	base, busy := map[store.Route]bool{}, map[store.Route]bool{}
	for i := range v.Fleet.Routes {
		busy[v.Fleet.Routes[i].Route] = !v.Fleet.Routes[i].Idle()
	}
	for _, r := range m.served.own {
		base[r] = true
		plain, pin := pins.Plain(r)
		if away && pin != "" {
			continue // functions or workers of other builds may execute these runs
		}
		// Pinned runs are left after another worker has added their route. A worker of a release
		// without pins never does.
		if !retired || !m.others(v, plain) || pin != "" && busy[r] && !m.others(v, r) {
			routes = append(routes, r)
		}
	}
	open := map[store.Route]bool{}
	for i := range v.Fleet.Routes {
		l := &v.Fleet.Routes[i]
		plain, build := pins.Plain(l.Route)
		if build == "" || away || base[l.Route] || l.Idle() || !m.served.executes(l.Route) {
			continue
		}
		open[l.Route] = true
		if m.leaves(v, l.Route, plain, build) && (!retired || !m.others(v, plain)) {
			routes = append(routes, l.Route)
		}
	}
	forget(m.empty, open)
	return routes, len(open) > 0 || retired
}

// forget removes the routes that are not in keep.
func forget(times map[store.Route]time.Time, keep map[store.Route]bool) {
	maps.DeleteFunc(times, func(r store.Route, _ time.Time) bool { return !keep[r] })
}

// others reports whether a live worker of another build that is not retired serves a route.
func (m *mover) others(v *pins.View, route store.Route) bool {
	return slices.ContainsFunc(v.Serving(route), func(build string) bool { return build != m.build && !v.State.Retired(build) })
}

// leaves reports whether the runs of a route leave the build to which they are pinned, and may be
// executed by this worker. They leave a retired build, and a build whose workers were absent for a
// while. During a restart of its workers they stay.
func (m *mover) leaves(v *pins.View, route, plain store.Route, build string) bool {
	if build == m.build {
		return true // the build has the runs of an earlier configuration of its workers
	}
	if known := v.State.Build(build); known != nil && !known.Retired.IsZero() {
		to := known.To
		return to == "" || to == m.build || !slices.Contains(v.Serving(plain), to)
	}
	if slices.Contains(v.Live(plain), build) {
		delete(m.empty, route)
		return false
	}
	return m.lasts(m.empty, route)
}

// lasts reports whether a condition of a route has lasted for two intervals.
func (m *mover) lasts(times map[store.Route]time.Time, route store.Route) bool {
	now := m.clock.Now()
	since, known := times[route]
	if !known {
		since, times[route] = now, now
	}
	return now.Sub(since) >= 2*m.moves
}

// rescuedMost is the maximum number of blocked runs of a route that a worker claims at once.
const rescuedMost = 100

// rescue claims blocked runs of routes from which the worker does not claim: runs of a build that
// has workers whose code does not match, and runs that this worker has left when its build was
// retired and that no other build accepts. Each log is tried once.
func (m *mover) rescue(ctx context.Context, v *pins.View) error {
	blocked := map[store.Route]bool{}
	for i := range v.Fleet.Routes {
		l := &v.Fleet.Routes[i]
		if l.Blocked == 0 || !m.served.executes(l.Route) || m.served.claims(l.Route) {
			continue
		}
		blocked[l.Route] = true
		if !m.lasts(m.stuck, l.Route) {
			continue
		}
		if err := m.rescueFrom(ctx, l.Route); err != nil {
			return err
		}
	}
	forget(m.stuck, blocked)
	if len(blocked) == 0 {
		clear(m.tried)
	}
	return nil
}

func (m *mover) rescueFrom(ctx context.Context, route store.Route) error {
	lister, ok := store.As[store.Lister](m.store)
	if !ok {
		return nil
	}
	plain, _ := pins.Plain(route)
	q := store.Query{Statuses: []event.Status{event.StatusBlocked}, Queue: plain.Queue, Workflow: plain.Workflow}
	patience, cancel := context.WithTimeout(ctx, m.moves)
	defer cancel()
	for claimed := 0; claimed < rescuedMost; {
		page, err := lister.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Runs {
			r := &page.Runs[i]
			if r.Route != route || m.tried[r.Run] == r.N {
				continue
			}
			for m.full() {
				if !wait.For(patience, m.clock, rescuePause) {
					return nil // the next look tries the others
				}
			}
			done := m.reserve(r)
			if done == nil {
				continue // the run needs capacity that the worker does not have at present
			}
			err := m.claim(ctx, r.Run)
			switch done(); {
			case errors.Is(err, store.ErrNotClaimable):
				continue // the next look tries again
			case err != nil:
				return err
			}
			m.tried[r.Run] = r.N
			claimed++
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return nil
		}
	}
	return nil
}
