package worker

import (
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// A worker counts the usage of its own capacity, its local limits and its slots for the runs of a
// queue, by the runs that it owns, and passes what is left with each claim. So no capacity remains
// taken when the worker dies.

// room returns the free capacity of the local limits.
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

// promise returns how many more runs of a queue, up to most, a claim may request. If the queue has
// a bound, these slots are reserved for the claim until done is called after its answer.
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

// openIn is leftIn without the slots reserved for claims in flight.
func (r *runs) openIn(queue string) int { return max(r.leftIn(queue)-r.promised[queue], 0) }

// leftIn returns the number of free slots for runs of a queue. It must be called with the lock
// held.
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

// passedPause is how long a worker leaves a route to other workers after a claim has skipped a run
// of it, unless capacity is freed earlier. It bounds how long later runs of the route, which would
// fit, wait.
const passedPause = time.Second

// passOver records the runs that a claim has skipped. It warns once per route of a run that has
// waited for long and for which this worker can never have the capacity: perhaps no worker has it.
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

// awaited returns the routes for which this worker has free capacity. The others are claimed from
// once capacity is freed, or at the time from, if it is not zero; see passedPause.
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

// shares partitions the routes into groups that are claimed separately: one group per queue with a
// bound, and one for all other queues.
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
