// Package rate limits how often operations occur per name.
package rate

import (
	"sync"
	"time"
)

// Limiter allows operations of each name at a rate, with a burst of the same size. A name without
// operations for a second regains its full burst and is dropped. Therefore the Limiter stores only
// the names of the last two seconds, and each call accesses only one name.
type Limiter struct {
	rate int
	now  func() time.Time

	mu     sync.Mutex
	began  time.Time // time at which recent was created
	recent map[string]share
	before map[string]share // names of the preceding second
}

// share is the rest of the burst of a name.
type share struct {
	left float64
	at   time.Time
}

// New returns a limiter with a rate per second for each name. now is the clock.
func New(rate int, now func() time.Time) *Limiter {
	return &Limiter{rate: rate, now: now, began: now(), recent: map[string]share{}}
}

// Take consumes one operation of a name. If none is left, it returns the time until the next
// operation is allowed.
func (l *Limiter) Take(name string) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now.Sub(l.began) >= time.Second {
		l.before, l.recent, l.began = l.recent, map[string]share{}, now
	}
	mine, known := l.recent[name]
	if !known {
		mine, known = l.before[name]
	}
	if !known {
		mine = share{left: float64(l.rate), at: now}
	}
	if passed := now.Sub(mine.at); passed > 0 {
		mine = share{left: min(float64(l.rate), mine.left+passed.Seconds()*float64(l.rate)), at: now}
	}
	var wait time.Duration
	if mine.left < 1 {
		wait = time.Duration((1 - mine.left) / float64(l.rate) * float64(time.Second))
	} else {
		mine.left--
	}
	l.recent[name] = mine
	return max(wait, 0)
}

// Names returns the number of stored names.
func (l *Limiter) Names() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.recent) + len(l.before)
}
