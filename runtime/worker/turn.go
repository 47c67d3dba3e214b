package worker

import "iter"

// inTurn delivers the sessions in the order in which a worker claims from their
// partitions in a round, with their places: it begins with the partition after the one
// that has filled it. So a partition that always has something ready, such as a run that gives way
// and is ready again at once, cannot keep a full worker for itself: the run waits behind
// what is ready in the other partitions, too.
//
// Within a partition the highest priority is claimed first. Over partitions it holds
// within this bound: before a full worker claims a run that has the highest priority of
// all, each of the other partitions fills it once at most, which is one run for each
// place that gets free, and claimBatch of them at most.
func (w *Worker) inTurn() iter.Seq2[int, *session] {
	w.passed.Store(false)
	return func(yield func(int, *session) bool) {
		first := int(w.turn.Load())
		for n := range w.sessions {
			i := (first + n) % len(w.sessions)
			if !yield(i, w.sessions[i]) {
				return
			}
		}
	}
}

// passes reports whether a partition is passed over in this round, because the worker has
// no room, or had none for a partition before it: what gets free meanwhile is for that
// one, which begins the next round. If the partition has filled the worker itself, the
// one after it does.
func (w *Worker) passes(s *session, room int, filled bool) bool {
	if room > 0 && !w.passed.Load() {
		return false
	}
	if w.passed.CompareAndSwap(false, true) {
		next := s.partition
		if filled {
			next++
		}
		w.turn.Store(int64(next))
	}
	return true
}
