package fsck

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// planner decides what to do about the findings of one scan.
type planner struct {
	*checker
	by    store.SessionID
	names map[string]*named
	wids  map[event.RunID]string // of runs that can be found, by their logs if those tell
	// repaired are the runs for which there is a repair of their own.
	repaired map[event.RunID]bool

	about   map[event.RunID][]Finding // of runs that can be found
	linked  map[event.RunID][]Finding // about the outbox of a run, which may not exist
	gone    map[event.RunID][]Finding // of runs that do not exist
	nowhere []Finding                 // of no run in particular
}

// plan returns what is broken, and what to do about it in the order in which to do
// it, and what it was decided by.
func plan(exam store.Scan, opts *Options) (*planner, []Fix) {
	cfg := Config{sends: effects.Sends}
	if opts.check != nil {
		cfg = *opts.check
	}
	cfg.partial = true
	p := &planner{
		checker: cfg.check(exam.Snapshot()), by: opts.By, names: map[string]*named{}, wids: map[event.RunID]string{}, repaired: map[event.RunID]bool{},
		about: map[event.RunID][]Finding{}, gone: map[event.RunID][]Finding{}, linked: map[event.RunID][]Finding{},
	}
	for _, found := range p.findings {
		p.sortOut(found)
	}
	repairs := p.defects(exam.Defects())
	sortFindings(p.findings)
	p.nameAll()
	for _, id := range slices.Sorted(maps.Keys(p.gone)) {
		repairs = append(repairs, p.forget(id))
	}
	for _, wid := range slices.Sorted(maps.Keys(p.names)) {
		p.takeNameFindings(p.names[wid])
	}
	for r := range p.runs {
		if repair, broken := p.run(r); broken {
			repairs = append(repairs, repair)
			p.repaired[r.Run] = repair.do != nil
		}
	}
	for _, wid := range slices.Sorted(maps.Keys(p.names)) {
		if n := p.names[wid]; n.differs() {
			repairs = append(repairs, p.name(n))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.linked)) {
		repairs = append(repairs, p.link(id))
	}
	p.nowhere = slices.DeleteFunc(p.nowhere, func(f Finding) bool { return answered(repairs, f) })
	if len(p.nowhere) > 0 {
		repairs = append(repairs, Fix{Findings: p.nowhere, Why: "there is nothing from which to repair it"})
	}
	return p, repairs
}

// sortOut says what a finding is about.
func (p *planner) sortOut(f Finding) {
	r, there := p.Runs[f.Run]
	switch {
	case f.Run == "" || there && (r == nil || r.Run != f.Run):
		p.nowhere = append(p.nowhere, f)
	case f.Invariant == 12:
		p.linked[f.Run] = append(p.linked[f.Run], f)
	case there:
		p.about[f.Run] = append(p.about[f.Run], f)
	default:
		p.gone[f.Run] = append(p.gone[f.Run], f)
	}
}

// defects adds the defects that the store has found itself to the findings, and returns the
// fixes that the store offers.
func (p *planner) defects(defects []store.Defect) []Fix {
	var repairs []Fix
	for _, f := range defects {
		found := Finding{Invariant: f.Invariant, Run: f.Run, What: f.What, Explain: f.Explain}
		p.findings = append(p.findings, found)
		switch {
		case f.Repair != "":
			repairs = append(repairs, Fix{
				Run: f.Run, Findings: []Finding{found}, Action: f.Repair, first: true,
				do: func(ctx context.Context, e store.Scan) (bool, error) { return e.RepairDefect(ctx, f) },
			})
		default:
			p.sortOut(found)
		}
	}
	return repairs
}

// answered reports whether the store offers to repair what a finding about limits says: it
// counts all of them again. The finding is added to that fix.
func answered(repairs []Fix, f Finding) bool {
	limits := func(n int) bool { return n == 19 || n == 20 }
	i := slices.IndexFunc(repairs, func(r Fix) bool { return r.first && limits(r.Findings[0].Invariant) })
	if !limits(f.Invariant) || i < 0 {
		return false
	}
	repairs[i].Findings = append(repairs[i].Findings, f)
	return true
}

// forget removes what is kept of a run that does not exist.
func (p *planner) forget(id event.RunID) Fix {
	return Fix{
		Run: id, Findings: p.gone[id], Action: "remove everything that is kept under its id",
		do: func(ctx context.Context, e store.Scan) (bool, error) { return e.Forget(ctx, id) },
	}
}

