package store

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

const (
	// DefaultRetention is the retention of a run whose Create sets none.
	DefaultRetention = 7 * 24 * time.Hour
	// Horizon exceeds the delay of any request, and the time of the writes that a failover can
	// lose; the protocol calls it H. A run is kept for at least that long after its creation and
	// after its end, regardless of its retention, so that a repeated request has the same result as
	// the first one.
	Horizon = 2 * time.Minute
)

// Purger is a store that removes runs after their retention.
//
// This takes two steps. A deleted run is hidden at once: every operation treats it as missing,
// except for a repeated Create of the same run, which has the same result as the first one, and a
// repeated Delete. Its workflow ID does not refer to it any more. After a purge the store contains
// nothing of the run.
type Purger interface {
	// Purge removes up to limit runs of a partition whose retention has expired, in the order of
	// expiry, and which no run will send to. A run is purged if it ended at least Horizon ago, was
	// created at least Horizon ago, and its retention has expired or it was deleted; see
	// [PurgeTime]. In addition, its CreatedBy must be confirmed, it must have no record in the
	// outbox in any phase, and the first run of a chain is purged after all later ones, because it
	// identifies the chain. A run does not count as due before these conditions hold. One action
	// removes its log, metadata, inbox, step data, tags, audit entries and all index entries, the
	// references of its workflow ID to it, and with the first run of a chain the accepted items of
	// the chain.
	//
	// It returns the number of purged runs, and when the next one is due: zero if there is none, a
	// past time if some are left. A store may stop before the limit to keep its action short, but
	// not before the first run.
	Purge(ctx context.Context, partition, limit int) (purged int, next time.Time, err error)
	// Delete hides an ended run until a Purge may remove it. It returns a *NotEndedError for an
	// open run, and ErrRunNotFound for a missing one. Deleting a hidden run again does nothing and
	// succeeds.
	Delete(ctx context.Context, run event.RunID) error
}

// PurgeTime returns the time from which an ended run with this retention may be purged. A deleted
// run has the retention 0.
func PurgeTime(created, ended time.Time, retention time.Duration) time.Time {
	at := ended.Add(Horizon)
	if t := created.Add(Horizon); t.After(at) { // the clock was set back
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

// Error names the run, its status and the fix.
func (e *NotEndedError) Error() string {
	return fmt.Sprintf("run %s is %s and has not ended: cancel it and wait for its end, for which some worker has to run; once it has begun, one that serves its workflow and queue", e.Run, e.Status)
}
