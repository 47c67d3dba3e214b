package protocol

import (
	"github.com/flowgen/flowgen/runtime/store"
)

// Shares are implemented by start-time fair queueing. The ready runs of a route and a priority with
// fairness keys are a flow. Each of them has its place from the moment at which it arrives. A key's
// pass is the place of its next run; it grows by store.Pace divided by the key's weight with each
// run. A key that arrives, again or for the first time, begins at the higher of its own pass and
// the present pass. So the runs of a key with a million runs have places far apart, and another
// key's first run precedes all but one of them. A key that keeps returning gains nothing, because
// its pass is remembered while any run waits.
//
// A place is a number in the order of arrival, so claims, limiter queues and the rules of limits
// need not know about shares: the lower place comes first, as it does without shares. The order of
// arrival continues after the highest place that was assigned: a run without a key, or the first in
// a flow, comes after all waiting runs, and before the later runs of their keys. It must not
// advance further. If each arriving run advanced it, it would run ahead of the passes, which grow
// with the rounds that are served, and a flow in which runs always wait would starve all others.

// ShareTx is the access to the flows of a partition. A LimitTx includes it: a store with limits has
// shares.
type ShareTx[R comparable] interface {
	// Share returns the fairness key of a run that has one.
	Share(r R) (Share, error)
	// Flow returns the state of a flow; the zero value if no run waits in it.
	FairKey(id store.FairID) (FairKey, error)
	// SaveFairKey stores a flow. A flow in which no run waits is removed, with the passes of all its
	// keys. Passes up to the present one may be removed.
	SaveFairKey(id store.FairID, f FairKey) error
	// Pass returns the pass of a key, or 0 if it has none.
	Pass(s Share) (int64, error)
	// SavePass stores the pass of a key.
	SavePass(s Share, pass int64) error
	// Come returns the next number in the order of arrival.
	Come() (int64, error)
	// Came advances the order of arrival beyond a place.
	Came(place int64) error
}

// Share is the fairness key of a run in its flow.
type Share struct {
	store.FairID

	Key    string
	Weight int // at least 1
}

// Flow is the state of a flow.
type FairKey struct {
	Waits int   // number of its ready runs
	Pass  int64 // the present pass: no arriving run gets a lower place
	Last  int64 // the place of the last run whose key had no pass above the present one
}

// Enter assigns a run its place and its key its next pass. came is the number that Come returned.
// In a flow without waiting runs, came becomes the present pass, at which all keys begin.
func (f *FairKey) Enter(came, pass int64, weight int) (place, next int64) {
	f.enter(came)
	// Of several keys that begin at the present pass the first to arrive comes first, as far as
	// that does not change their shares.
	place = max(f.Pass, min(f.Last+1, f.Pass+store.Pace/8))
	if pass > place {
		place = pass
	} else {
		f.Last = place
	}
	return place, store.PassAfter(place, weight)
}

func (f *FairKey) enter(came int64) {
	if f.Waits == 0 {
		f.Pass = came
	}
	f.Waits++
}

// Serve removes a run that begins. Runs that arrive from now on come after it. Otherwise keys that
// arrive for the first time could starve a waiting one.
func (f *FairKey) Serve(place int64) {
	f.Waits--
	f.Pass = max(f.Pass, place+1)
}

// inFairKey reports whether the run is counted in its flow.
func (s *Run[S]) inFairKey() bool {
	return s.Fair && s.QueueState == store.StateReady && s.Place != 0
}

// enterFairKey assigns a run that becomes ready its place, if it has a fairness key. A run that has
// lost its owner keeps its place. A run that was called off has none, because it only ends.
func (o *Op[R, S]) enterFairKey(r R, s *Run[S]) error {
	if !s.Fair {
		return nil
	}
	if s.LeftQueue {
		s.Place = 0
		return nil
	}
	fairKeys := o.Tx.Limits()
	share, err := fairKeys.Share(r)
	if err != nil {
		return err
	}
	f, err := fairKeys.FairKey(share.FairID)
	if err != nil {
		return err
	}
	came, err := fairKeys.Come()
	if err != nil {
		return err
	}
	if s.Place != 0 {
		f.enter(came)
		return fairKeys.SaveFairKey(share.FairID, f)
	}
	pass := int64(0)
	if f.Waits > 0 {
		if pass, err = fairKeys.Pass(share); err != nil {
			return err
		}
	}
	s.Place, pass = f.Enter(came, pass, share.Weight)
	if s.Place > came {
		if err := fairKeys.Came(s.Place); err != nil {
			return err
		}
	}
	if err := fairKeys.SaveFairKey(share.FairID, f); err != nil {
		return err
	}
	return fairKeys.SavePass(share, pass)
}

// leaveFairKey removes a run from its flow, before it leaves its queue state. begins reports that a
// session gets it.
func (o *Op[R, S]) leaveFairKey(r R, s *Run[S], begins bool) error {
	if !s.inFairKey() {
		return nil
	}
	share, err := o.Tx.Limits().Share(r)
	if err != nil {
		return err
	}
	f, err := o.Tx.Limits().FairKey(share.FairID)
	if err != nil {
		return err
	}
	if begins {
		f.Serve(s.Place)
	} else {
		f.Waits--
	}
	return o.Tx.Limits().SaveFairKey(share.FairID, f)
}

// guardShare refuses a run with an owner if others wait in its flow, because it would skip them.
func (o *Op[R, S]) guardShare(c *store.Create) error {
	fairKeys := o.Tx.Limits()
	if fairKeys == nil {
		return refuse(store.ErrNoLimits)
	}
	if c.Owner == nil {
		return nil
	}
	f, err := fairKeys.FairKey(store.FairID{Route: c.Route, Priority: c.Priority})
	if err != nil || f.Waits == 0 {
		return err
	}
	return refuse(store.ErrNotClaimable)
}
