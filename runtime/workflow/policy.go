package workflow

import (
	"math"
	"time"
)

// RetryPolicy determines how often and when a failed attempt of a step is retried. The zero value
// is the default: 4 attempts, with delays of 1 s, 2 s, 4 s, …, at most 1 minute. Zero fields have
// their defaults.
type RetryPolicy struct {
	// Attempts is the maximum number of attempts; 0 means 4, and 1 means no retry. Attempts
	// interrupted by the death of their worker count. Attempts ended by the shutdown of their
	// worker do not count, nor do the first Waits attempts that returned a step.RetryAfter.
	Attempts int
	// Initial is the delay before the second attempt; 0 means 1 s.
	Initial time.Duration
	// Increment is added to the delay for each further attempt (linear backoff); 0 means none.
	Increment time.Duration
	// Max bounds the delay; 0 means 1 minute, or Initial if that is longer.
	Max time.Duration
	// Factor multiplies the delay for each further attempt; 0 means 2, or 1 if Increment is set.
	Factor float64
	// Jitter is the random fraction of the delay, from 0 to 1.
	Jitter float64
	// Total bounds the time from the creation of the step; 0 means no bound. An attempt that could
	// not start within it is not made.
	Total time.Duration
	// Waits is how many attempts may return step.RetryAfter without counting towards Attempts; 0
	// means 100. Beyond that, an attempt that returns a step.RetryAfter counts like any failed
	// attempt, so that the step ends eventually.
	Waits int
}

// maxDelay is the largest float64 that fits a Duration.
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

// MaxAttempts returns the maximum number of attempts, at least 1.
func (p RetryPolicy) MaxAttempts() int {
	if p.Attempts <= 0 {
		return DefaultAttempts
	}
	return p.Attempts
}

// MaxWaits returns how many attempts may return step.RetryAfter without being counted.
func (p RetryPolicy) MaxWaits() int {
	if p.Waits <= 0 {
		return DefaultWaits
	}
	return p.Waits
}

// Delay returns the time between attempt n, counted from 1, and the next one. random is a number in
// [0, 1) that determines the jitter.
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
		if next == d || next <= 0 { // the delay stays constant
			d = next
			break
		}
		d = next
	}
	if !(d < float64(limit)) { // also true for NaN
		d = float64(limit)
	}
	if j := min(max(p.Jitter, 0), 1); j > 0 {
		d *= 1 - j*random
	}
	return time.Duration(min(max(d, 0), maxDelay))
}
