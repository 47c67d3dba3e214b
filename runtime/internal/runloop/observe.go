package runloop

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/observe"
)

// observe reports a run that is in memory to the observers. The events of a run that is about to be
// created are not committed yet.
func (s *State) observe(events []event.Event, replay time.Duration) {
	if !s.Observed {
		return
	}
	if s.isNew {
		events = nil
	}
	queue, _ := event.SplitQueue(s.route.Queue)
	s.act(Action{Op: Observe, Seen: &observe.Run{
		ID: s.id, WorkflowID: s.workflowID, Workflow: s.route.Workflow, Queue: queue, Epoch: s.fence.Epoch, Recoveries: s.recoveries,
		Log: events, Replay: replay,
	}})
}

// observed returns what the observers receive about a confirmed commit. It copies the events,
// because the run reuses their memory.
func (s *State) observed(c *Commit) *observe.Commit {
	events := slices.Clone(logged(s.unsaved[:c.events]))
	return &observe.Commit{
		Events: events, Bytes: len(c.Req.Frame), LogBytes: s.logBytes + len(c.Req.Frame), Made: c.made, Confirmed: s.moment.Now,
		Progress: c.Req.Progress,
	}
}

// reportCommit reports a confirmed commit to the observers. It is the last action about the commit,
// so that the steps of the commit start first.
func (s *State) reportCommit(c *observe.Commit) { s.act(Action{Op: Report, Events: c}) }
