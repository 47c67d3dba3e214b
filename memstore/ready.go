package memstore

import (
	"cmp"
	"iter"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// route is the state of a route in a partition.
type route struct {
	store.Route
	levels  []level // ready runs by priority, highest first; only a single level may be empty
	open    ordered // open limiter queues
	blocked list[*run]
	runs    int  // number of all runs of the route
	parked  int  // number of parked and queued runs of the route
	wake    bool // there may be a run to claim
}

// level contains the ready runs of one priority. A run without a fairness key becomes ready after
// all others of its priority, so a list is sufficient. A run with a fairness key has a position
// among them.
type level struct {
	priority int
	runs     list[*run]
	fair     timers // runs with fairness keys, sorted by position
}

// first returns the first run of the level, or nil if it is empty.
func (l *level) first() *run {
	first := l.runs.first
	if fair := l.fair.first(); fair != nil && (first == nil || fair.order < first.order) {
		return fair
	}
	return first
}

func (l *level) empty() bool { return l.runs.n == 0 && len(l.fair) == 0 }

// add inserts a run before all runs with a larger order.
func (l *level) add(r *run) {
	if r.limited != nil && r.fair != "" && r.place != 0 {
		r.ranked = true
		l.fair.add(r, int64(r.order))
		return
	}
	l.runs.insert(r)
}

func (l *level) remove(r *run) {
	if r.limited != nil && r.ranked {
		r.ranked = false
		l.fair.remove(r)
		return
	}
	l.runs.remove(r)
}

// all yields the runs in order. It returns false if yield has returned false.
func (l *level) all(yield func(*run) bool) bool {
	fair := slices.Clone(l.fair)
	slices.SortFunc(fair, func(a, b timer) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.run.id, b.run.id)) })
	for r := l.runs.first; r != nil || len(fair) > 0; {
		if len(fair) > 0 && (r == nil || fair[0].run.order < r.order) {
			if !yield(fair[0].run) {
				return false
			}
			fair = fair[1:]
			continue
		}
		if !yield(r) {
			return false
		}
		r = r.after
	}
	return true
}

// head returns the run that the next claim visits, or nil if there is none. It omits the runs that
// free has skipped.
func (c *route) head(free *protocol.FreeCapacity) *run {
	var first *run
	if free == nil {
		if len(c.levels) > 0 {
			first = c.levels[0].first()
		}
		if len(c.open) > 0 && (first == nil || c.open[0].first().sooner(first)) {
			first = c.open[0].first()
		}
		return first
	}
	for r := range c.ready() {
		if first = r; !free.HasSkipped(r.id) {
			break
		}
		first = nil
	}
	for _, l := range c.open {
		if r := l.first(); !free.HasSkipped(r.id) {
			if first == nil || r.sooner(first) {
				first = r
			}
			break
		}
	}
	return first
}

// sooner reports whether a ready run comes before another one.
func (r *run) sooner(other *run) bool {
	return r.priority > other.priority || r.priority == other.priority && r.order < other.order
}

func (c *route) push(r *run) {
	i, found := c.level(r.priority)
	if !found {
		if len(c.levels) == 1 && c.levels[0].empty() {
			i, c.levels = 0, c.levels[:0]
		}
		c.levels = slices.Insert(c.levels, i, level{priority: r.priority})
	}
	c.levels[i].add(r)
}

func (c *route) remove(r *run) {
	i, _ := c.level(r.priority)
	c.levels[i].remove(r)
	if c.levels[i].empty() && len(c.levels) > 1 {
		c.levels = slices.Delete(c.levels, i, i+1)
	}
}

func (c *route) level(priority int) (int, bool) {
	return slices.BinarySearchFunc(c.levels, priority, func(l level, p int) int { return cmp.Compare(p, l.priority) })
}

// ready yields the ready runs that wait only for a worker, in the order in which they would be
// claimed.
func (c *route) ready() iter.Seq[*run] {
	return func(yield func(*run) bool) {
		for i := range c.levels {
			if !c.levels[i].all(yield) {
				return
			}
		}
	}
}

// claimable yields the runs of ready, and then the runs in open limiter queues.
func (c *route) claimable() iter.Seq[*run] {
	return func(yield func(*run) bool) {
		for r := range c.ready() {
			if !yield(r) {
				return
			}
		}
		for _, l := range c.open {
			for r := range l.runs {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// next returns the first run to claim of several routes, or nil if there is none. The order is by
// priority, then by the time at which the runs became ready.
func next(routes []*route, free *protocol.FreeCapacity) *run {
	var best *run
	for _, c := range routes {
		r := c.head(free)
		if r == nil {
			continue
		}
		if best == nil || r.sooner(best) {
			best = r
		}
	}
	return best
}
