// Package activity counts what a worker is busy with, so that a test kit can
// tell that everything waits.
package activity

import "sync"

// Counter counts activities that are under way. A nil Counter counts nothing and
// costs nothing. It is safe for concurrent use.
type Counter struct {
	mu   sync.Mutex
	n    int
	all  uint64        // that have begun
	idle chan struct{} // closed when n falls to 0; nil: nobody waits
}

// Begin records that an activity begins. Whoever hands work on calls it before the
// hand-over, so that there is no moment in which nobody counts.
func (c *Counter) Begin() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.n++
	c.all++
	c.mu.Unlock()
}

// End records that an activity has ended.
func (c *Counter) End() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// Count returns how many activities are under way.
func (c *Counter) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// Begun returns how many activities have begun so far. If it is the same before
// and after a look at something else, nothing began meanwhile.
func (c *Counter) Begun() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

// Busy returns a channel that is closed once nothing is under way, or nil if
// nothing is.
func (c *Counter) Busy() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == 0 {
		return nil
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	return c.idle
}
