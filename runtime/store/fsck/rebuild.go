package fsck

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var noTime time.Time

// dedupe is how long at least stores remember what they have accepted.
const dedupe = 24 * time.Hour

// rebuild makes the record of a run from its log. What the log does not
// say is kept as it is: a priority of zero, which older logs have, when it was created
// for later, and how often it was recovered.
func (p *planner) rebuild(r *store.RunState, h *history) store.RunRepair {
	spec, m := h.state.Spec, store.RunRepair{Record: r.Record}
	rec := &m.Record
	rec.Chain = p.chainOf(r, h)
	rec.WorkflowID, rec.Route = spec.WorkflowID, store.Route{Queue: spec.Queue, Workflow: spec.Workflow}
	rec.Priority = cmp.Or(spec.Priority, rec.Priority)
	rec.Tags, rec.Parent, rec.Root = spec.Tags, spec.Parent, spec.Root
	rec.N, rec.Seq, rec.Last = uint64(len(r.Frames)), h.state.Seq, h.cid
	rec.Next, rec.Closing = h.state.Next, false
	rec.Recoveries = max(0, min(r.Recoveries, p.audited[r.Run]))
	if rec.CreatedAt.IsZero() {
		rec.CreatedAt = h.state.CreatedAt
	}
	rec.Retention = cmp.Or(max(spec.Retention, 0), max(r.Retention, 0), store.DefaultRetention)
	if p.imported[r.Run] {
		rec.Retention = max(rec.Retention, r.Retention)
	}
	p.put(r, h, rec)
	permits(r, h, rec)
	m.Hidden = r.Hidden && rec.QueueState == store.StateEnded
	rec.Rerun = cmp.Or(rec.Rerun, p.rerunOf(r))
	if rec.QueueState != store.StateEnded {
		rec.Rerun = ""
	}
	if rec.Rerun != "" || outOfTrouble(rec.QueueState, rec.Status, m.Hidden) {
		rec.Group = ""
	}
	m.Remember, m.Drop = p.items(r, rec.Chain)
	return m
}

// permits says what a run uses, and what it has of that: an owner has the permits, and so has
// a whole run from its first claim on, also above the capacity of a limit: its code relies
// on it. If nobody knows that a run was called off, it waits for its permits. The uses of a
// run whose log does not say them stay.
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
	rec.CalledOff = r.CalledOff && !ended
	switch {
	case ended || rec.CalledOff:
		rec.Permits = false
	case rec.QueueState == store.StateOwned:
		rec.Permits = true
	case rec.Whole:
		rec.Permits = r.Permits || lost(r) && h.state.Run != event.StatePending
	default:
		rec.Permits = false
	}
}

// put says where a run belongs.
func (p *planner) put(r *store.RunState, h *history, rec *store.Record) {
	owner, fence := rec.Owner, rec.Fence
	due := rec.Due
	rec.Owner, rec.Fence, rec.Due, rec.EndedAt = "", store.Fence{Epoch: p.epoch(r)}, noTime, noTime
	if rec.Status.Terminal() || rec.Status == "" {
		rec.Status = h.state.Status()
	}
	switch {
	case h.state.Run.Terminal():
		rec.QueueState, rec.Status, rec.EndedAt = store.StateEnded, h.state.Status(), r.EndedAt
		if rec.EndedAt.IsZero() {
			rec.EndedAt = h.state.EndedAt
		}
	case p.lines(r.Run):
		rec.QueueState = store.StateQueued
	case p.stays(r, h, rec):
		rec.QueueState, rec.Owner, rec.Fence = store.StateOwned, owner, fence
	case r.QueueState == store.StateParked && p.current(r, h) && p.mayPark(r, h):
		rec.QueueState, rec.Due = store.StateParked, due
		if due.IsZero() {
			rec.Due = p.Timers[r.Run]
		}
	case r.QueueState == store.StateBlocked && p.current(r, h):
		rec.QueueState = store.StateBlocked
	default:
		rec.QueueState = store.StateReady
	}
	if rec.Status == event.StatusBlocked && rec.QueueState != store.StateBlocked {
		rec.Status = h.state.Status()
	}
}

// epoch returns an epoch that was never given out.
func (c *checker) epoch(r *store.RunState) uint64 {
	epoch := r.Fence.Epoch
	if h := c.logs[r.Run]; h != nil {
		epoch = max(epoch, h.epoch)
	}
	return epoch + 1
}

// current reports whether what is kept of a run ends where its log ends.
func (c *checker) current(r *store.RunState, h *history) bool {
	return r.N == uint64(len(r.Frames)) && r.Seq == h.state.Seq && r.Last == h.cid && r.Fence.Epoch >= h.epoch
}

// healthy reports whether a run is owned, and nothing that its owner relies on is
// broken.
func (c *checker) healthy(r *store.RunState) bool {
	lease, alive := c.Leases[r.Owner]
	_, timed := c.Timers[r.Run]
	unread := c.unreadOf[r.Run]
	return r.QueueState == store.StateOwned && alive && !lease.Recovering && r.Owner != "" && r.Fence.Token != (event.Token{}) &&
		slices.Equal(c.ownedBy[r.Run], []store.SessionID{r.Owner}) && len(c.readyIn[r.Run]) == 0 && !timed && r.Due.IsZero() &&
		(len(r.Inbox) == 0 && len(unread) == 0 || len(r.Inbox) > 0 && slices.Equal(unread, []store.SessionID{r.Owner}))
}

