package worker

import (
	"context"
	"sync"
	"time"
)

// stop gives all runs back. Running steps may end within the grace period, and their outcomes are
// committed. Then their contexts are canceled. Outcomes within hardStop after that are committed as
// well: a result counts, and an error gives the attempt back. Steps that still do not end are given
// back and abandoned, and a log line shows where they hang.
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
	w.hard.Store(true) // no more retries
	w.cutOff()
	w.forgetAll()
	w.watchdog.stop()
	w.executors.ready.close()
	w.awaitExecutors()
	w.work.Wait()
}

// endLeases stops the heartbeats, delivers the last outbox records, and closes the sessions.
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

// forgetAll unwinds the code of the runs that are still in memory: runs that wait, and runs that
// could not be given back because the store does not answer.
func (w *Worker) forgetAll() {
	owned, parked := w.runs.all()
	for _, t := range parked {
		t.post(input{kind: inputEvict})
	}
	for _, t := range owned {
		t.post(input{kind: inputLost})
		t.post(input{kind: inputEvict}) // it may leave before it handles the first input
	}
}

// leaveAll makes all runs leave and waits until they have, for at most d.
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

// reportAttempts logs the steps that ignore their canceled context, with their stacks.
func (w *Worker) reportAttempts() {
	for _, info := range w.steps.running() {
		w.log.Error("grace period is over: a step is still running", "run", info.Run, "step", info.Step, "key", info.Key,
			"attempt", info.Number, "stack", stackOf("flowgen_run", string(info.Run)))
	}
}

// hardStop returns a channel that is closed when the worker has waited long enough for work that
// should end at once. If the worker was killed, the channel is never closed, because the caller of
// Kill waits for every goroutine and bounds the time itself.
func (w *Worker) hardStop() (expired chan struct{}, stop func() bool) {
	expired = make(chan struct{})
	if w.killed.Load() {
		return expired, func() bool { return true }
	}
	return expired, w.clock.AfterFunc(w.obeys, func() { close(expired) })
}

// awaitAttempts waits for the goroutines of canceled steps.
func (w *Worker) awaitAttempts() {
	expired, stop := w.hardStop()
	defer stop()
	select {
	case <-w.steps.ended():
	case <-expired:
	}
}

// awaitExecutors waits for the executors, but not forever for those that are stuck in user code.
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
		case <-e.done: // both channels were ready
		default:
			w.watchdog.reportStuck(e, "left behind: a run's code does not return")
		}
	}
}
