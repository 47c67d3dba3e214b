package worker

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// begin lets the code of a run begin, unless it must not begin yet. What was accepted
// for it before it was claimed is in the log by then; it does not wait for what came since,
// or it would never begin while there is always more.
func (t *runLoop) begin() {
	f := t.run.Fold()
	if f.Run != event.StatePending || !t.unread.caughtUp && t.hasUnread() {
		return
	}
	now := t.clock.Now()
	switch {
	case f.Held() && !now.Before(f.Due()):
		t.end(event.Event{Type: event.RunFailed, Failure: notReleased(f)})
	case f.Held() || f.Paused || f.Spec.StartAt.After(now):
	default:
		t.apply(event.Event{Type: event.RunStarted, By: t.cfg.Name, Build: t.build})
	}
}

func notReleased(f *event.Fold) *event.Failure {
	return &event.Failure{Code: event.CodeNotReleased, Message: fmt.Sprintf("it was held, and nobody released it within %v", f.Spec.Hold)}
}

// outOfTime returns why a run that has not begun fails now without its code; nil: it does not.
func outOfTime(f *event.Fold, now time.Time) *event.Failure {
	switch {
	case f.Held() && !now.Before(f.Due()):
		return notReleased(f)
	case f.Spec.Timeout > 0 && !now.Before(f.CreatedAt.Add(f.Spec.Timeout)):
		return &event.Failure{Code: event.CodeTimeout, Message: fmt.Sprintf("its time of %v was over before a worker had begun with it", f.Spec.Timeout)}
	}
	return nil
}
