package suite

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// Clock is a clock whose time changes only by calls of Advance. It is safe for concurrent use.
// NewClock returns a Clock.
type Clock struct {
	mu     sync.Mutex
	now    time.Time
	alarms []*alarm      // in order of time
	set    chan struct{} // closed by the next AfterFunc; nil unless AwaitAlarm waits for it
}

var _ store.Clock = (*Clock)(nil)

type alarm struct {
	at time.Time
	f  func()
}

// NewClock returns a clock that shows a fixed date, which is the same for all clocks.
func NewClock() *Clock {
	return &Clock{now: time.Date(2030, time.January, 2, 3, 4, 5, 0, time.UTC)}
}

// Now returns the time that the clock shows.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f in its own goroutine after the clock has advanced by d, or at once if d is not
// positive. stop reports whether it prevented the call.
func (c *Clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d <= 0 {
		go f()
		return func() bool { return false }
	}
	a := &alarm{at: c.now.Add(d), f: f}
	i, _ := slices.BinarySearchFunc(c.alarms, a, func(x, y *alarm) int {
		if x.at.After(y.at) {
			return 1
		}
		return -1 // behind the alarms of the same time
	})
	c.alarms = slices.Insert(c.alarms, i, a)
	if c.set != nil {
		close(c.set)
		c.set = nil
	}
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.alarms, a)
		if i >= 0 {
			c.alarms = slices.Delete(c.alarms, i, i+1)
		}
		return i >= 0
	}
}

// Advance moves the clock by d. It returns when all functions that became due have returned.
// Functions that become due at different times are called one after the other, each while the clock
// shows its due time.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	end := c.now.Add(d)
	for len(c.alarms) > 0 && !c.alarms[0].at.After(end) {
		a := c.alarms[0]
		c.alarms = slices.Delete(c.alarms, 0, 1)
		c.now = a.at
		c.mu.Unlock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			a.f()
		}()
		<-done
		c.mu.Lock()
	}
	c.now = end
	c.mu.Unlock()
}

// AwaitAlarm blocks until a function of AfterFunc waits for its time, or until ctx ends. With
// AwaitAlarm, a test can advance the clock after a goroutine has begun to wait.
func (c *Clock) AwaitAlarm(ctx context.Context) error {
	for {
		c.mu.Lock()
		if len(c.alarms) > 0 {
			c.mu.Unlock()
			return nil
		}
		if c.set == nil {
			c.set = make(chan struct{})
		}
		set := c.set
		c.mu.Unlock()
		select {
		case <-set:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
