package fsck

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// named contains the runs that a workflow ID leads to, and the runs that it should lead to.
type named struct {
	was, want leads
	living    []event.RunID // runs that have not ended, sorted by ID
	ended     []event.RunID // runs that have ended and are not deleted
}

// leads contains the active run, the last ended run and the queue of a workflow ID.
type leads struct {
	active, last event.RunID // empty if there is none
	line         []event.RunID
}

// nameAll determines the runs that each workflow ID should lead to. It uses the state in the log of
// a run if the log can be read.
func (d *decider) nameAll() {
	for wid, run := range d.Active {
		d.named(wid).was.active = run
	}
	for wid, run := range d.LastEnded {
		d.named(wid).was.last = run
	}
	for wid, line := range d.Lines {
		d.named(wid).was.line = line
	}
	for r := range d.runs {
		wid, ended := r.WorkflowID, r.QueueState == store.StateEnded
		if !d.damaged(r) {
			wid, ended = d.logs[r.Run].state.Spec.WorkflowID, d.logs[r.Run].state.Run.Terminal()
		}
		if d.wids[r.Run] = wid; wid == "" {
			continue
		}
		switch n := d.named(wid); {
		case !ended:
			n.living = append(n.living, r.Run)
		case !r.Hidden:
			n.ended = append(n.ended, r.Run)
		}
	}
	for _, n := range d.names {
		d.lead(n)
	}
}

func (d *decider) named(wid string) *named {
	n := d.names[wid]
	if n == nil {
		n = &named{}
		d.names[wid] = n
	}
	return n
}

// lead determines the active run of a workflow ID. The present active run stays if it is valid.
// Otherwise the oldest open run outside of the queue becomes the active run, or the first run of
// the queue.
func (d *decider) lead(n *named) {
	active := n.was.active
	if !slices.Contains(n.living, active) {
		active = ""
		heads := slices.Concat(d.outOfQueue(n.living), n.was.line, n.living)
		for _, id := range heads {
			if slices.Contains(n.living, id) {
				active = id
				break
			}
		}
	}
	n.want.active = active
	for _, id := range slices.Concat(n.was.line, n.living) {
		if id != active && slices.Contains(n.living, id) && !slices.Contains(n.want.line, id) {
			n.want.line = append(n.want.line, id)
		}
	}
	n.want.last = d.lastOf(n)
}

// outOfQueue returns the runs that are not in the queue state queued.
func (d *decider) outOfQueue(runs []event.RunID) []event.RunID {
	var out []event.RunID
	for _, id := range runs {
		if r := d.Runs[id]; r.QueueState != store.StateQueued && r.QueueState != 0 {
			out = append(out, id)
		}
	}
	return out
}

// lastOf returns the last run that ended. An unknown last run may have been purged, and is kept,
// unless there is an ended run that the store has not recorded as ended.
func (d *decider) lastOf(n *named) event.RunID {
	unknown := slices.ContainsFunc(n.ended, func(id event.RunID) bool { return d.Runs[id].QueueState != store.StateEnded })
	if !unknown && (n.was.last == "" || slices.Contains(n.ended, n.was.last)) {
		return n.was.last
	}
	if len(n.ended) == 0 {
		return ""
	}
	return slices.MaxFunc(n.ended, func(a, b event.RunID) int {
		return cmp.Or(d.endOf(a).Compare(d.endOf(b)), cmp.Compare(a, b))
	})
}

// endOf returns the time at which a run ended.
func (d *decider) endOf(id event.RunID) time.Time {
	if r := d.Runs[id]; !r.EndedAt.IsZero() {
		return r.EndedAt
	}
	return d.logs[id].state.EndedAt
}

// lines reports whether a run belongs in the queue of its workflow ID.
func (d *decider) lines(id event.RunID) bool { return d.standing(id) >= 0 }

// standing returns the position of a run in the queue of its workflow ID, or -1 if it does not
// belong in a queue.
func (d *decider) standing(id event.RunID) int {
	wid := d.wids[id]
	if wid == "" {
		return -1
	}
	return slices.Index(d.names[wid].want.line, id)
}

// rank determines the order of rebuilds: 0 before 1. A run that takes over its workflow ID is
// rebuilt first, which replaces the reference to the other run.
func (d *decider) rank(id event.RunID) int {
	wid := d.wids[id]
	if n := d.names[wid]; wid != "" && (n.want.active == id && n.was.active != id || n.want.last == id && n.was.last != id) {
		return 0
	}
	return 1
}

// wantLast reports whether a run is the last run of its workflow ID that ended.
func (d *decider) wantLast(id event.RunID) bool {
	wid := d.wids[id]
	return wid != "" && d.names[wid].want.last == id
}

// misled reports whether the workflow ID of a run leads to it incorrectly, or the run is in the
// queue or out of it incorrectly.
func (d *decider) misled(r *store.RunState) bool {
	wid := d.wids[r.Run]
	if wid == "" {
		return false
	}
	n := d.names[wid]
	return (n.want.active == r.Run) != (n.was.active == r.Run) || (n.want.last == r.Run) != (n.was.last == r.Run) ||
		d.lines(r.Run) != slices.Contains(n.was.line, r.Run) ||
		r.QueueState != store.StateEnded && !d.damaged(r) && !d.logs[r.Run].state.Run.Terminal() && d.lines(r.Run) != (r.QueueState == store.StateQueued)
}
