package protocol

import (
	"github.com/flowgen/flowgen/runtime/store"
)

// Shares are implemented by start-time fair queueing. The ready runs with fairness keys of one
// route and one priority form a flow. Each run gets its place when it arrives. The pass of a key is
// the place of the key's next run. With each run it grows by store.Pace divided by the key's
// weight. A key without waiting runs begins at the higher of its own pass and the present pass. So
// the places of a key with a million runs are far apart, and another key's first run precedes all
// but one of them. A key gains nothing by returning, because its pass is kept while any run waits.
//
// A place is a number in the order of arrival. Claims, limiter queues and limits therefore need no
// rule for shares: the lower place comes first, with or without shares. The order of arrival
// continues after the highest assigned place. So a run without a key, or the first run of a flow,
// comes after all waiting runs and before the later runs of their keys. The order of arrival must
// not advance further. If each arriving run advanced it, it would exceed the passes, which grow
// only with the runs that are served. A flow in which runs always wait would then starve all
// others.

// ShareTx is the access to the flows of a partition. LimitTx includes it, so a store with limits
// also has shares.
type ShareTx[R comparable] interface {
	// Share returns the fairness key of a run. The run must have one.
	Share(r R) (Share, error)
	// FairKey returns the state of a flow. It returns the zero value if no run waits in the flow.
	FairKey(id store.FairID) (FairKey, error)
	// SaveFairKey stores the state of a flow. If no run waits in the flow, SaveFairKey removes it
	// with the passes of all its keys. It may also remove passes up to the present one.
	SaveFairKey(id store.FairID, f FairKey) error
	// Pass returns the pass of a key, or 0 if it has none.
	Pass(s Share) (int64, error)
	// SavePass stores the pass of a key.
	SavePass(s Share, pass int64) error
	// Come returns the next number in the order of arrival, and advances the order.
	Come() (int64, error)
	// Came advances the order of arrival beyond the place.
	Came(place int64) error
}

// Share is the fairness key of a run in its flow.
type Share struct {
	store.FairID

	Key    string
	Weight int // at least 1
}

// FairKey is the state of a flow.
type FairKey struct {
	Waits int   // number of ready runs in the flow
	Pass  int64 // present pass: no arriving run gets a lower place
	Last  int64 // place of the last run whose key had no pass above the present one
}

// Enter assigns a run its place, and returns the next pass of its key. came is the number that Come
// returned. In a flow without waiting runs, came becomes the present pass, and all keys begin at
// it.
func (f *FairKey) Enter(came, pass int64, weight int) (place, next int64) {
	f.enter(came)
	// If several keys begin at the present pass, the first to arrive comes first, as far as their
	// shares permit.
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

// Serve removes a run that begins, and raises the present pass. Runs that arrive later come after
// the served run. Otherwise keys that arrive for the first time could starve a waiting key.
func (f *FairKey) Serve(place int64) {
	f.Waits--
	f.Pass = max(f.Pass, place+1)
}

// inFairKey reports whether the run is counted in its flow.
func (s *Run[S]) inFairKey() bool {
	return s.Fair && s.QueueState == store.StateReady && s.Place != 0
}

// enterFairKey assigns a place to a run with a fairness key that becomes ready. A run that has lost
// its owner keeps its place. A run that has left its limiter queue gets none, because it only ends.
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

// leaveFairKey removes a run from its flow before the run leaves its queue state. begins reports
// whether a session receives the run.
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

// guardShare refuses a run with an owner if other runs wait in its flow, because the run would skip
// them.
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
