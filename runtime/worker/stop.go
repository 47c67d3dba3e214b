package worker

import (
	"maps"
	"slices"
	"time"
)

// hardStop bounds how long the worker waits for what should end at once.
const hardStop = 2 * time.Second

// stop gives all runs back. Steps that are under way may end within the grace
// period, and what they did is committed; then their contexts are canceled, and
// what they answer within hardStop is committed, too: a result is a result, and an
// error gives the attempt back. Those that still do not end are left behind, given
// back with a line that says where they hang.
func (w *Worker) stop() {
	w.stopping.Store(true)
	switch {
	case w.killed.Load():
		w.hard.Store(true)
	case !w.leaveAll(w.cfg.Grace):
		w.ending.Store(true)
		if w.leaveAll(w.obeys) {
			break
		}
		w.hard.Store(true)
		w.reportAttempts()
		w.leaveAll(hardStop)
	}
	w.awaitAttempts()
	w.endSessions()
	w.hard.Store(true) // no retries any more
	w.cutOff()
	w.forgetAll()
	w.stopWatch()
	w.queue.close()
	w.awaitExecutors()
	w.work.Wait()
}

// forgetAll unwinds the code of the runs that are still in memory: those that
// wait, and those that could not be given back because the store does not answer.
func (w *Worker) forgetAll() {
	w.mu.Lock()
	parked, owned := w.parked.all(), slices.Collect(maps.Values(w.tasks))
	w.mu.Unlock()
	for _, t := range parked {
		t.post(input{kind: inputEvict})
	}
	for _, t := range owned {
		t.post(input{kind: inputLost})
		t.post(input{kind: inputEvict}) // it may leave before it hears of that
	}
}

// leaveAll tells all tasks to leave and waits until they have, at most for d.
func (w *Worker) leaveAll(d time.Duration) bool {
	w.mu.Lock()
	w.checkIdle()
	all := slices.Collect(maps.Values(w.tasks))
	w.mu.Unlock()
	for _, t := range all {
		t.post(input{kind: inputStop})
	}
	expired := make(chan struct{})
	stop := w.clock.AfterFunc(d, func() { close(expired) })
	defer stop()
	select {
	case <-w.idle:
		return true
	case <-expired:
		return false
	}
}

// reportAttempts says which steps ignore that they are to end, and where they are.
func (w *Worker) reportAttempts() {
	for _, info := range w.attempts.running() {
		w.log.Error("grace period is over: a step is still running", "run", info.Run, "step", info.Step, "key", info.Key,
			"attempt", info.Number, "stack", stackOf("flowgen_run", string(info.Run)))
	}
}

// hardStop returns a channel that is closed when the worker has waited for long
// enough for what should end at once; never if it was killed: then who has killed
// it wants every goroutine to end, and looks at the time itself.
func (w *Worker) hardStop() (expired chan struct{}, stop func() bool) {
	expired = make(chan struct{})
	if w.killed.Load() {
		return expired, func() bool { return true }
	}
	return expired, w.clock.AfterFunc(w.obeys, func() { close(expired) })
}

// awaitAttempts waits for the goroutines of steps, which were told to end.
func (w *Worker) awaitAttempts() {
	expired, stop := w.hardStop()
	defer stop()
	select {
	case <-w.attempts.ended():
	case <-expired:
	}
}

// awaitExecutors waits for the executors, but not for ever for those that are
// stuck in users' code.
func (w *Worker) awaitExecutors() {
	w.mu.Lock()
	executors := w.executors
	w.mu.Unlock()
	expired, stop := w.hardStop()
	defer stop()
	for _, e := range executors {
		select {
		case <-e.done:
			continue
		case <-expired:
		}
		select {
		case <-e.done: // both at once
		default:
			w.reportStuck(e, "left behind: a run's code does not return")
		}
	}
}
