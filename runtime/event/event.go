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
	// Time is when the event happened, by the clock of the store, in milliseconds. Times never
	// decrease along a log.
	Time time.Time

	// Ref is the Seq of the event that created the entity of this event, and Since is the Time of
	// that creation. A creating event refers to itself. Ref and Since are zero for events about the
	// run and for facts without an entity.
	Ref   uint64
	Since time.Time

	Name    string // step, topic, hook or value
	Key     string // key of the operation within the run
	Payload json.RawMessage
	Failure *Failure
	Attempt int       // number of the attempt, from 1
	Due     time.Time // zero: no due time
	Wait    WaitKind
	Outcome Outcome
	Item    ItemID
	Reason  string
	Token   string          // token of a hook
	Meta    json.RawMessage // description of a hook for people, or the alerts about a failed run
	Next    RunID
	By      string // the worker, or the name that a requester gave; empty: unknown
	Build   string // build whose code was executed up to this event; empty: the build of the preceding events
	Spec    *Spec
	Close   ParentClose // what happens to a child when its parent ends
	Ack     bool        // the sender requests a confirmation of delivery
	// Active and Finished determine what a start does if a run with its workflow ID is active or
	// has ended. They are numbers of the store's policies.
	Active, Finished uint8
	// Uses are the limits whose permits are awaited, and From is when the wait began.
	Uses []Use
	From time.Time
	// Attributes are those that the sender of a message, payload or question has set, see
	// [Event.Origin]. They must not be changed.
	Attributes map[string]string
	// Unread lists the accepted items that the code has not read. Only the event that ends a run
	// has it.
	Unread []ItemID
}

// Size returns the approximate size of the event in a log, in bytes.
func (e *Event) Size() int {
	n := 32 + len(e.Name) + len(e.Key) + len(e.Payload) + len(e.Reason) + len(e.Token) + len(e.Meta) + e.Failure.size()
	for _, item := range e.Unread {
		n += len(item) + 2
	}
	for _, u := range e.Uses {
		n += len(u.Limit) + len(u.Key) + 6
	}
	n += pairsSize(e.Attributes)
	if e.Spec != nil {
		n += len(e.Spec.Build) + len(e.Spec.Pin) + pairsSize(e.Spec.Tags) + pairsSize(e.Spec.Attributes)
	}
	return n
}

