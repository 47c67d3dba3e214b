package fsck

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Options say how to repair. The zero value repairs.
type Options struct {
	// DryRun plans and changes nothing.
	DryRun bool
	// By is who repairs, for the audit trail; empty: "fsck".
	By store.SessionID
	// Progress is told how far it got, after each partition that was read and each
	// repair; nil: nobody is.
	Progress func(Progress)

	// check says how to read the events in the logs; nil: as workers write them.
	check *Config
}

// Progress is how far a repair got.
type Progress struct {
	Partition, Partitions int // Partition counts from 0
	Runs                  int // that were looked at so far
	Planned, Done         int // repairs of the pass over this partition
}

// Report lists the findings and the fixes.
type Report struct {
	DryRun bool `json:"dry_run"`
	// Runs is how many runs the store has.
	Runs int `json:"runs"`
	// Fixes are in the order in which they were made, or would be.
	Fixes []Fix `json:"fixes"`
	// Remaining lists what is still broken: after a dry run everything that was found.
	Remaining []Finding `json:"remaining"`
}

// Fix rebuilds one run, or repairs one defect of the store.
type Fix struct {
	// Run is the run that is rebuilt; empty for a defect of the store that is about none.
	Run event.RunID `json:"run,omitempty"`
	// Findings are the broken invariants that led here.
	Findings []Finding `json:"findings"`
	// Reason is recorded in the audit trail; empty: nothing is.
	Reason store.Reason `json:"reason,omitempty"`
	// Action says what is done; empty: nothing can be, and Why says why.
	Action  string  `json:"action,omitempty"`
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"`

	do func(context.Context) (bool, error)
	// first says that it is about the store itself: what else seems broken may be
	// its doing, and is judged again once it is repaired.
	first bool
}

// Outcome is the result of a repair.
type Outcome string

// The outcomes.
const (
	// OutcomePlanned: a dry run would do it.
	OutcomePlanned Outcome = "planned"
	// OutcomeRepaired: it was done.
	OutcomeRepaired Outcome = "repaired"
	// OutcomeMoved: what it was about had changed since it was looked at, so
	// nothing was done. If it was still broken there is another repair of it.
	OutcomeMoved Outcome = "moved"
	// OutcomeRemains: nothing can be done.
	OutcomeRemains Outcome = "remains"
)

// ErrNotRepairable says that a store has no way to be repaired.
var ErrNotRepairable = errors.New("store is not a store.Rebuilder")

// passes bounds how often a partition is looked at again after something was
// repaired. Two are enough unless the store is being damaged, or worked on, at the
// same time.
const passes = 5

// Repair checks every invariant of a store, and repairs what is broken from
// the logs. What it would do is told by a dry run first.
//
// Workers may work on the store meanwhile, and any number of repairs may go on at
// the same time: each repair is one atomic action, which happens only if its
// subject is as it was when it was judged. It reads a partition at a time, all of
// it: into the memory of this process, and as of one moment.
//
// The error says that the store could not be read or written; the report then
// tells what was done before.
func Repair(ctx context.Context, s store.Store, opts Options) (*Report, error) {
	report := &Report{DryRun: opts.DryRun, Fixes: []Fix{}, Remaining: []Finding{}}
	r, ok := store.As[store.Rebuilder](s)
	if !ok {
		return report, fmt.Errorf("repair %T: %w", s, ErrNotRepairable)
	}
	if opts.By == "" {
		opts.By = "fsck"
	}
	if opts.Progress == nil {
		opts.Progress = func(Progress) {}
	}
	f := &repairer{store: r, runs: s, partitions: s.Partitions(), opts: &opts, report: report}
	l := &linker{repairer: f, doubtful: map[int]bool{}}
	for p := range f.partitions {
		f.progress = Progress{Partition: p, Partitions: f.partitions, Runs: report.Runs}
		if err := f.partition(ctx, p, l); err != nil {
			return report, fmt.Errorf("repair partition %d: %w", p, err)
		}
	}
	if err := l.repair(ctx); err != nil {
		return report, fmt.Errorf("repair what runs have to do with one another: %w", err)
	}
	return report, nil
}

// repairer repairs one partition after the other.
type repairer struct {
	store      store.Rebuilder
	runs       store.Store // the same
	partitions int
	opts       *Options
	report     *Report
	progress   Progress
}

func (f *repairer) partition(ctx context.Context, partition int, l *linker) error {
	before := f.report.Runs
	for pass := 0; ; pass++ {
		part, err := f.store.ReadPartition(ctx, partition)
		if err != nil {
			return err
		}
		d, repairs := decide(part, f.opts)
		f.report.Runs = before + len(part.Snapshot.Runs)
		f.progress.Runs, f.progress.Planned, f.progress.Done = f.report.Runs, 0, 0
		for _, r := range repairs {
			if r.do != nil {
				f.progress.Planned++
			}
		}
		f.opts.Progress(f.progress)
		if f.opts.DryRun || f.progress.Planned == 0 || pass == passes {
			f.conclude(d.findings, repairs)
			return l.survey(ctx, partition, d)
		}
		if err := f.act(ctx, repairs); err != nil {
			return err
		}
	}
}

// conclude reports what is not done.
func (f *repairer) conclude(found []Finding, repairs []Fix) {
	for _, r := range repairs {
		switch {
		case r.do == nil:
			r.Outcome = OutcomeRemains
		case f.opts.DryRun:
			r.Outcome = OutcomePlanned
		default:
			r.Outcome = OutcomeMoved
		}
		f.report.add(r)
	}
	f.report.Remaining = append(f.report.Remaining, found...)
}

// add reports a fix, without the state that it was decided by: with that a report would keep each partition in memory that has one.
func (r *Report) add(fix Fix) {
	fix.do = nil
	r.Fixes = append(r.Fixes, fix)
}

// act carries out repairs. What is left of the others is seen in the next pass.
func (f *repairer) act(ctx context.Context, repairs []Fix) error {
	defective := slices.ContainsFunc(repairs, func(r Fix) bool { return r.first && r.do != nil })
	for _, r := range repairs {
		if r.do == nil || defective && !r.first {
			continue
		}
		done, err := r.do(ctx)
		if err != nil {
			return err
		}
		r.Outcome = OutcomeMoved
		if done {
			r.Outcome = OutcomeRepaired
		}
		f.report.add(r)
		f.progress.Done++
		f.opts.Progress(f.progress)
	}
	return nil
}
