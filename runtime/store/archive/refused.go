package archive

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The operations in this file change or execute runs, so they are refused.

// Create is refused.
func (s *Store) Create(context.Context, []store.Create) ([]store.Created, error) {
	return nil, s.refuse("start runs")
}

// OpenSession is refused.
func (s *Store) OpenSession(context.Context, store.Session) error { return s.refuse("work") }

// Heartbeat is refused.
func (s *Store) Heartbeat(context.Context, int, store.SessionID) (store.Heartbeat, error) {
	return store.Heartbeat{}, s.refuse("work")
}

// Reconcile is refused.
func (s *Store) Reconcile(context.Context, int, store.SessionID) ([]store.Owned, error) {
	return nil, s.refuse("work")
}

// CloseSession is refused.
func (s *Store) CloseSession(context.Context, int, store.SessionID) error { return s.refuse("work") }

// Claim is refused.
func (s *Store) Claim(context.Context, store.Claim) (store.Claimed, error) {
	return store.Claimed{}, s.refuse("work")
}

// ClaimRun is refused.
func (s *Store) ClaimRun(context.Context, int, store.SessionID, event.Token, event.RunID) (store.ClaimedRun, error) {
	return store.ClaimedRun{}, s.refuse("work")
}

// Due is refused.
func (s *Store) Due(context.Context, int, int) (time.Time, error) {
	return time.Time{}, s.refuse("work")
}

// Commit is refused.
func (s *Store) Commit(context.Context, []store.Commit) ([]store.Committed, error) {
	return nil, s.refuse("write to runs")
}

// Release is refused.
func (s *Store) Release(context.Context, event.RunID, store.Fence) error { return s.refuse("work") }

// Deliver is refused.
func (s *Store) Deliver(_ context.Context, d store.Deliver) (event.RunID, error) {
	return "", s.refuse("send to run " + string(d.Run))
}

// Outbox is refused.
func (s *Store) Outbox(context.Context, int, int) ([]store.Outgoing, time.Time, error) {
	return nil, time.Time{}, s.refuse("work")
}

// Mark is refused.
func (s *Store) Mark(context.Context, int, []store.Mark) error { return s.refuse("work") }

// Confirm is refused.
func (s *Store) Confirm(context.Context, event.RunID, event.ItemID) error { return s.refuse("work") }

// Publish is refused.
func (s *Store) Publish(_ context.Context, run event.RunID, _ store.Fence, _ []store.Publication) error {
	return s.refuse("write to streams of run " + string(run))
}

// Delete is refused.
func (s *Store) Delete(_ context.Context, run event.RunID) error {
	return s.refuse("delete run " + string(run))
}

// Purge is refused.
func (s *Store) Purge(context.Context, int, int) (int, time.Time, error) {
	return 0, time.Time{}, s.refuse("purge runs")
}
