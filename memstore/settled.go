package memstore

// Settled returns how many calls of Wait are blocked and have nothing to
// return. It is for test kits that must know whether everything waits: a call
// that has something to return, or is about to, is not counted.
func (s *Store) Settled() int {
	n := 0
	for _, p := range s.parts {
		_, idle := p.waiters.Blocked()
		n += idle
	}
	return n
}
