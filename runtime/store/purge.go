package store

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

const (
	// DefaultRetention is the retention of a run if its Create sets none.
	DefaultRetention = 7 * 24 * time.Hour
	// Horizon is longer than the delay of any request, and longer than the period whose writes a
	// failover can lose. The protocol calls it H. A run is kept for at least Horizon after its
	// creation and after its end, regardless of its retention. Therefore a repeated request has the
	// same result as the first one.
	Horizon = 2 * time.Minute
)

// Purger is a store that removes runs after their retention.
//
// The removal takes two steps. Delete hides a run at once. Every operation treats a hidden run as
// missing, with two exceptions: a repeated Create of the run has the same result as the first one,
// and a repeated Delete succeeds. The workflow ID of a hidden run does not refer to the run. Purge
// then removes everything that the store contains about the run.
type Purger interface {
	// Purge removes at most limit runs of a partition whose retention has expired, in the order of
	// expiry. It purges a run only if no run will send to it. The run must have ended at least
	// Horizon ago and been created at least Horizon ago, and its retention must have expired or it
	// must have been deleted: see [PurgeTime]. Its CreatedBy must be confirmed, and it must have no
	// outbox record in any phase. The first run of a chain is purged after all later runs, because
	// it identifies the chain. A run is not due before these conditions hold.
	//
	// One action removes the log, metadata, inbox, step data, tags, audit entries and all index
	// entries of the run, and the references of its workflow ID to it. With the first run of a
	// chain, the action also removes the accepted items of the chain.
	//
	// Purge returns the number of purged runs and the time at which the next run is due. The time
	// is zero if there is none, and in the past if due runs remain. A store may stop before limit
	// to keep its action short, but it purges at least one due run.
	Purge(ctx context.Context, partition, limit int) (purged int, next time.Time, err error)
	// Delete hides an ended run until Purge removes it. It returns a *NotEndedError if the run has
	// not ended, and ErrRunNotFound if it does not exist. Deleting a hidden run does nothing and
	// returns nil.
	Delete(ctx context.Context, run event.RunID) error
}

// PurgeTime returns the time from which an ended run with the given retention may be purged. A
// deleted run has the retention 0.
func PurgeTime(created, ended time.Time, retention time.Duration) time.Time {
	at := ended.Add(Horizon)
	if t := created.Add(Horizon); t.After(at) { // possible if the clock was set back
		at = t
	}
	if t := ended.Add(retention); t.After(at) {
		at = t
	}
	return at
}

// NotEndedError reports that a run cannot be deleted because it has not ended.
type NotEndedError struct {
	Run    event.RunID
	Status event.Status
}

// Error returns the run, its status and the fix.
func (e *NotEndedError) Error() string {
	return fmt.Sprintf("run %s is %s and has not ended: cancel it and wait for its end, which needs a running worker, and after the run has begun a worker that serves its workflow and queue", e.Run, e.Status)
}
