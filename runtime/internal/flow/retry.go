package flow

import (
	"math"
	"time"
)

// Retry has the same fields as workflow.RetryPolicy and can be converted to it.
type Retry struct {
	Attempts  int
	Initial   time.Duration
	Increment time.Duration
	Max       time.Duration
	Factor    float64
	Jitter    float64
	Total     time.Duration
	Waits     int
}

// maxDelay is the largest float64 that fits into a Duration.
const maxDelay = float64(math.MaxInt64 - 1<<9)

// The defaults of a [Retry].
const (
	defaultAttempts   = 4
	defaultWaits      = 100
	defaultInitial    = time.Second
	defaultMaxBackoff = time.Minute
	defaultFactor     = 2.0
)

// MaxAttempts returns the maximum number of attempts. It is at least 1.
func (p Retry) MaxAttempts() int {
	if p.Attempts <= 0 {
		return defaultAttempts
	}
	return p.Attempts
}

// MaxWaits returns the number of attempts that may return step.RetryAfter without counting.
func (p Retry) MaxWaits() int {
	if p.Waits <= 0 {
		return defaultWaits
	}
	return p.Waits
}

// Delay returns the time between attempt n, counted from 1, and the next attempt. random is a
// number in [0, 1) that determines the jitter.
func (p Retry) Delay(n int, random float64) time.Duration {
	first, limit, factor := p.Initial, p.Max, p.Factor
	if first <= 0 {
		first = defaultInitial
	}
	if limit <= 0 {
		limit = max(defaultMaxBackoff, first)
	}
	if factor <= 0 {
		factor = defaultFactor
		if p.Increment > 0 {
			factor = 1
		}
	}
	d := float64(first)
	for i := 1; i < n && d < float64(limit); i++ {
		next := d*factor + float64(p.Increment)
		if next == d || next <= 0 { // further attempts have the same delay
			d = next
			break
		}
		d = next
	}
	if !(d < float64(limit)) { // also true if d is NaN
		d = float64(limit)
	}
	if j := min(max(p.Jitter, 0), 1); j > 0 {
		d *= 1 - j*random
	}
	return time.Duration(min(max(d, 0), maxDelay))
}
