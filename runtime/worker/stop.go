package worker

import (
	"context"
	"sync"
	"time"
)

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
	w.endLeases()
	w.hard.Store(true) // no retries any more
	w.cutOff()
	w.forgetAll()
	w.watchdog.stop()
	w.executors.ready.close()
	w.awaitExecutors()
	w.work.Wait()
}

// endLeases ends the heartbeats, delivers the last records, and closes the sessions.
func (w *Worker) endLeases() {
	var all sync.WaitGroup
	for _, relay := range w.outboxes {
		all.Go(relay.Stop)
	}
	w.leases.Stop()
	for _, u := range w.unserved {
		u.looks.Wait()
	}
	all.Wait()
	w.leases.Close(context.Background(), w.log)
}

// forgetAll unwinds the code of the runs that are still in memory: those that
// wait, and those that could not be given back because the store does not answer.
func (w *Worker) forgetAll() {
	owned, parked := w.runs.all()
	for _, t := range parked {
		t.post(input{kind: inputEvict})
	}
	for _, t := range owned {
		t.post(input{kind: inputLost})
		t.post(input{kind: inputEvict}) // it may leave before it hears of that
	}
}

// leaveAll tells all runs to leave and waits until they have, at most for d.
func (w *Worker) leaveAll(d time.Duration) bool {
	idle := w.runs.stop()
	expired := make(chan struct{})
	stop := w.clock.AfterFunc(d, func() { close(expired) })
	defer stop()
	select {
	case <-idle:
		return true
	case <-expired:
		return false
	}
}

// reportAttempts logs which steps ignore that they must end, and where they are.
func (w *Worker) reportAttempts() {
	for _, info := range w.steps.running() {
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
	case <-w.steps.ended():
	case <-expired:
	}
}

// awaitExecutors waits for the executors, but not for ever for those that are
// stuck in users' code.
func (w *Worker) awaitExecutors() {
	expired, stop := w.hardStop()
	defer stop()
	for _, e := range w.executors.list() {
		select {
		case <-e.done:
			continue
		case <-expired:
		}
		select {
		case <-e.done: // both at once
		default:
			w.watchdog.reportStuck(e, "left behind: a run's code does not return")
		}
	}
}
