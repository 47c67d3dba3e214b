package event

// Status is the state of a run as users see it in lists, filters and commands.
type Status string

// The statuses. The texts are stored and printed, and spelled as in the requirements. The
// identifiers are spelled as in the standard library.
const (
	StatusPending   Status = "pending"
	StatusRunning   Status = "running"
	StatusCompleted Status = "completed"
	StatusFailed    Status = "failed"
	StatusCanceled  Status = "cancelled"
	StatusContinued Status = "continued"

	// The other statuses are details of runs that have not ended.
	StatusHeld     Status = "held"     // created held, and not released
	StatusPaused   Status = "paused"   // suspended by a request
	StatusSleeping Status = "sleeping" // waits until a time
	StatusWaiting  Status = "waiting"  // waits for a message, hook, child or other run
	StatusBlocked  Status = "blocked"  // the code of the workers does not match the log of the run
)

// Terminal reports whether a run with this status has ended.
func (s Status) Terminal() bool {
	switch s {
	case StatusCompleted, StatusFailed, StatusCanceled, StatusContinued:
		return true
	}
	return false
}

// Status returns the status of the run. It never returns StatusBlocked, because a store keeps that
// status outside the log.
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
	for o := range f.open.All {
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
