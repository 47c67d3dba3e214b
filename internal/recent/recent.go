// Package recent keeps the values that were used last, up to a number of bytes.
package recent

import (
	"container/list"
	"sync"
)

// Cache keeps a value for each key, and forgets those that were not used for longest when all together are too large. The
// value that was measured last is kept however large it is. Several goroutines may use a cache at once; what is in
// a value is for its users to lock.
type Cache[K comparable, V any] struct {
	most int64

	mu    sync.Mutex
	bytes int64
	known map[K]*list.Element // of *entry[K, V]
	order *list.List          // the one that was used last is first
}

type entry[K comparable, V any] struct {
	key   K
	value *V
	bytes int64 // of it that Cache.bytes has
}

// New returns an empty cache of so many bytes.
func New[K comparable, V any](most int64) *Cache[K, V] {
	return &Cache[K, V]{most: most, known: map[K]*list.Element{}, order: list.New()}
}

// Get returns the value of a key; fresh makes it if none is kept.
func (c *Cache[K, V]) Get(key K, fresh func() *V) *V {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.known[key]; e != nil {
		c.order.MoveToFront(e)
		return e.Value.(*entry[K, V]).value
	}
	one := &entry[K, V]{key: key, value: fresh()}
	c.known[key] = c.order.PushFront(one)
	return one.value
}

// Measure takes in how large the value of a key is now, and forgets others if all are too large together. A value that was
// forgotten meanwhile stays so.
func (c *Cache[K, V]) Measure(key K, value *V, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[key]
	if e == nil || e.Value.(*entry[K, V]).value != value {
		return
	}
	one := e.Value.(*entry[K, V])
	c.bytes += bytes - one.bytes
	one.bytes = bytes
	for c.bytes > c.most && c.order.Len() > 1 {
		old := c.order.Remove(c.order.Back()).(*entry[K, V])
		delete(c.known, old.key)
		c.bytes -= old.bytes
	}
}
