package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

// Exam is the result of checking how a store is configured.
type Exam struct {
	Supported bool          `json:"supported"` // false: this kind of store has no doctor, and nothing was checked
	Findings  []ExamFinding `json:"findings"`  // in the order of the servers
}

// ExamFinding is the result of one check of one server, see [store.Finding].
type ExamFinding struct {
	Check    string `json:"check"`
	Severity string `json:"severity"` // ok, info, warn or fail
	Node     string `json:"node,omitempty"`
	Found    string `json:"found"`
	Want     string `json:"want,omitempty"`
	Fix      string `json:"fix,omitempty"`
}

// Checked is the report of a check or a repair, see [fsck.Report].
type Checked struct {
	Repair  bool      `json:"repair"`  // false: nothing was changed
	Runs    int       `json:"runs"`    // runs in the store
	Planned int       `json:"planned"` // fixes that a repair would make
	Done    int       `json:"done"`    // fixes that were made
	Left    int       `json:"left"`    // findings that remain
	Total   int       `json:"total"`   // fixes with any outcome
	Fixes   []Mending `json:"fixes"`   // in the order of their execution; a [Service] returns the first 1,000
}

// Mending is the repair of one run or of the store itself.
type Mending struct {
	Run     string   `json:"run,omitempty"`
	Outcome string   `json:"outcome"`          // planned, repaired, moved or remains
	Action  string   `json:"action,omitempty"` // description of the repair; empty if none is possible
	Why     string   `json:"why,omitempty"`    // why no repair is possible
	Reason  string   `json:"reason,omitempty"` // text in the audit trail of the run, see [store.Reason]
	Broken  []Broken `json:"broken,omitempty"`
}

// Broken is a violated invariant.
type Broken struct {
	Invariant int    `json:"invariant"`
	Run       string `json:"run,omitempty"`
	What      string `json:"what"`
	Explain   string `json:"explain"`
	// Lasting reports that the violation is in a log, which nothing may change, so no repair can
	// remove it.
	Lasting bool `json:"lasting,omitempty"`
}

// maxFixes is the maximum length of Checked.Fixes.
const maxFixes = 1000

// Wrong reports whether an operator should act. Hints do not count.
func (e *Exam) Wrong() bool {
	return slices.ContainsFunc(e.Findings, func(f ExamFinding) bool {
		return f.Severity != store.SeverityOK.String() && f.Severity != store.SeverityInfo.String()
	})
}

// Examine reports how the servers of the store are configured and which settings are wrong. It
// changes nothing. The result contains names of servers and their settings.
func (s *Service) Examine(ctx context.Context) (Exam, error) {
	if err := s.all(RoleOperator, "examine the store", ownRuns); err != nil {
		return Exam{}, err
	}
	got := Exam{Findings: []ExamFinding{}}
	doctor, ok := store.As[store.Doctor](s.client.Store())
	if !ok {
		return got, nil
	}
	report, err := doctor.Examine(ctx)
	if err != nil {
		return got, fmt.Errorf("examine the store: %w", err)
	}
	got.Supported = true
	for _, f := range report.Findings {
		got.Findings = append(got.Findings, ExamFinding{Check: f.Check, Severity: f.Severity.String(), Node: f.Node, Found: f.Found, Want: f.Want, Fix: f.Fix})
	}
	return got, nil
}

// Check checks every invariant of the store, and reports what a repair would do. It changes
// nothing. It reads the whole store, one partition at a time, which takes as long as reading all
// data. For a store that cannot be checked it returns a problem with the code unsupported.
func (s *Service) Check(ctx context.Context) (Checked, error) {
	if err := s.all(RoleOperator, "check the store", ownRuns); err != nil {
		return Checked{}, err
	}
	return s.fsck(ctx, fsck.Options{DryRun: true})
}

// Repair checks every invariant of the store, and repairs violations from the logs. Workers may run
// at the same time. When it returns nil, all repairs are durable; if it returns an error, some of
// them may be.
func (s *Service) Repair(ctx context.Context, why Because) (Checked, error) {
	e := s.entry(JournalEntry{Action: "repair", Reason: why.Reason})
	got, err := recorded(ctx, s, &e, func(ctx context.Context) (Checked, error) {
		return s.repair(ctx, Because{left(&e, why.Reason, false)})
	}, func(got Checked, e *JournalEntry) {
		e.Detail = fmt.Sprintf("%d repairs, %d findings left", got.Done, got.Left)
	})
	if _, unwritten := errors.AsType[*unwrittenError](err); unwritten { // a repair needs a journal, unless the caller has direct access to the store
		p := *ProblemOf(err)
		p.Fix = "repair it with the store itself: flowctl fsck --repair --store URL does so first, and then writes the journal"
		err = &p
	}
	return got, err
}

// repair is [Service.Repair] without the journal.
func (s *Service) repair(ctx context.Context, why Because) (Checked, error) {
	if err := s.all(RoleAdmin, "repair the store", ownRuns); err != nil {
		return Checked{}, err
	}
	if err := checkReason("a repair", why.Reason, false); err != nil {
		return Checked{}, err
	}
	return s.fsck(ctx, fsck.Options{})
}

// checking is held during a check, because each check reads whole partitions of the store into
// memory.
var checking = make(chan struct{}, 1)

// fsck waits until no other check runs in this process, then runs one.
func (s *Service) fsck(ctx context.Context, opts fsck.Options) (Checked, error) {
	select {
	case checking <- struct{}{}:
		defer func() { <-checking }()
	case <-ctx.Done():
		return Checked{}, fmt.Errorf("wait for the check that runs: %w", context.Cause(ctx))
	}
	report, err := fsck.Repair(ctx, s.client.Store(), opts)
	if errors.Is(err, fsck.ErrNotRepairable) {
		return Checked{}, NewProblem(CodeUnsupported, "this kind of store can be neither checked nor repaired", "let it implement store.Rebuilder")
	}
	if err != nil {
		return Checked{}, fmt.Errorf("check the store: %w", err)
	}
	got := CheckedOf(report)
	got.Fixes = got.Fixes[:min(len(got.Fixes), maxFixes)]
	return got, nil
}

// CheckedOf converts a report with all of its fixes.
func CheckedOf(r *fsck.Report) Checked {
	got := Checked{Repair: !r.DryRun, Runs: r.Runs, Left: len(r.Remaining), Total: len(r.Fixes), Fixes: []Mending{}}
	for i := range r.Fixes {
		f := &r.Fixes[i]
		switch f.Outcome {
		case fsck.OutcomePlanned:
			got.Planned++
		case fsck.OutcomeRepaired:
			got.Done++
		}
		m := Mending{Run: string(f.Run), Outcome: string(f.Outcome), Action: f.Action, Why: f.Why, Reason: string(f.Reason)}
		for _, b := range f.Findings {
			m.Broken = append(m.Broken, Broken{Invariant: b.Invariant, Run: string(cmp.Or(b.Run, f.Run)), What: b.What, Explain: b.Explain, Lasting: b.Lasting})
		}
		got.Fixes = append(got.Fixes, m)
	}
	return got
}
