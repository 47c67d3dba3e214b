package storetest

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// Mute is a store that hides sent records: they stay in the outbox, and no relay finds them.
type Mute struct{ store.Store }

// Unwrap returns the wrapped store.
func (m Mute) Unwrap() store.Store { return m.Store }

// Outbox returns no records.
func (Mute) Outbox(context.Context, int, int) ([]store.Outgoing, time.Time, error) {
	return nil, time.Time{}, nil
}

// Commit returns no sent records.
func (m Mute) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := m.Store.Commit(ctx, commits)
	for i := range answers {
		answers[i].Sent = nil
	}
	return answers, err
}
