package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Seize gives the named run to a session, in any queue state. The run leaves its limiter queue,
// where it keeps its place, or the queue of its workflow id. If owned is true, it also leaves its
// owner. The run leaves as if it had parked, and gets no permits, because the session only ends or
// parks it.
//
// If the session dies, the run is recovered like any other. It then returns to its place in the
// limiter queue, or it is ready although it is not the active run of its workflow id. The item that
// caused the seizure is still in the inbox, and the session that claims the run handles it.
//
// As in a recovery, the owner loses the run under a new fence. [F2] The session reads all earlier
// commits of that owner from the log; its later commits are fenced. [F1] An attempt that the owner
// has begun continues until the worker is notified, as after any loss of a run.
func (o *Op[R, S]) Seize(session store.SessionID, token event.Token, run event.RunID, owned bool) (R, error) {
	var none R
	to, err := o.live(session)
	if err != nil {
		return none, err
	}
	r, s, err := o.find(run)
	switch {
	case err != nil:
		return none, err
	case r == none:
		return none, refuse(store.ErrRunNotFound)
	case s.QueueState == store.StateEnded:
		return none, refuse(&store.TerminalError{Run: run, Status: s.Status})
	case s.QueueState == store.StateOwned && !owned:
		return none, refuse(store.ErrOwned)
	}
	keep := store.UnusedNone
	if s.Waits() {
		keep = store.UnusedInQueue
	}
	if err := o.park(r, &s, 0, keep); err != nil {
		return none, err
	}
	return r, o.grant(r, &s, to, token, 0)
}
