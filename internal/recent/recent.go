// Package recent implements a cache of recently used values with a size limit in bytes.
package recent

import (
	"container/list"
	"sync"
)

// Cache keeps a value for each key and removes the least recently used ones when the total size
// exceeds the limit. It keeps the most recently measured value regardless of its size. A Cache is
// safe for concurrent use. The values are not: their users must synchronize access to them.
type Cache[K comparable, V any] struct {
	most int64

	mu    sync.Mutex
	bytes int64
	known map[K]*list.Element // of *entry[K, V]
	order *list.List          // most recently used first
}

type entry[K comparable, V any] struct {
	key   K
	value *V
	bytes int64 // the share of the entry in Cache.bytes
}

// New returns an empty cache with a limit of most bytes.
func New[K comparable, V any](most int64) *Cache[K, V] {
	return &Cache[K, V]{most: most, known: map[K]*list.Element{}, order: list.New()}
}

// Get returns the value of a key. If there is none, it calls fresh to create it.
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

// Measure sets the current size of the value of a key, and removes others if the total is too
// large. It does nothing for a value that has been removed.
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