func pairsSize(pairs map[string]string) (n int) {
	for k, v := range pairs {
		n += len(k) + len(v) + 4
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
	// WaitMessage ends when the code receives a message of its topic, or at its due time.
	WaitMessage WaitKind = 2
	// WaitDeadline is the deadline of a part of the run. No code waits for it.
	WaitDeadline WaitKind = 3
	// WaitHook ends when the code receives a payload of its hook, or at its due time.
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

// The outcomes of waits, steps and children.
const (
	// OutcomeDue means that the due time of the wait came.
	OutcomeDue Outcome = 1
	// OutcomeReceived means that the code received the message or payload.
	OutcomeReceived Outcome = 2
	// OutcomeCanceled means that the code stopped waiting or was canceled.
	OutcomeCanceled Outcome = 3
	// OutcomeUnsure means that a step or child ended after an attempt of a step that is not
	// idempotent. The attempt may have had its effect.
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

// The policies for children.
const (
	// CloseCancel asks the child to cancel.
	CloseCancel ParentClose = 0
	// CloseAbandon lets the child continue without its parent.
	CloseAbandon ParentClose = 1
	// CloseWait delays the end of the parent until the child has ended.
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

// Spec contains the options with which a run was created. They never change.
type Spec struct {
	Workflow    string
	Queue       string
	WorkflowID  string            // chosen by the client; empty: none
	Tags        map[string]string // searchable pairs
	Timeout     time.Duration     // timeout of the whole run; 0: none
	Retention   time.Duration     // time for which the run is kept after its end; 0: the store's default
	Priority    int               // runs with a higher priority are claimed first
	StartAt     time.Time         // earliest start; zero: no delay
	StartWithin time.Duration     // time within which the run must begin, see LogState.StartBy; 0: unlimited
	Parent      RunID
	ParentKey   string // key of the operation in the parent
	Root        RunID
	Depth       int
	RerunOf     RunID // the failed run that this run repeats; empty: none
	Reruns      int   // number of consecutive automatic reruns that led to this run; 0: it is not an automatic rerun
	ContinuedOf RunID
	// Attributes are the pairs that the creator of the run has set, for example a trace parent, and
	// those that the run has inherited. They must not be changed. Build is the build of the program
	// that has created the run; empty: unknown. See [Spec.Origin].
	Attributes map[string]string
	Build      string
	// Pin is the build to which the run is pinned, see RouteQueue. It is empty if the run is not
	// pinned. Queue is the same for pinned and other runs.
	Pin string

	// Hold is the time within which the run must be released; otherwise it fails. 0: the run begins
	// without a release.
	Hold time.Duration
	// Debug suspends the code before its first durable operation. Each RunStepped lets the code
	// execute one operation.
	Debug bool
	// Kept is the number of events at the start of the log that were copied unchanged from RerunOf.
	// It is 0 if only the creation was copied, or if the run is not a rerun.
	Kept int
	// Seed is the run whose random numbers the code receives, because this run has copied its
	// events; empty: this run.
	Seed RunID

	// Collect determines how the inputs of several starts form the input of the run. If it is set,
	// RunCreated has no input.
	Collect Collect

	// Uses are the limits whose permits the run holds while a worker executes it. They are sorted
	// by limit and key, without duplicates. If Whole is set, the run holds the permits from its
	// first claim to the end of its chain.
	Uses  []Use
	Whole bool
	// Held are the permits that ancestors of this run hold until they end. The run does not take
	// permits of these limits, because it would wait for its own ancestors.
	Held []Use
	// Fair is the fairness key of the run, and Share is the weight of the key relative to other
	// keys. If Fair is empty, runs are ordered by arrival.
	Fair  string
	Share int
	// PermitSlot is the slot of the limits plus 1 if a separate run takes the permits, see
	// PermitRun. It is 0 if this run takes them itself.
	PermitSlot int
}

// Use is the number of permits of one limit that a run uses.
type Use struct {
	Limit  string
	Key    string // empty: the limit has no keys
	Weight int    // number of permits, at least 1
	Local  bool   // the limit applies to each worker separately
}

// DefaultHold is the Hold of a held run if its creator sets none.
const DefaultHold = 5 * time.Minute

// ID returns the ID of the event.
func (e *Event) ID(run RunID) string { return derivedID(PrefixEvent, run, e.Seq, e.Time) }

// Correlation returns the ID of the event's entity: a run, step, wait, hook, child, send or ask.
// For a fact without an entity it returns the ID of the run. The ID of a child entity is derived
// from its position in this log and differs from Next, the ID of the child's run.
func (e *Event) Correlation(run RunID) string {
	return EntityID(run, e.Type.Entity(), e.Ref, e.Since)
}

// EntityID returns the ID of an entity in the log of run. ref is the Seq of the event that created
// the entity, and created is its Time.
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

// Failure is an error in its stored form. It contains the properties on which callers branch: the
// code, the name and data of a registered error type, and the causes.
type Failure struct {
	Message string          `json:"message"`
	Code    string          `json:"code,omitempty"`
	Type    string          `json:"type,omitempty"` // wire name of the error's type or sentinel
	Data    json.RawMessage `json:"data,omitempty"` // JSON form of the error value, if its type is registered
	Stack   string          `json:"stack,omitempty"`
	Causes  []*Failure      `json:"causes,omitempty"`
	// Undone and NotUndone describe a run that failed or was canceled. Undone lists the
	// compensations that succeeded and NotUndone those that did not, in order of execution.
	Undone    []string `json:"undone,omitempty"`
	NotUndone []string `json:"notUndone,omitempty"`
}

// Codes of failures created by the runtime. They are stored in logs and never change their meaning.
const (
	CodeError       = "error"       // the user's code returned an error
	CodePanic       = "panic"       // the user's code panicked
	CodeTimeout     = "timeout"     // an attempt or a run exceeded its time
	CodeCanceled    = "cancelled"   // the run or step was asked to cancel
	CodeTerminated  = "terminated"  // the run was ended by a request, without executing its code
	CodeInterrupted = "interrupted" // the worker stopped or crashed during the attempt
	CodeStopped     = "stopped"     // the worker was shut down during the attempt; the attempt does not count
	CodeRetryAfter  = "retryafter"  // the step chose the time of its next attempt; the attempt does not count
	CodePoisoned    = "poisoned"    // too many workers crashed while they executed the run
	CodePayload     = "payload"     // a value could not be encoded, or is too large
	CodeFatal       = "fatal"       // the step reported an error for which a retry is useless
	CodeRefused     = "refused"     // another run refused an item, or could not be started
	CodeLimit       = "limit"       // the run has more children than allowed
	CodeNotReleased = "notreleased" // the run was held and not released in time
	CodeNotStarted  = "notstarted"  // no worker began the run in time
	CodeLogLimit    = "loglimit"    // the log of the run is too long
	CodeDeadlock    = "deadlock"    // all branches of the run waited for one another
	CodeTransitions = "transitions" // a machine began its maximum number of steps without ending
	CodeEndIgnored  = "endignored"  // the code of the run continued long after its context had ended
	CodeOverLimit   = "overlimit"   // the run uses more permits of a limit than its AtOnce
)

// Instant returns t as stored in a log: in UTC, in whole milliseconds, within the years 1 to 9999.
// It rounds up so that nothing is due early.
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
