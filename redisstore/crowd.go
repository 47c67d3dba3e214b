package redisstore

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// Of all sessions that wait for a route, each hears of each wake, and one takes it. If all looked at once, the server would
// answer hundreds in vain, and on a machine with several workers the one that finds it would wait for the others. So
// those who mostly look in vain let others go first, and do not look any more once they hear that a claim has taken the wake and left
// nothing ready in its route.
//
// It costs no wake: each that hears of one looks, within crowdLatest at the latest, unless it hears that, and what it was told of is
// looked for by the next Wait of the session if this one ends before. The first may die before it claims: then the wake is still there.
// It may die later: then it owns the run, which is recovered. It may have no room for the run: then the claim announces the route again.
const (
	// crowdFirst is how many of them look at once, on average, as far as they know how many there are.
	crowdFirst = 2
	// crowdApart is how far apart the others look, on average: about as long as a look and a claim take, so that the first of them
	// comes soon after nobody has looked at once.
	crowdApart = time.Millisecond
	// crowdLatest bounds how long somebody puts a look off.
	crowdLatest = 250 * time.Millisecond
	// crowdMemory is the weight of the last look in the estimate, once there were many: the first ones weigh more, so that
	// a hundred workers that begin at the same time find out after a few wakes.
	crowdMemory = 0.05
)

// crowds estimates for each route how many sessions look for a wake of it, from how often this store finds one: of n sessions
// one finds it. A route that only this store serves is not put off because many serve another one.
type crowds struct {
	decide func() time.Duration // instead of wait, for tests

	mu    sync.Mutex
	found map[string]float64 // by the code of the route, how many in one are found; none yet: all
	looks map[string]int     // how many looks that estimate is from, as far as they have a weight of their own
}

// note takes note of what came of a look for wakes of routes.
func (c *crowds) note(routes []string, found bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil {
		c.found = map[string]float64{}
	}
	if c.looks == nil {
		c.looks = map[string]int{}
	}
	for _, route := range routes {
		n := min(c.looks[route]+1, int(1/crowdMemory)-1)
		c.looks[route] = n
		weight := 1 / float64(n+1)
		share := c.share(route) * (1 - weight)
		if found {
			share += weight
		}
		c.found[route] = share
	}
}

// any reports whether many look for wakes of one of the routes.
func (c *crowds) any(routes []store.Route, codeOf func(store.Route) string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.found) == 0 {
		return false
	}
	return slices.ContainsFunc(routes, func(r store.Route) bool { return c.share(codeOf(r)) < 1.0/crowdFirst })
}

func (c *crowds) share(route string) float64 {
	if share, known := c.found[route]; known {
		return share
	}
	return 1
}

// wait returns how long to put off a look for wakes of routes, 0: look at once.
func (c *crowds) wait(routes []string) time.Duration {
	if c.decide != nil {
		return c.decide()
	}
	c.mu.Lock()
	share := 0.0
	for _, route := range routes {
		share = max(share, c.share(route))
	}
	c.mu.Unlock()
	if rand.Float64() < crowdFirst*share {
		return 0
	}
	others := min(1/share, float64(crowdLatest/crowdApart))
	return time.Duration(rand.Float64() * others * float64(crowdApart))
}
