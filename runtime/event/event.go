package event

import (
	"encoding/json"
	"time"
)

// Event is one record of a log. The comment of each [Type] lists its fields; all other fields are
// zero.
type Event struct {
	// Seq is the position in the log, consecutive from 1.
	Seq  uint64
	Type Type
	// Time is when the event happened, by the store's clock, in milliseconds. It never decreases
	// along a log.
	Time time.Time

	// Ref is the Seq of the event that created this event's entity, and Since is the Time of that
	// event. A creating event refers to itself. Both are zero for events about the run and for
	// facts without an entity.
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
	Token   string          // token of a hook
	Meta    json.RawMessage // description of a hook for people; no run depends on it
	Next    RunID
	By      string // the worker, or the name given by the requester; empty: unknown
	Build   string // build of the worker's code, if it differs from the preceding events
	Spec    *Spec
	Close   ParentClose // what happens to a child when its parent ends
	Ack     bool        // the sender requests a confirmation of delivery
	// Active and Finished are the policies of a start whose workflow ID is in use, as numbers of
	// the store's policies.
	Active, Finished uint8
	// Uses are the limits for which something waits, From since when.
	Uses []Use
	From time.Time
	// Unread lists, in the event that ends a run, the accepted items that the code has not taken.
	Unread []ItemID
}

// Size returns the approximate number of bytes of the event in a log.
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

// WaitKind is the kind of event that ends a wait.
type WaitKind uint8

