package storetest_test

import (
	"context"

	"github.com/flowgen/flowgen/runtime/store"
)

var fleetFaults = map[string]fault{
	"the fleet leaves out silent sessions": {"EV11_TheFleetHasEachSessionWithWhatItServesAndOwns", misted(func(f *store.Fleet) {
		live := f.Sessions[:0]
		for _, s := range f.Sessions {
			if s.Live(f.Now) {
				live = append(live, s)
			}
		}
		f.Sessions = live
	})},
	"the fleet counts blocked runs as parked": {"OPS1_TheFleetCountsTheRunsOfEachRouteByTheirQueueStates", eachLoad(func(l *store.RouteLoad) {
		l.Parked, l.Blocked = l.Parked+l.Blocked, 0
	})},
	"the fleet does not count what is queued": {"OPS1_TheFleetCountsRunsThatAreQueuedAsParked", eachLoad(func(l *store.RouteLoad) { l.Parked = 0 })},
	"the fleet names the run that is last": {"OPS1_TheFleetNamesTheFirstReadyRunOfEachPriority", eachLoad(func(l *store.RouteLoad) {
		l.First = l.First[:min(len(l.First), 1)]
	})},
	"the fleet leaves out routes without runs": {"OPS1_TheFleetHasRoutesThatNobodyServesAndThoseWithoutRuns", misted(func(f *store.Fleet) {
		*f = store.FleetOf(f.Now, nil, f.Routes)
	})},
	"the fleet counts all that wait in line as ready": {"OPS1_TheFleetCountsTheFirstRunOfALineWithRoomAsReady", eachLoad(func(l *store.RouteLoad) {
		l.Ready, l.Waiting = l.Ready+l.Waiting, 0
	})},
	"the fleet has one run too many that is owned": {"RandomHistoriesMatchTheModel", eachLoad(func(l *store.RouteLoad) {
		if l.Owned > 2 {
			l.Owned++
		}
	})},
}

// misty is a store whose answers of Fleet are changed by a function.
type misty struct {
	wrapper
	change func(*store.Fleet)
}

func misted(change func(*store.Fleet)) func(wrapper) store.Store {
	return func(w wrapper) store.Store { return misty{w, change} }
}

func eachLoad(change func(*store.RouteLoad)) func(wrapper) store.Store {
	return misted(func(f *store.Fleet) {
		for i := range f.Routes {
			change(&f.Routes[i])
		}
	})
}

func (m misty) Fleet(ctx context.Context) (store.Fleet, error) {
	teller, _ := store.As[store.FleetTeller](m.Store)
	f, err := teller.Fleet(ctx)
	m.change(&f)
	return f, err
}

var unservedFaults = map[string]fault{
	"sessions do not keep what they serve": {"U1_AHeartbeatNamesNoRunThatAnotherSessionServes", func(w wrapper) store.Store { return modest{w} }},
	"heartbeats name always the same runs": {"U1_EachOfManyRunsThatNobodyServesComesUp", func(w wrapper) store.Store { return &stuck{wrapper: w} }},
}

// modest is a store that ignores the routes that sessions serve.
type modest struct{ wrapper }

func (m modest) OpenSession(ctx context.Context, s store.Session) error {
	s.Routes = nil
	return m.Store.OpenSession(ctx, s)
}

// stuck is a store whose heartbeats always name the unserved runs of its first answer.
type stuck struct {
	wrapper
	first store.Heartbeat
}

func (s *stuck) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	beat, err := s.Store.Heartbeat(ctx, partition, id)
	if s.first.Unserved == nil {
		s.first = beat
	}
	beat.Unserved = s.first.Unserved
	return beat, err
}
