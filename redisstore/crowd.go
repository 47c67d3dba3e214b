package redisstore

import (
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Of all sessions that wait for a route, each hears of each wake, and one takes it. If all looked at once, the server would
// answer hundreds in vain, and on a machine with several workers the one that finds it would wait for the others. So
// those who mostly look in vain let others go first.
//
// It costs no wake: each that hears of one looks, within crowdLatest at the latest, and what it was told of is looked for by the
// next Wait of the session if this one ends before.
const (
	// crowdFirst is how many of them look at once, on average, as far as they know how many there are.
	crowdFirst = 2
	// crowdApart is how far apart the others look, on average: about as long as a look and a claim take, so that the first of them
	// comes soon after nobody has looked at once.
	crowdApart = time.Millisecond
	// crowdLatest bounds how long somebody puts a look off.
	crowdLatest = 250 * time.Millisecond
	// crowdMemory is the weight of the last look in the estimate.
	crowdMemory = 0.05
)

// crowd estimates how many sessions look for each wake, from how often this store finds one: one in n is found by one of n.
type crowd struct {
	found  atomic.Uint64        // the bits of how many in one are found, as a float; 0: no look yet
	decide func() time.Duration // instead of wait, for tests
}

// share returns how many in one are found.
func (c *crowd) share() float64 {
	if bits := c.found.Load(); bits != 0 {
		return math.Float64frombits(bits)
	}
	return 1
}

// note takes note of what came of a look.
func (c *crowd) note(found bool) {
	share := c.share() * (1 - crowdMemory)
	if found {
		share += crowdMemory
	}
	c.found.Store(math.Float64bits(share))
}

// wait returns how long to put off a look for a wake, 0: look at once.
func (c *crowd) wait() time.Duration {
	if c.decide != nil {
		return c.decide()
	}
	share := c.share()
	if rand.Float64() < crowdFirst*share {
		return 0
	}
	others := min(1/share, float64(crowdLatest/crowdApart))
	return time.Duration(rand.Float64() * others * float64(crowdApart))
}
