package event

import (
	"encoding/json"
	"time"
)

// Event is one record of a log. Which fields are set is listed at each [Type];
// all others are zero.
type Event struct {
	// Seq is the position in the log, dense from 1.
	Seq  uint64
	Type Type
	// Time is when it happened, by the store's clock, to the millisecond. It
	// never falls along a log.
	Time time.Time

	// Ref is the Seq of the event that created the entity which this event is
	// about, and Since that event's Time. A creating event refers to itself.
	// Both are zero for events about the run and for facts without an entity.
	Ref   uint64
	Since time.Time

	Name    string // step, topic, hook or value
	Key     string // the operation's key within the run
	Payload json.RawMessage
	Failure *Failure
	Attempt int       // counts from 1
	Due     time.Time // zero: never
	Wait    WaitKind
	Outcome Outcome
	Item    ItemID
	Reason  string
	Token   string          // of a hook
	Meta    json.RawMessage // what a hook says of itself to people; nothing in a run depends on it
	Next    RunID
	By      string // the worker, or on whose behalf somebody else has asked for it; empty: that is not known
	Build   string // of the worker's code, where it is not that of the events before
	Spec    *Spec
	Close   ParentClose // what becomes of a child when its parent ends
	Ack     bool        // the sender wants to know that it has arrived
	// Active and Finished say what a start does whose workflow id is in use, as
	// numbers of the store's policies.
	Active, Finished uint8
	// Uses are the limits that something waits for, From since when.
	Uses []Use
	From time.Time
	// Unread lists, in the event that ends a run, the accepted items that the
	// code never took.
	Unread []ItemID
}

// Size returns about how many bytes the event takes in a log.
func (e *Event) Size() int {
	n := 32 + len(e.Name) + len(e.Key) + len(e.Payload) + len(e.Reason) + len(e.Token) + len(e.Meta) + e.Failure.size()
	for _, item := range e.Unread {
		n += len(item) + 2
	}
	for _, u := range e.Uses {
		n += len(u.Limit) + len(u.Key) + 6
	}
	if e.Spec != nil {
		for _, pairs := range []map[string]string{e.Spec.Tags, e.Spec.Attributes} {
			for k, v := range pairs {
				n += len(k) + len(v) + 4
			}
		}
	}
	return n
}

func (f *Failure) size() int {
	if f == nil {
		return 0
	}
	n := 16 + len(f.Message) + len(f.Code) + len(f.Type) + len(f.Data) + len(f.Stack)
	for _, c := range f.Causes {
		n += c.size()
	}
	for _, names := range [][]string{f.Undone, f.NotUndone} {
		for _, name := range names {
			n += len(name) + 2
		}
	}
	return n
}

// WaitKind says what a wait waits for.
type WaitKind uint8

// The kinds of waits.
const (
	// WaitSleep ends when it is due.
	WaitSleep WaitKind = 1
	// WaitMessage ends when a message of its topic is taken, or when it is due.
	WaitMessage WaitKind = 2
	// WaitDeadline limits a part of the run; nothing is blocked on it.
	WaitDeadline WaitKind = 3
	// WaitHook ends when a payload of its hook is taken, or when it is due.
	WaitHook WaitKind = 4
)

// String returns the kind's name.
func (k WaitKind) String() string {
	switch k {
	case WaitSleep:
		return "sleep"
	case WaitMessage:
		return "message"
	case WaitDeadline:
		return "deadline"
	case WaitHook:
		return "payload"
	}
	return "wait"
}

// Outcome says how a wait ended, or more about the end of a step or child.
type Outcome uint8

// The outcomes of a wait.
const (
	// OutcomeDue: the time has come.
	OutcomeDue Outcome = 1
	// OutcomeReceived: what it waited for has arrived.
	OutcomeReceived Outcome = 2
	// OutcomeCanceled: the code no longer waits, or was told to stop.
	OutcomeCanceled Outcome = 3
	// OutcomeUnsure, of a step or child: an attempt of a step that is not idempotent has ended with it, and may or may not have had its
	// effect.
	OutcomeUnsure Outcome = 4
)

// String returns the outcome's name.
func (o Outcome) String() string {
	switch o {
	case OutcomeDue:
		return "due"
	case OutcomeReceived:
		return "received"
	case OutcomeCanceled:
		return "cancelled"
	case OutcomeUnsure:
		return "unsure"
	}
	return "none"
}

// ParentClose says what becomes of a child when its parent ends or continues as
// a new run.
type ParentClose uint8

// The ways.
const (
	// CloseCancel asks the child to end.
	CloseCancel ParentClose = 0
	// CloseAbandon lets it go on by itself.
	CloseAbandon ParentClose = 1
	// CloseWait lets the parent's end wait for it.
	CloseWait ParentClose = 2
)

// String returns the way's name.
func (c ParentClose) String() string {
	switch c {
	case CloseAbandon:
		return "abandon"
	case CloseWait:
		return "wait"
	}
	return "cancel"
}

