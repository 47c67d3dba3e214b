package fsck

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// checkNames checks invariant 9: a workflow ID has one active run, and all other open runs wait in
// its queue.
func (c *checker) checkNames() {
	for _, wid := range slices.Sorted(maps.Keys(c.Active)) {
		c.checkNamed("active", wid, c.Active[wid], false)
	}
	for _, wid := range slices.Sorted(maps.Keys(c.LastEnded)) {
		c.checkNamed("last ended", wid, c.LastEnded[wid], true)
	}
	for _, wid := range slices.Sorted(maps.Keys(c.Lines)) {
		if _, ok := c.Active[wid]; !ok && len(c.Lines[wid]) > 0 {
			c.find(9, c.Lines[wid][0], fmt.Sprintf("it is first in the queue of workflow id %q, which has no active run", wid), "it will never start")
		}
		for _, run := range c.Lines[wid] {
			if r := c.Runs[run]; r != nil && r.WorkflowID != wid {
				c.find(9, run, fmt.Sprintf("it is in the queue of workflow id %q, its own is %q", wid, r.WorkflowID), "it starts after a run of another workflow id")
			}
		}
	}
	for r := range c.runs {
		if r.QueueState != store.StateEnded {
			c.checkNameOf(r)
		}
	}
}

// checkNamed checks the active or the last run of a workflow ID.
func (c *checker) checkNamed(what, wid string, run event.RunID, ended bool) {
	r := c.Runs[run]
	switch {
	case r == nil: // checkOrphans reports the missing run
	case r.WorkflowID != wid:
		c.find(9, run, fmt.Sprintf("it is the %s run of workflow id %q, its own is %q", what, wid, r.WorkflowID), "the workflow id refers to an unrelated run")
	case r.Next != "" && ended:
		c.find(9, run, fmt.Sprintf("it is the %s run of workflow id %q, and has continued", what, wid), "starts of the workflow id return a run that another one continues")
	case r.Hidden && ended:
		c.find(9, run, fmt.Sprintf("it is the %s run of workflow id %q, and was deleted", what, wid), "starts of the workflow id return a run that does not exist")
	case (r.QueueState == store.StateEnded) != ended:
		c.find(9, run, fmt.Sprintf("it is the %s run of workflow id %q, and is %s", what, wid, r.QueueState), "starts of the workflow id return the wrong run")
	}
}

// checkNameOf checks that the workflow ID of an open run leads to the run.
func (c *checker) checkNameOf(r *store.RunState) {
	lines := c.linesOf[r.Run]
	if queued := r.QueueState == store.StateQueued; queued != (len(lines) == 1) {
		c.find(9, r.Run, fmt.Sprintf("it is %s, but in the queues of %q", r.QueueState, lines), "it never starts, or starts twice or too early")
		return
	}
	if r.WorkflowID != "" && c.Active[r.WorkflowID] != r.Run && len(lines) == 0 {
		c.find(9, r.Run, fmt.Sprintf("it is %s, and neither active nor queued for its workflow id %q", r.QueueState, r.WorkflowID), "two runs of the workflow id could be active")
	}
}

// checkCollecting checks invariant 21. A run that collects the starts of a key exists, has not been
// claimed, and has these starts in its inbox.
func (c *checker) checkCollecting() {
	for _, key := range slices.Sorted(maps.Keys(c.Collecting)) {
		id := c.Collecting[key]
		r := c.Runs[id]
		switch {
		case r == nil:
			c.find(21, "", fmt.Sprintf("starts of key %q refer to run %s, which does not exist", key, id), "they would join no run")
		case r.QueueState != store.StateParked && r.QueueState != store.StateReady || r.Fence.Epoch != 0:
			c.find(21, id, fmt.Sprintf("it collects the starts of key %q, and is %s in epoch %d", key, r.QueueState, r.Fence.Epoch), "starts that join it may be lost")
		case len(r.Inbox) == 0:
			c.find(21, id, fmt.Sprintf("it collects the starts of key %q, but has none", key), "it has no input")
		}
	}
}
