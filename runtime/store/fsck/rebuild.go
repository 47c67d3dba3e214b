package fsck

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var noTime time.Time

// dedupe is the minimum time for which stores keep the IDs of accepted items.
const dedupe = 24 * time.Hour

// rebuild sets the record of a run in m, derived from its log. It keeps values that are not in the
// log: the planned start time, the number of recoveries, and the priority if the log is so old that
// it has none.
func (d *decider) rebuild(m *store.Rebuild, r *store.RunState) {
	h, made := d.logs[r.Run], r.Record
	spec, rec := h.state.Spec, &made
	m.Record = rec
	rec.Chain = d.chainOf(r, h)
	rec.WorkflowID, rec.Route = spec.WorkflowID, store.Route{Queue: spec.RouteQueue(), Workflow: spec.Workflow}
	rec.Priority = cmp.Or(spec.Priority, rec.Priority)
	rec.Tags, rec.Parent, rec.Root = spec.Tags, spec.Parent, spec.Root
	rec.N, rec.Seq, rec.Last = uint64(len(r.Frames)), h.state.Seq, h.cid
	rec.Next, rec.Closing = h.state.Next, false
	rec.Recoveries = max(0, min(r.Recoveries, d.audited[r.Run]))
	if rec.CreatedAt.IsZero() {
		rec.CreatedAt = h.state.CreatedAt
	}
	rec.Retention = cmp.Or(max(spec.Retention, 0), max(r.Retention, 0), store.DefaultRetention)
	if d.imported[r.Run] {
		rec.Retention = max(rec.Retention, r.Retention)
	}
	d.put(r, h, rec)
	permits(r, h, rec)
	m.Hidden, m.Last = r.Hidden && rec.QueueState == store.StateEnded, d.wantLast(r.Run)
	rec.Rerun = cmp.Or(rec.Rerun, d.rerunOf(r))
	if rec.QueueState != store.StateEnded {
		rec.Rerun = ""
	}
	if rec.Rerun != "" || outOfFailureGroup(rec.QueueState, rec.Status, m.Hidden) {
		rec.Group = ""
	}
	m.Remember, m.Drop = d.items(r, rec.Chain)
}

// permits sets the uses of a run and the permits that it holds. No run has an owner after its
// rebuild. So it holds permits only if it holds them until its end and was claimed before. It then
// holds them even above the capacity of a limit, because its code relies on them. A run that was
// called off stays called off. If that state is lost, the run waits for its permits. The uses of a
// run are kept if its log does not contain them.
func permits(r *store.RunState, h *history, rec *store.Record) {
	if spec := h.state.Spec; len(spec.Uses) > 0 && spec.PermitSlot == 0 {
		rec.Uses, rec.Whole = nil, spec.Whole
		for _, u := range spec.Uses {
			rec.Uses = append(rec.Uses, store.Use{LimitID: store.LimitID{Name: u.Limit, Key: u.Key}, Weight: u.Weight})
		}
	}
	if h.state.Spec.Fair != "" {
		rec.Fair, rec.Share = h.state.Spec.Fair, max(h.state.Spec.Share, 1)
	}
	ended := rec.QueueState == store.StateEnded || len(rec.Uses) == 0
	rec.LeftQueue = r.LeftQueue && !ended
	switch {
	case ended || rec.LeftQueue:
		rec.Permits = false
	case rec.Whole:
		rec.Permits = r.Permits || lost(r) && h.state.Run != event.StatePending
	default:
		rec.Permits = false
	}
}

// put sets the queue state of a run in its record.
func (d *decider) put(r *store.RunState, h *history, rec *store.Record) {
	due := rec.Due
	rec.Owner, rec.Fence, rec.Due, rec.EndedAt = "", store.Fence{Epoch: d.epoch(r)}, noTime, noTime
	if rec.Status.Terminal() || rec.Status == "" {
		rec.Status = h.state.Status()
	}
	switch {
	case h.state.Run.Terminal():
		rec.QueueState, rec.Status, rec.EndedAt = store.StateEnded, h.state.Status(), r.EndedAt
		if rec.EndedAt.IsZero() {
			rec.EndedAt = h.state.EndedAt
		}
	case d.lines(r.Run):
		rec.QueueState = store.StateQueued
	case r.QueueState == store.StateParked && d.current(r, h) && d.mayPark(r, h):
		rec.QueueState, rec.Due = store.StateParked, due
		if due.IsZero() {
			rec.Due = d.Timers[r.Run]
		}
	case r.QueueState == store.StateBlocked && d.current(r, h):
		rec.QueueState = store.StateBlocked
	default:
		rec.QueueState = store.StateReady
	}
	if rec.Status == event.StatusBlocked && rec.QueueState != store.StateBlocked {
		rec.Status = h.state.Status()
	}
}

// epoch returns an epoch that was never used for the run.
func (c *checker) epoch(r *store.RunState) uint64 {
	epoch := r.Fence.Epoch
	if h := c.logs[r.Run]; h != nil {
		epoch = max(epoch, h.epoch)
	}
	return epoch + 1
}

// current reports whether the derived data of a run agree with its log.
func (c *checker) current(r *store.RunState, h *history) bool {
	return r.N == uint64(len(r.Frames)) && r.Seq == h.state.Seq && r.Last == h.cid && r.Fence.Epoch >= h.epoch
}

