package fsck

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// named holds the run that a workflow id leads to, and the run that it should.
type named struct {
	wid      string
	was      store.NameRepair
	want     store.NameRepair
	living   []event.RunID // that have not ended, by id
	ended    []event.RunID // of those not deleted
	findings []Finding
}

func (n *named) differs() bool {
	return n.was.Active != n.want.Active || n.was.Last != n.want.Last || !slices.Equal(n.was.Line, n.want.Line)
}

// nameAll finds out what each workflow id should lead to. Runs are taken for what
// their logs say, if those can be read.
func (p *planner) nameAll() {
	for wid, run := range p.Active {
		p.named(wid).was.Active = run
	}
	for wid, run := range p.LastEnded {
		p.named(wid).was.Last = run
	}
	for wid, line := range p.Lines {
		p.named(wid).was.Line = line
	}
	for r := range p.runs {
		wid, ended := r.WorkflowID, r.QueueState == store.StateEnded
		if !p.damaged(r) {
			wid, ended = p.logs[r.Run].state.Spec.WorkflowID, p.logs[r.Run].state.Run.Terminal()
		}
		if p.wids[r.Run] = wid; wid == "" {
			continue
		}
		switch n := p.named(wid); {
		case !ended:
			n.living = append(n.living, r.Run)
		case !r.Hidden:
			n.ended = append(n.ended, r.Run)
		}
	}
	for _, n := range p.names {
		p.decide(n)
	}
}

func (p *planner) named(wid string) *named {
	n := p.names[wid]
	if n == nil {
		n = &named{wid: wid}
		p.names[wid] = n
	}
	return n
}

// decide says what a workflow id should lead to: to what it does as far as that
// can be, then to the oldest that was at work.
func (p *planner) decide(n *named) {
	n.want.WorkflowID = n.wid
	active := n.was.Active
	if !slices.Contains(n.living, active) {
		active = ""
		heads := slices.Concat(p.outOfLine(n.living), n.was.Line, n.living)
		for _, id := range heads {
			if slices.Contains(n.living, id) {
				active = id
				break
			}
		}
	}
	n.want.Active = active
	for _, id := range slices.Concat(n.was.Line, n.living) {
		if id != active && slices.Contains(n.living, id) && !slices.Contains(n.want.Line, id) {
			n.want.Line = append(n.want.Line, id)
		}
	}
	n.want.Last = p.lastOf(n)
}

// outOfLine returns those of the runs that have left the line.
func (p *planner) outOfLine(runs []event.RunID) []event.RunID {
	var out []event.RunID
	for _, id := range runs {
		if r := p.Runs[id]; r.QueueState != store.StateQueued && r.QueueState != 0 {
			out = append(out, id)
		}
	}
	return out
}

// lastOf returns the last run that ended. None is known is right, too, once that
// run was purged; it is not while a run that has ended was not known to have.
func (p *planner) lastOf(n *named) event.RunID {
	unknown := slices.ContainsFunc(n.ended, func(id event.RunID) bool { return p.Runs[id].QueueState != store.StateEnded })
	if !unknown && (n.was.Last == "" || slices.Contains(n.ended, n.was.Last)) {
		return n.was.Last
	}
	if len(n.ended) == 0 {
		return ""
	}
	return slices.MaxFunc(n.ended, func(a, b event.RunID) int {
		return cmp.Or(p.endOf(a).Compare(p.endOf(b)), cmp.Compare(a, b))
	})
}

// endOf returns when a run ended.
func (p *planner) endOf(id event.RunID) time.Time {
	if r := p.Runs[id]; !r.EndedAt.IsZero() {
		return r.EndedAt
	}
	return p.logs[id].state.EndedAt
}

// lines reports whether a run belongs into the line of its workflow id.
func (p *planner) lines(id event.RunID) bool {
	wid := p.wids[id]
	return wid != "" && slices.Contains(p.names[wid].want.Line, id)
}

// moves reports whether a run must leave its queue state, or what it is in line for,
// because of its workflow id.
func (p *planner) moves(r *store.RunState) bool {
	return r.QueueState != store.StateEnded && !p.damaged(r) && !p.logs[r.Run].state.Run.Terminal() && p.lines(r.Run) != (r.QueueState == store.StateQueued)
}

// takeNameFindings leaves to the repair of a workflow id what its runs are not
// to be touched for.
func (p *planner) takeNameFindings(n *named) {
	if !n.differs() {
		return
	}
	for _, id := range slices.Concat(n.living, n.ended, []event.RunID{n.was.Active, n.was.Last}, n.was.Line) {
		if r := p.Runs[id]; r == nil || p.moves(r) {
			continue
		}
		p.about[id] = slices.DeleteFunc(p.about[id], func(f Finding) bool {
			if f.Invariant == 9 {
				n.findings = append(n.findings, f)
			}
			return f.Invariant == 9
		})
	}
}

// witness returns the run whose audit trail tells of the repair of a workflow id:
// one that it leads to, and that is not repaired itself.
func (p *planner) witness(n *named) event.RunID {
	for _, id := range slices.Concat([]event.RunID{n.want.Active, n.want.Last}, n.want.Line) {
		if id != "" && !p.repaired[id] {
			return id
		}
	}
	return ""
}

// name repairs what a workflow id leads to. The trail of a run that it leads to
// tells of it, unless it only follows from the repair of a run.
func (p *planner) name(n *named) Fix {
	m := n.want
	m.Reason, m.By = store.ReasonWrongRecord, p.by
	if len(n.findings) > 0 {
		m.Run = p.witness(n)
	}
	text := func(id event.RunID) string { return cmp.Or(string(id), "none") }
	repair := Fix{
		WorkflowID: n.wid, Findings: n.findings, Reason: m.Reason,
		Action: fmt.Sprintf("make it lead to: active %s, in line %v, last ended %s", text(m.Active), m.Line, text(m.Last)),
		do:     func(ctx context.Context, e store.Scan) (bool, error) { return e.RepairName(ctx, m) },
	}
	if repair.Findings == nil {
		repair.Findings = []Finding{}
	}
	if m.Run == "" {
		repair.Reason = ""
	}
	return repair
}
