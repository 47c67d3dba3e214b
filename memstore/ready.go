package memstore

import (
	"cmp"
	"iter"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// route is the state of one route of runs in a partition.
type route struct {
	store.Route
	levels  []level // ready runs, highest priority first; only the sole level may be empty
	open    ordered // lines at which claims look
	blocked list
	runs    int  // of the route, wherever they are
	wake    bool // announces that there may be something to claim
}

// level is the ready runs of one priority. A run is always made ready behind
// all others of its priority, so a list is all the order there is.
type level struct {
	priority int
	runs     list
}

// head returns the run at which the next claim looks, or nil.
func (c *route) head() *run {
	var first *run
	if len(c.levels) > 0 {
		first = c.levels[0].runs.first
	}
	if len(c.open) > 0 && (first == nil || c.open[0].first().sooner(first)) {
		return c.open[0].first()
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
		if len(c.levels) == 1 && c.levels[0].runs.n == 0 {
			i, c.levels = 0, c.levels[:0]
		}
		c.levels = slices.Insert(c.levels, i, level{priority: r.priority})
	}
	c.levels[i].runs.push(r)
}

func (c *route) remove(r *run) {
	i, _ := c.level(r.priority)
	c.levels[i].runs.remove(r)
	if c.levels[i].runs.n == 0 && len(c.levels) > 1 {
		c.levels = slices.Delete(c.levels, i, i+1)
	}
}

func (c *route) level(priority int) (int, bool) {
	return slices.BinarySearchFunc(c.levels, priority, func(l level, p int) int { return cmp.Compare(p, l.priority) })
}

// ready yields the ready runs that wait for a worker only, in the order in which they
// would be claimed.
func (c *route) ready() iter.Seq[*run] {
	return func(yield func(*run) bool) {
		for i := range c.levels {
			for r := c.levels[i].runs.first; r != nil; r = r.after {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// claimable yields them and then those in lines at which claims look.
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

// next returns the run to be claimed first of several routes: by priority,
// then by how long it has been ready. It returns nil if there is none.
func next(routes []*route) *run {
	var best *run
	for _, c := range routes {
		r := c.head()
		if r == nil {
			continue
		}
		if best == nil || r.sooner(best) {
			best = r
		}
	}
	return best
}
