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

// The interfaces through which a request was made, as recorded in the journal.
const (
	FaceCLI     = "cli"     // the command flowctl with direct access to a store
	FaceAPI     = "api"     // HTTP, including the command flowctl that connects to a server
	FaceConsole = "console" // the console in a browser
	FaceProgram = "program" // a program that uses a [Service] in its own process
)

// The outcomes in a journal, in addition to the codes of problems.
const (
	OutcomeDone = store.JournalOK
	// OutcomeUnknown means that the action was begun, but its outcome was not recorded. The process
	// was interrupted, or the action is still in progress. The action may have taken effect.
	OutcomeUnknown = "unknown"
)

// The default limits of a journal. See [KeepJournal].
const (
	DefaultJournalMost = 100_000
	DefaultJournalFor  = 365 * 24 * time.Hour
)

// JournalEntry records a request that changes something, and the outcome of the request.
type JournalEntry struct {
	ID        string    `json:"id"`
	Time      time.Time `json:"time"`
	Principal string    `json:"principal"`       // name of the principal that made the request
	Owner     string    `json:"owner,omitempty"` // owner of the principal; empty if the principal has none
	Face      string    `json:"face"`            // cli, api, console or program
	Action    string    `json:"action"`
	Target    string    `json:"target,omitempty"` // a run as named in the request, schedule:NAME or pool:NAME
	Run       string    `json:"run,omitempty"`    // the run that the request affects
	New       string    `json:"new,omitempty"`    // the run that the request created
	Detail    string    `json:"detail,omitempty"` // the workflow, step, topic or configuration
	Reason    string    `json:"reason,omitempty"`
	Key       string    `json:"key,omitempty"` // idempotency key of the request
	Outcome   string    `json:"outcome"`       // ok, unknown, or the code of a problem
}

// JournalFilter selects entries that match all of its fields. The zero value selects all entries.
type JournalFilter struct {
	Principals []string  `json:"principals,omitempty"` // any of these principals
	Owner      string    `json:"-"`                    // owner of the principal; empty selects all. [Service.As] sets it for principals with an owner
	Actions    []string  `json:"actions,omitempty"`
	Target     string    `json:"target,omitempty"` // target as named in the request, or the run that was affected or created
	Outcomes   []string  `json:"outcomes,omitempty"`
	Since      time.Time `json:"since,omitzero"`
	Until      time.Time `json:"until,omitzero"`   // selects entries before this time
	Cursor     string    `json:"cursor,omitempty"` // cursor of the previous [JournalPage]
	Limit      int       `json:"limit,omitempty"`  // entries per page; 0 means 100, the maximum is 1,000
	Budget     int       `json:"budget,omitempty"` // maximum number of entries to read; 0 means 20,000
}

// JournalPage is a page of a journal, the newest entry first.
type JournalPage struct {
	Entries []JournalEntry `json:"entries"`
	Cursor  string         `json:"cursor,omitempty"` // cursor of the next page; empty on the last page
	// Partial reports whether the budget was exhausted before the page was full. If so, the next
	// page continues there.
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
		return q, &InputError{What: "since is not before until", Fix: "swap them"}
	}
	_, _, badCursor := q.Range()
	return q, checkPage("entries", f.Limit, f.Budget, badCursor)
}

// Journal returns a page of the requests of operators, the newest first. It requires the role
// operator. A principal with an owner gets only the entries of that owner.
func (s *Service) Journal(ctx context.Context, f JournalFilter) (JournalPage, error) {
	if err := s.who.Need(RoleOperator, "to read the journal"); err != nil {
		return JournalPage{}, err
	}
	if s.who.Owner == "" {
		return s.readJournal(ctx, f)
	}
	f.Owner = s.who.Owner
	page, err := s.readJournal(ctx, f)
	page.Entries = slices.DeleteFunc(page.Entries, func(e JournalEntry) bool { return e.Owner != s.who.Owner }) // the owner is checked here because some stores do not filter by owner
	return page, err
}

// readJournal is like [Service.Journal], but does not check the rights of the principal.
func (s *Service) readJournal(ctx context.Context, f JournalFilter) (JournalPage, error) {
	q, err := f.query()
	if err != nil {
		return JournalPage{}, err
	}
	page, err := s.ops.Journal(ctx, q)
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

// record writes a new entry with an ID and a time, or replaces the entry with the same ID. When it
// returns nil, the entry is durable. If the store has no journal, record does nothing. denials.keep
// selects which refusals of a principal are written.
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
	id, err := s.ops.WriteJournal(ctx, kept, s.keep)
	if e.ID = id; errors.Is(err, workflow.ErrNotSupported) {
		return nil
	}
	return err
}

