package fsck

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// named contains the runs that a workflow ID leads to, and those that it should lead to.
type named struct {
	was, want leads
	living    []event.RunID // not ended, sorted by ID
	ended     []event.RunID // ended and not deleted
}

// leads contains the runs that a workflow ID leads to.
type leads struct {
	active, last event.RunID // empty if none
	line         []event.RunID
}

// nameAll determines what each workflow ID should lead to. The state of a run is taken from its log
// if that can be read.
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

// lead determines the active run of a workflow ID: the present one if it is valid, otherwise the
// oldest run that was active.
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

// outOfQueue returns the runs that have left the queue of the workflow ID.
func (d *decider) outOfQueue(runs []event.RunID) []event.RunID {
	var out []event.RunID
	for _, id := range runs {
		if r := d.Runs[id]; r.QueueState != store.StateQueued && r.QueueState != 0 {
			out = append(out, id)
		}
	}
	return out
}

// lastOf returns the last run that ended. An unknown last run is valid after that run was purged,
// but not while an ended run was not recorded as ended.
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

// endOf returns when a run ended.
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

// rank determines the order of rebuilds: a run that takes over its workflow ID is rebuilt first.
// This replaces the reference to the other run.
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

// misled reports whether the workflow ID of a run leads to it incorrectly, or the run is not in the
// corresponding queue state.
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
