package rates

import (
	"sync"
	"time"
)

const (
	// slotTime is the time that one slot covers.
	slotTime = 10 * time.Second
	// slots is the number of slots of the window: the current slot and those of the last minute.
	slots = 7
	// maxNames is the maximum number of steps that a meter distinguishes in a window.
	maxNames = 64
)

// Meter counts the runs and steps of one worker. It is safe for concurrent use. Counting allocates
// nothing, except once for each step in a window.
type Meter struct {
	now   func() time.Time
	start time.Time

	mu             sync.Mutex
	started, ended counter
	steps          map[string]*latencies
	others         latencies // attempts of the steps that exceed maxNames
}

// NewMeter returns a meter. now returns times with a monotonic clock.
func NewMeter(now func() time.Time) *Meter {
	return &Meter{now: now, start: now(), steps: map[string]*latencies{}}
}

// Now returns the time by the clock of the meter. See Step.
func (m *Meter) Now() time.Time { return m.now() }

// Started counts a run that has begun.
func (m *Meter) Started() { m.count(&m.started) }

// Ended counts a run that has ended.
func (m *Meter) Ended() { m.count(&m.ended) }

func (m *Meter) count(c *counter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*c.at(m.slot(m.now()))++
}

// Step counts an attempt of a step that has begun at the time began, by Now, and ends now.
func (m *Meter) Step(name string, began time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	slot := m.slot(now)
	l := m.steps[name]
	if l == nil {
		if l = m.admit(name, slot); l == nil {
			l = &m.others
		}
	}
	l.at(slot).add(now.Sub(began))
}

// admit returns the new entry of a step, or nil if the meter has too many steps. It removes the steps
// without attempts in the window if there is no space.
func (m *Meter) admit(name string, slot int64) *latencies {
	if len(m.steps) >= maxNames {
		for other, l := range m.steps {
			if !l.within(slot) {
				delete(m.steps, other)
			}
		}
	}
	if len(m.steps) >= maxNames {
		return nil
	}
	l := &latencies{}
	m.steps[name] = l
	return l
}

func (m *Meter) slot(now time.Time) int64 { return int64(now.Sub(m.start) / slotTime) }

// report returns the figures of the window.
func (m *Meter) report() *Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	slot := m.slot(now)
	from := max(slot-slots+1, 0)
	r := &Report{Over: max(now.Sub(m.start)-time.Duration(from)*slotTime, time.Second)}
	r.Started, r.Ended = m.started.sum(slot), m.ended.sum(slot)
	for name, l := range m.steps {
		r.add(name, l.sum(slot))
	}
	r.add("", m.others.sum(slot))
	return r
}

// ring contains a value for each slot of the window.
type ring[T any] struct {
	slot  [slots]int64 // slot number plus one of each value; 0 if the value was never used
	value [slots]T
}

// at returns the value of a slot, which is zero if the slot is new.
func (r *ring[T]) at(slot int64) *T {
	i := slot % slots
	if r.slot[i] != slot+1 {
		r.slot[i] = slot + 1
		clear(r.value[i : i+1])
	}
	return &r.value[i]
}

// within reports whether the window that ends with the slot contains a value.
func (r *ring[T]) within(slot int64) bool {
	for i := range r.slot {
		if r.holds(i, slot) {
			return true
		}
	}
	return false
}

func (r *ring[T]) holds(i int, slot int64) bool { return r.slot[i] != 0 && r.slot[i]-1 > slot-slots }

type counter struct{ ring[int] }

func (c *counter) sum(slot int64) (n int) {
	for i := range c.value {
		if c.holds(i, slot) {
			n += c.value[i]
		}
	}
	return n
}

type latencies struct{ ring[histogram] }

func (l *latencies) sum(slot int64) *histogram {
	h := &histogram{}
	for i := range l.value {
		if l.holds(i, slot) {
			h.merge(&l.value[i])
		}
	}
	return h
}
