package fsck

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// checkRecord checks invariant 4: the derived data of a run equal those computed from its log.
func (c *checker) checkRecord(r *store.RunState, h *history) {
	differs := func(what string, kept, logged any) {
		if kept != logged {
			c.find(4, r.Run, fmt.Sprintf("its record has %s %q, the log has %q", what, kept, logged), "searches and routing use the wrong value")
		}
	}
	terminal := h.state.Run.Terminal()
	if ended := r.QueueState == store.StateEnded; ended != terminal {
		c.find(4, r.Run, fmt.Sprintf("it is %s, its log ends as %s", r.QueueState, h.state.Run), "it would run for ever or never again")
	}
	if terminal {
		differs("status", r.Status, h.state.Status())
	} else if r.Status.Terminal() {
		c.find(4, r.Run, fmt.Sprintf("its status is %s, its log has not ended", r.Status), "a wrong end is reported")
	}
	spec := h.state.Spec
	differs("workflow id", r.WorkflowID, spec.WorkflowID)
	differs("workflow", r.Route.Workflow, spec.Workflow)
	if !spec.OnQueue(r.Route.Queue) {
		differs("queue", r.Route.Queue, spec.RouteQueue())
	}
	differs("parent", r.Parent, spec.Parent)
	differs("root", r.Root, spec.Root)
	if spec.Retention > 0 && (!c.imported[r.Run] || r.Retention < spec.Retention) { // the retention of an imported run counts from its import
		differs("retention", r.Retention, spec.Retention)
	}
	if spec.Fair != "" {
		differs("fair key", r.Fair, spec.Fair)
	}
	if spec.PermitSlot == 0 && len(spec.Uses) > 0 && len(r.Uses) == 0 {
		c.find(4, r.Run, fmt.Sprintf("its record has no limits, the log has the limits %v", spec.Uses), "it begins without permits")
	}
	if !maps.Equal(r.Tags, spec.Tags) {
		c.find(4, r.Run, fmt.Sprintf("its record has tags %v, the log has %v", r.Tags, spec.Tags), "it is not found by its tags")
	}
}

// checkQueueState checks invariant 5: a run is in exactly one queue state. checkEnded checks ended
// runs.
func (c *checker) checkQueueState(r *store.RunState) {
	if r.QueueState < store.StateReady || r.QueueState > store.StateEnded {
		c.find(5, r.Run, fmt.Sprintf("it is in queue state %d, which does not exist", r.QueueState), "it never runs")
		return
	}
	if r.QueueState == store.StateEnded {
		return
	}
	ready, owned := c.readyIn[r.Run], c.ownedBy[r.Run]
	switch {
	case r.Waits() && len(ready) > 0:
		c.find(5, r.Run, fmt.Sprintf("it waits for permits, and is among the ready runs of %v", ready), "it would be claimed without them")
	case r.Waits(): // checkWaiting checks this case
	case r.QueueState == store.StateReady && (len(ready) != 1 || ready[0] != r.Route):
		c.find(5, r.Run, fmt.Sprintf("it is ready in route %v, and among the ready runs of %v", r.Route, ready), "it is never claimed, claimed twice, or claimed by a worker that cannot execute it")
	case r.QueueState != store.StateReady && len(ready) > 0:
		c.find(5, r.Run, fmt.Sprintf("it is %s, and among the ready runs of %v", r.QueueState, ready), "it could be claimed")
	}
	switch {
	case r.QueueState == store.StateOwned && (len(owned) != 1 || owned[0] != r.Owner):
		c.find(5, r.Run, fmt.Sprintf("it is owned by %q, and among the runs of %q", r.Owner, owned), "it may never be recovered")
	case r.QueueState != store.StateOwned && len(owned) > 0:
		c.find(5, r.Run, fmt.Sprintf("it is %s, and among the runs of %q", r.QueueState, owned), "it could be recovered although no worker owns it")
	}
	if fenced := r.Owner != "" && r.Fence.Token != (event.Token{}); r.QueueState == store.StateOwned && !fenced {
		c.find(5, r.Run, fmt.Sprintf("it is owned with owner %q and token %s", r.Owner, r.Fence.Token), "no worker can write to it")
	}
	if r.QueueState != store.StateOwned && (r.Owner != "" || r.Fence.Token != (event.Token{})) {
		c.find(5, r.Run, fmt.Sprintf("it is %s with owner %q and token %s", r.QueueState, r.Owner, r.Fence.Token), "a former owner could write to it")
	}
}

// checkReadyOrder checks that ready runs are sorted by priority (invariant 5).
func (c *checker) checkReadyOrder() {
	for _, route := range slices.SortedFunc(maps.Keys(c.Ready), compareRoutes) {
		var before *store.RunState
		for _, id := range c.Ready[route] {
			r := c.Runs[id]
			if r == nil {
				continue
			}
			if before != nil && r.Priority > before.Priority {
				c.find(5, id, fmt.Sprintf("it has priority %d and comes after run %s with priority %d", r.Priority, before.Run, before.Priority), "it is claimed too late")
			}
			before = r
		}
	}
}

