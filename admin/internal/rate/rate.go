// Package rate bounds how often something of a name may happen.
package rate

import (
	"sync"
	"time"
)

// Limiter lets things of each name happen at a rate, and as many at once. What has not happened for a second is forgotten: its
// name may have its whole share again. So it remembers no more names than came in two seconds, and no call
// looks at more than one.
type Limiter struct {
	rate int
	now  func() time.Time

	mu     sync.Mutex
	began  time.Time // when names began to be kept in recent
	recent map[string]share
	before map[string]share // those of the second before
}

// share is what a name has left.
type share struct {
	left float64
	at   time.Time
}

// New returns a limiter of so many in a second for each name.
func New(rate int, now func() time.Time) *Limiter {
	return &Limiter{rate: rate, now: now, began: now(), recent: map[string]share{}}
}

// Take takes one of a name; if there is none left it returns when there will be.
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

// Names returns how many names it remembers.
func (l *Limiter) Names() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.recent) + len(l.before)
}
