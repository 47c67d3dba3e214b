package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// linker checks invariants 13 and 14, which concern runs of several partitions. It reads partitions
// one after the other, so the order matters. A record is removed only after its effect is known to
// be durable, and its trace is removed before the record. Therefore linker reads causes before
// their effects, and records before their traces.
type linker struct {
	*repairer
	// doubtful contains the partitions that may have violations.
	doubtful map[int]bool
}

// survey determines whether a partition may have violations. It uses only data of that partition.
func (l *linker) survey(ctx context.Context, partition int, d *decider) error {
	begun, err := l.begun(ctx, d)
	if len(begun) > 0 || len(d.left(d.sent)) > 0 {
		l.doubtful[partition] = true
	}
	return err
}

// repair checks the doubtful partitions, and repairs violations.
func (l *linker) repair(ctx context.Context) error {
	if len(l.doubtful) == 0 {
		return nil
	}
	for pass := 0; ; pass++ {
		found, fixes, err := l.look(ctx)
		if err != nil {
			return err
		}
		if l.opts.DryRun || len(fixes) == 0 || pass == passes {
			l.conclude(found, fixes)
			return nil
		}
		if err := l.act(ctx, fixes); err != nil {
			return err
		}
	}
}

// look reads the doubtful partitions and the partitions to which they refer. It returns findings
// and fixes.
func (l *linker) look(ctx context.Context) (found []Finding, fixes []Fix, err error) {
	sent, partial := map[event.ItemID]bool{}, false
	for partition := range l.partitions {
		part, err := l.store.ReadPartition(ctx, partition)
		if err != nil {
			return nil, nil, err
		}
		partial = partial || part.Partial
		for _, o := range part.Snapshot.Outbox {
			sent[o.ID] = true
		}
	}
	for partition := range l.partitions {
		if !l.doubtful[partition] {
			continue
		}
		v, err := l.read(ctx, partition)
		if err != nil {
			return nil, nil, err
		}
		if !partial {
			fixes = append(fixes, v.forgetLeft(sent)...)
		}
		begun, err := l.begun(ctx, v.decider)
		if err != nil {
			return nil, nil, err
		}
		more, err := l.follow(ctx, v, begun)
		if err != nil {
			return nil, nil, err
		}
		fixes = append(fixes, more...)
	}
	for _, f := range fixes {
		found = append(found, f.Findings...)
	}
	return found, fixes, nil
}

// view is a partition as it was read, with its decider.
type view struct {
	*decider
	part      *store.PartitionState
	partition int
}

func (l *linker) read(ctx context.Context, partition int) (view, error) {
	part, err := l.store.ReadPartition(ctx, partition)
	if err != nil {
		return view{}, err
	}
	d, _ := decide(part, nil, l.opts)
	return view{d, part, partition}, nil
}

// forgetLeft returns fixes that remove traces from receivers. It keeps traces of the records in
// sent.
func (v view) forgetLeft(sent map[event.ItemID]bool) []Fix {
	found, ids := map[event.RunID][]Finding{}, map[event.RunID][]event.ItemID{}
	for _, left := range v.left(sent) {
		found[left.run], ids[left.run] = append(found[left.run], left.finding()), append(ids[left.run], left.id)
	}
	var fixes []Fix
	for _, run := range slices.Sorted(maps.Keys(ids)) {
		fixes = append(fixes, v.linking(run, found[run], &store.Rebuild{Confirm: ids[run]}))
	}
	return fixes
}

// linking returns the fix that executes a rebuild of the links of a run.
func (v view) linking(run event.RunID, found []Finding, m *store.Rebuild) Fix {
	fix, r := Fix{Run: run, Findings: found}, v.Runs[run]
	if r == nil || v.logs[run].newer || v.unknown(r) {
		fix.Why = "the run cannot be rebuilt"
		return fix
	}
	m.Run, m.By = run, v.by
	fix.Action = v.relink(m, r, store.ReasonWrongRecord)
	bind(&fix, v.part, m)
	return fix
}

// child is a run that another run has started. The log of the parent does not contain the end of
// the child.
type child struct {
	parent event.RunID
	key    string
	run    event.RunID
}

// begun returns children of the runs of a partition that may be missing, or that may have ended
// without a notification of their parents.
func (l *linker) begun(ctx context.Context, d *decider) ([]child, error) {
	var candidates []child
	for all := range slices.Chunk(d.children(), 1000) {
		loads := make([]store.Load, len(all))
		for i, c := range all {
			loads[i] = store.Load{Run: c.run, Limit: -1}
		}
		loaded, err := l.runs.Load(ctx, loads)
		if err != nil {
			return nil, err
		}
		for i, c := range all {
			if errors.Is(loaded[i].Err, store.ErrRunNotFound) || loaded[i].Record.QueueState == store.StateEnded {
				candidates = append(candidates, c)
			}
		}
	}
	return candidates, nil
}

// children returns the open children of all open runs. It omits children that a record will create.
func (d *decider) children() []child {
	var all []child
	for r := range d.runs {
		h := d.logs[r.Run]
		if r.QueueState == store.StateEnded || !h.whole || h.state.Run.Terminal() || h.underived {
			continue
		}
		for _, c := range open(r.Run, &h.state, r.Inbox) {
			start := effects.StartID(r.Run, c.key)
			if _, caused := h.causes[start]; caused && !d.starting(r.Run, start) {
				all = append(all, c)
			}
		}
	}
	return all
}

