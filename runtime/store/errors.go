package store

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// The errors that every store returns.
var (
	// ErrClosed: the store has been closed.
	ErrClosed = errors.New("store is closed")
	// ErrRunNotFound: the run does not exist. It was never created, or it was purged after its
	// retention.
	ErrRunNotFound = errors.New("run not found")
	// ErrFenced: the claim is lost, and another worker may own the run. An earlier try of the same
	// commit may have been applied.
	ErrFenced = errors.New("claim lost: the run is no longer owned by this worker")
	// ErrUnread: the run cannot be parked or ended because its inbox contains items that it has not
	// read.
	ErrUnread = errors.New("inbox holds items that the commit does not consume")
	// ErrExpired: the session has ended.
	ErrExpired = errors.New("session expired: its runs may belong to others")
	// ErrOwned: a session owns the run.
	ErrOwned = errors.New("run is owned by a worker")
	// ErrNotClaimable: the run waits for the run before it, for its start time, or for permits.
	ErrNotClaimable = errors.New("run must wait: it cannot be claimed now")
	// ErrLater: the run is about to end; the caller sends the same item again shortly.
	ErrLater = errors.New("run is about to end: send again")
	// ErrStale: the request arrived after its deadline and was not executed.
	ErrStale = errors.New("request arrived after its deadline")
	// ErrStreamClosed: the stream is closed and accepts no more chunks.
	ErrStreamClosed = errors.New("stream is closed")
	// ErrRefused: the database refuses the user's login or denies a required operation. The
	// permission may be granted later, so a running worker retries; a worker that starts returns
	// the error.
	ErrRefused = errors.New("the store refuses the user")
	// ErrNoLimits: the store does not support limits and creates no run that uses a limit or has a
	// fairness key.
	ErrNoLimits = errors.New("the store keeps no limits")
	// ErrViewNotFound: the store has no view of that name.
	ErrViewNotFound = errors.New("there is no view of that name")
	// ErrViewsFull: the store already has the maximum number of views, [MaxViews].
	ErrViewsFull = fmt.Errorf("there are %d views: that is the limit", MaxViews)
	// ErrForeign: the opened database or file is not a store of this kind.
	ErrForeign = errors.New("not a flowgen store")
)

// PermanentError is an error that may be permanent. If Permanent returns true, the same request
// will fail later as well, and callers that wait for the end of an outage do not retry it.
type PermanentError interface {
	error
	Permanent() bool
}

// Unknown reports whether err leaves open whether the operation was executed; the caller may then
// repeat it with the same arguments. It returns false for nil, for the errors of this package, and
// for a [PermanentError] whose Permanent method returns true.
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

// DamagedError reports that the stored data of a run cannot be read, are wrong, or are missing. It
// concerns that run alone. The same request returns the same error until the store is repaired: see
// package fsck. It matches [event.ErrCorrupt].
type DamagedError struct {
	Run   event.RunID // empty if not known
	Frame uint64      // number of the damaged or missing frame of its log; 0 for other damage
	Err   error       // the cause
}

// Error returns the run, the frame if there is one, and the cause.
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

// Unwrap returns the cause and [event.ErrCorrupt].
func (e *DamagedError) Unwrap() []error { return []error{e.Err, event.ErrCorrupt} }

// Permanent is true.
func (e *DamagedError) Permanent() bool { return true }

// TooLargeError reports that a request is larger than the database allows. Nothing was written.
type TooLargeError struct {
	Run   event.RunID
	Bytes int
	Err   error // the error of the database
}

// Error names the run and the size.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("write to run %s: %d bytes are more than the store takes: %v", e.Run, e.Bytes, e.Err)
}

// Unwrap returns the error of the database.
func (e *TooLargeError) Unwrap() error { return e.Err }

// Permanent is true.
func (e *TooLargeError) Permanent() bool { return true }

