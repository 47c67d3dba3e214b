package fsck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// checkPermits checks invariant 19 for limits. The owner of a run that uses limits holds its
// permits. Without an owner, only runs that hold permits until their end hold them. The counts of
// the limits must equal these permits.
func (c *checker) checkPermits() {
	held, waits := map[store.LimitID]int{}, map[store.LimitID]int{}
	for r := range c.runs {
		if len(r.Uses) == 0 {
			if r.Permits || r.LeftQueue {
				c.find(19, r.Run, "it uses no limit, and has permits or has left a limiter queue", "they are never returned")
			}
			continue
		}
		kept := r.Whole && r.QueueState != store.StateEnded
		switch {
		case r.Permits && r.QueueState != store.StateOwned && !kept:
			c.find(19, r.Run, fmt.Sprintf("it is %s, and has permits", r.QueueState), "other runs never get them")
		case !r.Permits && r.QueueState == store.StateOwned && !r.LeftQueue:
			c.find(19, r.Run, "it is owned without its permits", "more runs are in progress than its limits allow")
		}
		for _, u := range r.Uses {
			switch {
			case r.Permits:
				held[u.LimitID] += u.Weight
			case r.Waits():
				waits[u.LimitID] += u.Weight
			}
		}
	}
	known := map[store.LimitID]bool{}
	for _, ids := range []map[store.LimitID]int{held, waits} {
		for id := range ids {
			known[id] = true
		}
	}
	for id := range c.Limits {
		known[id] = true
	}
	for _, id := range slices.SortedFunc(maps.Keys(known), compareLimits) {
		if l := c.Limits[id]; l.Held != held[id] || l.Waits != waits[id] {
			c.find(19, "", fmt.Sprintf("limit %s counts a weight of %d as held and %d as waiting, its runs have %d and %d", id, l.Held, l.Waits, held[id], waits[id]),
				"the limit admits too many runs, or too few")
		}
	}
	if !c.cfg.incomplete {
		c.checkAway(known)
	}
}

