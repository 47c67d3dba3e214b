package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// checkGathering checks invariant 21 for the runs that starts find: they are unclaimed, and contain
// the collected starts.
func (c *checker) checkGathering() {
	for _, key := range slices.Sorted(maps.Keys(c.Gathering)) {
		id := c.Gathering[key]
		r := c.Runs[id]
		switch {
		case r == nil:
			c.find(21, "", fmt.Sprintf("starts of key %q look for run %s, which does not exist", key, id), "they would join nothing")
		case r.QueueState != store.StateParked && r.QueueState != store.StateReady || r.Fence.Epoch != 0:
			c.find(21, id, fmt.Sprintf("it gathers the starts of key %q, and is %s in epoch %d", key, r.QueueState, r.Fence.Epoch), "what joins it may be lost")
		case len(r.Inbox) == 0:
			c.find(21, id, fmt.Sprintf("it gathers the starts of key %q, and has none", key), "it has no input")
		}
	}
}
