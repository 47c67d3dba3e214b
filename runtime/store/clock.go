package store

import "time"

// Clock is the source of the time of a store. A test may provide its own clock.
type Clock interface {
	// Now returns the current time.
	Now() time.Time
	// AfterFunc calls f in its own goroutine after d has passed. stop cancels the call and reports
	// whether it was in time.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// SystemClock is the clock of the machine.
var SystemClock Clock = systemClock{}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// Timer is like AfterFunc. The timer can be reused.
func (systemClock) Timer(d time.Duration, f func()) *time.Timer { return time.AfterFunc(d, f) }

// CountedPause returns the maximum part of a pause that counts as time in which the store was up.
// The pause is the time between two OpenSession or Heartbeat calls in a partition. ttl is the TTL
// of the session that makes the second call.
func CountedPause(ttl time.Duration) time.Duration {
	return max(min(5*time.Second, ttl/4), time.Millisecond)
}
