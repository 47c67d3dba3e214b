package worker

import (
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// StuckAfter is how long a loop of a worker may have work without making progress before
// [Health.NotLive] reports it. Waiting for the store, for a time and for work is progress, and so is
// user code: a worker replaces an executor whose user code blocks.
const StuckAfter = 30 * time.Second

// Health is the state of a worker at a moment. It consists of what the worker has learned from its
// own requests, because no request to the store is made for it.
type Health struct {
	// Sessions is the number of the store's partitions in which the worker is certain that its
	// session is alive, so that it executes runs of the partition. Partitions is the number of all
	// partitions. It is 0 before Run.
	Sessions, Partitions int
	// Reachable reports whether any partition has answered within three intervals of
	// Config.Heartbeat, and at least within three seconds. While a worker waits for work, every
	// heartbeat is a request.
	Reachable bool
	// LastAnswer is when the store last answered a heartbeat, a claim or the opening of a session.
	// LastClaim is when it last answered a claim. A worker without free capacity makes no claims.
	// The times are zero if there was no answer.
	LastAnswer, LastClaim time.Time
	// Runs is the number of runs that the worker executes, without runs that wait in memory. Steps
	// is the number of attempts of steps in progress. Blocked is the number of runs whose code has
	// not returned for Config.BlockedAfter.
	Runs, Steps, Blocked int
	// Stopping reports whether the context of Run has ended. Stopped reports whether Run has
	// returned, and Err is its error.
	Stopping, Stopped bool
	Err               error
	// Stuck names the loops of the worker that have made no progress for StuckAfter.
	Stuck []string
}

// NotLive returns why a restart of the process would help: a loop is stuck, or Run has returned an
// error. The result is empty if the worker is live. A worker is live before Run, while it stops,
// and while the store does not answer, because it waits for the store by itself.
func (h *Health) NotLive() (reasons []string) {
	for _, name := range h.Stuck {
		reasons = append(reasons, name+" made no progress for "+StuckAfter.String())
	}
	if h.Err != nil {
		reasons = append(reasons, "the worker has ended with an error, which is in its log")
	}
	return reasons
}

// NotReady returns why the worker begins no runs. The result is empty if the worker is ready: it is
// live, the store is reachable, the session of at least one partition is alive, and the worker is
// not stopping.
func (h *Health) NotReady() []string {
	reasons := h.NotLive()
	switch {
	case h.Err != nil:
	case h.Stopped:
		reasons = append(reasons, "the worker has stopped")
	case h.Stopping:
		reasons = append(reasons, "the worker is stopping")
	case h.LastAnswer.IsZero():
		reasons = append(reasons, "the worker has opened no session yet")
	default:
		if !h.Reachable {
			reasons = append(reasons, "the store has not answered for "+time.Since(h.LastAnswer).Round(time.Second).String())
		}
		if h.Sessions == 0 {
			reasons = append(reasons, "the session has expired")
		}
	}
	return reasons
}

// Health returns the state of the worker. It makes no request to the store, and a program that
// never calls it pays nothing for it. It may be called at any time, by any goroutine. Its cost grows
// with the number of partitions and executors only.
func (w *Worker) Health() Health {
	g := w.gauges()
	h := Health{Runs: g.Runs, Steps: g.Steps, Blocked: g.Blocked, Stopping: w.stopping.Load()}
	if end := w.vitals.end.Load(); end != nil {
		h.Stopping, h.Stopped, h.Err = true, true, end.err
	}
	leases := w.vitals.leases.Load()
	if leases == nil {
		return h
	}
	h.Partitions = len(*leases)
	for _, l := range *leases {
		s := l.State()
		if s.Alive {
			h.Sessions++
		}
		if s.Answered.After(h.LastAnswer) {
			h.LastAnswer = s.Answered
		}
		if s.Claimed.After(h.LastClaim) {
			h.LastClaim = s.Claimed
		}
	}
	h.Reachable = !h.LastAnswer.IsZero() && time.Since(h.LastAnswer) < max(3*w.cfg.Heartbeat, 3*time.Second)
	if !h.Stopped && w.vitals.watched.Load() {
		h.Stuck = w.watchdog.stuck(w.stuckAfter)
	}
	return h
}

// vitals are the parts of a worker's state that only Health reads.
type vitals struct {
	leases  atomic.Pointer[lease.Set] // nil before Run
	watched atomic.Bool               // whether the watchdog observes the loops
	end     atomic.Pointer[ending]    // nil until Run returns
}

// ending is the end of Run.
type ending struct{ err error }