// Spec holds the options that a run was created with. It does not change during its life.
type Spec struct {
	Workflow    string
	Queue       string
	WorkflowID  string            // empty: none
	Tags        map[string]string // for searching
	Timeout     time.Duration     // of the whole run; 0: none
	Retention   time.Duration     // how long it is kept after its end; 0: the store's default
	Priority    int               // higher is claimed first
	StartAt     time.Time         // it was not to begin before that; zero: at once
	StartWithin time.Duration     // in which it must have begun, see LogState.StartBy; 0: at any time
	Parent      RunID
	ParentKey   string // key of the operation in the parent
	Root        RunID
	Depth       int
	RerunOf     RunID // the run of which it was made; empty: it was started
	Reruns      int   // how many reruns by the policy of the workflow, one of the other, have led to it; 0: none, or it was made otherwise
	ContinuedOf RunID
	Attributes  map[string]string // propagated context, such as a trace parent

	// Hold is how long the run waits to be released before it fails; 0: it begins
	// by itself.
	Hold time.Duration
	// Debug lets the code stand still in front of its first durable operation, and
	// go on by one operation with each RunStepped.
	Debug bool
	// Kept is how many events, from the first, were taken over as they were from
	// RerunOf; 0: none but what it was created with.
	Kept int
	// Seed is the run whose random numbers the code sees again, because what it has
	// done with them was taken over; empty: the run's own.
	Seed RunID

	// Gather says that several starts share the run, and what their inputs make of its input;
	// the RunCreated has none then.
	Gather Gather

	// Uses are the limits of which the run has permits while it is worked on, sorted by
	// limit and key, without equal ones; Whole: from its first claim to the end of its chain.
	Uses  []Use
	Whole bool
	// Held are the permits that those above the run have to their ends: it takes none of these
	// limits again, or it would wait for them.
	Held []Use
	// Fair is the key by which the run has its share of what begins, Share how many turns it has to
	// one of others; empty and 0: it has none, and goes by its arrival.
	Fair  string
	Share int
	// PermitSlot is the slot of the limits plus 1 if a run of its own takes the permits,
	// see PermitRun; 0: this run takes them itself.
	PermitSlot int
}

// Use is a share of a limit that a run takes.
type Use struct {
	Limit  string
	Key    string // of the part of the limit; empty: it has none
	Weight int    // at least 1
	Local  bool   // the limit is each worker's own
}

// DefaultHold is how long a run may be held.
const DefaultHold = 5 * time.Minute

// ID returns the event's own id.
func (e *Event) ID(run RunID) string { return derivedID(PrefixEvent, run, e.Seq, e.Time) }

// Correlation returns the id of the entity that the event is about: that of a
// run, step, wait, hook, child, send or ask, or the run's id for a fact without an
// entity. The id of a child is that of its place in this log; its run is Next.
func (e *Event) Correlation(run RunID) string {
	return EntityID(run, e.Type.Entity(), e.Ref, e.Since)
}

// EntityID returns the id of the entity that the event number ref, of time
// created, has created in the log of run.
func EntityID(run RunID, kind Entity, ref uint64, created time.Time) string {
	switch kind {
	case EntityStep:
		return derivedID(PrefixStep, run, ref, created)
	case EntityWait:
		return derivedID(PrefixWait, run, ref, created)
	case EntityHook:
		return derivedID(PrefixHook, run, ref, created)
	case EntityChild:
		return derivedID(PrefixChild, run, ref, created)
	case EntitySend:
		return derivedID(PrefixSend, run, ref, created)
	case EntityAsk:
		return derivedID(PrefixAsk, run, ref, created)
	}
	return string(run)
}

// Failure is an error in its stored form. It keeps what callers branch on: the
// code, the name and data of a registered error type, and the causes.
type Failure struct {
	Message string          `json:"message"`
	Code    string          `json:"code,omitempty"`
	Type    string          `json:"type,omitempty"` // wire name of the error's type or sentinel
	Data    json.RawMessage `json:"data,omitempty"` // the error value, if its type is registered
	Stack   string          `json:"stack,omitempty"`
	Causes  []*Failure      `json:"causes,omitempty"`
	// Undone and NotUndone tell, of a run that failed or was cancelled, which of its
	// compensations did their work and which did not, in the order in which they
	// were tried.
	Undone    []string `json:"undone,omitempty"`
	NotUndone []string `json:"notUndone,omitempty"`
}

// Codes of failures that the runtime itself makes. They are stored in logs and
// never change their meaning.
const (
	CodeError       = "error"       // the user's code returned an error
	CodePanic       = "panic"       // the user's code panicked
	CodeTimeout     = "timeout"     // an attempt or a run took too long
	CodeCanceled    = "cancelled"   // it was asked to end
	CodeTerminated  = "terminated"  // it was ended without its code, because somebody asked for that
	CodeInterrupted = "interrupted" // the worker died, or stopped, during the attempt
	CodeStopped     = "stopped"     // the worker stopped during the attempt, which does not count
	CodeRetryAfter  = "retryafter"  // the step asked for its next attempt at a time of its own; the attempt does not count
	CodePoisoned    = "poisoned"    // the run killed too many workers
	CodePayload     = "payload"     // a value could not be encoded, or is too large
	CodeFatal       = "fatal"       // the step said that retrying is useless
	CodeRefused     = "refused"     // another run refused what was sent, or could not be started
	CodeLimit       = "limit"       // more children than allowed
	CodeNotReleased = "notreleased" // the run was held, and nobody released it in time
	CodeNotStarted  = "notstarted"  // no worker began the run in time
	CodeLogLimit    = "loglimit"    // the log of the run has become too long
	CodeDeadlock    = "deadlock"    // every branch of the run waited for another one
	CodeTransitions = "transitions" // a machine began as many steps as it may, and has not ended
	CodeEndIgnored  = "endignored"  // the code of the run went on and on after its context had ended
	CodeOverLimit   = "overlimit"   // the run uses more of a limit than that has at once
)

// Instant returns t as a log keeps it: in UTC, in milliseconds, rounded up so
// that nothing is due before its time, and within the years 1 to 9999.
func Instant(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	ms := millis(t)
	if r := time.UnixMilli(ms); r.Before(t) && ms < maxMillis {
		ms++
	}
	return time.UnixMilli(ms).UTC()
}