// mayPark reports whether a parked run can stay parked. Its inbox must be empty, or contain only
// the items with which the run was created. Its wake time must be known.
func (c *checker) mayPark(r *store.RunState, h *history) bool {
	timer, timed := c.Timers[r.Run]
	if len(r.Inbox) > 0 && !mayHold(r) || r.Due.IsZero() && timed && h.state.Run != event.StatePending {
		return false
	}
	if h.state.Run == event.StatePending { // the run was created for later, which its log does not contain
		return !r.Due.IsZero() && (!timed || timer.Equal(r.Due)) || r.Due.IsZero() && timed
	}
	return c.dueFits(r, &h.state)
}

// chainOf returns the first run of the chain of a run. It follows the logs. If a run of the chain
// was purged, it uses the records of later runs.
func (d *decider) chainOf(r *store.RunState, h *history) event.RunID {
	first, kept := r.Run, event.RunID("")
	for passed := map[event.RunID]bool{}; !passed[r.Run]; {
		passed[r.Run] = true
		if !lost(r) && r.Chain != r.Run {
			kept = r.Chain
		}
		before := h.state.Spec.ContinuedOf
		if before == "" {
			return r.Run
		}
		first = before
		b := d.Runs[before]
		if b == nil || d.logs[before] == nil || d.logs[before].state.Spec == nil {
			break
		}
		r, h = b, d.logs[before]
	}
	return cmp.Or(kept, first)
}

// items returns the accepted items to remember, and the positions of the items to remove from the
// inbox.
func (d *decider) items(r *store.RunState, chain event.RunID) (remember map[event.ItemID]time.Time, drop []int) {
	remember = map[event.ItemID]time.Time{}
	for _, i := range d.logs[r.Run].items {
		if _, ok := d.Seen[chain][i.id]; !ok && d.Now.Sub(i.at) < dedupe {
			remember[i.id] = i.at
		}
	}
	read, unread := d.received[chain], map[event.ItemID]bool{}
	for n, i := range r.Inbox {
		if i.ID == "" || read[i.ID] || unread[i.ID] {
			drop = append(drop, n)
			continue
		}
		unread[i.ID] = true
		if _, ok := d.Seen[chain][i.ID]; !ok {
			remember[i.ID] = d.Now
		}
	}
	return remember, drop
}

// reason returns the reason for the audit trail. It depends on the state in which the run was
// found.
func (d *decider) reason(r *store.RunState, h *history, to *store.Record) store.Reason {
	others := func(f Finding) bool { return f.Invariant != 9 }
	switch {
	case h.state.Run.Terminal() && r.QueueState != store.StateEnded:
		switch h.state.Run {
		case event.StateCompleted:
			return store.ReasonStuckCompleted
		case event.StateFailed:
			return store.ReasonStuckFailed
		}
		return store.ReasonStuckTerminal
	case !lost(r) && to.QueueState == r.QueueState && !slices.ContainsFunc(d.about[r.Run], others):
		return store.ReasonWrongRecord // only the workflow ID of the run leads to another run
	case h.state.Run.Terminal():
		return store.ReasonStuckTerminal
	case r.QueueState == store.StateOwned && to.QueueState != store.StateOwned && !d.claimed(r):
		return store.ReasonNoClaim
	case !d.stuck(r, h):
		return store.ReasonWrongRecord
	case h.state.Run == event.StatePending:
		return store.ReasonStuckCreated
	}
	if due := h.state.Due(); !due.IsZero() && retrying(&h.state, due) {
		return store.ReasonRetryAfterFailure
	}
	if due := d.dueOf(h); !due.IsZero() && !due.After(d.Now) {
		return store.ReasonTimeout
	}
	return store.ReasonStuckRunning
}

// claimed reports whether the run has a valid owner. If such an owner dies, the store recovers the
// run.
func (c *checker) claimed(r *store.RunState) bool {
	_, alive := c.Leases[r.Owner]
	return alive && r.Fence.Token != (event.Token{}) && slices.Contains(c.ownedBy[r.Run], r.Owner)
}

// stuck reports whether no worker would have continued the run at its due time.
func (c *checker) stuck(r *store.RunState, h *history) bool {
	switch r.QueueState {
	case store.StateReady:
		return !slices.Equal(c.readyIn[r.Run], []store.Route{r.Route}) || !routed(r, h) || !c.current(r, h) || c.unannounced(r)
	case store.StateParked:
		timer, timed := c.Timers[r.Run]
		return len(r.Inbox) > 0 && !mayHold(r) || timed == r.Due.IsZero() || !timer.Equal(r.Due) || !c.dueFits(r, &h.state) || !c.current(r, h)
	case store.StateOwned:
		return !c.current(r, h)
	case store.StateQueued:
		return !slices.Contains(c.Lines[r.WorkflowID], r.Run) || c.Active[r.WorkflowID] == ""
	case store.StateBlocked:
		return !c.current(r, h)
	}
	return true
}

func (c *checker) unannounced(r *store.RunState) bool { return len(c.Leases) == 0 && !c.Wakes[r.Route] }

// routed reports whether the route of a run is the one that its log describes.
func routed(r *store.RunState, h *history) bool {
	return r.Route.Workflow == h.state.Spec.Workflow && h.state.Spec.OnQueue(r.Route.Queue)
}

// dueOf returns the next due time of a run, which includes the time limit of the run.
func (c *checker) dueOf(h *history) time.Time {
	due := h.state.Due()
	if limit := h.state.Spec.Timeout; limit > 0 {
		if end := h.state.CreatedAt.Add(limit); due.IsZero() || end.Before(due) {
			due = end
		}
	}
	return due
}

// retrying reports whether the next attempt of a step is due at the given time.
func retrying(f *event.LogState, due time.Time) bool {
	for o := range f.Opens {
		if o.Entity == event.EntityStep && o.State == event.StatePending && o.Due.Equal(due) {
			return true
		}
	}
	return false
}
