package fsck

import (
	"fmt"
	"slices"
)

// checkLabels checks invariant 26: a run is found by its labels if the store has an index of them.
func (c *checker) checkLabels() {
	if c.Labels == nil {
		return
	}
	for r := range c.runs {
		if r.QueueState == 0 {
			continue // its record is lost and will be derived from the log
		}
		var want []string
		for _, label := range r.Labels() {
			if !r.Hidden {
				want = append(want, label.String())
			}
		}
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(c.Labels[r.Run])); !slices.Equal(got, want) {
			c.find(26, r.Run, fmt.Sprintf("it has %q, deleted: %v, and is found by %q", r.Labels(), r.Hidden, got), "lists by workflow id or tag have others than there are")
		}
	}
}
