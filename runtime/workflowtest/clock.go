package workflowtest

import (
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/store"
)

// Epoch is when the virtual time of every Env begins.
var Epoch = time.Date(2030, time.January, 2, 3, 4, 5, 0, time.UTC)

// never is the period of the heartbeats of a worker in virtual time: what has
// to be done then is not done. Nothing else waits for exactly that long.
const never = 50*365*24*time.Hour + 1

// clock is the virtual time of an Env. It stands still until the scheduler advances
// it.
type clock struct {
	activity *activity.Counter

	mu     sync.Mutex
	now    time.Time
	alarms []*alarm // by time, those of one time in the order in which they were set
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

// AfterFunc calls f once d has passed; on the goroutine that moves the clock, so
// that what follows from it is known to be under way.
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

// next returns when the clock has something to do; zero: never.
func (c *clock) next() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.alarms) == 0 {
		return time.Time{}
	}
	return c.alarms[0].at
}

// moveTo sets the clock, unless it is later already, and calls what is due. The
// clock shows the new time before the first call: what that sets in motion sets
// alarms of its own.
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

// clientClock is the clock of clients: they pause only between two tries of a
// request, while a worker does something, and need not wait for virtual time.
type clientClock struct{ *clock }

// AfterFunc calls f almost at once.
func (clientClock) AfterFunc(_ time.Duration, f func()) (stop func() bool) {
	return time.AfterFunc(time.Millisecond, f).Stop
}
