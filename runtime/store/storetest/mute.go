package storetest

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// Mute is a store that tells nobody what runs have sent: it stays in the outbox.
type Mute struct{ store.Store }

// Unwrap returns the store.
func (m Mute) Unwrap() store.Store { return m.Store }

// Outbox finds nothing.
func (Mute) Outbox(context.Context, int, int) ([]store.Outgoing, time.Time, error) {
	return nil, time.Time{}, nil
}

// Commit answers no record.
func (m Mute) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := m.Store.Commit(ctx, commits)
	for i := range answers {
		answers[i].Sent = nil
	}
	return answers, err
}
