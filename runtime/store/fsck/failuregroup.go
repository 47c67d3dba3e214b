package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// rerunOf returns the last run whose log names r as the run that it repeats. It returns "" if there
// is none. It also returns "" if the rerun cannot be determined because r was imported.
func (c *checker) rerunOf(r *store.RunState) event.RunID {
	if c.reruns == nil {
		c.reruns = map[event.RunID]event.RunID{}
		for made := range c.runs {
			h := c.logs[made.Run]
			if h == nil || h.state.Spec == nil || h.state.Spec.RerunOf == "" {
				continue
			}
			of := h.state.Spec.RerunOf
			old, last := c.Runs[of], c.Runs[c.reruns[of]]
			if old != nil && tried(old) && made.CreatedAt.After(old.EndedAt) && (last == nil || made.CreatedAt.After(last.CreatedAt)) {
				c.reruns[of] = made.Run
			}
		}
	}
	if c.imported[r.Run] {
		return ""
	}
	return c.reruns[r.Run]
}

// tried reports whether r is a run that leaves its failure group when it is retried.
func tried(r *store.RunState) bool {
	return r.QueueState == store.StateEnded && (r.Status == event.StatusFailed || r.Status == event.StatusCanceled) && !r.EndedAt.IsZero()
}

// checkFailureGroups checks invariant 23: runs are in the failure groups of their records, and retried
// runs refer to their reruns.
func (c *checker) checkFailureGroups() {
	in := map[event.RunID][]string{}
	for _, group := range slices.Sorted(maps.Keys(c.FailureGroups)) {
		for _, run := range c.FailureGroups[group].Runs {
			in[run] = append(in[run], group)
		}
	}
	failing := map[event.RunID]int{}
	for _, run := range c.Failing {
		failing[run]++
	}
	for r := range c.runs {
		want, times := []string(nil), 0
		if r.Group != "" {
			want, times = []string{r.Group}, 1
		}
		if !slices.Equal(in[r.Run], want) {
			c.find(23, r.Run, fmt.Sprintf("it is in group %q, but is listed in %q", r.Group, in[r.Run]), "lists of the groups contain wrong runs")
		}
		if failing[r.Run] != times {
			c.find(23, r.Run, fmt.Sprintf("it is in group %q, and %d times in the list of all runs in failure groups", r.Group, failing[r.Run]), "lists of runs in failure groups are wrong")
		}
		if made := c.rerunOf(r); made != "" && r.Rerun == "" {
			c.find(23, r.Run, fmt.Sprintf("it was retried as run %s, and has no link to it", made), "it counts as a run that was not retried")
		}
		if r.Group != "" && r.Rerun != "" {
			c.find(23, r.Run, fmt.Sprintf("it was retried as run %s, and is in group %q", r.Rerun, r.Group), "it is listed in a failure group")
		}
		if r.Group != "" && outOfFailureGroup(r.QueueState, r.Status, r.Hidden) {
			c.find(23, r.Run, fmt.Sprintf("it is %s, deleted: %v, and in group %q", r.Status, r.Hidden, r.Group), "it is listed in a failure group")
		}
	}
}

// grouped returns the runs in all failure groups.
func (c *checker) grouped() []event.RunID {
	all := slices.Clone(c.Failing)
	for _, g := range c.FailureGroups {
		all = append(all, g.Runs...)
	}
	return all
}

// outOfFailureGroup reports whether a run in this state must not be in a failure group.
func outOfFailureGroup(q store.QueueState, status event.Status, hidden bool) bool {
	return hidden || q == store.StateEnded && status != event.StatusFailed
}

// checkLabels checks invariant 25: a run is found by its labels. It checks nothing if the store has
// no index of labels.
func (c *checker) checkLabels() {
	if c.Labels == nil {
		return
	}
	for r := range c.runs {
		if r.QueueState == 0 {
			continue // the record of the run is lost and will be derived from the log
		}
		var want []string
		for _, label := range r.Labels() {
			if !r.Hidden {
				want = append(want, label.String())
			}
		}
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(c.Labels[r.Run])); !slices.Equal(got, want) {
			c.find(25, r.Run, fmt.Sprintf("it has %q, deleted: %v, but is listed under %q", r.Labels(), r.Hidden, got), "lists by workflow id or tag contain wrong runs")
		}
	}
}
