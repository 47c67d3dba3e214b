// Package lock has workflow code that waits for locks.
package lock

import (
	"sync"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// guarded locks what its branches share.
//
//flow:workflow
func guarded(ctx workflow.Context, carriers []string) error {
	var mu sync.Mutex
	best := shop.Offer{}
	err := workflow.ForEach(ctx, carriers, func(ctx workflow.Context, carrier string) error {
		offer, err := shop.Quote(ctx, carrier)
		mu.Lock() // want `^sync.Mutex.Lock is not recorded, and may wait for ever while no other branch runs: leave it out, branches take turns; what others share belongs into a step \[lock\]$`
		defer mu.Unlock()
		if offer.Cents < best.Cents {
			best = offer
		}
		return err
	})
	if err != nil {
		return err
	}
	return shop.Notify(ctx, "ops", best.Carrier)
}

// Cache is shared by runs.
type Cache struct {
	sync.RWMutex
	names map[string]string
}

// looked reads the cache.
func (c *Cache) looked(ctx workflow.Context, id string) error {
	c.RLock() // want `^sync.RWMutex.RLock is not recorded`
	name := c.names[id]
	c.RUnlock()
	return shop.Notify(ctx, name, "hello")
}

// helped reads it with a method.
func (c *Cache) helped(ctx workflow.Context, id string) error {
	return shop.Notify(ctx, c.name(id), "hello") // want `^lock.Cache.name → sync.RWMutex.RLock \(lock.go:\d+\) is not recorded`
}

func (c *Cache) name(id string) string {
	c.RLock()
	defer c.RUnlock()
	return c.names[id]
}

// waited waits for a group of others.
func waited(ctx workflow.Context, group *sync.WaitGroup) error {
	group.Wait() // want `^sync.WaitGroup.Wait is not recorded`
	return shop.Notify(ctx, "ops", "all are done")
}

// tried asks whether it is free.
func (c *Cache) tried(ctx workflow.Context, id string) error {
	if c.TryLock() { // want `^sync.RWMutex.TryLock is not recorded`
		c.names[id] = id
		c.Unlock()
	}
	return shop.Notify(ctx, id, "hello")
}