// checkAway checks invariant 19 for the runs that wait for another limit first. Their counts must
// equal those computed from the limiter queues.
func (c *checker) checkAway(known map[store.LimitID]bool) {
	away := map[store.LimitID]int{}
	for i := range c.Waiting {
		l := &c.Waiting[i]
		for n, u := range l.Uses {
			if l.Closed && !u.Local && l.Stands>>n&1 == 0 {
				away[u.LimitID] += u.Weight * len(l.Runs)
				known[u.LimitID] = true
			}
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(known), compareLimits) {
		if l := c.Limits[id]; l.Away != away[id] {
			c.find(19, "", fmt.Sprintf("limit %s counts a weight of %d as waiting for another limit first, the limiter queues have %d", id, l.Away, away[id]),
				"the limit refuses starts that it should accept, or accepts too many")
		}
	}
}

// checkFairKeys checks invariant 19 for fairness keys: each flow counts its ready runs.
func (c *checker) checkFairKeys() {
	runs := map[store.FairID]int{}
	for r := range c.runs {
		if r.InFairKey() {
			runs[store.FairID{Route: r.Route, Priority: r.Priority}]++
		}
	}
	all := maps.Clone(runs)
	maps.Copy(all, c.FairKeys)
	for _, id := range slices.SortedFunc(maps.Keys(all), compareFairKeys) {
		if c.FairKeys[id] != runs[id] {
			c.find(19, "", fmt.Sprintf("fairness keys of workflow %s on queue %s with priority %d count %d runs, but have %d", id.Route.Workflow, id.Route.Queue, id.Priority, c.FairKeys[id], runs[id]),
				"fairness keys get wrong shares")
		}
	}
}

func compareFairKeys(a, b store.FairID) int {
	return cmp.Or(strings.Compare(a.Route.Queue, b.Route.Queue), strings.Compare(a.Route.Workflow, b.Route.Workflow), cmp.Compare(a.Priority, b.Priority))
}

func compareLimits(a, b store.LimitID) int {
	if n := strings.Compare(a.Name, b.Name); n != 0 {
		return n
	}
	return strings.Compare(a.Key, b.Key)
}

// checkWaiting checks invariant 20. A run that waits for permits is in one limiter queue, which has
// its route and its uses. Claims omit no queue that may be admitted.
func (c *checker) checkWaiting() {
	in := map[event.RunID]int{}
	for i := range c.Waiting {
		l := &c.Waiting[i]
		for n, run := range l.Runs {
			in[run]++
			r := c.Runs[run]
			switch {
			case r == nil: // checkOrphans reports the missing run
			case !r.Waits():
				c.find(20, run, fmt.Sprintf("it is %s, but in a limiter queue", r.QueueState), "it could be claimed")
			case r.Route != l.Route || !slices.Equal(r.Uses, l.Uses):
				c.find(20, run, "it is in a limiter queue for permits that it does not use", "it is claimed too early, too late, or by a worker that cannot execute it")
			case n > 0 && c.Runs[l.Runs[n-1]] != nil && r.Priority > c.Runs[l.Runs[n-1]].Priority:
				c.find(20, run, fmt.Sprintf("it has priority %d and comes after run %s", r.Priority, l.Runs[n-1]), "it is claimed too late")
			}
		}
		if len(l.Runs) > 0 && l.Closed && !c.cfg.incomplete && c.mayGo(i) {
			c.find(20, l.Runs[0], "claims skip its limiter queue, although its permits are available", "it waits for ever")
		}
	}
	for r := range c.runs {
		if n := in[r.Run]; r.Waits() && n != 1 {
			c.find(20, r.Run, fmt.Sprintf("it waits for permits, and is in %d limiter queues", n), "it is never claimed, or claimed twice")
		}
	}
}

// mayGo reports whether the closed limiter queue i may be admitted although no recheck is scheduled
// for it.
func (c *checker) mayGo(i int) bool {
	l := &c.Waiting[i]
	if !l.Until.IsZero() {
		return false
	}
	if len(c.lacks(l)) > 0 {
		return false
	}
	for _, u := range l.Uses {
		for j := range i {
			if !u.Local && c.keepsBack(&c.Waiting[j], u) {
				return false
			}
		}
	}
	return true
}

// checkStands checks invariant 20 for the limits at which a closed queue counts. These are the
// limits that admit it, and the first limit that does not. checkStands returns early in two cases.
// A queue that waits for a rate and a nested queue may be one recheck late. A run with a fairness
// key may have the position of a run on another route.
func (c *checker) checkStands() {
	counts := map[store.LimitID]bool{}
	routes, fair := map[store.Route]bool{}, false
	for i := range c.Waiting {
		l := &c.Waiting[i]
		if l.Closed && !l.Until.IsZero() || l.Owed || len(l.Uses) == 0 || l.Uses[0].Nested {
			return
		}
		routes[l.Route] = true
		fair = fair || len(l.Runs) > 0 && c.Runs[l.Runs[0]] != nil && c.Runs[l.Runs[0]].Fair != ""
	}
	if fair && len(routes) > 1 {
		return
	}
	for i := range c.Waiting {
		l := &c.Waiting[i]
		if at := c.countsAt(l, counts); l.Closed && l.Stands != at && len(l.Runs) > 0 {
			c.find(20, l.Runs[0], fmt.Sprintf("its limiter queue counts at the limits %b of those that it uses, want %b", l.Stands, at), "it delays other runs, or other runs overtake it")
		}
		if l.Closed || l.Admitted {
			for _, u := range l.At() {
				counts[u.LimitID] = true
			}
		}
	}
}

// countsAt returns the uses at which a closed queue counts. counts contains the limits at which
// earlier queues count.
func (c *checker) countsAt(l *store.WaitingQueue, counts map[store.LimitID]bool) (at uint16) {
	order := store.StandingOrder(l.Uses)
	for _, i := range order {
		if c.Limits[l.Uses[i].LimitID].Config.Paused {
			return 1 << i
		}
	}
	for _, i := range order {
		u := l.Uses[i]
		if at |= 1 << i; counts[u.LimitID] || !c.hasFree(u) {
			break
		}
	}
	return at
}

// lacks returns the limits that lack free capacity for a queue.
func (c *checker) lacks(l *store.WaitingQueue) (full []store.LimitID) {
	for _, u := range l.Uses {
		if !c.hasFree(u) {
			full = append(full, u.LimitID)
		}
	}
	return full
}

func (c *checker) hasFree(u store.Use) bool {
	s := c.Limits[u.LimitID]
	return !s.Config.Paused && (s.Config.AtOnce == 0 || s.Held+u.Weight <= s.Config.AtOnce) && !s.Next.After(c.Now)
}

// keepsBack reports whether a queue holds back later queues at a limit. It holds back a nested
// queue only if it waits for no other limit.
func (c *checker) keepsBack(l *store.WaitingQueue, u store.Use) bool {
	if !l.Closed && !l.Admitted || !slices.ContainsFunc(l.At(), func(o store.Use) bool { return o.LimitID == u.LimitID }) {
		return false
	}
	full := c.lacks(l)
	return !u.Nested || len(full) == 1 && full[0] == u.LimitID || len(full) == 0 && l.Admitted
}

// waiting returns the runs in limiter queues.
func (c *checker) waiting() []event.RunID {
	var runs []event.RunID
	for _, l := range c.Waiting {
		runs = append(runs, l.Runs...)
	}
	return runs
}
