package worker

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/publish"
)

// keepValues lets a run that has not committed anything publish what it has taken
// over of an older one.
func (t *task) keepValues(events []event.Event) {
	if t.n > 1 || t.run.Fold().Spec.Kept == 0 {
		return
	}
	t.again = publish.Again(events)
	if len(t.again) > 0 && !t.run.Ended() {
		t.apply(event.Event{Type: event.ValuesKept}) // the commit needs a frame
	}
}

// tell adds what a commit lets others read: what its events say, and with the first
// frame of a run what that has taken over.
func (t *task) tell(c *commit) {
	if c.req.Frame == nil {
		return
	}
	c.again = len(t.again) > 0
	c.req.Publish = append(c.req.Publish, t.again...)
	for i := range t.unsaved {
		c.req.Publish = append(c.req.Publish, publish.Of(t.run.Fold(), &t.unsaved[i])...)
	}
}
