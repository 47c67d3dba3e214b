package runloop

import (
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
	s.memory.seen = observe.Run{
		ID: s.id, WorkflowID: s.workflowID, Workflow: s.route.Workflow, Queue: queue, Epoch: s.fence.Epoch, Recoveries: s.recoveries,
		Log: events, Replay: replay,
	}
	s.act(Action{Op: Observe, Seen: &s.memory.seen})
}

// reportCommit reports a confirmed commit to the observers. It is the last action about the commit,
// so that the steps of the commit start first. The memory of the events is not reused before the
// next call of the State.
func (s *State) reportCommit(c *Commit, events []event.Event, size, logBytes int) {
	s.memory.reported = observe.Commit{
		Events: logged(events), Bytes: size, LogBytes: logBytes, Made: c.made, Confirmed: s.moment.Now, Progress: c.Req.Progress,
	}
	s.act(Action{Op: Report, Events: &s.memory.reported})
}
