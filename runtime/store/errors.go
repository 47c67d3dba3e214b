package store

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Errors that every store returns.
var (
	// ErrClosed means that the store has been closed.
	ErrClosed = errors.New("store is closed")
	// ErrRunNotFound means that the run does not exist: it was never created, or was purged after
	// its retention.
	ErrRunNotFound = errors.New("run not found")
	// ErrFenced means that the claim is lost and another worker may own the run. An earlier call
	// with the same commit may have been successful.
	ErrFenced = errors.New("claim lost: the run is no longer owned by this worker")
	// ErrUnread means that the run cannot be parked or ended because its inbox contains unread
	// items.
	ErrUnread = errors.New("inbox holds items that the commit does not consume")
	// ErrExpired means that the session has ended.
	ErrExpired = errors.New("session expired: its runs may be owned by other workers")
	// ErrOwned means that a session owns the run.
	ErrOwned = errors.New("run is owned by a worker")
	// ErrNotClaimable means that the run waits for the preceding run of its workflow ID, for its
	// start time, or for permits.
	ErrNotClaimable = errors.New("run must wait: it cannot be claimed now")
	// ErrLater means that the run is about to end. The caller must send the same item again after a
	// short time.
	ErrLater = errors.New("run is about to end: send again")
	// ErrStale means that the request arrived after its deadline and was not executed.
	ErrStale = errors.New("request arrived after its deadline")
	// ErrStreamClosed means that the stream is closed and accepts no chunks.
	ErrStreamClosed = errors.New("stream is closed")
	// ErrRefused means that the database refuses the login of the user or denies a required
	// operation. An administrator may grant the permission later, so a running worker retries. A
	// worker that starts returns the error.
	ErrRefused = errors.New("the store refuses the user")
	// ErrNoLimits means that the store does not support limits and refuses runs that use a limit or
	// a fairness key.
	ErrNoLimits = errors.New("the store keeps no limits")
	// ErrViewNotFound means that the store has no view with the given name.
	ErrViewNotFound = errors.New("no view has this name")
	// ErrViewsFull means that the store has the maximum number of views, [MaxViews].
	ErrViewsFull = fmt.Errorf("the limit of %d views is reached", MaxViews)
	// ErrForeign means that the opened database or file is not a store of this kind.
	ErrForeign = errors.New("not a flowgen store")
)

// PermanentError is an error that may be permanent. If Permanent returns true, the same request
// fails at any later time. Callers that wait for the end of an outage do not retry such a request.
type PermanentError interface {
	error
	Permanent() bool
}

// Unknown reports whether err means that the operation may or may not have been executed. If so,
// the caller may repeat the operation with the same arguments. Unknown returns false for nil, for
// the errors of this package, and for a [PermanentError] whose Permanent method returns true.
func Unknown(err error) bool {
	if err == nil {
		return false
	}
	for _, answer := range []error{
		ErrClosed, ErrRunNotFound, ErrFenced, ErrUnread, ErrExpired, ErrOwned, ErrNotClaimable, ErrLater, ErrStale, ErrStreamClosed, ErrForeign, ErrNoLimits, ErrViewNotFound, ErrViewsFull,
		ErrEntryChanged, ErrEntryNotFound, ErrEntriesFull,
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

// DamagedError reports that stored data of a run are missing, wrong or unreadable. It affects only
// this run. The same request returns the same error until the store is repaired: see package fsck.
// The error matches [event.ErrCorrupt].
type DamagedError struct {
	Run   event.RunID // empty if unknown
	Frame uint64      // number of the damaged or missing frame in the log; 0 for other damage
	Err   error       // cause
}

// Error returns the run, the frame if known, and the cause.
func (e *DamagedError) Error() string {
	what := "the stored data"
	if e.Frame > 0 {
		what = fmt.Sprintf("frame %d of the log", e.Frame)
	}
	if e.Run != "" {
		what += " of run " + string(e.Run)
	}
	return fmt.Sprintf("%s is damaged: %v", what, e.Err)
}

// Unwrap returns the cause and [event.ErrCorrupt].
func (e *DamagedError) Unwrap() []error { return []error{e.Err, event.ErrCorrupt} }

// Permanent returns true.
func (e *DamagedError) Permanent() bool { return true }

// TooLargeError reports that a request is larger than the database permits. Nothing was written.
type TooLargeError struct {
	Run   event.RunID
	Bytes int
	Err   error // error of the database
}

// Error returns the run and the size of the request.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("write to run %s: %d bytes exceed the limit of the store: %v", e.Run, e.Bytes, e.Err)
}

// Unwrap returns the error of the database.
func (e *TooLargeError) Unwrap() error { return e.Err }

// Permanent returns true.
func (e *TooLargeError) Permanent() bool { return true }

// ConflictError reports that a commit does not continue the stored log, because another commit was
// stored first or the store has lost writes. The caller must discard its state of the run and claim
// the run again.
type ConflictError struct {
	Run       event.RunID
	Seq       uint64         // number of the first event of the commit
	StoredSeq uint64         // number of the last event of the log
	Prev      event.CommitID // frame that the commit continues
	Stored    event.CommitID // last frame of the log
	Reason    string
}

// Error returns the difference between the commit and the log.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("commit to run %s at event %d: %s (log ends at event %d, frame %s)", e.Run, e.Seq, e.Reason, e.StoredSeq, e.Stored)
}

