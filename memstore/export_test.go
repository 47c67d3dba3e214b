package memstore

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// Blocked returns how many calls of Wait and Watch a store has registered.
func Blocked(s *Store) (waits, watches int) {
	for _, p := range s.parts {
		all, _ := p.waiters.Blocked()
		waits += all
		watches += len(p.frames.Topics())
	}
	return waits, watches
}

// Passes returns for how many fair keys a store remembers where they go on.
func Passes(s *Store) (n int) {
	for _, p := range s.parts {
		for _, f := range p.flows {
			n += len(f.passes)
		}
	}
	return n
}

// Plant puts a line into the journal, and an entry into the catalogue, whatever they are.
func Plant(s *Store, line store.JournalLine, workflow string, entry []byte) {
	j, c := &s.journal, &s.catalog
	j.mu.Lock()
	defer j.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	i, _ := j.at(line.ID)
	j.lines = slices.Insert(j.lines, i, line)
	c.entries[workflow] = entry
}

// PlantView puts a view into the store, whatever it is.
func PlantView(s *Store, name string, view []byte) {
	a := &s.views
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept[name] = view
}
