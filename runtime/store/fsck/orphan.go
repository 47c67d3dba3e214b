package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
)

// checkOrphans checks invariant 16: it reports data of runs that do not exist.
func (c *checker) checkOrphans() {
	const explain = "it is never cleaned up, and may be assigned to a worker"
	for _, id := range slices.Sorted(maps.Keys(c.Runs)) {
		if r := c.Runs[id]; r == nil || r.Run != id {
			c.find(16, id, "the data stored under its id is of another run", "the run cannot be found")
		}
	}
	for _, m := range []struct {
		what string
		runs []event.RunID
	}{
		{"an entry among the ready runs", slices.Collect(maps.Keys(c.readyIn))},
		{"an entry among the owned runs", slices.Collect(maps.Keys(c.ownedBy))},
		{"an entry among the runs with unread items", slices.Collect(maps.Keys(c.unreadOf))},
		{"an entry in a limiter queue", c.waiting()},
		{"an entry in the queue of a workflow id", slices.Collect(maps.Keys(c.linesOf))},
		{"a time at which it is to be purged", slices.Collect(maps.Keys(c.Purges))},
		{"an entry in the list of failure groups", c.grouped()},
		{"an entry in the list of a label", slices.Collect(maps.Keys(c.Labels))},
		{"a timer", slices.Collect(maps.Keys(c.Timers))},
		{"a workflow id that it is active for", slices.Collect(maps.Values(c.Active))},
		{"a workflow id that it was the last for", slices.Collect(maps.Values(c.LastEnded))},
		{"an entry in the audit trail", slices.Collect(maps.Keys(c.audited))},
	} {
		slices.Sort(m.runs)
		for _, run := range slices.Compact(m.runs) {
			if _, ok := c.Runs[run]; !ok {
				c.find(16, run, fmt.Sprintf("it does not exist and has %s", m.what), explain)
			}
		}
	}
	chains := map[event.RunID]bool{}
	for r := range c.runs {
		chains[r.Chain] = true
	}
	for _, chain := range slices.Sorted(maps.Keys(c.Seen)) {
		if !chains[chain] && c.Runs[chain] == nil {
			c.find(16, chain, "no run of its chain exists, and it has accepted items", explain)
		}
	}
	for _, chain := range slices.Sorted(maps.Keys(c.Kept)) {
		for _, id := range c.Kept[chain] {
			if _, ok := c.Seen[chain][id]; !ok {
				c.find(16, chain, fmt.Sprintf("its chain keeps item %s until it is confirmed, but has not accepted it", id), explain)
			}
		}
	}
}
