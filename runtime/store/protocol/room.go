package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// A local limit is each worker's own: what is held of it here, the worker knows, and what is
// left it says with each claim. Its uses are counted as those of any limit, but nothing in the
// store bounds them, and nobody is kept back by who waits for them: another worker may
// have room.

// Room is what a worker has left of its own limits while a claim of it goes on. Nil: it has
// none, and nothing is passed over.
type Room struct {
	left   map[string]store.Room
	passed map[event.RunID]bool
	// Passed are the runs that were passed over; the store adds their routes.
	Passed []store.PassedRun
}

// RoomOf returns the room that a claim begins with.
func RoomOf(c *store.Claim) *Room {
	if len(c.Room) == 0 {
		return nil
	}
	m := &Room{left: make(map[string]store.Room, len(c.Room)), passed: map[event.RunID]bool{}}
	for _, r := range c.Room {
		m.left[r.Limit] = r
	}
	return m
}

// HasPassed reports whether a run was passed over: the claim looks at those after it.
func (m *Room) HasPassed(run event.RunID) bool { return m != nil && m.passed[run] }

// Tries returns how many runs were passed over.
func (m *Room) Tries() int {
	if m == nil {
		return 0
	}
	return len(m.passed)
}

// fits reports whether there is room for all that a run uses.
func (m *Room) fits(uses []store.Use) bool {
	if m == nil {
		return true
	}
	for _, u := range uses {
		if r, ok := m.left[u.Name]; ok && u.Local && u.Weight > r.Free {
			return false
		}
	}
	return true
}

// spend takes room for a run that was given to the worker.
func (m *Room) spend(uses []store.Use) {
	if m == nil {
		return
	}
	for _, u := range uses {
		if r, ok := m.left[u.Name]; ok && u.Local {
			r.Free -= u.Weight
			m.left[u.Name] = r
		}
	}
}

// pass passes over a run. What the worker has of its limits is kept for it, so that lighter ones
// that come later do not keep it waiting for ever, unless the worker never has so much.
func (m *Room) pass(run event.RunID, uses []store.Use) {
	never := false
	for _, u := range uses {
		r, ok := m.left[u.Name]
		never = never || ok && u.Local && u.Weight > r.Most
	}
	for _, u := range uses {
		if r, ok := m.left[u.Name]; ok && u.Local && !never {
			r.Free = 0
			m.left[u.Name] = r
		}
	}
	m.passed[run] = true
	m.Passed = append(m.Passed, store.PassedRun{Run: run, Never: never})
}
