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
	// Horizon is longer than any request can be late, and than the writes that a
	// failover can lose; the protocol calls it H. A run stays for at least that
	// long after its creation and after its end, whatever its retention: a request
	// that is repeated gets the same answer as the first time.
	Horizon = 2 * time.Minute
)

// Purger is a store that forgets runs after their retention.
//
// Two steps lead there. A run that is deleted is hidden at once: every operation
// answers as if it were gone, but for a repeated Create of the same run, which is
// still answered as the first one was, and a repeated Delete. Its workflow id
// forgets it, too. A run that is purged is gone: the store holds nothing of it.
type Purger interface {
	// Purge removes up to limit runs of a partition whose retention is over, the
	// longest over first, and to which nobody may send again. A run is purged when
	// it ended at least Horizon ago, was created at least Horizon ago, and its
	// retention is over or it was deleted; see [PurgeTime]. Beside that its CreatedBy is
	// confirmed, it has no record in the outbox, in whatever phase, and if it is the
	// first run of a chain, no later run of that is kept: the chain is known by it.
	// Until then it does not count as due; when the last of that falls away, it
	// does. One action removes its log, metadata, inbox, step data, tags, audit entries
	// and all index entries, what its workflow id remembers if that is this run, and
	// with the first run of a chain what the chain has accepted.
	//
	// It returns how many were purged, and when the next one is due: zero if there
	// is none, a time that is past if some are left. A store may stop before the
	// limit to keep its action short, but not before the first run.
	Purge(ctx context.Context, partition, limit int) (purged int, next time.Time, err error)
	// Delete hides a run that has ended and leaves it to the first Purge that may
	// remove it. A run that has not ended is refused with a *NotEndedError, one
	// that does not exist with ErrRunNotFound. Deleting a hidden run again does
	// nothing and succeeds.
	Delete(ctx context.Context, run event.RunID) error
}

// PurgeTime returns the time from which on a run that has ended may be purged, if
// its retention is that long. The retention of a run that was deleted is 0.
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
