package fsck

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// decider decides how to repair the findings of one partition.
type decider struct {
	*checker
	by    store.SessionID
	names map[string]*named
	wids  map[event.RunID]string // workflow IDs of existing runs, from their logs if these contain them

	about   map[event.RunID][]Finding // findings by run; the run may not exist
	linked  map[event.RunID][]Finding // findings about the outbox of a run; the run may not exist
	nowhere []Finding                 // findings without a run
}

// decide returns the fixes for a partition in the order of their execution, and the decider with
// the data on which they are based. A run with any finding is rebuilt completely, because one
// repair derives all data from the log. decide uses entries to remove entries; it may be nil if no
// fix is executed.
func decide(part *store.PartitionState, entries store.Entries, opts *Options) (*decider, []Fix) {
	cfg := Config{sends: effects.Sends}
	if opts.check != nil {
		cfg = *opts.check
	}
	cfg.partial, cfg.incomplete = true, part.Partial
	d := &decider{
		checker: cfg.check(part.Snapshot), by: opts.By, names: map[string]*named{}, wids: map[event.RunID]string{},
		about: map[event.RunID][]Finding{}, linked: map[event.RunID][]Finding{},
	}
	for _, found := range d.findings {
		d.sortOut(found)
	}
	fixes := d.defects(part.Defects)
	sortFindings(d.findings)
	d.nameAll()
	fixes = append(fixes, d.runFixes(part)...)
	for _, id := range d.strangers() {
		fixes = append(fixes, d.forget(id, part))
	}
	fixes = append(fixes, d.entryFixes(entries)...)
	d.nowhere = slices.DeleteFunc(d.nowhere, func(f Finding) bool { return answered(fixes, f) })
	if len(d.nowhere) > 0 {
		fixes = append(fixes, Fix{Findings: d.nowhere, Why: "no data remains from which to repair it"})
	}
	return d, fixes
}

// sortOut adds a finding to the list of its subject.
func (d *decider) sortOut(f Finding) {
	r, there := d.Runs[f.Run]
	switch {
	case f.Run == "" || there && (r == nil || r.Run != f.Run):
		d.nowhere = append(d.nowhere, f)
	case f.Invariant == 12:
		d.linked[f.Run] = append(d.linked[f.Run], f)
	default:
		d.about[f.Run] = append(d.about[f.Run], f)
	}
}

// defects adds the defects that the store has found to the findings. It returns the fixes that the
// store offers.
func (d *decider) defects(defects []store.Defect) []Fix {
	var fixes []Fix
	for _, f := range defects {
		found := Finding{Invariant: f.Invariant, Run: f.Run, What: f.What, Explain: f.Explain}
		d.findings = append(d.findings, found)
		if f.Do != nil {
			fixes = append(fixes, Fix{Run: f.Run, Findings: []Finding{found}, Action: f.Repair, first: true, do: f.Do})
		} else {
			d.sortOut(found)
		}
	}
	return fixes
}

// answered reports whether one of the fixes recomputes all limits, and so repairs a finding about
// limits. If so, answered adds the finding to that fix.
func answered(fixes []Fix, f Finding) bool {
	limits := func(n int) bool { return n == 19 || n == 20 }
	i := slices.IndexFunc(fixes, func(r Fix) bool { return r.first && limits(r.Findings[0].Invariant) })
	if !limits(f.Invariant) || i < 0 {
		return false
	}
	fixes[i].Findings = append(fixes[i].Findings, f)
	return true
}

