package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// The errors that every store answers with.
var (
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("store is closed")
	// ErrRunNotFound: the store has no such run. It was never created, or it
	// was purged after its retention.
	ErrRunNotFound = errors.New("run not found")
	// ErrFenced: the claim is lost; another worker may own the run. It does not
	// say whether an earlier try of the same commit was applied.
	ErrFenced = errors.New("claim lost: the run is no longer owned by this worker")
	// ErrUnread: the run cannot be parked or ended, because items have arrived
	// that it has not seen.
	ErrUnread = errors.New("inbox holds items that the commit does not consume")
	// ErrExpired: the session is over.
	ErrExpired = errors.New("session expired: its runs may belong to others")
	// ErrOwned: the run is being worked on.
	ErrOwned = errors.New("run is owned by a worker")
	// ErrNotClaimable: the run must wait, for the run before it, for its time, or for permits.
	ErrNotClaimable = errors.New("run must wait: it cannot be claimed now")
	// ErrLater: the run is ending; send the same item again shortly.
	ErrLater = errors.New("run is about to end: send again")
	// ErrStale: the request arrived after its deadline and was not executed.
	ErrStale = errors.New("request arrived after its deadline")
	// ErrStreamClosed: no chunk can be added to the stream any more.
	ErrStreamClosed = errors.New("stream is closed")
	// ErrRefused: the store does not let this user in, or not do what it has to. It may be
	// allowed later: who works already tries again, and a worker that starts says so instead.
	ErrRefused = errors.New("the store refuses the user")
	// ErrNoLimits: the store keeps no limits, and creates no run that uses one, or has a fair key.
	ErrNoLimits = errors.New("the store keeps no limits")
	// ErrViewNotFound: the store keeps no view of that name.
	ErrViewNotFound = errors.New("there is no view of that name")
	// ErrViewsFull: the store keeps as many views as it may: see [MaxViews].
	ErrViewsFull = fmt.Errorf("there are %d views: that is the limit", MaxViews)
	// ErrForeign: what was opened is not a store of this kind.
	ErrForeign = errors.New("not a flowgen store")
)

// PermanentError is an error of a store by which it says, if Permanent returns true,
// that the same question will not be answered later either. Callers that wait for
// the end of outages do not wait for the end of this one.
type PermanentError interface {
	error
	Permanent() bool
}

// Unknown reports whether an error says only that it is not known whether an operation was
// executed: it may be repeated with the same arguments. The errors of this package, and a
// [PermanentError] that is one, are answers; nil is one, too.
func Unknown(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range []error{
		ErrClosed, ErrRunNotFound, ErrFenced, ErrUnread, ErrExpired, ErrOwned, ErrNotClaimable, ErrLater, ErrStale, ErrStreamClosed, ErrForeign, ErrNoLimits, ErrViewNotFound, ErrViewsFull,
	} {
		if errors.Is(err, answer) {
			return false
		}
	}
	if p, ok := errors.AsType[PermanentError](err); ok && p.Permanent() {
		return false
	}
	var (
		conflict *ConflictError
		active   *ActiveError
		finished *FinishedError
		mismatch *WorkflowIDMismatchError
		terminal *TerminalError
		limit    *LimitError
		refused  *StartRefusedError
	)
	return !errors.As(err, &conflict) && !errors.As(err, &active) && !errors.As(err, &finished) &&
		!errors.As(err, &mismatch) && !errors.As(err, &terminal) &&
		!errors.As(err, &limit) && !errors.As(err, &refused)
}

// DamagedError says that the stored data of a run cannot be read, are wrong,
// or are missing. It concerns that run alone. The same question gets the same answer until
// the store was repaired: see package fsck. It matches [event.ErrCorrupt].
type DamagedError struct {
	Run   event.RunID // empty: not known
	Frame uint64      // number of the frame of its log that is damaged or missing; 0: something else
	Err   error       // what was found
}

// Error names the run, and the frame if it is about one.
func (e *DamagedError) Error() string {
	what := "what is stored"
	if e.Frame > 0 {
		what = fmt.Sprintf("frame %d of the log", e.Frame)
	}
	if e.Run != "" {
		what += " of run " + string(e.Run)
	}
	return fmt.Sprintf("%s is damaged: %v", what, e.Err)
}

// Unwrap returns what was found, and that it is damage.
func (e *DamagedError) Unwrap() []error { return []error{e.Err, event.ErrCorrupt} }

// Permanent is true.
func (e *DamagedError) Permanent() bool { return true }

// TooLargeError says that a store cannot take a request: it is larger than the database
// allows. Nothing was written.
type TooLargeError struct {
	Run   event.RunID
	Bytes int
	Err   error // what the database says
}

// Error names the run and the size.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("write to run %s: %d bytes are more than the store takes: %v", e.Run, e.Bytes, e.Err)
}

