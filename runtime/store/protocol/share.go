package protocol

import (
	"github.com/flowgen/flowgen/runtime/store"
)

// Shares are start-time fair queueing. The ready runs of a route and a priority that have
// fair keys are a flow. Each of them has its place from the moment at which it comes: a key's
// pass is the place of its next run and grows by store.Pace divided by its weight with each, and a
// key that comes, or comes again, begins at the higher of its own pass and the present one.
// So a key with a million runs has places far apart from each other's first, and another
// key's first run comes before all but one of them; and who always comes back gains nothing,
// because his pass is remembered while anybody waits.
//
// A place is a number of the order in which runs come, so claims, lines, and the rules of
// limits know nothing of shares: the lower place goes first, as without them. That order goes on
// after the highest place that was given: who comes without a key, or first into a flow, comes
// after all that are there, and before the later runs of their keys. It must not go further: a
// number for each run that comes would run away from the passes, which grow with the rounds that
// are served, and a flow in which somebody always waits would keep all others from their turns.

// ShareTx is the flows of a partition. A LimitTx is one: a store that keeps limits keeps
// shares.
type ShareTx[R comparable] interface {
	// Share returns the fair key of a run that has one.
	Share(r R) (Share, error)
	// Flow returns how a flow stands; the zero value: nobody waits in it.
	Flow(id store.FlowID) (Flow, error)
	// SaveFlow stores a flow. One in which nobody waits is forgotten, with the passes of all
	// its keys; passes up to the present one may be.
	SaveFlow(id store.FlowID, f Flow) error
	// Pass returns the pass of a key, 0: there is none.
	Pass(s Share) (int64, error)
	// SavePass stores it.
	SavePass(s Share, pass int64) error
	// Come returns the next number of the order in which runs come.
	Come() (int64, error)
	// Came lets that go on after a place.
	Came(place int64) error
}

// Share is the fair key of a run in its flow.
type Share struct {
	store.FlowID

	Key    string
	Weight int // at least 1
}

// Flow is how a flow stands.
type Flow struct {
	Waits int   // its ready runs
	Pass  int64 // the present pass: nobody who comes has a lower place
	Last  int64 // the place of the last run whose key had no pass above the present one
}

// Enter gives a run its place, which came as the number that Come returns, and its key its
// pass. In a flow in which nobody waits the present pass is where all begin.
func (f *Flow) Enter(came, pass int64, weight int) (place, next int64) {
	f.enter(came)
	// Of several that begin at the present pass the first comes first, as far as that makes
	// no difference to their shares.
	place = max(f.Pass, min(f.Last+1, f.Pass+store.Pace/8))
	if pass > place {
		place = pass
	} else {
		f.Last = place
	}
	return place, store.PassAfter(place, weight)
}

func (f *Flow) enter(came int64) {
	if f.Waits == 0 {
		f.Pass = came
	}
	f.Waits++
}

// Serve takes out a run that begins. Who comes from now on comes after it: else those who
// come for the first time could keep another one from its turn for ever.
func (f *Flow) Serve(place int64) {
	f.Waits--
	f.Pass = max(f.Pass, place+1)
}

// inFlow reports whether the run is counted in its flow.
func (s *Run[S]) inFlow() bool {
	return s.Fair && s.QueueState == store.StateReady && s.Place != 0
}

// enterFlow gives a run that comes to be ready its place, if it has a fair key. One that
// has lost its owner keeps the place that it had. One that was called off has none: it
// only ends.
func (o *Op[R, S]) enterFlow(r R, s *Run[S]) error {
	if !s.Fair {
		return nil
	}
	if s.CalledOff {
		s.Place = 0
		return nil
	}
	flows := o.Tx.Limits()
	share, err := flows.Share(r)
	if err != nil {
		return err
	}
	f, err := flows.Flow(share.FlowID)
	if err != nil {
		return err
	}
	came, err := flows.Come()
	if err != nil {
		return err
	}
	if s.Place != 0 {
		f.enter(came)
		return flows.SaveFlow(share.FlowID, f)
	}
	pass := int64(0)
	if f.Waits > 0 {
		if pass, err = flows.Pass(share); err != nil {
			return err
		}
	}
	s.Place, pass = f.Enter(came, pass, share.Weight)
	if s.Place > came {
		if err := flows.Came(s.Place); err != nil {
			return err
		}
	}
	if err := flows.SaveFlow(share.FlowID, f); err != nil {
		return err
	}
	return flows.SavePass(share, pass)
}

// leaveFlow takes a run out of its flow, before it leaves its queue state; begins: a session
// has it.
func (o *Op[R, S]) leaveFlow(r R, s *Run[S], begins bool) error {
	if !s.inFlow() {
		return nil
	}
	share, err := o.Tx.Limits().Share(r)
	if err != nil {
		return err
	}
	f, err := o.Tx.Limits().Flow(share.FlowID)
	if err != nil {
		return err
	}
	if begins {
		f.Serve(s.Place)
	} else {
		f.Waits--
	}
	return o.Tx.Limits().SaveFlow(share.FlowID, f)
}

// guardShare refuses a run with an owner if others wait in its flow: it would pass them.
func (o *Op[R, S]) guardShare(c *store.Create) error {
	flows := o.Tx.Limits()
	if flows == nil {
		return refuse(store.ErrNoLimits)
	}
	if c.Owner == nil {
		return nil
	}
	f, err := flows.Flow(store.FlowID{Route: c.Route, Priority: c.Priority})
	if err != nil || f.Waits == 0 {
		return err
	}
	return refuse(store.ErrNotClaimable)
}
