package replay

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// TestPause_AnOutcomeThatIsInTheLogStandsAgainstACancelAtTheResume proves that the recorded
// completion of a step counts although the code cancels the step. During a pause a message arrives
// for which the code cancels the step, and then the step completes.
func TestPause_AnOutcomeThatIsInTheLogStandsAgainstACancelAtTheResume(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		sub := b.NewScope(s)
		var op *Op
		p := spawn(b, sub, func(b *Branch) any {
			op = doStep(b, sub, "p.charge", "")
			return 1
		})
		if _, err := b.Receive(s, "stop", time.Time{}); err != nil {
			return done(`"not received"`)
		}
		sub.Cancel()
		_, _ = b.Await(s, p, "the step")
		if op.Failure != nil {
			return done(`"canceled"`)
		}
		return done(`"completed"`)
	})
	ref := h.start()
	h.apply(event.Event{Type: event.RunPaused})
	h.send("stop", "1")
	h.complete(ref, "7")
	if h.run.Ended() {
		t.Fatal("code has run while the run was paused")
	}
	h.apply(event.Event{Type: event.RunResumed})
	if last := h.log[len(h.log)-1]; last.Type != event.RunCompleted || string(last.Payload) != `"completed"` {
		t.Errorf("the run ended with %s %s", last.Type, last.Payload)
	}
}
