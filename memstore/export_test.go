package memstore

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
