// Package refs maps numbers, such as those of events and attempts, to values.
package refs

// Map is a map from numbers to values. A run has few open entities at most times, so
// the first values take no memory of their own. The zero Map is empty.
type Map[T any] struct {
	few  [few]entry[T]
	n    int // number of values in few
	more map[uint64]*T
}

type entry[T any] struct {
	ref   uint64
	value *T
}

// few is the number of values that a Map holds without a map. Sequential code has one open entity,
// and rarely a second one, such as the deadline of a scope.
const few = 2

// Get returns the value of ref, or nil if there is none.
func (m *Map[T]) Get(ref uint64) *T {
	for i := range m.few[:m.n] {
		if e := &m.few[i]; e.ref == ref {
			return e.value
		}
	}
	return m.more[ref]
}

// Add adds a value. The map must not have a value of ref.
func (m *Map[T]) Add(ref uint64, value *T) {
	if m.n < few {
		m.few[m.n] = entry[T]{ref, value}
		m.n++
		return
	}
	if m.more == nil {
		m.more = map[uint64]*T{}
	}
	m.more[ref] = value
}

// Delete removes the value of ref, if there is one.
func (m *Map[T]) Delete(ref uint64) {
	for i := range m.few[:m.n] {
		if m.few[i].ref == ref {
			m.n--
			m.few[i] = m.few[m.n]
			m.few[m.n] = entry[T]{}
			return
		}
	}
	delete(m.more, ref)
}

// Len returns the number of values.
func (m *Map[T]) Len() int { return m.n + len(m.more) }

// All calls yield for each value, in no particular order. yield must not change the map.
func (m *Map[T]) All(yield func(*T) bool) {
	for i := range m.few[:m.n] {
		if !yield(m.few[i].value) {
			return
		}
	}
	for _, v := range m.more {
		if !yield(v) {
			return
		}
	}
}
