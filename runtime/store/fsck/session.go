package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// checkSessions checks invariant 6: owned runs and their unread items belong to sessions with
// leases.
func (c *checker) checkSessions() {
	for _, id := range slices.Sorted(maps.Keys(c.Owned)) {
		c.checkLease(id, "owned runs")
		for _, run := range c.Owned[id] {
			if r := c.Runs[run]; r != nil && r.QueueState == store.StateOwned && r.Owner != id {
				c.find(6, run, fmt.Sprintf("it is among the runs of session %s, its owner is %q", id, r.Owner), "two sessions believe that they own it")
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(c.Unread)) {
		c.checkLease(id, "unread set")
		for _, run := range c.Unread[id] {
			c.checkMail(id, run)
		}
	}
	for r := range c.runs {
		if r.QueueState != store.StateOwned {
			continue
		}
		if _, ok := c.Leases[r.Owner]; !ok {
			c.find(6, r.Run, fmt.Sprintf("its owner %q has no lease", r.Owner), "it is never recovered")
		}
		if len(r.Inbox) > 0 && !slices.Contains(c.unreadOf[r.Run], r.Owner) {
			c.find(6, r.Run, fmt.Sprintf("it has %d unread items, and is not in the unread set of its owner", len(r.Inbox)), "its owner does not read them")
		}
	}
}

func (c *checker) checkLease(id store.SessionID, of string) {
	l, ok := c.Leases[id]
	switch {
	case !ok:
		c.find(6, "", fmt.Sprintf("session %s has %s and no lease", id, of), "they are never recovered")
	case l.Session != id:
		c.find(6, "", fmt.Sprintf("the lease of session %s is that of %s", id, l.Session), "the session cannot be renewed")
	}
}

func (c *checker) checkMail(id store.SessionID, run event.RunID) {
	r := c.Runs[run]
	switch {
	case r == nil: // checkOrphans reports the missing run
	case r.QueueState != store.StateOwned || r.Owner != id:
		if r.QueueState != store.StateEnded {
			c.find(6, run, fmt.Sprintf("it is in the unread set of session %s, which does not own it", id), "the session is notified of runs that it does not own")
		}
	case len(r.Inbox) == 0:
		c.find(6, run, fmt.Sprintf("it is in the unread set of session %s, and its inbox is empty", id), "the session reads an empty inbox")
	}
}

// checkWakes checks invariant 15: ready runs are announced. It checks only partitions without
// sessions, because a worker of a session may have consumed the wake.
func (c *checker) checkWakes() {
	if len(c.Leases) > 0 {
		return
	}
	for _, route := range slices.SortedFunc(maps.Keys(c.Ready), compareRoutes) {
		if runs := c.Ready[route]; len(runs) > 0 && !c.Wakes[route] {
			c.find(15, runs[0], fmt.Sprintf("route %v has ready runs, but no wake-up, and no worker that could have received one", route), "a waiting worker is not notified of them")
		}
	}
}
