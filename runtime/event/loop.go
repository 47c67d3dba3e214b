package event

// Loop detects a cycle in a walk from run to run, for example along a chain. It stores a single
// run, however long the walk is (Brent's algorithm), so it may detect a cycle only after several
// rounds. Logs written by this runtime contain no cycles; an imported file may.
type Loop struct {
	kept       RunID
	step, keep int
}

// Closed must be called for each run of the walk. It reports whether the walk is in a cycle.
func (l *Loop) Closed(run RunID) bool {
	if l.step > 0 && run == l.kept {
		return true
	}
	if l.step == l.keep {
		l.kept, l.keep, l.step = run, 2*l.keep+1, 0
	}
	l.step++
	return false
}
