package store

import (
	"errors"
	"fmt"

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
	// ErrMail: the run cannot be parked or ended, because items have arrived
	// that it has not seen.
	ErrMail = errors.New("inbox holds items that the commit does not consume")
	// ErrExpired: the session is over.
	ErrExpired = errors.New("session expired: its runs may belong to others")
	// ErrOwned: the run is being worked on.
	ErrOwned = errors.New("run is owned by a worker")
	// ErrNotClaimable: the run waits for the run before it.
	ErrNotClaimable = errors.New("run waits in line behind another run of its workflow id")
	// ErrLater: the run is ending; send the same item again shortly.
	ErrLater = errors.New("run is about to end: send again")
	// ErrStale: the request arrived after its deadline and was not executed.
	ErrStale = errors.New("request arrived after its deadline")
	// ErrStreamClosed: no chunk can be added to the stream any more.
	ErrStreamClosed = errors.New("stream is closed")
	// ErrForeign: what was opened is not a store of this kind.
	ErrForeign = errors.New("not a flowgen store")
)

// PermanentError is an error of a store by which it says, if Permanent returns true,
// that the same question will not be answered later either. Whoever waits for
// outages to end does not wait for the end of this one.
type PermanentError interface {
	error
	Permanent() bool
}

// ConflictError says that a commit does not continue the log that the store
// has: another commit was there first, or the store has lost writes. The loser
// drops what it knows of the run and claims it again.
type ConflictError struct {
	Run       event.RunID
	Seq       uint64    // first event of the commit
	StoredSeq uint64    // last event of the log
	Prev      event.CID // what the commit continues
	Stored    event.CID // last frame of the log
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
	return fmt.Sprintf("workflow id %q is already active: run %s", e.WorkflowID, e.Run)
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
	return fmt.Sprintf("workflow id %q was used by run %s, which is %s", e.WorkflowID, e.Run, e.Status)
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

// VersionError says that a store was written by a newer release.
type VersionError struct {
	What       string // for example the path of a file
	Got, Known int
}

// Error names both versions and the fix.
func (e *VersionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this release knows up to %d: use a newer release of flowgen", e.What, e.Got, e.Known)
}
