package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The faces by which somebody asks, as the journal names them.
const (
	FaceCLI     = "cli"     // the command, on a store itself
	FaceAPI     = "api"     // HTTP, also by the command
	FaceConsole = "console" // a browser
	FaceProgram = "program" // a program in its own process
)

// The outcomes in a journal, beside the codes of problems.
const (
	OutcomeDone = store.JournalOK
	// OutcomeUnknown: it was begun, and whoever did it was interrupted before the outcome was written. It may have
	// been done. It may be under way, too.
	OutcomeUnknown = "unknown"
)

// The default limits of a journal: see [KeepJournal].
const (
	DefaultJournalMost = 100_000
	DefaultJournalFor  = 365 * 24 * time.Hour
)

// JournalEntry says what somebody has asked for that changes something, and what has come of it.
type JournalEntry struct {
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`
	Principal string    `json:"principal"`       // who has asked
	Owner     string    `json:"owner,omitempty"` // of the principal; empty: it has none
	Face      string    `json:"face"`            // cli, api, console or program
	Action    string    `json:"action"`
	Target    string    `json:"target,omitempty"` // a run as it was named, schedule:NAME or pool:NAME
	Run       string    `json:"run,omitempty"`    // that it is about
	New       string    `json:"new,omitempty"`    // the run that it has made
	Detail    string    `json:"detail,omitempty"` // the workflow, step, topic or configuration
	Reason    string    `json:"reason,omitempty"`
	Key       string    `json:"key,omitempty"` // of the request
	Outcome   string    `json:"outcome"`       // ok, unknown, or the code of a problem
}

// JournalFilter selects entries. The zero value selects all; all fields must match.
type JournalFilter struct {
	Principals []string  `json:"principals,omitempty"` // any of them
	Owner      string    `json:"-"`                    // of the principals; empty: any. [As] sets it for those with an owner
	Actions    []string  `json:"actions,omitempty"`
	Target     string    `json:"target,omitempty"` // as it was named, or the run that it is about or has made
	Outcomes   []string  `json:"outcomes,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Until      time.Time `json:"until,omitzero"`   // before it
	Cursor     string    `json:"cursor,omitempty"` // of a [JournalPage], for the next one
	Limit      int       `json:"limit,omitempty"`  // of a page; 0: 100, at most 1,000
	Budget     int       `json:"budget,omitempty"` // how many entries may be looked at; 0: 20,000
}

// JournalPage is a part of a journal, the newest entry first.
type JournalPage struct {
	Entries []JournalEntry `json:"entries"`
	Cursor  string         `json:"cursor,omitempty"` // of the next page; empty: there is none
	// Partial says that the budget was spent before the page was full: the next one goes on there.
	Partial bool `json:"partial"`
}

