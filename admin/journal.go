package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

// Journal returns a page of what operators have asked for, the newest entry first. It is there for operators; those
// with an owner have their own entries.
func (s *Service) Journal(ctx context.Context, f JournalFilter) (JournalPage, error) {
	if err := s.who.Need(RoleOperator, "to read the journal"); err != nil {
		return JournalPage{}, err
	}
	if s.who.Owner == "" {
		return s.readJournal(ctx, f)
	}
	f.Owner = s.who.Owner
	page, err := s.readJournal(ctx, f)
	page.Entries = slices.DeleteFunc(page.Entries, func(e JournalEntry) bool { return e.Owner != s.who.Owner }) // if the service below takes no owner
	return page, err
}

// readJournal is [Service.Journal] without the limits of the principal.
func (s *Service) readJournal(ctx context.Context, f JournalFilter) (JournalPage, error) {
	q, err := f.query()
	if err != nil {
		return JournalPage{}, err
	}
	page, err := s.client.Journal(ctx, q)
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

// record writes an entry, which gets an ID and its time if it has none, or replaces the one of its ID. When it returns nil the
// entry is durable. If the store keeps no journal it does nothing. Of the refusals of a principal it writes those that denials keep.
func (s *Service) record(ctx context.Context, e *JournalEntry) error {
	if e.ID == "" && e.Outcome == CodeForbidden && !s.denials.keep(e, s.client.Store().Clock().Now()) {
		return nil
	}
	kept := store.JournalEntry{
		ID: e.ID, Principal: e.Principal, Owner: e.Owner, Face: e.Face, Action: e.Action, Target: e.Target, Run: e.Run, New: e.New, Detail: e.Detail,
		Reason: e.Reason, Key: e.Key, Outcome: e.Outcome,
	}
	if kept.Outcome == OutcomeUnknown {
		kept.Outcome = ""
	}
	id, err := s.client.WriteJournal(ctx, kept, s.keep)
	if e.ID = id; errors.Is(err, workflow.ErrNotSupported) {
		return nil
	}
	return err
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
func recorded[T any](ctx context.Context, s *Service, e *JournalEntry, do func(ctx context.Context) (T, error), done func(T, *JournalEntry)) (T, error) {
	var none T
	if !s.behalf {
		return do(ctx)
	}
	if err := s.who.Need(RoleOperator, "the action "+e.Action); err != nil {
		s.refused(ctx, *e, err)
		return none, err
	}
	e.Outcome = OutcomeUnknown
	if err := s.record(ctx, e); err != nil {
		return none, &unwrittenError{e.Action, err}
	}
	got, err := do(workflow.OnBehalfOf(ctx, e.Principal))
	if e.Outcome = outcomeOf(err); err == nil {
		done(got, e)
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTime)
	defer cancel()
	_ = s.record(end, e) // if not, the entry says that its outcome is unknown
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

// Recorded does something with the store that is no operation of the service, such as an import, and writes the journal around
// it on behalf of the principal. Nothing is done if that fails, or if there is a reason and no journal that has a place for
// it: that is an [*InputError].
func (s *Service) Recorded(ctx context.Context, action, detail, reason string, do func() error) error {
	e := s.entry(JournalEntry{Action: action, Detail: detail, Reason: reason})
	_, err := recorded(ctx, s, &e, func(context.Context) (struct{}, error) {
		if err := checkReason(action, left(&e, reason, false), false); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, do()
	}, func(struct{}, *JournalEntry) {})
	return err
}

// Refused writes into the journal that a handler has refused a request of the principal before it called the service. The
// request stays refused if the entry cannot be written.
func (s *Service) Refused(ctx context.Context, action, target string, refused error) {
	if s.behalf {
		s.refused(ctx, s.entry(JournalEntry{Action: action, Target: target}), refused)
	}
}

// entry returns an entry of the principal.
func (s *Service) entry(e JournalEntry) JournalEntry {
	e.Principal, e.Owner, e.Face = s.who.Name, s.who.Owner, s.who.Face
	if e.Face == "" {
		e.Face = FaceProgram
	}
	return e
}

// refused writes what was refused before anything was done. It is refused all the same if it cannot be written.
func (s *Service) refused(ctx context.Context, e JournalEntry, err error) {
	e.Outcome = outcomeOf(err)
	_ = s.record(ctx, &e)
}

// left returns what of a reason goes on to the service below. takes: what is done has a place for it. Otherwise it stands in
// the entry, which is durable by now; if there is no place for a journal the service below refuses it, for it would be lost.
func left(e *JournalEntry, reason string, takes bool) string {
	if takes || e.ID == "" || store.CheckText("reason", reason, store.MaxJournalText) != nil {
		return reason
	}
	return ""
}

// left returns the message as it goes on to the service below.
func (m Message) left(e *JournalEntry) Message {
	m.Reason = left(e, m.Reason, false)
	return m
}

const (
	denialsFor  = 24 * time.Hour // is how long refusals of a principal are counted together
	denialsMost = 20             // is how many of them have an entry of their own
)

// denials bounds what of a journal is refusals: somebody who may do nothing could have it forget what others have done. The first
// refusals of a principal in a day have entries of their own; the others are counted by one entry, which is written again each
// time that their number has doubled. Each process counts its own.
type denials struct {
	mu    sync.Mutex
	began time.Time
	of    map[string]*refusedTo // by principal
}

// refusedTo counts the refusals of a principal.
type refusedTo struct {
	n  int
	id string // of the entry that counts
}

// keep reports whether an entry of a refusal is written. It makes it the one that counts if there were many before it.
func (r *denials) keep(e *JournalEntry, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || now.Sub(r.began) >= denialsFor {
		r.began, r.of = now, map[string]*refusedTo{}
	}
	mine := r.of[e.Principal]
	if mine == nil {
		mine = &refusedTo{}
		r.of[e.Principal] = mine
	}
	mine.n++
	more := mine.n - denialsMost
	if more <= 0 {
		return true
	}
	if more == 1 {
		mine.id = store.NewJournalID(now)
	}
	if more&(more-1) != 0 {
		return false
	}
	*e = JournalEntry{ID: mine.id, Principal: e.Principal, Owner: e.Owner, Face: e.Face, Action: "refused", Detail: fmt.Sprintf("%d requests or more after the first %d of a day", more, denialsMost), Outcome: e.Outcome}
	return true
}
