package memstore

// Blocked returns how many calls of Wait and Watch a store has registered.
func Blocked(s *Store) (waits, watches int) {
	for _, p := range s.parts {
		p.mu.Lock()
		waits += len(p.waits)
		for _, all := range p.listeners {
			waits += len(all)
		}
		for _, c := range p.classes {
			waits += len(c.idle)
		}
		watches += len(p.watches)
		p.mu.Unlock()
	}
	return waits, watches
}