// The kinds of waits.
const (
	// WaitSleep ends at its due time.
	WaitSleep WaitKind = 1
	// WaitMessage ends when a message of its topic is taken, or at its due time.
	WaitMessage WaitKind = 2
	// WaitDeadline bounds a part of the run; no code waits for it.
	WaitDeadline WaitKind = 3
	// WaitHook ends when a payload of its hook is taken, or at its due time.
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

// Outcome is how a wait ended, or a detail of the end of a step or child.
type Outcome uint8

// The outcomes.
const (
	// OutcomeDue means that the due time has come.
	OutcomeDue Outcome = 1
	// OutcomeReceived means that the message or payload has arrived.
	OutcomeReceived Outcome = 2
	// OutcomeCanceled means that the code has stopped waiting or was canceled.
	OutcomeCanceled Outcome = 3
	// OutcomeUnsure, for a step or child, means that it ended with an attempt of a step that is not
	// idempotent, which may or may not have had its effect.
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

// ParentClose determines what happens to a child when its parent ends or continues as new.
type ParentClose uint8

// The policies.
const (
	// CloseCancel asks the child to cancel.
	CloseCancel ParentClose = 0
	// CloseAbandon lets the child continue independently.
	CloseAbandon ParentClose = 1
	// CloseWait makes the end of the parent wait for the child.
	CloseWait ParentClose = 2
)

// String returns the name of the policy.
func (c ParentClose) String() string {
	switch c {
	case CloseAbandon:
		return "abandon"
	case CloseWait:
		return "wait"
	}
	return "cancel"
}

// Spec contains the options with which a run was created. They do not change.
type Spec struct {
	Workflow    string
	Queue       string
	WorkflowID  string            // empty: none
	Tags        map[string]string // for searches
	Timeout     time.Duration     // timeout of the whole run; 0: none
	Retention   time.Duration     // time to keep it after its end; 0: the store's default
	Priority    int               // a higher one is claimed first
	StartAt     time.Time         // earliest start; zero: at once
	StartWithin time.Duration     // time within which it must begin, see LogState.StartBy; 0: unlimited
	Parent      RunID
	ParentKey   string // key of the operation in the parent
	Root        RunID
	Depth       int
	RerunOf     RunID // run of which this is a rerun; empty: none
	Reruns      int   // number of consecutive automatic reruns that led to it; 0: none, or it was created otherwise
	ContinuedOf RunID
	Attributes  map[string]string // propagated context, such as a trace parent

	// Hold is how long the run waits for its release before it fails; 0: it begins without a
	// release.
	Hold time.Duration
	// Debug makes the code stop before its first durable operation, and execute one operation for
	// each RunStepped.
	Debug bool
	// Kept is the number of events, from the first, that were taken over unchanged from RerunOf; 0:
	// none except the creation.
	Kept int
	// Seed is the run whose random numbers the code gets again, because its work was taken over;
	// empty: this run.
	Seed RunID

	// Gather is set if several starts share the run. It determines how their inputs form the run's
	// input; RunCreated has none in that case.
	Collect Collect

	// Uses are the limits whose permits the run holds while it is processed, sorted by limit and
	// key, without duplicates. If Whole is set, the run holds them from its first claim to the end
	// of its chain.
	Uses  []Use
	Whole bool
	// Held are the permits that runs above this one hold until they end. The run does not take
	// these limits again, because it would wait for its own ancestors.
	Held []Use
	// Fair is the fairness key of the run, and Share the weight of the key relative to others;
	// empty and 0: none, runs are ordered by arrival.
	Fair  string
	Share int
	// PermitSlot is the slot of the limits plus 1 if a separate run takes the permits, see
	// PermitRun; 0: this run takes them itself.
	PermitSlot int
}

// Use is a weight of a limit that a run uses.
type Use struct {
	Limit  string
	Key    string // empty: the limit has no keys
	Weight int    // at least 1
	Local  bool   // the limit applies to each worker separately
}

// DefaultHold is how long a run may be held by default.
const DefaultHold = 5 * time.Minute

// ID returns the ID of the event.
func (e *Event) ID(run RunID) string { return derivedID(PrefixEvent, run, e.Seq, e.Time) }

// Correlation returns the ID of the event's entity: a run, step, wait, hook, child, send or ask;
// for a fact without an entity, the run's ID. The ID of a child is derived from its position in
// this log; the ID of its run is Next.
func (e *Event) Correlation(run RunID) string {
	return EntityID(run, e.Type.Entity(), e.Ref, e.Since)
}

// EntityID returns the ID of the entity created by event number ref, with time created, in the log
// of run.
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

// Failure is an error in its stored form. It contains what callers branch on: the code, the name
// and data of a registered error type, and the causes.
type Failure struct {
	Message string          `json:"message"`
	Code    string          `json:"code,omitempty"`
	Type    string          `json:"type,omitempty"` // wire name of the error's type or sentinel
	Data    json.RawMessage `json:"data,omitempty"` // the error value, if its type is registered
	Stack   string          `json:"stack,omitempty"`
	Causes  []*Failure      `json:"causes,omitempty"`
	// Undone and NotUndone list, for a run that failed or was canceled, the compensations that
	// succeeded and those that did not, in the order in which they were executed.
	Undone    []string `json:"undone,omitempty"`
	NotUndone []string `json:"notUndone,omitempty"`
}

// Codes of failures created by the runtime. They are stored in logs and never change their meaning.
const (
	CodeError       = "error"       // the user's code returned an error
	CodePanic       = "panic"       // the user's code panicked
	CodeTimeout     = "timeout"     // an attempt or a run exceeded its time
	CodeCanceled    = "cancelled"   // it was asked to cancel
	CodeTerminated  = "terminated"  // it was ended by request without executing its code
	CodeInterrupted = "interrupted" // the worker died, or stopped, during the attempt
	CodeStopped     = "stopped"     // the worker was shut down during the attempt, which does not count
	CodeRetryAfter  = "retryafter"  // the step set the time of its next attempt; the attempt does not count
	CodePoisoned    = "poisoned"    // the run killed too many workers
	CodePayload     = "payload"     // a value could not be encoded, or is too large
	CodeFatal       = "fatal"       // the step reported that a retry is useless
	CodeRefused     = "refused"     // another run refused an item, or could not be started
	CodeLimit       = "limit"       // more children than allowed
	CodeNotReleased = "notreleased" // the run was held, and not released in time
	CodeNotStarted  = "notstarted"  // no worker began the run in time
	CodeLogLimit    = "loglimit"    // the log of the run is too long
	CodeDeadlock    = "deadlock"    // all branches of the run waited for one another
	CodeTransitions = "transitions" // a machine began the maximum number of steps without ending
	CodeEndIgnored  = "endignored"  // the code of the run continued long after its context had ended
	CodeOverLimit   = "overlimit"   // the run uses more of a limit than its AtOnce
)

// Instant returns t as stored in a log: in UTC, in milliseconds, rounded up so that nothing is due
// early, and within the years 1 to 9999.
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
