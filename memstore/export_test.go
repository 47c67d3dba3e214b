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
		for _, f := range p.flows {
			n += len(f.passes)
		}
	}
	return n
}

// Plant adds a line to the journal and an entry to the catalog, which may be invalid.
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

// PlantView adds a view, which may be invalid.
func PlantView(s *Store, name string, view []byte) {
	a := &s.views
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept[name] = view
}