// ActiveError reports that a workflow ID has an active run.
type ActiveError struct {
	WorkflowID string
	Run        event.RunID
}

// Error returns the workflow ID and the active run.
func (e *ActiveError) Error() string {
	return fmt.Sprintf("workflow id %q is already active: run %s", event.ShownID(e.WorkflowID), e.Run)
}

// FinishedError reports that a start was refused because a run of its workflow ID has ended.
type FinishedError struct {
	WorkflowID string
	Run        event.RunID
	Status     event.Status
}

// Error returns the workflow ID and the finished run.
func (e *FinishedError) Error() string {
	return fmt.Sprintf("workflow id %q was used by run %s, which is %s", event.ShownID(e.WorkflowID), e.Run, e.Status)
}

// WorkflowIDMismatchError reports that a commit names a workflow ID that the run does not have.
type WorkflowIDMismatchError struct {
	Run       event.RunID
	Got, Want string
}

// Error returns both workflow IDs.
func (e *WorkflowIDMismatchError) Error() string {
	return fmt.Sprintf("commit to run %s names workflow id %q, the run has %q", e.Run, e.Got, e.Want)
}

// TerminalError reports that a run cannot be changed because it has ended.
type TerminalError struct {
	Run    event.RunID
	Status event.Status
}

// Error returns the run and its status.
func (e *TerminalError) Error() string { return fmt.Sprintf("run %s is %s", e.Run, e.Status) }

// VersionError reports that this release does not support the format version of a store. Nothing
// was changed.
type VersionError struct {
	What       string // the store, such as the path of its file
	Got, Known int
}

// Permanent returns true, because waiting does not help.
func (e *VersionError) Permanent() bool { return true }

// Error returns both versions and the fix.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this release works with version %d only: %s", e.What, e.Got, e.Known, e.Fix())
}

// Fix returns the action that the operator must take.
func (e *VersionError) Fix() string {
	if e.Got > e.Known {
		return "use a newer release of flowgen"
	}
	return "use the release that wrote it, or another store"
}

// MissingError reports that [OpenExisting] found no store.
type MissingError struct {
	What string // the store, such as the path of its file
}

// Permanent returns true, because waiting does not help.
func (e *MissingError) Permanent() bool { return true }

// Error returns the missing store and the fix.
func (e *MissingError) Error() string { return e.What + " does not exist: " + e.Fix() }

// Fix returns the action that the operator must take.
func (e *MissingError) Fix() string {
	return "check the URL; the first program that opens a store for writing creates it"
}

// ReadOnlyError reports that a change was refused because the store can only be read.
type ReadOnlyError struct {
	What string // the store, such as the path of its file
	Op   string // the requested operation, such as "start runs"
}

// Permanent returns true, because waiting does not help.
func (e *ReadOnlyError) Permanent() bool { return true }

// Error returns the refused operation and the fix.
func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("%s: %s can only be read: %s", e.Op, e.What, e.Fix())
}

// Fix returns the action that the operator must take.
func (e *ReadOnlyError) Fix() string {
	return "write to the store that the runs come from, or import them into another one: flowctl import FILE --into URL"
}

// LimitError reports that a run can never get its permits, because its weight exceeds the capacity
// of a limit. The creation of the run fails with this error. If the limit was lowered after the
// creation, the run ends with this error.
type LimitError struct {
	Limit  LimitID
	Weight int
	AtOnce int
}

// Error returns the limit, the weight and the capacity.
func (e *LimitError) Error() string {
	return fmt.Sprintf("a weight of %d exceeds limit %s, which is %d at once: raise the limit, or use less of it", e.Weight, e.Limit, e.AtOnce)
}

// StartRefusedError reports that a limit refuses a start instead of making the run wait.
type StartRefusedError struct {
	Limit LimitID
	// RetryAfter is the time after which the rate of the limit may permit the start. It is 0 if
	// unknown.
	RetryAfter time.Duration
}

// Error returns the limit.
func (e *StartRefusedError) Error() string {
	text := fmt.Sprintf("limit %s refuses the start: it has no free capacity, and its queue is full", e.Limit)
	if e.RetryAfter > 0 {
		text += fmt.Sprintf("; try again in %v", e.RetryAfter)
	}
	return text
}

// Damages collects damage that a store has found. It helps to implement a [DamageTeller]. The zero
// value is ready for use.
type Damages struct {
	mu    sync.Mutex
	told  map[string]time.Time
	fresh []*DamagedError
}

// mostDamages is the maximum number of recorded names, and the maximum number of unreported
// damages.
const mostDamages = 1000

// Note records damage under a name. It does nothing if damage was recorded under the same name
// within the last hour.
func (d *Damages) Note(name string, damage *DamagedError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if at, ok := d.told[name]; ok && now.Sub(at) < time.Hour {
		return
	}
	if d.told == nil || len(d.told) >= mostDamages {
		d.told = map[string]time.Time{}
	}
	d.told[name] = now
	if len(d.fresh) < mostDamages {
		d.fresh = append(d.fresh, damage)
	}
}

// Damage returns the damage that was recorded since the last call of Damage.
func (d *Damages) Damage() []*DamagedError {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := d.fresh
	d.fresh = nil
	return fresh
}