// Unwrap returns what the database says.
func (e *TooLargeError) Unwrap() error { return e.Err }

// Permanent is true.
func (e *TooLargeError) Permanent() bool { return true }

// ConflictError says that a commit does not continue the log that the store
// has: another commit was there first, or the store has lost writes. The loser
// drops its state of the run and claims it again.
type ConflictError struct {
	Run       event.RunID
	Seq       uint64         // first event of the commit
	StoredSeq uint64         // last event of the log
	Prev      event.CommitID // what the commit continues
	Stored    event.CommitID // last frame of the log
	Reason    string
}

// Error says what differs.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("commit to run %s at event %d: %s (log ends at event %d, frame %s)", e.Run, e.Seq, e.Reason, e.StoredSeq, e.Stored)
}

// ActiveError says that a workflow id has an active run.
type ActiveError struct {
	WorkflowID string
	Run        event.RunID
}

// Error names the active run.
func (e *ActiveError) Error() string {
	return fmt.Sprintf("workflow id %q is already active: run %s", event.ShownID(e.WorkflowID), e.Run)
}

// FinishedError says that a workflow id was used by a run that has ended, and
// that the start does not allow that.
type FinishedError struct {
	WorkflowID string
	Run        event.RunID
	Status     event.Status
}

// Error names the finished run.
func (e *FinishedError) Error() string {
	return fmt.Sprintf("workflow id %q was used by run %s, which is %s", event.ShownID(e.WorkflowID), e.Run, e.Status)
}

// WorkflowIDMismatchError says that a commit names another workflow id than its
// run has.
type WorkflowIDMismatchError struct {
	Run       event.RunID
	Got, Want string
}

// Error names both workflow ids.
func (e *WorkflowIDMismatchError) Error() string {
	return fmt.Sprintf("commit to run %s names workflow id %q, the run has %q", e.Run, e.Got, e.Want)
}

// TerminalError says that a run has ended and takes nothing more.
type TerminalError struct {
	Run    event.RunID
	Status event.Status
}

// Error names the run and how it ended.
func (e *TerminalError) Error() string { return fmt.Sprintf("run %s is %s", e.Run, e.Status) }

// VersionError reports that a store has a format version with which this release does not work.
// Nothing was changed.
type VersionError struct {
	What       string // for example the path of a file
	Got, Known int
}

// Permanent is true: waiting changes nothing.
func (e *VersionError) Permanent() bool { return true }

// Error names both versions and the fix.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this release works with version %d only: %s", e.What, e.Got, e.Known, e.Fix())
}

// Fix returns what the operator must do.
func (e *VersionError) Fix() string {
	if e.Got > e.Known {
		return "use a newer release of flowgen"
	}
	return "use the release that wrote it, or another place"
}

// MissingError says that there is no store where [OpenExisting] looked for one.
type MissingError struct {
	What string // for example the path of a file
}

// Permanent is true: waiting changes nothing.
func (e *MissingError) Permanent() bool { return true }

// Error says what is missing, and the fix.
func (e *MissingError) Error() string { return e.What + " does not exist: " + e.Fix() }

// Fix says what must be done.
func (e *MissingError) Fix() string {
	return "look at the URL; the first program that works with a store makes it"
}

// ReadOnlyError says that a store can be read and not be changed. Nothing was changed.
type ReadOnlyError struct {
	What string // for example the path of a file
	Op   string // what was asked for, as "start runs"
}

// Permanent is true: waiting changes nothing.
func (e *ReadOnlyError) Permanent() bool { return true }

// Error says what was refused, and the fix.
func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("%s: %s can only be read: %s", e.Op, e.What, e.Fix())
}

// Fix says what must be done.
func (e *ReadOnlyError) Fix() string {
	return "do it in the store that the runs come from, or import them into another one: flowctl import FILE --into URL"
}

// LimitError says that a run can never have its permits: it uses more of a limit than that
// has. It is the answer to its creation, or its end if the limit was lowered afterwards.
type LimitError struct {
	Limit  LimitID
	Weight int
	AtOnce int
}

// Error names the limit and both numbers.
func (e *LimitError) Error() string {
	return fmt.Sprintf("a weight of %d can never be held of limit %s, which is %d at once: raise the limit, or use less of it", e.Weight, e.Limit, e.AtOnce)
}

// StartRefusedError says that a limit refuses a start instead of letting it wait.
type StartRefusedError struct {
	Limit LimitID
	// RetryAfter is when the rate of the limit may let the start begin; 0: it is not known.
	RetryAfter time.Duration
}

// Error names the limit.
func (e *StartRefusedError) Error() string {
	text := fmt.Sprintf("limit %s refuses the start: it has no room, and takes nobody more who waits", e.Limit)
	if e.RetryAfter > 0 {
		text += fmt.Sprintf("; try again in %v", e.RetryAfter)
	}
	return text
}
