package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// settling is the minimum time for which an outbox record exists. The data that the record has left
// at its receiver are not confirmed earlier.
const settling = 2 * store.Horizon

// checkContinued checks the part of invariant 11 that concerns one run.
func (c *checker) checkContinued(r *store.RunState, h *history) {
	if r.Next != h.state.Next {
		c.find(11, r.Run, fmt.Sprintf("its record names %q as the run that continues it, the log has %q", r.Next, h.state.Next), "items for the chain are delivered to the wrong run")
	}
	if first := h.state.Spec.ContinuedOf == ""; first != (r.Chain == r.Run) {
		c.find(11, r.Run, fmt.Sprintf("its record has the chain of %q, the log continues %q", r.Chain, h.state.Spec.ContinuedOf), "items for the chain are delivered to the wrong run")
	}
	if _, ok := c.Runs[r.Chain]; !ok {
		c.find(11, r.Run, fmt.Sprintf("it is in the chain of %s, which does not exist", r.Chain), "an item that the chain has accepted may be accepted again")
	}
	if next := c.Runs[r.Next]; next != nil && next.Chain != r.Chain {
		c.find(11, next.Run, fmt.Sprintf("its record has the chain of %s, but it continues run %s of the chain of %s", next.Chain, r.Run, r.Chain), "items for the chain are delivered to the wrong run")
	}
}

// checkChains checks invariant 10, and invariants 3 and 11 for the runs of a chain.
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
			if r.QueueState != store.StateEnded {
				alive = append(alive, r.Run)
			}
		}
		if len(alive) > 1 {
			c.lasting(11, alive[1], fmt.Sprintf("the chain of %s continues in %d runs: %s", chain, len(alive), alive), "both do the same work")
		}
	}
}

// checkReceived checks the items in the logs of a chain, and returns their IDs.
func (c *checker) checkReceived(chain event.RunID, runs []*store.RunState) map[event.ItemID]bool {
	logged, received := map[event.ItemID]bool{}, map[event.ItemID]bool{}
	for _, r := range runs {
		c.checkCarried(r)
		for _, i := range c.logs[r.Run].items {
			if _, ok := c.Seen[chain][i.id]; !ok && c.young(chain) {
				c.find(10, r.Run, fmt.Sprintf("item %s is in its log, but not recorded as accepted", i.id), "if it is sent again, it is accepted again")
			}
			if received[i.id] && !i.carried {
				c.lasting(3, r.Run, fmt.Sprintf("item %s is received for the second time", i.id), "the code has received it twice")
			}
			received[i.id] = received[i.id] || !i.carried
			logged[i.id] = true
		}
	}
	return logged
}

// checkCarried checks the items that r received from the run that it continues. Each must be in the
// log of r once. If the log of that run is available, each must be in it as well.
func (c *checker) checkCarried(r *store.RunState) {
	h := c.logs[r.Run]
	if len(h.items) == 0 {
		return
	}
	before := c.logs[h.state.Spec.ContinuedOf]
	known, carried := map[event.ItemID]bool{}, map[event.ItemID]bool{}
	if before != nil {
		for _, i := range before.items {
			known[i.id] = true
		}
		for _, id := range before.unread {
			known[id] = true
		}
	}
	for _, i := range h.items {
		if !i.carried {
			continue
		}
		if carried[i.id] {
			c.find(3, r.Run, fmt.Sprintf("item %s was carried over twice", i.id), "the code receives it twice")
		}
		carried[i.id] = true
		if before != nil && before.whole && !known[i.id] {
			c.find(3, r.Run, fmt.Sprintf("item %s was carried over, but is not in the log of the previous run", i.id), "the code receives an item that was never accepted")
		}
	}
}

func (c *checker) checkInbox(r *store.RunState, logged map[event.ItemID]bool) {
	unread := map[event.ItemID]bool{}
	for _, i := range r.Inbox {
		if unread[i.ID] {
			c.find(10, r.Run, fmt.Sprintf("item %s is in its inbox twice", i.ID), "the code will receive it twice")
		}
		unread[i.ID] = true
		if logged[i.ID] {
			c.find(10, r.Run, fmt.Sprintf("item %s is in its inbox, and in a log of its chain", i.ID), "the code will receive it twice")
		}
		if _, ok := c.Seen[r.Chain][i.ID]; !ok && c.young(r.Chain) {
			c.find(10, r.Run, fmt.Sprintf("item %s is in its inbox, but not recorded as accepted", i.ID), "if it is sent again, it is accepted again")
		}
	}
}

// young reports whether a chain is so young that the store has a record of every item that the
// chain accepted. In an older chain, an item from an outbox may have been confirmed, and the store
// may have removed its record. An imported chain has accepted all of its items in another store.
func (c *checker) young(chain event.RunID) bool {
	first := c.Runs[chain]
	return first != nil && !c.imported[chain] && c.Now.Sub(first.CreatedAt) < settling
}
