package repairtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// repairers is the number of concurrent repairs.
const repairers = 10

// Want describes the expected result of a repair.
type Want struct {
	// Invariants contains the numbers of the invariants that the check must find violated, in order
	// and without duplicates.
	Invariants []int
	// Run is the run whose audit trail is checked. If Run is empty, it is the run of the scene. If
	// Run is "other", it is the other run of the scene.
	Run event.RunID
	// Reason is the reason in the new audit entry. It is empty if there must be no entry.
	Reason store.Reason
	// Then is the reason in a second audit entry. It is empty if there must be no second entry.
	Then store.Reason
	// Remaining contains the numbers of the invariants that remain violated, because no repair is
	// possible.
	Remaining []int
	// Stays is set if no worker can complete the run after the repair.
	Stays bool
	// Keeps is set if the session that owns the run keeps it with its fence. In this case no other
	// worker can complete the run.
	Keeps bool
}

// Repairs damages a scene and repairs the store. It fails the test unless the damage is found,
// explained, and repaired exactly once.
func (w *World) Repairs(s *Scene, damage func(), want Want) {
	w.T.Helper()
	switch want.Run {
	case "":
		want.Run = s.Run
	case "other":
		want.Run = s.Other
	}
	if got := w.Repair(fsck.Options{DryRun: true}); len(got.Fixes) > 0 || len(got.Remaining) > 0 {
		w.T.Fatalf("before the damage: found %+v", got)
	}
	before := w.runs()[s.Run].Record
	damage()
	audited := len(w.audit(want.Run))
	w.dry(want)
	logs := w.logs()
	repaired := w.concurrently()
	if testing.Verbose() {
		for _, r := range repaired {
			w.T.Logf("repaired: %s: %s (%s) because of %v", r.Run, r.Action, r.Reason, r.Findings)
		}
	}
	if diff := cmp.Diff(logs, w.logs()); diff != "" {
		w.T.Errorf("logs (-before the repair +after)\n%s", diff)
	}
	if cannot := slices.Equal(want.Invariants, want.Remaining) && want.Reason == ""; cannot && slices.ContainsFunc(repaired, aboutRun) {
		w.T.Errorf("repaired what cannot be: %+v", repaired)
	}
	w.sound(want.Remaining)
	w.audits(want, audited)
	w.explains(want)
	w.owner(before, want)
	if want.Stays || want.Keeps {
		return
	}
	defer w.Work()()
	if got := s.Finish(); got != s.Want {
		w.T.Errorf("run %s ended as %q, want %q", s.Run, got, s.Want)
	}
	w.sound(want.Remaining)
}

func aboutRun(r fsck.Fix) bool { return r.Run != "" }

// dry fails the test unless a dry run finds and explains all damage and changes nothing.
func (w *World) dry(want Want) {
	w.T.Helper()
	before := w.dump()
	report := w.Repair(fsck.Options{DryRun: true})
	if diff := cmp.Diff(before, w.dump()); diff != "" {
		w.T.Errorf("store (-before the dry run +after)\n%s", diff)
	}
	if diff := cmp.Diff(want.Invariants, numbers(report.Remaining)); diff != "" {
		w.T.Errorf("invariants (-want +got)\n%s\nfindings: %v", diff, report.Remaining)
	}
	reasoned := want.Reason == ""
	for _, r := range report.Fixes {
		if r.Outcome != fsck.OutcomePlanned && r.Outcome != fsck.OutcomeRemains || (r.Action == "") != (r.Outcome == fsck.OutcomeRemains) {
			w.T.Errorf("repair %+v: wrong outcome of a dry run", r)
		}
		if r.Action == "" && r.Why == "" || r.Action != "" && r.Why != "" {
			w.T.Errorf("repair %+v: says neither what it does nor why not, or both", r)
		}
		reasoned = reasoned || r.Reason == want.Reason
	}
	if first := len(report.Fixes) > 0 && report.Fixes[0].Run == ""; !reasoned && !first {
		w.T.Errorf("no repair has reason %q: %+v", want.Reason, report.Fixes)
	}
}

