package store

import "time"

// Clock is the source of a store's time. A test may provide its own.
type Clock interface {
	// Now returns the current time.
	Now() time.Time
	// AfterFunc calls f in its own goroutine once d has passed. stop reports
	// whether it prevented the call.
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// SystemClock is the clock of the machine.
var SystemClock Clock = systemClock{}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// CountedPause returns how much of a pause between two signs of life in a partition counts, at
// most, as time in which the store was up. ttl is the TTL of the session that gives the second
// sign.
func CountedPause(ttl time.Duration) time.Duration {
	return max(min(5*time.Second, ttl/4), time.Millisecond)
}
