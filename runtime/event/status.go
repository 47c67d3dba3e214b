package event

// Status is the state of a run, for people and filters.
type Status string

// The statuses. Identifiers are spelled as in the standard library, and the stored and printed text
// as in the requirements; this is the only place that maps them.
const (
	StatusPending   Status = "pending"
	StatusRunning   Status = "running"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCanceled  Status = "cancelled"
	StatusContinued Status = "continued"

	// The other statuses describe runs that have not ended in more detail.
	StatusHeld     Status = "held"     // created, not released
	StatusPaused   Status = "paused"   // paused by request
	StatusSleeping Status = "sleeping" // until a time
	StatusWaiting  Status = "waiting"  // for a message
	StatusBlocked  Status = "blocked"  // the code of the workers does not fit its log
)

// Terminal reports whether a run of this status has ended.
func (s Status) Terminal() bool {
	switch s {
	case StatusCompleted, StatusFailed, StatusCanceled, StatusContinued:
		return true
	}
	return false
}

// Status returns the status of a run with this log. StatusBlocked is not part of the log; see the
// store.
func (f *LogState) Status() Status {
	switch f.Run {
	case StateNone:
		return StatusPending
	case StatePending:
		switch {
		case f.Held():
			return StatusHeld
		case f.Paused:
			return StatusPaused
		}
		return StatusPending
	case StateCompleted:
		return StatusCompleted
	case StateFailed:
		return StatusFailed
	case StateCanceled:
		return StatusCanceled
	case StateContinued:
		return StatusContinued
	}
	switch {
	case f.Paused:
		return StatusPaused
	case !f.Delayed.IsZero():
		return StatusSleeping
	}
	sleeps, waits := false, false
	for _, o := range f.open {
		switch {
		case o.Entity == EntityStep && o.State == StateWaiting:
			waits = true
		case o.State == StateRunning, o.Entity == EntityStep && o.Due.IsZero():
			return StatusRunning
		case o.Entity == EntityStep, o.Wait == WaitSleep:
			sleeps = true
		case o.Wait == WaitMessage, o.Wait == WaitHook, o.Entity == EntityHook, o.Entity == EntityChild, o.Entity == EntitySend:
			waits = true
		}
	}
	switch {
	case waits:
		return StatusWaiting
	case sleeps:
		return StatusSleeping
	}
	return StatusRunning
}
