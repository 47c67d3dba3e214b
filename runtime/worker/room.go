package worker

import (
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// What a worker has of its own, its capacity of local limits and its places for the runs of a
// queue, it counts itself, by the runs that it owns: a claim says what is left. So nothing of
// it is held when the worker has died.

// room returns what is left of the local limits.
func (r *runs) room() []store.Room {
	if len(r.cfg.Capacity) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	free := maps.Clone(r.cfg.Capacity)
	for _, in := range r.owned {
		for _, u := range in.uses {
			if _, ok := free[u.Name]; ok && u.Local {
				free[u.Name] -= u.Weight
			}
		}
	}
	all := make([]store.Room, 0, len(free))
	for _, name := range slices.Sorted(maps.Keys(free)) {
		all = append(all, store.Room{Limit: name, Free: max(free[name], 0), Most: r.cfg.Capacity[name]})
	}
	return all
}

// promise returns for how many more runs of a queue, up to most, a claim may ask. If the queue has a bound those places are kept
// for it until it has been answered, and done is called.
func (r *runs) promise(queue string, most int) (places int, done func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	places = min(most, r.openIn(queue))
	if r.cfg.AtOnce[queue] == 0 {
		return places, func() {}
	}
	r.promised[queue] += places
	return places, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.promised[queue] -= places
	}
}

// openIn is leftIn without the places for which claims are under way.
func (r *runs) openIn(queue string) int { return max(r.leftIn(queue)-r.promised[queue], 0) }

// leftIn returns for how many more runs of a queue there is a place. The lock is held.
func (r *runs) leftIn(queue string) int {
	most := r.cfg.AtOnce[queue]
	if most == 0 {
		return claimBatch
	}
	for _, in := range r.owned {
		if in.queue == queue {
			most--
		}
	}
	return max(most, 0)
}

// passedPause is how long a worker leaves a route to others of which a claim has passed over a
// run, unless it has more room before: what comes after that, and would fit, waits so long at
// most.
const passedPause = time.Second

// passOver notes what a claim has passed over, and says once for each route that this worker
// never has room for a run that has waited for long: perhaps none has.
func (r *runs) passOver(passed []store.PassedRun) {
	if len(passed) == 0 {
		return
	}
	now := r.clock.Now()
	var warn []store.PassedRun
	r.mu.Lock()
	if r.passed == nil {
		r.passed, r.never = map[store.Route]time.Time{}, map[store.Route]time.Time{}
	}
	for _, p := range passed {
		r.passed[p.Route] = now
		since, known := r.never[p.Route]
		switch {
		case !p.Never:
		case !known:
			r.never[p.Route] = now
		case !since.IsZero() && now.Sub(since) >= unservedAfter:
			r.never[p.Route] = time.Time{}
			warn = append(warn, p)
		}
	}
	r.mu.Unlock()
	for _, p := range warn {
		r.log.Warn("a run uses more of a local limit than this worker has", "run", p.Run, "workflow", p.Route.Workflow, "queue", p.Route.Queue,
			"for", unservedAfter, "fix", "start a worker with more Capacity, or cancel the run")
	}
}

// awaited returns those of the routes of which this worker could take a run. Of the others it
// could when it has more room; or from a time on, if that is not zero: see passedPause.
func (r *runs) awaited(routes []store.Route) (wanted []store.Route, from time.Time) {
	if len(r.cfg.Capacity)+len(r.cfg.AtOnce) == 0 {
		return routes, from
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	for _, route := range routes {
		at, passed := r.passed[route]
		at = at.Add(passedPause)
		switch {
		case passed && at.After(now):
			if from.IsZero() || at.Before(from) {
				from = at
			}
		case r.leftIn(route.Queue) > 0:
			wanted = append(wanted, route)
		}
	}
	return wanted, from
}

// shares returns the routes in parts of which each is claimed by itself: those of a queue
// that has a bound, and the others.
func (c *claimer) shares() [][]store.Route {
	if len(c.cfg.AtOnce) == 0 {
		return [][]store.Route{c.routes}
	}
	var free []store.Route
	bounded := map[string][]store.Route{}
	for _, route := range c.routes {
		if c.cfg.AtOnce[route.Queue] == 0 {
			free = append(free, route)
		} else {
			bounded[route.Queue] = append(bounded[route.Queue], route)
		}
	}
	var all [][]store.Route
	if len(free) > 0 {
		all = append(all, free)
	}
	for _, queue := range slices.Sorted(maps.Keys(bounded)) {
		all = append(all, bounded[queue])
	}
	return all
}
