package worker

import "github.com/flowgen/flowgen/runtime/internal/publish"

// tell adds what a commit lets others read: what its events say, and with the first
// commit of a run what that has taken over.
func (t *task) tell(c *commit) {
	c.again = len(t.again) > 0
	c.req.Publish = append(c.req.Publish, t.again...)
	for i := range t.unsaved {
		c.req.Publish = append(c.req.Publish, publish.Of(&t.unsaved[i])...)
	}
}
