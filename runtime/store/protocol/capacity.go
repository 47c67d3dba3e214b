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
type FreeCapacity struct {
	left   map[string]store.FreeCapacity
	passed map[event.RunID]bool
	// Passed are the skipped runs; the store adds their routes.
	Skipped []store.SkippedRun
}

// FreeCapacityOf returns the free local capacity with which a claim begins.
func FreeCapacityOf(c *store.Claim) *FreeCapacity {
	if len(c.FreeCapacity) == 0 {
		return nil
	}
	m := &FreeCapacity{left: make(map[string]store.FreeCapacity, len(c.FreeCapacity)), passed: map[event.RunID]bool{}}
	for _, r := range c.FreeCapacity {
		m.left[r.Limit] = r
	}
	return m
}

// HasSkipped reports whether a run was skipped. The claim then examines the runs after it.
func (m *FreeCapacity) HasSkipped(run event.RunID) bool { return m != nil && m.passed[run] }

// Tries returns how many runs were skipped.
func (m *FreeCapacity) Tries() int {
	if m == nil {
		return 0
	}
	return len(m.passed)
}

// fits reports whether there is free local capacity for all uses of a run.
func (m *FreeCapacity) fits(uses []store.Use) bool {
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
func (m *FreeCapacity) spend(uses []store.Use) {
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
func (m *FreeCapacity) pass(run event.RunID, uses []store.Use) {
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
	m.Skipped = append(m.Skipped, store.SkippedRun{Run: run, Never: never})
}
