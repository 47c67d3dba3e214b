package event

// Loop notices that a walk from one run to the next, such as along a chain, comes to a run for the second time. It keeps one run
// alone, however long the walk is (Brent): so it may take some rounds. Logs of this runtime have no such walk; a file that is imported
// may have.
type Loop struct {
	kept       RunID
	step, keep int
}

// Closed is called for each run of the walk, and reports whether it goes round.
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