func (f *JournalFilter) query() (store.JournalQuery, error) {
	q := store.JournalQuery{
		Principals: f.Principals, Owner: f.Owner, Actions: f.Actions, Target: f.Target, From: f.Since, To: f.Until, Cursor: f.Cursor, Limit: f.Limit, Budget: f.Budget,
	}
	for _, o := range f.Outcomes {
		if o == OutcomeUnknown {
			o = ""
		}
		q.Outcomes = append(q.Outcomes, o)
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Since.Before(f.Until) {
		return q, &InputError{What: "since is not before until", Fix: "exchange them"}
	}
	_, _, badCursor := q.Range()
	return q, checkPage("entries", f.Limit, f.Budget, badCursor)
}

// Journal is part of Service.
func (d *Direct) Journal(ctx context.Context, f JournalFilter) (JournalPage, error) {
	q, err := f.query()
	if err != nil {
		return JournalPage{}, err
	}
	page, err := d.client.Journal(ctx, q)
	if err != nil {
		return JournalPage{}, err
	}
	got := JournalPage{Entries: make([]JournalEntry, len(page.Entries)), Cursor: page.Cursor, Partial: page.Partial}
	for i, e := range page.Entries {
		if e.Outcome == "" {
			e.Outcome = OutcomeUnknown
		}
		got.Entries[i] = JournalEntry{
			ID: e.ID, Time: e.Time, Principal: e.Principal, Owner: e.Owner, Face: e.Face, Action: e.Action, Target: e.Target, Run: e.Run, New: e.New, Detail: e.Detail,
			Reason: e.Reason, Key: e.Key, Outcome: e.Outcome,
		}
	}
	return got, nil
}

// Recorder is a Service that keeps a journal. [As] writes it. [Direct] is one; over a network the server has it.
type Recorder interface {
	// Record writes an entry, which gets an id and its time if it has none, or replaces the one of its id. When it
	// returns nil the entry is durable. If there is no place for a journal it does nothing.
	Record(ctx context.Context, e *JournalEntry) error
}

var _ Recorder = (*Direct)(nil)

// Record is part of Recorder. Of what a principal was refused it writes no more than denials keep.
func (d *Direct) Record(ctx context.Context, e *JournalEntry) error {
	if e.ID == "" && e.Outcome == CodeForbidden && !d.denials.keep(e, d.client.Store().Clock().Now()) {
		return nil
	}
	kept := store.JournalEntry{
		ID: e.ID, Principal: e.Principal, Owner: e.Owner, Face: e.Face, Action: e.Action, Target: e.Target, Run: e.Run, New: e.New, Detail: e.Detail,
		Reason: e.Reason, Key: e.Key, Outcome: e.Outcome,
	}
	if kept.Outcome == OutcomeUnknown {
		kept.Outcome = ""
	}
	id, err := d.client.WriteJournal(ctx, kept, d.journal)
	if e.ID = id; errors.Is(err, workflow.ErrNotSupported) {
		return nil
	}
	return err
}

// Journal is part of Service.
func (l *limited) Journal(ctx context.Context, f JournalFilter) (JournalPage, error) {
	if err := l.p.Need(RoleOperator, "to read the journal"); err != nil {
		return JournalPage{}, err
	}
	if l.p.Owner == "" {
		return l.under.Journal(ctx, f)
	}
	f.Owner = l.p.Owner
	page, err := l.under.Journal(ctx, f)
	page.Entries = slices.DeleteFunc(page.Entries, func(e JournalEntry) bool { return e.Owner != l.p.Owner }) // if the service below takes no owner
	return page, err
}

// outcomeOf returns the outcome that an entry gets.
func outcomeOf(err error) string {
	if err == nil {
		return OutcomeDone
	}
	return ProblemOf(err).Code
}

// outcomeTime bounds how long the outcome of what was done may take to be written.
const outcomeTime = 10 * time.Second

// recorded does something that changes something, on behalf of the principal, and writes the journal around it.
//
// The entry is written before, without its outcome, and nothing is done if that fails; afterwards it is written again,
// with the outcome. So nothing that was accepted can be missing: the process may end, the store may fail, the caller may go away
// at any moment, and the entry that was durable before the first effect says who has asked for what. What can be missing is the
// outcome: then the entry says that it is unknown, and the run itself, which has its log, says what has become of it. To
// write it together with the effect instead would need every operation of every store to take an entry, for no more than that.
//
// It costs two writes for each change that somebody asks for; runs cost nothing. A principal that may change nothing is refused
// before the first of them: what it has asked for is one of its refusals.
func recorded[T any](ctx context.Context, j *journaled, e *JournalEntry, do func(ctx context.Context) (T, error), done func(T, *JournalEntry)) (T, error) {
	var none T
	if err := j.p.Need(RoleOperator, "the action "+e.Action); err != nil {
		j.refused(ctx, *e, err)
		return none, err
	}
	e.Outcome = OutcomeUnknown
	if err := j.to.Record(ctx, e); err != nil {
		return none, &unwrittenError{e.Action, err}
	}
	got, err := do(workflow.OnBehalfOf(ctx, e.Principal))
	if e.Outcome = outcomeOf(err); err == nil {
		done(got, e)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	_ = j.to.Record(end, e) // if not, the entry says that its outcome is unknown
	return got, err
}

// unwrittenError says that nothing was done, because the journal could not be written.
type unwrittenError struct {
	action string
	err    error
}

// Error says so.
func (e *unwrittenError) Error() string {
	return fmt.Sprintf("%s: nothing was done, for the journal could not be written: %v", e.action, e.err)
}

func (e *unwrittenError) Unwrap() error { return e.err }

// Recorded does something with what a service works on that the service itself does not do, such as a repair, and writes
// the journal around it, as whoever the service of [As] or [AsLocal] is for. Nothing is done if that fails, or if there is
// a reason and no journal that has a place for it: that is an [*InputError].
func Recorded(ctx context.Context, s Service, action, detail, reason string, do func() error) error {
	j, ok := s.(*journaled)
	if !ok {
		if err := checkReason(action, reason, false); err != nil {
			return err
		}
		return do()
	}
	e := j.entry(JournalEntry{Action: action, Detail: detail, Reason: reason})
	_, err := recorded(ctx, j, &e, func(context.Context) (struct{}, error) {
		if err := checkReason(action, left(&e, reason, false), false); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, do()
	}, func(struct{}, *JournalEntry) {})
	return err
}

// Refused writes into the journal that a face has refused what somebody has asked for before it came to the service
// of [As]. What nobody has done is refused all the same if it cannot be written.
func Refused(ctx context.Context, s Service, action, target string, refused error) {
	if j, ok := s.(*journaled); ok {
		j.refused(ctx, j.entry(JournalEntry{Action: action, Target: target}), refused)
	}
}
