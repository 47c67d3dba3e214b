package flow

import (
	"cmp"
	"math"
	"time"
)

// Retry has the same fields as workflow.RetryPolicy and can be converted to it. It is also the stored
// form of a policy.
type Retry struct {
	Attempts  int           `json:"attempts,omitempty"`
	Initial   time.Duration `json:"initial,omitempty"`
	Increment time.Duration `json:"increment,omitempty"`
	Max       time.Duration `json:"max,omitempty"`
	Factor    float64       `json:"factor,omitempty"`
	Jitter    float64       `json:"jitter,omitempty"`
	Total     time.Duration `json:"total,omitempty"`
	Waits     int           `json:"waits,omitempty"`
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
func (p Retry) MaxAttempts() int { return cmp.Or(max(p.Attempts, 0), defaultAttempts) }

// MaxWaits returns the number of attempts that may return step.RetryAfter without counting.
func (p Retry) MaxWaits() int { return cmp.Or(max(p.Waits, 0), defaultWaits) }

// Delay returns the time between attempt n, counted from 1, and the next attempt. random is a
// number in [0, 1) that determines the jitter.
func (p Retry) Delay(n int, random float64) time.Duration {
	first := cmp.Or(max(p.Initial, 0), defaultInitial)
	limit := float64(cmp.Or(max(p.Max, 0), max(defaultMaxBackoff, first)))
	factor := p.Factor
	if factor <= 0 {
		factor = defaultFactor
		if p.Increment > 0 {
			factor = 1
		}
	}
	d := float64(first)
	for i, before := 1, 0.0; i < n && d < limit && d > 0 && d != before; i++ { // beyond that, all attempts have the same delay
		before, d = d, d*factor+float64(p.Increment)
	}
	if !(d < limit) { // also true if d is NaN
		d = limit
	}
	if j := min(max(p.Jitter, 0), 1); j > 0 {
		d *= 1 - j*random
	}
	return time.Duration(min(max(d, 0), maxDelay))
}
