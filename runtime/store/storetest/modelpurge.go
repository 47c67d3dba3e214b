package storetest

import (
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// What the model forgets.

// find returns a run, nil if there is none or it was deleted.
func (m *model) find(run event.RunID) *modelRun {
	if r := m.runs[run]; r != nil && !r.Hidden {
		return r
	}
	return nil
}

// purgeTime returns when a run that has ended may be purged.
func (r *modelRun) purgeTime() time.Time {
	earliest := r.EndedAt.Add(2 * time.Minute) // the clock of the histories never goes back
	if due := r.EndedAt.Add(r.Retention); !r.Hidden && due.After(earliest) {
		return due
	}
	return earliest
}

// heldBack reports whether a run may not be purged, however long ago it ended.
func (m *model) heldBack(r *modelRun) bool {
	for _, later := range m.runs {
		if later.Chain == r.Run && later != r {
			return true
		}
	}
	return r.Birth != "" || slices.ContainsFunc(m.outbox, func(o store.Outgoing) bool { return o.From == r.Run })
}

// purges returns the runs that have ended and that nothing holds back, those that
// may be purged first in front.
func (m *model) purges() []*modelRun {
	var ended []*modelRun
	for _, r := range m.sorted() {
		if r.Place == store.PlaceEnded && !m.heldBack(r) {
			ended = append(ended, r)
		}
	}
	slices.SortStableFunc(ended, func(a, b *modelRun) int { return a.purgeTime().Compare(b.purgeTime()) })
	return ended
}

// purge removes a run and everything of it.
func (m *model) purge(r *modelRun) {
	delete(m.runs, r.Run)
	m.forgetName(r)
	m.audit = slices.DeleteFunc(m.audit, func(e store.AuditEntry) bool { return e.Run == r.Run })
	for o := range maps.Values(m.runs) {
		if o.Chain == r.Chain {
			return
		}
	}
	delete(m.seen, r.Chain)
	delete(m.kept, r.Chain)
	delete(m.streams, r.Chain)
}

func (m *model) forgetName(r *modelRun) {
	if r.WorkflowID != "" && m.last[r.WorkflowID] == r.Run {
		delete(m.last, r.WorkflowID)
	}
}

func (m *model) delete(run event.RunID) error {
	r := m.runs[run]
	switch {
	case r == nil:
		return store.ErrRunNotFound
	case r.Place != store.PlaceEnded:
		return &store.NotEndedError{Run: run, Status: r.Status}
	}
	r.Hidden = true
	m.forgetName(r)
	return nil
}
