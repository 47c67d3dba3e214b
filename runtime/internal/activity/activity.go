// Package activity counts the activities of a worker in progress, so that a test kit can detect
// that the worker is idle.
package activity

import "sync"

// Counter counts activities in progress. A nil Counter counts nothing and costs nothing. It is safe
// for concurrent use.
type Counter struct {
	mu   sync.Mutex
	n    int
	all  uint64        // number of activities begun so far
	idle chan struct{} // closed when n becomes 0; nil unless Busy was called
}

// Begin records that an activity begins. A goroutine that passes work to another goroutine calls
// Begin first, so that the work is counted without a gap.
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

// Count returns the number of activities in progress.
func (c *Counter) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// Begun returns the number of activities begun so far. If two calls return the same number, no
// activity began between them.
func (c *Counter) Begun() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all
}

// Busy returns a channel that is closed when no activity is in progress. It returns nil if no
// activity is in progress at the call.
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