// stays reports whether an owned run is left with its owner: if only what is said
// about it is wrong, so that the owner need not know. There must be something
// wrong that is said about it: by that the repair can tell that nobody else has
// made it.
func (p *planner) stays(r *store.RunState, h *history, rec *store.Record) bool {
	_, purged := p.Purges[r.Run]
	return p.healthy(r) && p.current(r, h) && r.Route == rec.Route && r.WorkflowID == rec.WorkflowID && !purged && !r.Hidden &&
		(differs(r.Tags, rec.Tags) || r.Parent != rec.Parent || r.Root != rec.Root || r.Retention != rec.Retention)
}

func differs(a, b map[string]string) bool {
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return true
		}
	}
	return len(a) != len(b)
}

// mayPark reports whether a parked run can go on waiting: it has read its inbox, or
// holds what it was created with, and the time of its wake is known.
func (c *checker) mayPark(r *store.RunState, h *history) bool {
	timer, timed := c.Timers[r.Run]
	if len(r.Inbox) > 0 && !mayHold(r) || r.Due.IsZero() && timed && h.state.Run != event.StatePending {
		return false
	}
	if h.state.Run == event.StatePending { // created for later, which its log does not say
		return !r.Due.IsZero() && (!timed || timer.Equal(r.Due)) || r.Due.IsZero() && timed
	}
	return c.dueFits(r, &h.state)
}

// chainOf returns the first run of the chain of a run: as the logs tell it, and where
// a run of the chain was purged, as it is kept of those after that.
func (p *planner) chainOf(r *store.RunState, h *history) event.RunID {
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
		b := p.Runs[before]
		if b == nil || p.logs[before] == nil || p.logs[before].state.Spec == nil {
			break
		}
		r, h = b, p.logs[before]
	}
	return cmp.Or(kept, first)
}

// items says which accepted items must be remembered, and which stand in the
// inbox and should not.
func (p *planner) items(r *store.RunState, chain event.RunID) (remember map[event.ItemID]time.Time, drop []int) {
	remember = map[event.ItemID]time.Time{}
	for _, i := range p.logs[r.Run].items {
		if _, ok := p.Seen[chain][i.id]; !ok && p.Now.Sub(i.at) < dedupe {
			remember[i.id] = i.at
		}
	}
	read, unread := p.received[chain], map[event.ItemID]bool{}
	for n, i := range r.Inbox {
		if i.ID == "" || read[i.ID] || unread[i.ID] {
			drop = append(drop, n)
			continue
		}
		unread[i.ID] = true
		if _, ok := p.Seen[chain][i.ID]; !ok {
			remember[i.ID] = p.Now
		}
	}
	return remember, drop
}

// reason names the state in which a run was found.
func (p *planner) reason(r *store.RunState, h *history, to *store.Record) store.Reason {
	switch {
	case h.state.Run.Terminal() && r.QueueState != store.StateEnded:
		switch h.state.Run {
		case event.StateCompleted:
			return store.ReasonStuckCompleted
		case event.StateFailed:
			return store.ReasonStuckFailed
		}
		return store.ReasonStuckTerminal
	case h.state.Run.Terminal():
		return store.ReasonStuckTerminal
	case r.QueueState == store.StateOwned && to.QueueState != store.StateOwned && !p.claimed(r):
		return store.ReasonNoClaim
	case !p.stuck(r, h):
		return store.ReasonWrongRecord
	case h.state.Run == event.StatePending:
		return store.ReasonStuckCreated
	}
	if due := h.state.Due(); !due.IsZero() && retrying(&h.state, due) {
		return store.ReasonRetryAfterFailure
	}
	if due := p.dueOf(h); !due.IsZero() && !due.After(p.Now) {
		return store.ReasonTimeout
	}
	return store.ReasonStuckRunning
}

// claimed reports whether the owner of an owned run would be noticed to die, and
// believes that it owns the run.
func (c *checker) claimed(r *store.RunState) bool {
	_, alive := c.Leases[r.Owner]
	return alive && r.Fence.Token != (event.Token{}) && slices.Contains(c.ownedBy[r.Run], r.Owner)
}

// stuck reports whether nobody would have gone on with a run when it is time to.
func (c *checker) stuck(r *store.RunState, h *history) bool {
	switch r.QueueState {
	case store.StateReady:
		return !slices.Equal(c.readyIn[r.Run], []store.Route{r.Route}) || r.Route != routeOf(h) || !c.current(r, h) || c.unannounced(r)
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

func routeOf(h *history) store.Route {
	return store.Route{Queue: h.state.Spec.Queue, Workflow: h.state.Spec.Workflow}
}

// dueOf returns when something in a run is due, its own limit included.
func (c *checker) dueOf(h *history) time.Time {
	due := h.state.Due()
	if limit := h.state.Spec.Timeout; limit > 0 {
		if end := h.state.CreatedAt.Add(limit); due.IsZero() || end.Before(due) {
			due = end
		}
	}
	return due
}

// retrying reports whether what is due then is the next attempt of a step.
func retrying(f *event.LogState, due time.Time) bool {
	for o := range f.Opens {
		if o.Entity == event.EntityStep && o.State == event.StatePending && o.Due.Equal(due) {
			return true
		}
	}
	return false
}
