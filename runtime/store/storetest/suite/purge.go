package suite

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Delete deletes a run and returns the error of the store.
func (h *Harness) Delete(run event.RunID) error {
	h.Helper()
	return h.Purger().Delete(h.Ctx, run)
}

// Purger returns the store as a store.Purger, which every store under test must be.
func (h *Harness) Purger() store.Purger {
	h.Helper()
	p, ok := store.As[store.Purger](h.Store)
	if !ok {
		h.Fatalf("%T is not a store.Purger: the suite needs it", h.Store)
	}
	return p
}

// Purge purges up to limit runs in partition 0. It returns their number and the time of the next
// purge.
func (h *Harness) Purge(limit int) (int, time.Time) {
	h.Helper()
	n, next, err := h.Purger().Purge(h.Ctx, 0, limit)
	h.Check("purge", err)
	return n, next
}

// Long is a retention that differs from store.Horizon.
const Long = time.Hour

// Keep sets the retention of a run.
func Keep(d time.Duration) func(*Log) { return func(l *Log) { l.Spec.Retention = d } }

// Named gives a run a workflow ID.
func Named(wid string) func(*Log) { return func(l *Log) { l.Spec.WorkflowID = wid } }

// Ended creates a run and completes it.
func (h *Harness) Ended(change ...func(*Log)) *Log {
	h.Helper()
	l := h.NewLog(Orders, "")
	for _, f := range change {
		f(l)
	}
	if l.Spec.WorkflowID != "" {
		l.Run = h.IDs.Run(h.Clock.Now(), event.SlotOf(l.Spec.WorkflowID))
	}
	if got := h.Create(l.Create()); !got.New {
		h.Fatalf("create run %s: got %+v, want a new run", l.Run, got)
	}
	h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
	return l
}

// Gone fails the test if any read operation finds the run.
func (h *Harness) Gone(run event.RunID) {
	h.Helper()
	answers, err := h.Store.Load(h.Ctx, []store.Load{{Run: run}})
	h.Check("load", err)
	h.Equal("load", answers, []store.Loaded{{Err: store.ErrRunNotFound}})
}

// Purged calls Purge and fails the test unless it removes exactly want runs. It returns the time of
// the next purge.
func (h *Harness) Purged(want int) (next time.Time) {
	h.Helper()
	got, next := h.Purge(100)
	h.Equal("number of purged runs", got, want)
	return next
}