// run decides about one run; false: there is nothing wrong with it.
func (p *planner) run(r *store.RunState) (Fix, bool) {
	found, h := p.about[r.Run], p.logs[r.Run]
	moves := p.moves(r)
	if len(found) == 0 && !moves {
		return Fix{}, false
	}
	repair := Fix{Run: r.Run, Findings: found}
	if p.damaged(r) {
		return p.block(repair, r), true
	}
	if !moves && !slices.ContainsFunc(found, func(f Finding) bool { return !f.Lasting }) {
		repair.Why = "it stands in a log, which nothing may change; the run goes on"
		return repair, true
	}
	m := p.rebuild(r, h)
	repair.Reason, repair.Action = p.reason(r, h, &m.Record), p.describe(r, &m.Record)
	m.Reason, m.By = repair.Reason, p.by
	repair.do = func(ctx context.Context, e store.Scan) (bool, error) { return e.RepairRun(ctx, m) }
	return repair, true
}

// damaged reports whether the log of a run cannot be gone on from: it cannot be
// read to its end, or it ends before what the store knows of it. One that goes
// further than the store knows is sound.
func (c *checker) damaged(r *store.RunState) bool {
	h := c.logs[r.Run]
	return !h.whole || r.N > uint64(len(r.Frames)) || r.Seq > h.state.Seq
}

// lost reports whether nothing but the log of a run is left.
func lost(r *store.RunState) bool { return r.QueueState == 0 && r.N == 0 && r.Last == event.CommitID{} }

// block sets a run aside whose log is damaged.
func (p *planner) block(repair Fix, r *store.RunState) Fix {
	const hint = "bring its log back from a backup, or start it again"
	h := p.logs[r.Run]
	switch {
	case h.newer:
		repair.Why = "its log is not damaged: a newer release wrote it; repair with that one"
	case r.QueueState == store.StateEnded:
		repair.Why = "its log is damaged, and it has ended: it is kept until it is purged"
	case r.QueueState == store.StateBlocked:
		repair.Why = "its log is damaged, and it is blocked: " + hint
	case r.QueueState == store.StateQueued:
		repair.Why = "its log is damaged, and it waits in line: it is blocked when its turn comes"
	case p.healthy(r):
		repair.Why = "its log is damaged, and its owner is at work: it is blocked once its owner gives it back"
	case lost(r) && h.state.Spec == nil:
		repair.Why = "neither its log nor anything else says what it is"
	default:
		m := store.RunRepair{Record: r.Record, Reason: store.ReasonDamagedLog, By: p.by}
		if lost(r) {
			m.Record = p.rebuild(r, h).Record
		}
		m.Record.QueueState, m.Record.Status = store.StateBlocked, event.StatusBlocked
		m.Record.Fence, m.Record.Owner, m.Record.Due = store.Fence{Epoch: p.epoch(r)}, "", noTime
		m.StepData = map[string][]byte{blockedKey: []byte(repair.Findings[0].String() + ": " + hint)}
		repair.Reason, repair.Action = m.Reason, "block it: its log is damaged; "+hint
		repair.do = func(ctx context.Context, e store.Scan) (bool, error) { return e.RepairRun(ctx, m) }
	}
	return repair
}

// blockedKey is the key of the step data that says why a run is blocked, as workers write it.
const blockedKey = "flowgen.blocked"

// describe says what is done with a run.
func (p *planner) describe(r *store.RunState, to *store.Record) string {
	what := "write its record again from its log"
	if lost(r) {
		what = "make its record from its log"
	}
	switch to.QueueState {
	case store.StateReady:
		what += ", and make it ready: a worker replays it"
	case store.StateOwned:
		what += ", and leave it with its owner"
	case store.StateParked:
		what += ", and park it"
		if !to.Due.IsZero() {
			what += fmt.Sprintf(" until %v", to.Due)
		}
	case store.StateBlocked:
		what += ", and leave it blocked"
	case store.StateQueued:
		what += fmt.Sprintf(", and line it up for workflow id %q", to.WorkflowID)
	case store.StateEnded:
		what += ", and end it as " + string(to.Status)
	}
	return what
}