// Repair runs a repair of the store.
func (w *World) Repair(opts fsck.Options) *fsck.Report {
	w.T.Helper()
	report, err := fsck.Repair(w.Ctx, w.Store, opts)
	if err != nil {
		w.T.Fatalf("repair: %v", err)
	}
	return report
}

// together is a store for concurrent repairs. All of them read a partition before any of them can
// change it.
type together struct {
	store.Store

	mu    sync.Mutex
	calls map[int]int
	all   map[int]chan struct{}
}

func newTogether(st store.Store) *together {
	g := &together{Store: st, calls: map[int]int{}, all: map[int]chan struct{}{}}
	for p := range st.Partitions() {
		g.all[p] = make(chan struct{})
	}
	return g
}

// Unwrap returns the store.
func (g *together) Unwrap() store.Store { return g.Store }

// ReadPartition reads a partition. It returns when all repairs have read the partition.
func (g *together) ReadPartition(ctx context.Context, partition int) (*store.PartitionState, error) {
	r, ok := store.As[store.Rebuilder](g.Store)
	if !ok {
		return nil, fsck.ErrNotRepairable
	}
	part, err := r.ReadPartition(ctx, partition)
	g.mu.Lock()
	if g.calls[partition]++; g.calls[partition] == repairers {
		close(g.all[partition])
	}
	g.mu.Unlock()
	select {
	case <-g.all[partition]:
	case <-ctx.Done():
	}
	return part, err
}

// concurrently executes ten repairs at the same time, and returns the fixes that they have applied.
// It fails the test if a fix is applied twice.
func (w *World) concurrently() []fsck.Fix {
	w.T.Helper()
	reports, errs := make([]*fsck.Report, repairers), make([]error, repairers)
	st := newTogether(w.Store)
	var all sync.WaitGroup
	for n := range repairers {
		all.Go(func() {
			reports[n], errs[n] = fsck.Repair(w.Ctx, st, fsck.Options{By: store.SessionID(fmt.Sprintf("fsck-%d", n))})
		})
	}
	all.Wait()
	var repaired []fsck.Fix
	made := map[string]fsck.Fix{}
	for n, report := range reports {
		if errs[n] != nil {
			w.T.Fatalf("repair %d: %v", n, errs[n])
		}
		for _, r := range report.Fixes {
			if r.Outcome != fsck.OutcomeRepaired {
				continue
			}
			key := fmt.Sprint(r.Run, r.Action, r.Findings)
			if before, twice := made[key]; twice {
				w.T.Fatalf("repaired twice: %+v\nand: %+v", before, r)
			}
			made[key] = r
			repaired = append(repaired, r)
		}
	}
	return repaired
}

// sound fails the test unless exactly the invariants in remaining are violated.
func (w *World) sound(remaining []int) {
	w.T.Helper()
	report := w.Repair(fsck.Options{DryRun: true})
	if diff := cmp.Diff(remaining, numbers(report.Remaining)); diff != "" {
		w.T.Fatalf("what is still broken (-want +got)\n%s\nfindings: %v\nrepairs: %+v", diff, report.Remaining, report.Fixes)
	}
	if len(remaining) > 0 {
		return
	}
	i := able[store.Inspector](w)
	snap, err := i.Inspect(w.Ctx)
	if err != nil {
		w.T.Fatalf("inspect: %v", err)
	}
	for _, f := range fsck.Check(snap) {
		w.T.Errorf("fsck: %v", f)
	}
}

