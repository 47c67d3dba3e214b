package worker

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// begin lets the code of a run begin, unless it must not begin yet. What was accepted
// for it before it was claimed is in the log by then; it does not wait for what came since,
// or it would never begin while there is always more.
func (t *task) begin() {
	f := t.run.Fold()
	if f.Run != event.StatePending || !t.caughtUp && t.hasMail() {
		return
	}
	now := t.w.clock.Now()
	switch {
	case f.Held() && !now.Before(f.Due()):
		t.end(event.Event{Type: event.RunFailed, Failure: notReleased(f)})
	case f.Held() || f.Paused || f.Spec.StartAt.After(now):
	default:
		t.apply(event.Event{Type: event.RunStarted, By: t.w.cfg.Name, Build: t.w.build})
	}
}

func notReleased(f *event.Fold) *event.Failure {
	return &event.Failure{Code: event.CodeNotReleased, Message: fmt.Sprintf("it was held, and nobody released it within %v", f.Spec.Hold)}
}

// pointless reports whether a command changes nothing: it is not recorded.
func (t *task) pointless(e *event.Event) bool {
	f := t.run.Fold()
	switch e.Type {
	case event.RunPaused:
		return f.Paused
	case event.RunResumed:
		return !f.Paused && !t.run.Stepping()
	case event.RunReleased:
		return !f.Held()
	case event.RunStepped:
		return !f.Spec.Debug
	}
	return false
}