// runFixes returns the fixes of the existing runs. Runs that take over a workflow ID come first.
// Queued runs come last, in the order of their positions.
func (d *decider) runFixes(part *store.PartitionState) (fixes []Fix) {
	var lined []Fix
	for r := range d.runs {
		fix, m := d.run(r)
		if len(fix.Findings) == 0 && m.Record == nil {
			continue
		}
		if bind(&fix, part, m); fix.Findings == nil { // another fix requires this one
			fix.Findings = []Finding{}
		}
		if m.Record != nil && m.Record.QueueState == store.StateQueued {
			lined = append(lined, fix)
		} else {
			fixes = append(fixes, fix)
		}
	}
	slices.SortStableFunc(lined, func(a, b Fix) int { return cmp.Compare(d.standing(a.Run), d.standing(b.Run)) })
	slices.SortStableFunc(fixes, func(a, b Fix) int { return cmp.Compare(d.rank(a.Run), d.rank(b.Run)) })
	return append(fixes, lined...)
}

// bind sets the function of a fix that executes a rebuild. The store may refuse the rebuild.
func bind(fix *Fix, part *store.PartitionState, m *store.Rebuild) {
	if fix.Action == "" {
		return
	}
	if len(m.Reasons) > 0 {
		fix.Reason = m.Reasons[0]
	}
	fix.do = func(ctx context.Context) (bool, error) { return part.Rebuild(ctx, m) }
}

// strangers returns the missing runs to which findings refer.
func (d *decider) strangers() []event.RunID {
	all := maps.Clone(d.about)
	maps.Copy(all, d.linked)
	maps.DeleteFunc(all, func(id event.RunID, _ []Finding) bool { return d.Runs[id] != nil })
	return slices.Sorted(maps.Keys(all))
}

// forget returns the fix that removes the data of a missing run.
func (d *decider) forget(id event.RunID, part *store.PartitionState) Fix {
	fix := Fix{Run: id, Findings: slices.Concat(d.about[id], d.linked[id])}
	m := &store.Rebuild{Run: id, By: d.by}
	d.disown(m)
	if len(m.Remove) == 0 && len(d.about[id]) == 0 {
		fix.Why = "its sender is lost, and it may not have been delivered yet: restore its sender from a backup"
		return fix
	}
	fix.Action = "remove all data stored under its id"
	bind(&fix, part, m)
	return fix
}

// run returns the fix of a run and its rebuild. A rebuild without a record does nothing.
func (d *decider) run(r *store.RunState) (Fix, *store.Rebuild) {
	found, linked := d.about[r.Run], d.linked[r.Run]
	fix, m := Fix{Run: r.Run, Findings: slices.Concat(found, linked)}, &store.Rebuild{Run: r.Run, By: d.by}
	moves := d.misled(r)
	var acts []string
	switch {
	case len(fix.Findings) == 0 && !moves:
		return fix, m
	case d.logs[r.Run].newer:
		fix.Why = "its log is not damaged: a newer release wrote it; repair with that release"
		return fix, m
	case d.unknown(r):
		fix.Why = "neither its log nor its metadata identifies it"
		return fix, m
	case d.damaged(r):
		if acts, fix.Why = d.block(m, r); m.Record == nil && moves {
			d.keep(m, r)
			m.Reasons, acts = []store.Reason{store.ReasonWrongRecord}, []string{"keep it, and set it as the run of its workflow id"}
		}
	case moves || slices.ContainsFunc(found, repairable):
		d.rebuild(m, r)
		m.Reasons = []store.Reason{d.reason(r, d.logs[r.Run], m.Record)}
		acts = []string{describe(r, m.Record)}
	default:
		fix.Why = "it is recorded in a log, and logs are never changed; the run continues"
	}
	if len(linked) > 0 {
		reason, why := d.resend(m, d.logs[r.Run])
		if len(m.Remove)+len(m.Write) > 0 {
			acts = append(acts, d.relink(m, r, reason))
		} else {
			fix.Why = cmp.Or(fix.Why, why)
		}
	}
	if fix.Action = strings.Join(acts, "; "); fix.Action != "" {
		fix.Why = ""
	}
	return fix, m
}

// repairable reports whether a finding can be repaired.
func repairable(f Finding) bool { return !f.Lasting }

