package storetest_test

import (
	"context"

	"github.com/flowgen/flowgen/runtime/store"
)

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

// stuck is a store whose heartbeats always name the runs of the first answer.
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
