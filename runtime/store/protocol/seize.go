package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Seize gives a named run to a session, whatever its state: it leaves its limiter queue, where it
// keeps its place, or the queue of its workflow id, or, with owned, its owner. It leaves as if it
// had parked, and gets no permits: the session ends it, or parks it. If the session dies, the run
// is recovered like any other: it returns to its place for permits, or is ready although it is not
// the active run of its workflow id. The item for which it was seized is still in its inbox then,
// and the session that claims it handles the item.
//
// An owner loses the run under a new fence [F2], as in a recovery. A commit before that is in the
// log that the session reads; a commit after it is fenced. [F1] An attempt that the owner has begun
// continues until its worker is notified, as after any loss.
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
