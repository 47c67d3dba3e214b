package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// A local limit belongs to each worker: the worker counts what it holds, and passes its free
// capacity with each claim. The uses of a local limit are counted like those of any limit, but
// nothing in the store bounds them, and waiting runs hold back no others, because another worker
// may have free capacity.

// Room is the free local capacity of a worker during a claim. A nil Room means that the worker has
// no local limits, and skips nothing.
type Room struct {
	left   map[string]store.Room
	passed map[event.RunID]bool
	// Passed are the skipped runs; the store adds their routes.
	Passed []store.PassedRun
}

// RoomOf returns the free local capacity with which a claim begins.
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

// HasPassed reports whether a run was skipped. The claim then examines the runs after it.
func (m *Room) HasPassed(run event.RunID) bool { return m != nil && m.passed[run] }

// Tries returns how many runs were skipped.
func (m *Room) Tries() int {
	if m == nil {
		return 0
	}
	return len(m.passed)
}

// fits reports whether there is free local capacity for all uses of a run.
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

// spend takes capacity for a run that was given to the worker.
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

// pass skips a run. The worker's free capacity of the run's limits is reserved for it, so that
// lighter runs that arrive later do not delay it forever, unless the worker can never have enough.
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
