package workflowtest

import (
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/store"
)

// Epoch is the time at which the virtual time of every Env begins.
var Epoch = time.Date(2030, time.January, 2, 3, 4, 5, 0, time.UTC)

// never is the heartbeat period of a worker in virtual time. The clock ignores timers with this
// duration. No other code uses it.
const never = 50*365*24*time.Hour + 1

// clock is the virtual time of an Env. Only the scheduler advances it.
type clock struct {
	activity *activity.Counter

	mu     sync.Mutex
	now    time.Time
	alarms []*alarm // ordered by time; alarms with equal times are in the order in which they were set
}

var _ store.Clock = (*clock)(nil)

type alarm struct {
	at time.Time
	f  func()
}

func newClock(a *activity.Counter) *clock { return &clock{activity: a, now: Epoch} }

// Now returns the virtual time.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// AfterFunc calls f when d of virtual time has passed. The goroutine that advances the clock calls
// f, so that the scheduler counts all work that f starts as activity.
func (c *clock) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	if d <= 0 {
		c.activity.Begin()
		go func() {
			defer c.activity.End()
			f()
		}()
		return func() bool { return false }
	}
	if d == never || d == forever {
		return func() bool { return true }
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a := &alarm{at: c.now.Add(d), f: f}
	i, _ := slices.BinarySearchFunc(c.alarms, a, func(x, y *alarm) int {
		if x.at.After(y.at) {
			return 1
		}
		return -1
	})
	c.alarms = slices.Insert(c.alarms, i, a)
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

// next returns the time of the next alarm. It is zero if there is none.
func (c *clock) next() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.alarms) == 0 {
		return time.Time{}
	}
	return c.alarms[0].at
}

// moveTo advances the clock to t and calls the functions that are due. It does not move the clock
// back. The clock shows t before the first call, because the functions set further alarms.
func (c *clock) moveTo(t time.Time) {
	c.mu.Lock()
	if t.After(c.now) {
		c.now = t
	}
	for len(c.alarms) > 0 && !c.alarms[0].at.After(t) {
		a := c.alarms[0]
		c.alarms = slices.Delete(c.alarms, 0, 1)
		c.mu.Unlock()
		a.f()
		c.mu.Lock()
	}
	c.mu.Unlock()
}

// clientClock is the clock of clients. Clients use timers only to retry a request while a worker is
// active, so their timers need no virtual time.
type clientClock struct{ *clock }

// AfterFunc calls f after a millisecond of real time.
func (clientClock) AfterFunc(_ time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(time.Millisecond, f).Stop
}
