package memstore

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// Blocked returns the number of registered calls of Wait and Watch.
func Blocked(s *Store) (waits, watches int) {
	for _, p := range s.parts {
		all, _ := p.waiters.Blocked()
		waits += all
		watches += len(p.frames.Topics())
	}
	return waits, watches
}

// Passes returns the number of fairness keys with a stored pass.
func Passes(s *Store) (n int) {
	for _, p := range s.parts {
		for _, f := range p.fairKeys {
			n += len(f.passes)
		}
	}
	return n
}

// Plant adds an entry, which may be invalid.
func Plant(s *Store, e store.Entry) {
	s.entries.mu.Lock()
	defer s.entries.mu.Unlock()
	all := s.entries.of[e.Space]
	if i, found := entryAt(all, e.Key); found {
		all[i] = e
	} else {
		s.entries.of[e.Space] = slices.Insert(all, i, e)
	}
}
