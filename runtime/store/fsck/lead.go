package fsck

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// named holds the runs that a workflow id leads to, and those that it should.
type named struct {
	was, want leads
	living    []event.RunID // that have not ended, by id
	ended     []event.RunID // of those not deleted
}

// leads is what a workflow id leads to.
type leads struct {
	active, last event.RunID // empty: none
	line         []event.RunID
}

// nameAll finds out what each workflow id should lead to. Runs are taken for what
// their logs say, if those can be read.
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

// lead says what a workflow id should lead to: to what it does as far as that
// can be, then to the oldest that was at work.
func (d *decider) lead(n *named) {
	active := n.was.active
	if !slices.Contains(n.living, active) {
		active = ""
		heads := slices.Concat(d.outOfLine(n.living), n.was.line, n.living)
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

// outOfLine returns those of the runs that have left the line.
func (d *decider) outOfLine(runs []event.RunID) []event.RunID {
	var out []event.RunID
	for _, id := range runs {
		if r := d.Runs[id]; r.QueueState != store.StateQueued && r.QueueState != 0 {
			out = append(out, id)
		}
	}
	return out
}

// lastOf returns the last run that ended. None is known is right, too, once that
// run was purged; it is not while a run that has ended was not known to have.
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

// lines reports whether a run belongs into the line of its workflow id.
func (d *decider) lines(id event.RunID) bool { return d.standing(id) >= 0 }

// standing returns the place of a run in the line of its workflow id; -1: it belongs into none.
func (d *decider) standing(id event.RunID) int {
	wid := d.wids[id]
	if wid == "" {
		return -1
	}
	return slices.Index(d.names[wid].want.line, id)
}

// rank says which of two runs is rebuilt first: one that gets what its workflow id leads to at present. What leads to the
// other one is removed with that, if it still does.
func (d *decider) rank(id event.RunID) int {
	wid := d.wids[id]
	if n := d.names[wid]; wid != "" && (n.want.active == id && n.was.active != id || n.want.last == id && n.was.last != id) {
		return 0
	}
	return 1
}

// wantLast reports whether a run is the last of its workflow id that has ended.
func (d *decider) wantLast(id event.RunID) bool {
	wid := d.wids[id]
	return wid != "" && d.names[wid].want.last == id
}

// misled reports whether the workflow id of a run leads to it otherwise than it should, or the run is not in the queue
// state that follows from that.
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
