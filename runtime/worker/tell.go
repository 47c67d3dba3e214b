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

// refuses reports whether the code does not accept a question. Then nothing of it is
// recorded, but the next commit tells who has asked. One that is accepted is
// recorded as that, and one that nobody can judge as it is.
func (t *task) refuses(e *event.Event) bool {
	var refusal *event.Failure
	var handled bool
	t.exec.inUserCode(func() { refusal, handled = t.run.Judge(e.Name, e.Payload) })
	switch {
	case refusal != nil:
		t.refusals = append(t.refusals, publish.Refusal(e.Item, refusal))
		return true
	case handled:
		e.Type = event.AskAccepted
	}
	return false
}

// tell adds what a commit lets others read: what its events say, and with the first
// frame of a run what that has taken over.
func (t *task) tell(c *commit) {
	if c.took == len(t.taken) { // else the questions stay in the inbox, and the next worker would judge them again
		c.told = len(t.refusals)
		c.req.Publish = append(c.req.Publish, t.refusals...)
	}
	if c.req.Frame == nil {
		return
	}
	c.again = len(t.again) > 0
	c.req.Publish = append(c.req.Publish, t.again...)
	for i := range t.unsaved[:c.events] {
		c.req.Publish = append(c.req.Publish, publish.Of(t.run.Fold(), &t.unsaved[i])...)
	}
}
