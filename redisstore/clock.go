package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// serverClock shows the time of the server: what the last answer said, and what has
// passed since by the monotonic clock of the process. Nothing that is done to the wall
// clock of the machine changes it.
type serverClock struct {
	wall    func() time.Time     // of the machine
	elapsed func() time.Duration // by the monotonic clock
	asking  atomic.Bool

	mu    sync.Mutex
	known bool
	shown time.Time     // what the server showed
	taken time.Duration // when that was
	trip  time.Duration // how long the answer took that it is from
	asked time.Duration // when it was asked for the last time
	then  time.Time     // what the machine showed then
}

var _ store.Clock = (*serverClock)(nil)

func newServerClock() *serverClock {
	start := time.Now()
	return &serverClock{wall: time.Now, elapsed: func() time.Duration { return time.Since(start) }}
}

// Now returns the time of the server; before its first answer that of the machine.
func (c *serverClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		return c.wall()
	}
	return c.shown.Add(c.elapsed() - c.taken)
}

// AfterFunc calls f in its own goroutine once d has passed.
func (c *serverClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

const (
	// clockAge is after how long the clock is compared again.
	clockAge = 30 * time.Second
	// clockJump is by how much the clocks of the machine may differ from each other
	// before the server is asked at once: the machine may have slept, during which a
	// monotonic clock may stand still.
	clockJump = time.Second
)

// old reports whether it is time to ask the server again.
func (c *serverClock) old() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.known || c.elapsed()-c.asked > clockAge || c.jumped(c.elapsed(), c.wall())
}

// jumped reports whether the two clocks of the machine have gone on differently since the
// server was asked. The lock is held.
func (c *serverClock) jumped(now time.Duration, wall time.Time) bool {
	apart := wall.Round(0).Sub(c.then.Round(0)) - (now - c.asked)
	return apart.Abs() > clockJump
}

// observe takes note of an answer: the server's time was shown somewhere between
// sent and received. An answer that took far longer than the one before says less
// than that one, unless that is old.
func (c *serverClock) observe(shown time.Time, sent, received time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	trip, wall := received-sent, c.wall()
	if !c.known || trip <= 2*c.trip || received-c.taken > 2*clockAge || c.jumped(received, wall) {
		c.known, c.shown, c.taken, c.trip = true, shown.Add(trip/2).Round(0), received, trip
	}
	c.asked, c.then = received, wall
}

// keepTime compares the clock with that of the server of a partition, from time to time.
// What it is called for does not depend on it.
func (s *Store) keepTime(ctx context.Context, p *partition) {
	if s.injected != nil || !s.server.old() || !s.server.asking.CompareAndSwap(false, true) {
		return
	}
	defer s.server.asking.Store(false)
	_ = s.readClock(ctx, p) // the next operation asks again
}

// readClock asks the server of a partition for its time.
func (s *Store) readClock(ctx context.Context, p *partition) error {
	if s.injected != nil {
		return nil
	}
	node, err := s.master(ctx, p)
	if err != nil {
		return err
	}
	sent := s.server.elapsed()
	shown, err := node.Time(ctx).Result()
	if err != nil {
		return err
	}
	s.server.observe(shown, sent, s.server.elapsed())
	return nil
}