// checkParked checks invariant 7: a parked run has read its inbox and is woken at the right time.
func (c *checker) checkParked(r *store.RunState, h *history) {
	timer, timed := c.Timers[r.Run]
	switch {
	case r.QueueState == store.StateEnded: // checkEnded checks this case
	case r.QueueState != store.StateParked:
		if timed || !r.Due.IsZero() {
			c.find(7, r.Run, fmt.Sprintf("it is %s, and due at %v with timer %v", r.QueueState, r.Due, timer), "it would be made ready in a wrong queue state")
		}
	case timed == r.Due.IsZero() || !timer.Equal(r.Due):
		c.find(7, r.Run, fmt.Sprintf("it is due at %v, its timer fires at %v", r.Due, timer), "it is woken at a wrong time or never")
	case !c.dueFits(r, &h.state):
		c.find(7, r.Run, fmt.Sprintf("it is due at %v, its log at %v", r.Due, h.state.Due()), "it is woken at a wrong time or never")
	}
	if r.QueueState == store.StateParked && len(r.Inbox) > 0 && !mayHold(r) {
		c.find(7, r.Run, fmt.Sprintf("it is parked with %d unread items", len(r.Inbox)), "it will not be notified of them")
	}
}

// mayHold reports whether a parked run may have items in its inbox. A run for later may have been
// created with items, which wait until it is due. After its first claim a run is parked only with
// an empty inbox, and new items wake it.
func mayHold(r *store.RunState) bool { return r.N == 1 && !r.Due.IsZero() }

// dueFits reports whether the wake time of a parked run agrees with its log. A run that has not
// started may have any wake time, because it was created for later. The wake time may also be the
// time limit of the run, which is not among the waits of the log.
func (c *checker) dueFits(r *store.RunState, f *event.LogState) bool {
	if f.Run == event.StatePending {
		return true
	}
	due := f.Due()
	allowed := []time.Time{due}
	if limit := f.Spec.Timeout; limit > 0 {
		for _, since := range []time.Time{f.CreatedAt, f.StartedAt} {
			if end := since.Add(limit); due.IsZero() || end.Before(due) {
				allowed = append(allowed, end)
			}
		}
	}
	return slices.ContainsFunc(allowed, func(t time.Time) bool {
		return t.IsZero() == r.Due.IsZero() && t.UnixMilli() == r.Due.UnixMilli()
	})
}

// checkEnded checks invariant 8: an ended run has only its log.
func (c *checker) checkEnded(r *store.RunState) {
	purge, purged := c.Purges[r.Run]
	if r.QueueState != store.StateEnded {
		if purged {
			c.find(8, r.Run, fmt.Sprintf("it is %s, and is due to be purged at %v", r.QueueState, purge), "it would be purged before its end")
		}
		if r.Hidden {
			c.find(8, r.Run, fmt.Sprintf("it is %s, and was deleted", r.QueueState), "it continues, and cannot be found")
		}
		return
	}
	if want := c.purgeTime(r); (purged || !c.heldBack(r)) && !purge.Equal(want) {
		c.find(8, r.Run, fmt.Sprintf("it has ended, and is due to be purged at %v instead of %v", purge, want), "it is purged too early, or never")
	}
	left := func(there bool, what string) {
		if there {
			c.find(8, r.Run, "it has ended and still has "+what, "it would be changed after its end")
		}
	}
	_, timed := c.Timers[r.Run]
	left(len(r.Inbox) > 0, "items in its inbox")
	left(len(c.readyIn[r.Run]) > 0, "an entry among the ready runs")
	left(timed || !r.Due.IsZero(), "a due time or a timer")
	left(len(c.ownedBy[r.Run]) > 0, "an entry among the owned runs")
	left(len(c.unreadOf[r.Run]) > 0, "an entry among the runs with unread items")
	left(r.Owner != "" || r.Fence.Token != (event.Token{}), "an owner or a token")
	left(len(c.linesOf[r.Run]) > 0, "an entry in the queue of a workflow id")
}

// heldBack reports whether a reason holds back the purge of an ended run.
func (c *checker) heldBack(r *store.RunState) bool {
	return r.CreatedBy != "" || len(c.records[r.Run]) > 0 || c.later[r.Run] > 0 || len(c.Kept[r.Run]) > 0
}

// purgeTime returns the time from which an ended run may be purged.
func (c *checker) purgeTime(r *store.RunState) time.Time {
	keep := r.Retention
	if r.Hidden {
		keep = 0
	}
	at := store.PurgeTime(r.CreatedAt, r.EndedAt, keep)
	if whole := at.Truncate(time.Millisecond); whole.Before(at) { // round up to the precision of stores
		at = whole.Add(time.Millisecond)
	}
	return at
}

// checkRecoveries checks invariant 17: the number of recoveries agrees with the audit trail.
func (c *checker) checkRecoveries(r *store.RunState) {
	if n := c.audited[r.Run]; r.Recoveries < 0 || r.Recoveries > n {
		c.find(17, r.Run, fmt.Sprintf("it counts %d recoveries, the audit trail %d", r.Recoveries, n), "it is set aside too early, or never")
	}
}
