package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// checkTroubles is invariant 23: which runs are in groups of trouble their records say.
func (c *checker) checkTroubles() {
	in := map[event.RunID][]string{}
	for _, group := range slices.Sorted(maps.Keys(c.Troubles)) {
		for _, run := range c.Troubles[group].Runs {
			in[run] = append(in[run], group)
		}
	}
	troubled := map[event.RunID]int{}
	for _, run := range c.Troubled {
		troubled[run]++
	}
	for r := range c.runs {
		want, times := []string(nil), 0
		if r.Group != "" {
			want, times = []string{r.Group}, 1
		}
		if !slices.Equal(in[r.Run], want) {
			c.find(23, r.Run, fmt.Sprintf("it is in group %q, and found in those of %q", r.Group, in[r.Run]), "lists of the groups have others than there are")
		}
		if troubled[r.Run] != times {
			c.find(23, r.Run, fmt.Sprintf("it is in group %q, and %d times among all runs in trouble", r.Group, troubled[r.Run]), "lists of runs in trouble have others than there are")
		}
		if r.Group != "" && outOfTrouble(r.QueueState, r.Status, r.Hidden) {
			c.find(23, r.Run, fmt.Sprintf("it is %s, deleted: %v, and in group %q", r.Status, r.Hidden, r.Group), "it is listed as one in trouble")
		}
	}
}

// grouped returns the runs that are found as those in trouble.
func (c *checker) grouped() []event.RunID {
	all := slices.Clone(c.Troubled)
	for _, g := range c.Troubles {
		all = append(all, g.Runs...)
	}
	return all
}

// outOfTrouble reports whether such a run is in no group, whatever has happened to it.
func outOfTrouble(q store.QueueState, status event.Status, hidden bool) bool {
	return hidden || q == store.StateEnded && status != event.StatusFailed
}