// ConflictError reports that a commit does not continue the stored log: another commit was first,
// or the store has lost writes. The caller drops its state of the run and claims the run again.
type ConflictError struct {
	Run       event.RunID
	Seq       uint64         // first event of the commit
	StoredSeq uint64         // last event of the log
	Prev      event.CommitID // the frame that the commit continues
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

// Error names the active run.
func (e *ActiveError) Error() string {
	return fmt.Sprintf("workflow id %q is already active: run %s", event.ShownID(e.WorkflowID), e.Run)
}

// FinishedError reports that a start was refused because a run of its workflow ID has ended.
type FinishedError struct {
	WorkflowID string
	Run        event.RunID
	Status     event.Status
}

// Error names the finished run.
func (e *FinishedError) Error() string {
	return fmt.Sprintf("workflow id %q was used by run %s, which is %s", event.ShownID(e.WorkflowID), e.Run, e.Status)
}

// WorkflowIDMismatchError reports that the workflow ID of a commit is not that of its run.
type WorkflowIDMismatchError struct {
	Run       event.RunID
	Got, Want string
}

// Error names both workflow ids.
func (e *WorkflowIDMismatchError) Error() string {
	return fmt.Sprintf("commit to run %s names workflow id %q, the run has %q", e.Run, e.Got, e.Want)
}

// TerminalError reports that a run has ended and accepts no more changes.
type TerminalError struct {
	Run    event.RunID
	Status event.Status
}

// Error names the run and how it ended.
func (e *TerminalError) Error() string { return fmt.Sprintf("run %s is %s", e.Run, e.Status) }

// VersionError reports that a store has a format version that this release does not support.
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

// MissingError reports that [OpenExisting] found no store.
type MissingError struct {
	What string // for example the path of a file
}

// Permanent is true: waiting changes nothing.
func (e *MissingError) Permanent() bool { return true }

// Error returns what is missing and the fix.
func (e *MissingError) Error() string { return e.What + " does not exist: " + e.Fix() }

// Fix returns what the operator must do.
func (e *MissingError) Fix() string {
	return "look at the URL; the first program that works with a store makes it"
}

// ReadOnlyError reports that a store can only be read. Nothing was changed.
type ReadOnlyError struct {
	What string // for example the path of a file
	Op   string // the requested operation, such as "start runs"
}

// Permanent is true: waiting changes nothing.
func (e *ReadOnlyError) Permanent() bool { return true }

// Error returns the refused operation and the fix.
func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("%s: %s can only be read: %s", e.Op, e.What, e.Fix())
}

// Fix returns what the operator must do.
func (e *ReadOnlyError) Fix() string {
	return "do it in the store that the runs come from, or import them into another one: flowctl import FILE --into URL"
}

// LimitError reports that a run can never get its permits, because its weight exceeds the capacity
// of a limit. Its creation fails with this error, or the run ends with it if the limit was lowered
// after its creation.
type LimitError struct {
	Limit  LimitID
	Weight int
	AtOnce int
}

// Error names the limit and both numbers.
func (e *LimitError) Error() string {
	return fmt.Sprintf("a weight of %d can never be held of limit %s, which is %d at once: raise the limit, or use less of it", e.Weight, e.Limit, e.AtOnce)
}

// StartRefusedError reports that a limit refuses a start instead of making it wait.
type StartRefusedError struct {
	Limit LimitID
	// RetryAfter is the duration after which the rate of the limit may admit the start; 0 if not
	// known.
	RetryAfter time.Duration
}

// Error names the limit.
func (e *StartRefusedError) Error() string {
	text := fmt.Sprintf("limit %s refuses the start: it has no free capacity, and its queue is full", e.Limit)
	if e.RetryAfter > 0 {
		text += fmt.Sprintf("; try again in %v", e.RetryAfter)
	}
	return text
}

// Damages collects the damage that a store has found, for a [DamageTeller]. The zero value is ready
// for use.
type Damages struct {
	mu    sync.Mutex
	told  map[string]time.Time
	fresh []*DamagedError
}

// mostDamages is the maximum number of remembered names and of unreported damages.
const mostDamages = 1000

// Note adds damage, unless damage was noted under the same name within the last hour.
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

// Damage returns the damage noted since the last call.
func (d *Damages) Damage() []*DamagedError {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := d.fresh
	d.fresh = nil
	return fresh
}