// outcomeOf returns the outcome to record for an action that returned err.
func outcomeOf(err error) string {
	if err == nil {
		return OutcomeDone
	}
	return ProblemOf(err).Code
}

// outcomeTime is the time limit for writing the outcome of an action.
const outcomeTime = 10 * time.Second

// recorded executes a change on behalf of the principal and records it in the journal.
//
// recorded first writes the entry without an outcome. If that fails, the change is not executed.
// After the change, recorded writes the entry again with the outcome. The entry is durable before
// the first effect, and it contains the principal and the request. Hence no executed change can be
// missing in the journal, even if the process ends, the store fails, or the caller disconnects.
// Only the outcome can be missing. Then the entry has the outcome unknown, and the log of the run
// shows the effect. To write the entry atomically with the effect, every operation of every store
// would have to accept an entry. That would only add the outcome.
//
// The cost is two writes per requested change. The execution of runs is not affected. If the
// principal has no right to make the change, recorded records a refusal and does not execute the
// change.
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
	_ = s.record(end, e) // if this write fails, the outcome of the entry remains unknown
	return got, err
}

// unwrittenError reports that an action was not executed because its journal entry could not be
// written.
type unwrittenError struct {
	action string
	err    error
}

func (e *unwrittenError) Error() string {
	return fmt.Sprintf("%s: nothing was done, for the journal could not be written: %v", e.action, e.err)
}

func (e *unwrittenError) Unwrap() error { return e.err }

// Recorded executes do and records it in the journal on behalf of the principal. It is for changes
// of the store that are not operations of the service, such as an import. If the entry cannot be
// written, Recorded does not call do. If there is a reason but no journal, it does not call do and
// returns an [*InputError].
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

// Refused records in the journal that a handler refused a request of the principal before calling
// the service. The handler must refuse the request even if the entry cannot be written.
func (s *Service) Refused(ctx context.Context, action, target string, refused error) {
	if s.behalf {
		s.refused(ctx, s.entry(JournalEntry{Action: action, Target: target}), refused)
	}
}

// entry sets the principal of an entry.
func (s *Service) entry(e JournalEntry) JournalEntry {
	e.Principal, e.Owner, e.Face = s.who.Name, s.who.Owner, s.who.Face
	if e.Face == "" {
		e.Face = FaceProgram
	}
	return e
}

// refused records a request that was refused before it had any effect. An error in writing the
// entry is ignored, because the request is refused in any case.
func (s *Service) refused(ctx context.Context, e JournalEntry, err error) {
	e.Outcome = outcomeOf(err)
	_ = s.record(ctx, &e)
}

// left returns the part of a reason that is passed on to the operation. takes reports whether the
// operation records the reason itself; otherwise only the entry contains the reason. Without a
// journal, left returns the whole reason, so that the operation refuses a reason that would be
// lost.
func left(e *JournalEntry, reason string, takes bool) string {
	if takes || e.ID == "" || store.CheckText("reason", reason, store.MaxJournalText) != nil {
		return reason
	}
	return ""
}

// left returns the message to pass on to the operation, with the reason reduced by the function
// left.
func (m Message) left(e *JournalEntry) Message {
	m.Reason = left(e, m.Reason, false)
	return m
}

const (
	denialsFor  = 24 * time.Hour // period in which the refusals of a principal are counted together
	denialsMost = 20             // number of refusals in the period that have entries of their own
)

// denials limits the share of refusals in a journal. Without a limit, a principal without rights
// could displace all other entries. The first refusals of a principal in a day have entries of
// their own. The others are counted in a single entry, which is rewritten each time the number has
// doubled. Each process counts separately.
type denials struct {
	mu    sync.Mutex
	began time.Time
	of    map[string]*refusedTo // counts by name of the principal
}

// refusedTo counts the refusals of a principal.
type refusedTo struct {
	n  int
	id string // ID of the entry that contains the count
}

// keep reports whether the entry of a refusal is written. After many refusals of the same
// principal, keep changes the entry into the entry that contains the count.
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
