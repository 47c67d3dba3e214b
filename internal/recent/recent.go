// Package recent implements a cache of recently used values with a size limit in bytes.
package recent

import (
	"container/list"
	"sync"
)

// Cache keeps a value for each key. When the total size exceeds the limit, it removes the least
// recently used values. It keeps the most recently measured value regardless of its size. A Cache
// is safe for concurrent use. The values are not synchronized by the Cache.
type Cache[K comparable, V any] struct {
	most int64

	mu    sync.Mutex
	bytes int64
	known map[K]*list.Element // elements contain *entry[K, V]
	order *list.List          // elements from the most to the least recently used
}

type entry[K comparable, V any] struct {
	key   K
	value *V
	bytes int64 // size of the value, which is part of Cache.bytes
}

// New returns an empty cache. most is the limit of the total size in bytes.
func New[K comparable, V any](most int64) *Cache[K, V] {
	return &Cache[K, V]{most: most, known: map[K]*list.Element{}, order: list.New()}
}

// Get returns the value of a key. If the cache contains none, Get stores the result of fresh and
// returns it.
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

// Measure sets the size in bytes of the value of a key, and removes other values if the total
// exceeds the limit. It does nothing if the value is not in the cache.
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