// starting reports whether a record will create a child or may have to create it again.
func (d *decider) starting(from event.RunID, id event.ItemID) bool {
	return d.records[from][id] > 0 && slices.ContainsFunc(d.outboxOf(from), func(o store.Outgoing) bool {
		return o.ID == id && o.Phase != store.PhaseSettled
	})
}

// open returns the children of a run whose ends are neither in the log of the run nor in its inbox,
// in order.
func open(run event.RunID, state *event.LogState, inbox []store.Item) []child {
	told := map[string]bool{}
	for _, i := range inbox {
		if e, err := event.DecodeItem(i.Body); err == nil && e.Type.Entity() == event.EntityChild {
			told[e.Key] = true
		}
	}
	var refs []uint64
	state.Opens(func(o *event.Open) bool {
		if o.Entity == event.EntityChild && !told[o.Key] {
			refs = append(refs, o.Ref)
		}
		return true
	})
	slices.Sort(refs)
	var all []child
	for _, ref := range refs {
		o := state.Open(ref)
		all = append(all, child{run, o.Key, o.Next})
	}
	return all
}

// follow determines the state of the children. It reads their partitions after the partition of
// their parents or together with it, and keeps only one of them in memory.
func (l *linker) follow(ctx context.Context, parents view, begun []child) ([]Fix, error) {
	of := func(c child) int { return int(c.run.Slot()) % l.partitions }
	slices.SortStableFunc(begun, func(a, b child) int { return cmp.Compare(of(a), of(b)) })
	var fixes []Fix
	lost := map[event.RunID][]child{} // missing children, by parent
	v := parents
	for _, c := range begun {
		switch partition := of(c); partition {
		case v.partition:
		case parents.partition:
			v = parents
		default:
			var err error
			if v, err = l.read(ctx, partition); err != nil {
				return nil, err
			}
		}
		last, there := v.latestOf(c.run)
		switch {
		case !there && v.part.Partial: // the snapshot may omit the child
		case !there:
			lost[c.parent] = append(lost[c.parent], c)
		case last != nil && v.untold(last):
			waits, err := l.waits(ctx, c)
			if err != nil {
				return nil, err
			}
			if waits {
				fixes = append(fixes, v.tell(last, c))
			}
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(lost)) {
		fixes = append(fixes, parents.begin(parent, lost[parent]))
	}
	return fixes, nil
}

// latestOf returns the run of a chain that has not continued, or nil if it is unknown. there
// reports whether the chain has any run.
func (c *checker) latestOf(chain event.RunID) (last *store.RunState, there bool) {
	for r := range c.runs {
		if r.Chain != chain && r.Run != chain {
			continue
		}
		there = true
		if h := c.logs[r.Run]; h.whole && h.state.Next == "" {
			last = r
		}
	}
	return last, there
}

// untold reports whether a run has ended without a record that notifies its parent. It returns
// false for a recent end, which invariant 12 covers.
func (v view) untold(r *store.RunState) bool {
	h := v.logs[r.Run]
	id := effects.EndID(r.Run)
	at, caused := h.causes[id]
	return caused && v.records[r.Run][id] == 0 && v.Now.Sub(at) >= store.Horizon
}

// waits reports whether a parent is open and has not been notified of the end of a child.
func (l *linker) waits(ctx context.Context, c child) (bool, error) {
	loaded, err := l.runs.Load(ctx, []store.Load{{Run: c.parent, Inbox: true}})
	if err != nil || loaded[0].Err != nil {
		return false, err
	}
	state, whole := stateOf(loaded[0].Frames)
	return whole && !state.Run.Terminal() && slices.Contains(open(c.parent, state, loaded[0].Inbox), c), nil
}

// stateOf replays a log. It returns false if the log cannot be read to its end.
func stateOf(frames [][]byte) (*event.LogState, bool) {
	state := &event.LogState{}
	for _, b := range frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			return state, false
		}
		for i := range f.Events {
			if state.Apply(&f.Events[i]) != nil {
				return state, false
			}
		}
	}
	return state, true
}

// begin returns the fix that creates the missing children of a parent. The log of the parent
// contains their starts.
func (v view) begin(parent event.RunID, children []child) Fix {
	var found []Finding
	records, gone, again := map[event.ItemID]store.Outgoing{}, map[event.RunID]bool{}, map[event.ItemID]bool{}
	for _, c := range children {
		gone[c.run] = true
		found = append(found, Finding{
			Invariant: 13, Run: parent, What: fmt.Sprintf("its log has begun child %s, which does not exist, and no record will create it", c.run),
			Explain: "it waits for ever",
		})
	}
	for _, o := range v.outboxOf(parent) {
		records[o.ID] = o
	}
	for _, s := range v.logs[parent].sends {
		if gone[s.To] {
			again[s.ID] = true
		}
	}
	m := &store.Rebuild{}
	rewrite(m, v.logs[parent].sends, records, again)
	return v.linking(parent, found, m)
}

// tell returns the fix that notifies a parent of the end of a child.
func (v view) tell(last *store.RunState, c child) Fix {
	found := Finding{
		Invariant: 13, Run: last.Run, What: fmt.Sprintf("it has ended, its parent %s has not recorded this, and no record of the outbox will deliver it", c.parent),
		Explain: "the parent waits for ever",
	}
	m := &store.Rebuild{}
	id := effects.EndID(last.Run)
	for _, s := range v.logs[last.Run].sends {
		if s.ID == id {
			m.Write = append(m.Write, s)
		}
	}
	return v.linking(last.Run, []Finding{found}, m)
}
