package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Seize gives a named run to a session, whatever has it: it leaves its line for permits, where it keeps its place, or that of
// its workflow id, or with owned its owner. It does so as if it had parked, and gets no permits: the session ends it, or lets it park. If that
// dies the run is recovered as any other: it comes back to its place for permits, or is ready, although it is not the active run of its workflow id; then
// what it was seized for is in its inbox, and whoever claims it does that.
//
// An owner loses the run under a new fence [F2], as in a recovery. Before that it may commit, and the log that the session reads then has
// that; after it, it is fenced. [F1] An attempt that it has begun goes on until it is told, as after any loss.
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
		keep = store.UnusedInLine
	}
	if err := o.park(r, &s, 0, keep); err != nil {
		return none, err
	}
	return r, o.grant(r, &s, to, token, 0)
}
