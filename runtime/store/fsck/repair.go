package fsck

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Options configure a repair. The zero value repairs violations.
type Options struct {
	// DryRun plans repairs and changes nothing.
	DryRun bool
	// By is recorded in the audit trail as the origin of the repair; empty means "fsck".
	By store.SessionID
	// Progress is called after each partition that was read and after each repair. It may be nil.
	Progress func(Progress)

	// check determines the interpretation of events in the logs. If it is nil, they are interpreted
	// as written by workers.
	check *Config
}

// Progress reports how far a repair has come.
type Progress struct {
	Partition, Partitions int // Partition is the present partition, from 0
	Runs                  int // number of runs checked
	Planned, Done         int // numbers of repairs in the present pass over the partition
}

// Report contains the findings and the fixes of a repair.
type Report struct {
	DryRun bool `json:"dry_run"`
	// Runs is the number of runs in the store.
	Runs int `json:"runs"`
	// Fixes are in the order of their execution.
	Fixes []Fix `json:"fixes"`
	// Remaining lists the violations that remain. After a dry run it lists all findings.
	Remaining []Finding `json:"remaining"`
}

// Fix describes the rebuild of one run, or the repair of one defect of the store.
type Fix struct {
	// Run is the rebuilt run; empty for a defect of the store without a run.
	Run event.RunID `json:"run,omitempty"`
	// Findings are the violations that the fix repairs.
	Findings []Finding `json:"findings"`
	// Reason is recorded in the audit trail. If it is empty, nothing is recorded.
	Reason store.Reason `json:"reason,omitempty"`
	// Action describes the repair. If it is empty, no repair is possible, and Why contains the
	// reason.
	Action  string  `json:"action,omitempty"`
	Outcome Outcome `json:"outcome"`
	Why     string  `json:"why,omitempty"`

	do func(context.Context) (bool, error)
	// first marks a fix of a defect of the store. Other violations may be consequences of the
	// defect, so they are checked again after the fix.
	first bool
}

// Outcome is the result of a repair.
type Outcome string

// The outcomes of repairs.
const (
	// OutcomePlanned means that a repair without DryRun would execute the fix.
	OutcomePlanned Outcome = "planned"
	// OutcomeRepaired means that the fix was executed.
	OutcomeRepaired Outcome = "repaired"
	// OutcomeMoved means that the subject of the fix changed after it was read, so the fix was not
	// executed. If the violation persists, another fix for it follows.
	OutcomeMoved Outcome = "moved"
	// OutcomeRemains means that no repair is possible.
	OutcomeRemains Outcome = "remains"
)

// ErrNotRepairable is returned for a store that cannot be repaired.
var ErrNotRepairable = errors.New("store is not a store.Rebuilder")

// passes is the maximum number of times that a partition is checked again after repairs. Two are
// sufficient unless the store is damaged or modified at the same time.
const passes = 5

// Repair checks every invariant of a store, and repairs violations from the logs. Make a dry run
// first to read the planned repairs.
//
// If the store has a codec with a blob store, Repair also checks that both have the same blobs. It needs
// no key.
//
// Workers and other repairs may use the store at the same time. Each repair is one atomic action
// that takes effect only if its subject has not changed since it was checked. Repair reads one
// partition at a time, completely into memory, as a consistent snapshot.
//
// An error means that the store could not be read or written. The report then contains the repairs
// that were executed before.
func Repair(ctx context.Context, s store.Store, opts Options) (*Report, error) {
	report := &Report{DryRun: opts.DryRun, Fixes: []Fix{}, Remaining: []Finding{}}
	r, ok := store.As[store.Rebuilder](s)
	if !ok {
		return report, fmt.Errorf("repair %T: %w", s, ErrNotRepairable)
	}
	s, blobs := store.Stored(s)
	if opts.By == "" {
		opts.By = "fsck"
	}
	if opts.Progress == nil {
		opts.Progress = func(Progress) {}
	}
	entries, _ := store.As[store.Entries](s)
	f := &repairer{store: r, blobs: newBlobChecker(s, blobs), entries: entries, runs: s, partitions: s.Partitions(), opts: &opts, report: report}
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
	lost, err := f.blobs.check(ctx)
	if err != nil {
		return report, fmt.Errorf("check the blob store: %w", err)
	}
	for i := range lost {
		report.add(lost[i])
		report.Remaining = append(report.Remaining, lost[i].Findings...)
	}
	return report, nil
}

// repairer repairs the partitions of a store, one after the other.
type repairer struct {
	store      store.Rebuilder
	blobs      *blobChecker
	entries    store.Entries
	runs       store.Store // the store that is repaired
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
		d, repairs := decide(part, f.entries, f.opts)
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
			f.blobs.collect(part.Snapshot)
			return l.survey(ctx, partition, d)
		}
		if err := f.act(ctx, repairs); err != nil {
			return err
		}
	}
}

// conclude adds findings that are not repaired to the report.
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

// add adds a fix to the report. It drops the state on which the fix is based, because the state
// would keep the partition in memory.
func (r *Report) add(fix Fix) {
	fix.do = nil
	r.Fixes = append(r.Fixes, fix)
}

// act executes repairs. The next pass reports the findings that remain.
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
