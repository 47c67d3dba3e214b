package fsck

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// dedupe is how long at least an accepted item is remembered.
const dedupe = 24 * time.Hour

// checkChains is 10, and 3 and 11 as far as they concern all runs of a chain.
func (c *checker) checkChains() {
	chains := map[event.RunID][]*store.RunState{}
	for r := range c.runs {
		chains[r.Chain] = append(chains[r.Chain], r)
	}
	for _, chain := range slices.Sorted(maps.Keys(chains)) {
		logged := c.checkReceived(chain, chains[chain])
		c.received[chain] = logged
		var alive []event.RunID
		for _, r := range chains[chain] {
			c.checkInbox(r, logged)
			if r.Place != store.PlaceEnded {
				alive = append(alive, r.Run)
			}
		}
		if len(alive) > 1 {
			c.lasting(11, alive[1], fmt.Sprintf("the chain of %s goes on in %d runs: %s", chain, len(alive), alive), "both do the same work")
		}
	}
}

// checkReceived checks the items in the logs of a chain, and returns them. What
// a run has carried over was received by the one before.
func (c *checker) checkReceived(chain event.RunID, runs []*store.RunState) map[event.ItemID]bool {
	logged := map[event.ItemID]bool{}
	for _, r := range runs {
		for _, i := range c.logs[r.Run].items {
			if _, ok := c.Seen[chain][i.id]; !ok && c.Now.Sub(i.at) < dedupe {
				c.find(10, r.Run, fmt.Sprintf("item %s is in its log, and not remembered as accepted", i.id), "sent again it would be accepted again")
			}
			if i.carried {
				continue
			}
			if logged[i.id] {
				c.lasting(3, r.Run, fmt.Sprintf("item %s is received for the second time", i.id), "the code has seen it twice")
			}
			logged[i.id] = true
		}
	}
	return logged
}

func (c *checker) checkInbox(r *store.RunState, logged map[event.ItemID]bool) {
	unread := map[event.ItemID]bool{}
	for _, i := range r.Inbox {
		if unread[i.ID] {
			c.find(10, r.Run, fmt.Sprintf("item %s is in its inbox twice", i.ID), "the code will see it twice")
		}
		unread[i.ID] = true
		if logged[i.ID] {
			c.find(10, r.Run, fmt.Sprintf("item %s is in its inbox, and in a log of its chain", i.ID), "the code will see it twice")
		}
		if _, ok := c.Seen[r.Chain][i.ID]; !ok {
			c.find(10, r.Run, fmt.Sprintf("item %s is in its inbox, and not remembered as accepted", i.ID), "sent again it would be accepted again")
		}
	}
}