// relink adds changes of the outbox of a run to a rebuild, and returns their description.
func (d *decider) relink(m *store.Rebuild, r *store.RunState, reason store.Reason) string {
	switch {
	case m.Record != nil:
	case d.damaged(r):
		d.keep(m, r)
	default:
		d.rebuild(m, r)
	}
	m.Reasons = append(m.Reasons, reason)
	return describeLinks(m, reason)
}

// damaged reports whether a run cannot continue from its log. This is the case if the log cannot be
// read to its end, or if it ends before the state that the store has recorded. A log that extends
// beyond the recorded state is intact.
func (c *checker) damaged(r *store.RunState) bool {
	h := c.logs[r.Run]
	return !h.whole || r.N > uint64(len(r.Frames)) || r.Seq > h.state.Seq
}

// lost reports whether a run has only its log.
func lost(r *store.RunState) bool { return r.QueueState == 0 && r.N == 0 && r.Last == event.CommitID{} }

// block adds to m that a run with a damaged log is blocked. The run loses its owner, because the
// owner relies on lost data.
func (d *decider) block(m *store.Rebuild, r *store.RunState) (acts []string, why string) {
	const hint = "restore its log from a backup, or start it again"
	switch {
	case r.QueueState == store.StateEnded:
		return nil, "its log is damaged, and it has ended: it is kept until it is purged"
	case r.QueueState == store.StateBlocked:
		return nil, "its log is damaged, and it is blocked: " + hint
	case r.QueueState == store.StateQueued:
		return nil, "its log is damaged, and it waits in a limiter queue: it is blocked when it is first"
	case lost(r):
		d.rebuild(m, r)
	default:
		d.keep(m, r)
	}
	if m.Reasons = []store.Reason{store.ReasonDamagedLog}; m.Record.QueueState == store.StateQueued {
		return []string{"queue it: its log is damaged, and it is blocked when it is first; " + hint}, ""
	}
	m.Record.QueueState, m.Record.Status = store.StateBlocked, event.StatusBlocked
	m.StepData = map[string][]byte{blockedKey: []byte(d.about[r.Run][0].String() + ": " + hint)}
	return []string{"block it: its log is damaged; " + hint}, ""
}

// unknown reports whether a run has neither a readable log nor other data.
func (c *checker) unknown(r *store.RunState) bool { return lost(r) && c.logs[r.Run].state.Spec == nil }

// keep sets a record for a run whose log cannot be interpreted. It keeps the present data, but
// removes the owner.
func (d *decider) keep(m *store.Rebuild, r *store.RunState) {
	rec := r.Record
	rec.Fence, rec.Owner, rec.Due = store.Fence{Epoch: d.epoch(r)}, "", noTime
	switch {
	case d.lines(r.Run):
		rec.QueueState = store.StateQueued
	case rec.QueueState != store.StateEnded:
		rec.QueueState = store.StateBlocked
	}
	rec.Permits = rec.Permits && rec.Whole && rec.QueueState != store.StateEnded
	m.Record, m.Hidden, m.Last = &rec, r.Hidden && rec.QueueState == store.StateEnded, d.wantLast(r.Run)
}

// blockedKey is the key of the step data that contain the reason why a run is blocked. Workers use
// the same key.
const blockedKey = "flowgen.blocked"

// describe returns a description of the repair of a run.
func describe(r *store.RunState, to *store.Record) string {
	what := "rewrite it from its log"
	if lost(r) {
		what = "rebuild its record from its log"
	}
	switch to.QueueState {
	case store.StateReady:
		what += ", and make it ready: a worker replays it"
	case store.StateParked:
		what += ", and park it"
		if !to.Due.IsZero() {
			what += fmt.Sprintf(" until %v", to.Due)
		}
	case store.StateBlocked:
		what += ", and leave it blocked"
	case store.StateQueued:
		what += fmt.Sprintf(", and queue it for workflow id %q", to.WorkflowID)
	case store.StateEnded:
		what += ", and end it as " + string(to.Status)
	}
	return what
}