// owner fails the test unless the run has the expected owner after a repair. If want.Keeps is set,
// this is the earlier owner. Otherwise the run has no owner, and its epoch is high enough that the
// next claim gets a new epoch [F2].
func (w *World) owner(before store.Record, want Want) {
	w.T.Helper()
	r := w.runs()[before.Run]
	if r == nil && !want.Keeps {
		return // the repair has removed all data of the run
	} else if r == nil {
		w.T.Fatalf("run %s is gone", before.Run)
	}
	switch {
	case want.Keeps:
		if before.Owner == "" || r.QueueState != store.StateOwned || r.Owner != before.Owner || r.Fence != before.Fence {
			w.T.Errorf("run %s is %s, of %q under %v, want it owned, of %q under %v", r.Run, r.QueueState, r.Owner, r.Fence, before.Owner, before.Fence)
		}
	case r.QueueState == store.StateOwned || r.Owner != "" || r.Fence.Token != (event.Token{}):
		w.T.Errorf("run %s is %s, of %q under %v, want it without owner and token", r.Run, r.QueueState, r.Owner, r.Fence)
	case r.Fence.Epoch < before.Fence.Epoch:
		w.T.Errorf("run %s has epoch %d, want at least %d, which it had before", r.Run, r.Fence.Epoch, before.Fence.Epoch)
	case before.QueueState == store.StateOwned:
		w.fenced(before)
	}
}

// fenced fails the test unless a commit of the former owner is refused.
func (w *World) fenced(before store.Record) {
	w.T.Helper()
	got, err := w.Store.Commit(w.Ctx, []store.Commit{{
		Run: before.Run, WorkflowID: before.WorkflowID, Fence: before.Fence, Prev: before.Last, Effect: store.EffectBlock, Status: event.StatusBlocked,
	}})
	if err != nil || !errors.Is(got[0].Err, store.ErrFenced) {
		w.T.Errorf("a commit of the former owner of run %s: got %+v, %v, want %v", before.Run, got, err, store.ErrFenced)
	}
}

// explains fails the test unless Info shows why a run was quarantined.
func (w *World) explains(want Want) {
	w.T.Helper()
	if want.Reason != store.ReasonDamagedLog {
		return
	}
	info, err := workflow.NewClient(w.Store, workflow.ClientConfig{}).Run(want.Run).Info(w.Ctx)
	if err != nil || !strings.Contains(info.Blocked, "invariant 1") {
		w.T.Errorf("run %s is blocked because %q, %v, want because of invariant 1", want.Run, info.Blocked, err)
	}
	if got := w.Record(want.Run).Status; got != event.StatusBlocked {
		w.T.Errorf("run %s is %s, want it blocked", want.Run, got)
	}
}

func numbers(found []fsck.Finding) []int {
	var all []int
	for _, f := range found {
		all = append(all, f.Invariant)
	}
	return slices.Compact(all)
}

// audits fails the test unless exactly the expected entries were added to the audit trail of a run.
// before is the earlier number of entries.
func (w *World) audits(want Want, before int) {
	w.T.Helper()
	var got []store.Reason
	entries := w.audit(want.Run)
	for _, e := range entries[min(before, len(entries)):] {
		got = append(got, e.Reason)
		if len(e.By) < len("fsck-0") || e.Time.IsZero() || e.Run != want.Run {
			w.T.Errorf("audit entry %+v: says too little", e)
		}
	}
	var reasons []store.Reason
	if want.Reason != "" {
		reasons = append(reasons, want.Reason)
	}
	if want.Then != "" {
		reasons = append(reasons, want.Then)
	}
	if diff := cmp.Diff(reasons, got); diff != "" {
		w.T.Errorf("reasons in the audit trail of run %s (-want +got)\n%s", want.Run, diff)
	}
}

func (w *World) audit(run event.RunID) []store.AuditEntry {
	w.T.Helper()
	var all []store.AuditEntry
	for _, part := range w.examine() {
		for _, e := range part.Snapshot.Audit {
			if e.Run == run {
				all = append(all, e)
			}
		}
	}
	return all
}

// dump returns all data of the store, for comparison.
func (w *World) dump() any {
	if w.Dump != nil {
		return w.Dump()
	}
	var all []any
	for _, part := range w.examine() {
		all = append(all, part.Snapshot, len(part.Defects))
	}
	return all
}

// logs returns the frames of all runs, for comparison.
func (w *World) logs() map[event.RunID]string {
	all := map[event.RunID]string{}
	for id, r := range w.runs() {
		if r != nil {
			all[id] = string(bytes.Join(r.Frames, []byte("|")))
		}
	}
	return all
}

// Each executes test as a subtest for each case.
func Each[C any](t *testing.T, cases map[string]C, test func(t *testing.T, c C)) {
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}
