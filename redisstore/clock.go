package redisstore

import (
	"context"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// serverClock shows the time of the server: the time of the machine and what the
// last answers say about the difference. Between them it goes on by the
// machine's monotonic clock.
type serverClock struct {
	mu     sync.Mutex
	offset time.Duration // to be added to the machine's time
	trip   time.Duration // how long the answer took that it is from
	taken  time.Time     // when that was
	asked  time.Time
}

var _ store.Clock = (*serverClock)(nil)

// Now returns the time of the server.
func (c *serverClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.offset)
}

// AfterFunc calls f in its own goroutine once d has passed.
func (c *serverClock) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// clockAge is after how long the clock is compared again.
const clockAge = 30 * time.Second

func (c *serverClock) old() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.asked) > clockAge
}

// observe takes note of an answer: the server's time was shown somewhere between
// sent and received. An answer that took far longer than the one before says less
// than that one, unless that is old.
func (c *serverClock) observe(shown, sent, received time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = received
	trip := received.Sub(sent)
	if c.taken.IsZero() || trip <= 2*c.trip || received.Sub(c.taken) > 2*clockAge {
		c.offset, c.trip, c.taken = shown.Sub(sent.Add(trip/2)), trip, received
	}
}

// readClock asks the server for its time.
func (s *Store) readClock(ctx context.Context) error {
	if s.injected != nil {
		return nil
	}
	sent := time.Now()
	shown, err := s.client.Time(ctx).Result()
	if err != nil {
		return err
	}
	s.server.observe(shown, sent, time.Now())
	return nil
}
