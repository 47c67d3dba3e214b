package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Each worker has its own local limits. The worker counts the weights that it holds, and passes its
// free capacity with each claim. The store counts the uses of a local limit like those of any
// limit, but does not bound them. A run that waits for local capacity holds back no other run,
// because another worker may have free capacity.

// FreeCapacity is the free local capacity of a worker during a claim. A nil FreeCapacity means that
// the worker has no local limits; it skips no run.
type FreeCapacity struct {
	left   map[string]store.FreeCapacity
	passed map[event.RunID]bool
	// Skipped are the skipped runs. The store adds their routes.
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

// HasSkipped reports whether the claim has skipped the run. If so, the claim examines the runs
// after it.
func (m *FreeCapacity) HasSkipped(run event.RunID) bool { return m != nil && m.passed[run] }

// Tries returns how many runs were skipped.
func (m *FreeCapacity) Tries() int {
	if m == nil {
		return 0
	}
	return len(m.passed)
}

// fits reports whether the free local capacity suffices for all uses of a run.
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

// spend subtracts the weights of a run that the worker has received.
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

// pass skips a run. It reserves the worker's free capacity of the run's limits for the run, unless
// the worker can never have enough. Without the reservation, lighter runs that arrive later could
// delay the run forever.
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
