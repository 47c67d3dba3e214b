package worker_test

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// outboxless is a store whose outbox seems to be empty: its worker dies before it
// carries anything over.
type outboxless struct{ store.Store }

func (s *outboxless) Unwrap() store.Store { return s.Store }

func (s *outboxless) Outbox(context.Context, int, int) ([]store.Outgoing, time.Time, error) {
	return nil, time.Time{}, nil
}
