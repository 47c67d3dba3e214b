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
	Supported bool          `json:"supported"` // false if this kind of store has no checks; then nothing was checked
	Findings  []ExamFinding `json:"findings"`  // grouped by server, in the order of the servers
}

// ExamFinding is the result of one check of one server. See [store.Finding].
type ExamFinding struct {
	Check    string `json:"check"`
	Severity string `json:"severity"` // ok, info, warn or fail
	Node     string `json:"node,omitempty"`
	Found    string `json:"found"`
	Want     string `json:"want,omitempty"`
	Fix      string `json:"fix,omitempty"`
}

// Checked is the report of a check or a repair. See [fsck.Report].
type Checked struct {
	Repair  bool      `json:"repair"`  // false if the report is of a check, which changes nothing
	Runs    int       `json:"runs"`    // number of runs in the store
	Planned int       `json:"planned"` // number of fixes that a repair would make
	Done    int       `json:"done"`    // number of fixes that were made
	Left    int       `json:"left"`    // number of findings that remain
	Total   int       `json:"total"`   // total number of fixes, whatever their outcomes are
	Fixes   []Mending `json:"fixes"`   // in the order of execution; a [Service] returns the first 1,000
}

// Mending is the repair of one run or of the store itself.
type Mending struct {
	Run     string   `json:"run,omitempty"`
	Outcome string   `json:"outcome"`          // planned, repaired, moved or remains
	Action  string   `json:"action,omitempty"` // description of the repair; empty if no repair is possible
	Why     string   `json:"why,omitempty"`    // reason why no repair is possible
	Reason  string   `json:"reason,omitempty"` // text in the audit trail of the run; see [store.Reason]
	Broken  []Broken `json:"broken,omitempty"`
}

// Broken is a violated invariant.
type Broken struct {
	Invariant int    `json:"invariant"`
	Run       string `json:"run,omitempty"`
	What      string `json:"what"`
	Explain   string `json:"explain"`
	// Lasting reports whether the violation is in a log. Logs are immutable, so no repair can
	// remove the violation.
	Lasting bool `json:"lasting,omitempty"`
}

// maxFixes is the maximum length of Checked.Fixes.
const maxFixes = 1000

// Wrong reports whether any finding has a severity above info, so that an operator should act.
func (e *Exam) Wrong() bool {
	return slices.ContainsFunc(e.Findings, func(f ExamFinding) bool {
		return f.Severity != store.SeverityOK.String() && f.Severity != store.SeverityInfo.String()
	})
}

// Examine reports how the servers of the store are configured and which settings are wrong, and whether
// the keys and the blob store of the client's codec can be used. It changes nothing. The result contains the names of servers and their settings.
func (s *Service) Examine(ctx context.Context) (Exam, error) {
	if err := s.all(RoleOperator, "examine the store", ownRuns); err != nil {
		return Exam{}, err
	}
	got := Exam{Findings: []ExamFinding{}}
	findings := examineCodec(ctx, s.client.Store())
	if doctor, ok := store.As[store.Doctor](s.client.Store()); ok {
		report, err := doctor.Examine(ctx)
		if err != nil {
			return got, fmt.Errorf("examine the store: %w", err)
		}
		got.Supported, findings = true, append(report.Findings, findings...)
	}
	for _, f := range findings {
		got.Findings = append(got.Findings, ExamFinding{Check: f.Check, Severity: f.Severity.String(), Node: f.Node, Found: f.Found, Want: f.Want, Fix: f.Fix})
	}
	return got, nil
}

// examineCodec checks that the codec of a store can seal and open data, and that its blob store
// answers. It returns nothing if the store has no codec.
func examineCodec(ctx context.Context, s store.Store) []store.Finding {
	codec := store.CodecOf(s)
	if codec == nil {
		return nil
	}
	keys := store.Finding{Check: "codec keys", Found: codec.Keys()}
	if keys.Found == "" {
		keys.Severity, keys.Found = store.SeverityInfo, "none: payloads are not encrypted"
	}
	probe := store.Place{Owner: "doctor", Field: "probe"}
	sealed, err := codec.Seal(ctx, probe, []byte("probe"))
	if err == nil {
		_, err = codec.Open(ctx, probe, sealed)
	}
	if err != nil {
		keys.Severity, keys.Found, keys.Want, keys.Fix = store.SeverityFail, err.Error(), "an active key", "correct the keys of the codec"
	}
	blobs := store.Finding{Check: "codec blobs", Severity: store.SeverityInfo, Found: "none: all payloads are kept in the store"}
	if _, kept := store.Stored(s); kept != nil {
		blobs.Severity, blobs.Found = store.SeverityOK, fmt.Sprintf("%T", kept)
		if named, ok := kept.(fmt.Stringer); ok {
			blobs.Found = named.String()
		}
		if _, err := kept.List(ctx, "", "", 1); err != nil {
			blobs.Severity, blobs.Found, blobs.Want, blobs.Fix = store.SeverityFail, err.Error(), "a blob store that can be listed", "correct the blob store, or its permissions"
		}
	}
	return []store.Finding{keys, blobs}
}

// Check checks every invariant of the store, and reports the changes that a repair would make. It
// changes nothing. It reads all data of the store, one partition at a time. It returns a problem
// with the code unsupported for a store that cannot be checked.
func (s *Service) Check(ctx context.Context) (Checked, error) {
	if err := s.all(RoleOperator, "check the store", ownRuns); err != nil {
		return Checked{}, err
	}
	return s.fsck(ctx, fsck.Options{DryRun: true})
}

// Repair checks every invariant of the store, and repairs violations from the logs. Workers may run
// at the same time. When it returns nil, all repairs are durable. If it returns an error, some
// repairs may be durable.
func (s *Service) Repair(ctx context.Context, why Because) (Checked, error) {
	e := s.entry(JournalEntry{Action: "repair", Reason: why.Reason})
	got, err := recorded(ctx, s, &e, func(ctx context.Context) (Checked, error) {
		return s.repair(ctx, Because{left(&e, why.Reason, false)})
	}, func(got Checked, e *JournalEntry) {
		e.Detail = fmt.Sprintf("%d repairs, %d findings left", got.Done, got.Left)
	})
	if _, unwritten := errors.AsType[*unwrittenError](err); unwritten { // only callers with direct access to the store may repair without a journal
		p := *ProblemOf(err)
		p.Fix = "repair it with the store itself: flowctl fsck --repair --store URL does so first, and then writes the journal"
		err = &p
	}
	return got, err
}

// repair is like [Service.Repair], but does not write the journal.
func (s *Service) repair(ctx context.Context, why Because) (Checked, error) {
	if err := s.all(RoleAdmin, "repair the store", ownRuns); err != nil {
		return Checked{}, err
	}
	if err := checkReason("a repair", why.Reason, false); err != nil {
		return Checked{}, err
	}
	return s.fsck(ctx, fsck.Options{})
}

// checking serializes checks, because each check reads whole partitions of the store into memory.
var checking = make(chan struct{}, 1)

// fsck waits until no other check is running in this process, then runs a check.
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

// CheckedOf converts a report and all of its fixes.
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
