package workflow

import (
	"math"
	"time"
)

// RetryPolicy says how often and when a failed attempt of a step is repeated.
// The zero value is the default: 4 attempts, after 1 s, 2 s, 4 s, …, at most 1
// minute apart. A field that is zero has its default.
type RetryPolicy struct {
	// Attempts counts all attempts; 0: 4; 1: no repetition. Attempts that
	// ended with the death of their worker count; those that its stop has ended do not,
	// nor do the first that returned a step.RetryAfter, see Waits.
	Attempts int
	// Initial is the delay before the second attempt; 0: 1 s.
	Initial time.Duration
	// Increment is added to the delay for each further attempt (linear
	// backoff); 0: none.
	Increment time.Duration
	// Max bounds the delay; 0: 1 minute, or Initial if that is more.
	Max time.Duration
	// Factor multiplies the delay for each further attempt; 0: 2, or 1 if
	// Increment is set.
	Factor float64
	// Jitter is the part of the delay, 0 to 1, that is made random.
	Jitter float64
	// Total bounds the time from the creation of the step; 0: no bound. An
	// attempt that could not start within it is not made.
	Total time.Duration
	// Waits is how often step.RetryAfter delays the next attempt without using up one of
	// Attempts; 0: 100. Beyond it an attempt that returns a step.RetryAfter counts as any
	// other that has failed, so that a step comes to an end.
	Waits int
}

// maxDelay is the largest float64 that a Duration holds.
const maxDelay = float64(math.MaxInt64 - 1<<9)

// The defaults of steps.
const (
	DefaultAttempts       = 4
	DefaultWaits          = 100
	DefaultInitial        = time.Second
	DefaultMaxBackoff     = time.Minute
	DefaultFactor         = 2.0
	DefaultAttemptTimeout = 10 * time.Minute
)

// MaxAttempts returns the number of attempts, 1 or more.
func (p RetryPolicy) MaxAttempts() int {
	if p.Attempts <= 0 {
		return DefaultAttempts
	}
	return p.Attempts
}

// MaxWaits returns how many attempts may ask for a later one without being counted.
func (p RetryPolicy) MaxWaits() int {
	if p.Waits <= 0 {
		return DefaultWaits
	}
	return p.Waits
}

// Delay returns the time between attempt n, counted from 1, and the next one.
// random is a number in [0, 1) that decides the jitter.
func (p RetryPolicy) Delay(n int, random float64) time.Duration {
	first, limit, factor := p.Initial, p.Max, p.Factor
	if first <= 0 {
		first = DefaultInitial
	}
	if limit <= 0 {
		limit = max(DefaultMaxBackoff, first)
	}
	if factor <= 0 {
		factor = DefaultFactor
		if p.Increment > 0 {
			factor = 1
		}
	}
	d := float64(first)
	for i := 1; i < n && d < float64(limit); i++ {
		next := d*factor + float64(p.Increment)
		if next == d || next <= 0 { // it stays so
			d = next
			break
		}
		d = next
	}
	if !(d < float64(limit)) { // true for NaN, too
		d = float64(limit)
	}
	if j := min(max(p.Jitter, 0), 1); j > 0 {
		d *= 1 - j*random
	}
	return time.Duration(min(max(d, 0), maxDelay))
}
