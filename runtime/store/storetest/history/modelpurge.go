package history

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Purges in the model.

// find returns a run, or nil if it does not exist or was deleted.
func (m *model) find(run event.RunID) *modelRun {
	if r := m.runs[run]; r != nil && !r.Hidden {
		return r
	}
	return nil
}

// purgeTime returns the time from which an ended run may be purged.
func (r *modelRun) purgeTime() time.Time {
	earliest := r.EndedAt.Add(2 * time.Minute) // the clock of histories never goes back, so EndedAt suffices
	if due := r.EndedAt.Add(r.Retention); !r.Hidden && due.After(earliest) {
		return due
	}
	return earliest
}

// heldBack reports whether other data prevents the purge of a run, regardless of its purge time.
func (m *model) heldBack(r *modelRun) bool {
	for _, later := range m.runs {
		if later.Chain == r.Run && later != r {
			return true
		}
	}
	return r.CreatedBy != "" || len(m.kept[r.Run]) > 0 || slices.ContainsFunc(m.outbox, func(o store.Outgoing) bool { return o.From == r.Run })
}

// purges returns the ended runs that nothing holds back, ordered by purge time.
func (m *model) purges() []*modelRun {
	var ended []*modelRun
	for _, r := range m.sorted() {
		if r.QueueState == store.StateEnded && !m.heldBack(r) {
			ended = append(ended, r)
		}
	}
	slices.SortStableFunc(ended, func(a, b *modelRun) int { return a.purgeTime().Compare(b.purgeTime()) })
	return ended
}
