package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
)

// A worker computes its free capacity from the runs that it owns, and sends it with each claim.
// Capacity consists of local limits and of slots for the runs of a queue. Because the worker stores
// no count of used capacity, none remains taken when the worker dies.

// free returns the free capacity of the local limits.
func (r *runs) free() []store.FreeCapacity {
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
	all := make([]store.FreeCapacity, 0, len(free))
	for _, name := range slices.Sorted(maps.Keys(free)) {
		all = append(all, store.FreeCapacity{Limit: name, Free: max(free[name], 0), Most: r.cfg.Capacity[name]})
	}
	return all
}

// promise returns how many more runs of a queue a claim may request, bounded by most. If the queue
// has a bound, the slots are reserved until the caller calls done, which must happen after the
// answer of the claim.
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

// reserveFor reserves capacity for a run that is claimed by its ID. It returns nil if the worker has none
// at present. The caller must call done after the run was adopted.
func (r *runs) reserveFor(run *store.Record) (done func()) {
	free := r.free()
	for _, u := range run.Uses {
		if u.Local && slices.ContainsFunc(free, func(c store.FreeCapacity) bool { return c.Limit == u.Name && c.Free < u.Weight }) {
			return nil
		}
	}
	queue := queueOf(run.Route)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopping.Load() || r.turns.now.Load() != nil || r.occupied() >= r.cfg.Runs || r.openIn(queue) == 0 {
		return nil
	}
	r.reserved++
	r.promised[queue]++
	return func() {
		r.mu.Lock()
		r.promised[queue]--
		r.mu.Unlock()
		r.unreserve()
	}
}

// openIn returns the number of free slots for runs of a queue without the slots reserved for claims
// in flight.
func (r *runs) openIn(queue string) int { return max(r.leftIn(queue)-r.promised[queue], 0) }

// leftIn returns the number of free slots for runs of a queue, including reserved ones. The caller
// must hold the lock.
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

// passedPause is how long a worker claims no runs of a route after a claim has skipped a run of the
// route, unless the worker frees capacity earlier. Other workers may claim the skipped run
// meanwhile. The pause delays later runs of the route even if the worker has capacity for them.
const passedPause = time.Second

// passOver records the runs that a claim has skipped. It logs a warning, once per route, if a run
// has waited for long and uses more capacity than this worker has in total. Perhaps no worker can
// execute such a run.
func (r *runs) passOver(passed []store.SkippedRun) {
	if len(passed) == 0 {
		return
	}
	now := r.clock.Now()
	var warn []store.SkippedRun
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
		r.log.Warn("a run uses more of a local limit than this worker has", "run", p.Run, "workflow", p.Route.Workflow, "queue", queueOf(p.Route),
			"for", unservedAfter, "fix", "start a worker with more Capacity, or cancel the run")
	}
}

// awaited returns the routes for which this worker has free capacity and whose pause after a
// skipped run is over. The time from is when the next pause ends, or zero if there is none; see
// passedPause.
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
		case r.leftIn(queueOf(route)) > 0:
			wanted = append(wanted, route)
		}
	}
	return wanted, from
}

// shares partitions the routes into groups that are claimed separately: one group for each queue
// with a bound, and one for all other queues.
func (c *claimer) shares() [][]store.Route {
	routes := c.served.routes()
	switch {
	case len(routes) == 0:
		return nil
	case len(c.cfg.AtOnce) == 0:
		return [][]store.Route{routes}
	}
	var free []store.Route
	bounded := map[string][]store.Route{}
	for _, route := range routes {
		queue := queueOf(route)
		if c.cfg.AtOnce[queue] == 0 {
			free = append(free, route)
		} else {
			bounded[queue] = append(bounded[queue], route)
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

// slots bounds how many steps run at once. Run loops wait in a queue for a free slot.
type slots struct {
	most int
	free atomic.Int64

	mu   sync.Mutex
	line []*inputs
	in   map[*inputs]bool // the run loops in line
}

func newSlots(n int) *slots {
	s := &slots{most: n, in: map[*inputs]bool{}}
	s.free.Store(int64(n))
	return s
}

// acquire takes a slot for a step and reports true. If no slot is free, it appends the run loop to
// the queue and reports false.
func (s *slots) acquire(run *inputs) bool {
	if s.free.Add(-1) >= 0 {
		return true
	}
	s.free.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free.Add(-1) >= 0 { // a slot was freed after the first check
		return true
	}
	s.free.Add(1)
	if !s.in[run] {
		s.in[run] = true
		s.line = append(s.line, run)
	}
	return false
}

// offer notifies the first run loop in the queue if a slot is free.
func (s *slots) offer() {
	if s.free.Load() <= 0 {
		return
	}
	s.mu.Lock()
	var next *inputs
	if len(s.line) > 0 && s.free.Load() > 0 {
		next, s.line = s.line[0], s.line[1:]
		delete(s.in, next)
	}
	s.mu.Unlock()
	if next != nil {
		next.post(runloop.Input{Kind: runloop.Due})
	}
}

// taken returns the number of slots in use.
func (s *slots) taken() int { return s.most - int(max(s.free.Load(), 0)) }

func (s *slots) release() {
	s.free.Add(1)
	s.offer()
}

// unbounded contains the names of the limits that the code declares without a bound and that have
// no configuration in the store. A step that uses only such limits takes no permits and is executed
// in its run instead of in a run of its own. So an unbounded limit does not cost one run per step.
//
// The worker reads the configurations with its heartbeats. The first configuration of such a limit
// applies to steps that begin after the next heartbeat. Steps that began earlier are not affected;
// see [replay.Branch.Apart].
type unbounded struct {
	*env
	names atomic.Pointer[map[string]bool]
}

// look reads the configurations of the limits that the code does not bound, if the given partition
// stores them. If the partition does not answer, the previous result remains valid. Before the
// first result, each of these limits counts as bounded.
func (u *unbounded) look(ctx context.Context, partition int) {
	ids, home := permits.Unconfigured(u.store.Partitions())
	reader, ok := store.As[store.TurnReader](u.store)
	if len(ids) == 0 || home != partition || !ok {
		return
	}
	turns, err := reader.Turns(ctx, partition, ids)
	if err != nil {
		return
	}
	names := make(map[string]bool, len(ids))
	for i, id := range ids {
		names[id.Name] = turns[i].Config == store.LimitConfig{}
	}
	u.names.Store(&names)
}

// has reports whether the last read of the configurations found the limit unbounded.
func (u *unbounded) has(limit string) bool {
	names := u.names.Load()
	return names != nil && (*names)[limit]
}
