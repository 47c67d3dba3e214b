package archive

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The operations in this file would change or execute runs. They return a *[store.ReadOnlyError].

// Create returns a *[store.ReadOnlyError].
func (s *Store) Create(context.Context, []store.Create) ([]store.Created, error) {
	return nil, s.refuse("start runs")
}

// OpenSession returns a *[store.ReadOnlyError].
func (s *Store) OpenSession(context.Context, store.Session) error { return s.refuse("work") }

// Heartbeat returns a *[store.ReadOnlyError].
func (s *Store) Heartbeat(context.Context, int, store.SessionID) (store.Heartbeat, error) {
	return store.Heartbeat{}, s.refuse("work")
}

// Reconcile returns a *[store.ReadOnlyError].
func (s *Store) Reconcile(context.Context, int, store.SessionID) ([]store.Owned, error) {
	return nil, s.refuse("work")
}

// CloseSession returns a *[store.ReadOnlyError].
func (s *Store) CloseSession(context.Context, int, store.SessionID) error { return s.refuse("work") }

// Claim returns a *[store.ReadOnlyError].
func (s *Store) Claim(context.Context, store.Claim) (store.Claimed, error) {
	return store.Claimed{}, s.refuse("work")
}

// ClaimRun returns a *[store.ReadOnlyError].
func (s *Store) ClaimRun(context.Context, int, store.SessionID, event.Token, event.RunID) (store.ClaimedRun, error) {
	return store.ClaimedRun{}, s.refuse("work")
}

// Due returns a *[store.ReadOnlyError].
func (s *Store) Due(context.Context, int, int) (time.Time, error) {
	return time.Time{}, s.refuse("work")
}

// Commit returns a *[store.ReadOnlyError].
func (s *Store) Commit(context.Context, []store.Commit) ([]store.Committed, error) {
	return nil, s.refuse("write to runs")
}

// Release returns a *[store.ReadOnlyError].
func (s *Store) Release(context.Context, event.RunID, store.Fence) error { return s.refuse("work") }

// Deliver returns a *[store.ReadOnlyError].
func (s *Store) Deliver(_ context.Context, d store.Deliver) (event.RunID, error) {
	return "", s.refuse("send to run " + string(d.Run))
}

// Outbox returns a *[store.ReadOnlyError].
func (s *Store) Outbox(context.Context, int, int) ([]store.Outgoing, time.Time, error) {
	return nil, time.Time{}, s.refuse("work")
}

// Mark returns a *[store.ReadOnlyError].
func (s *Store) Mark(context.Context, int, []store.Mark) error { return s.refuse("work") }

// Confirm returns a *[store.ReadOnlyError].
func (s *Store) Confirm(context.Context, event.RunID, event.ItemID) error { return s.refuse("work") }

// Publish returns a *[store.ReadOnlyError].
func (s *Store) Publish(_ context.Context, run event.RunID, _ store.Fence, _ []store.Publication) error {
	return s.refuse("write to streams of run " + string(run))
}

// Seize returns a *[store.ReadOnlyError].
func (s *Store) Seize(_ context.Context, _ int, _ store.SessionID, _ event.Token, run event.RunID, _ bool) (store.ClaimedRun, error) {
	return store.ClaimedRun{}, s.refuse("change run " + string(run))
}

// SetStepData returns a *[store.ReadOnlyError].
func (s *Store) SetStepData(_ context.Context, run event.RunID, _ store.Fence, _ string, _ []byte, _ bool) error {
	return s.refuse("write step data of run " + string(run))
}

// StepData returns nil, because a file contains no data of steps.
func (s *Store) StepData(ctx context.Context, _ event.RunID) (map[string][]byte, error) {
	return nil, s.enter(ctx)
}

// WriteEntry returns a *[store.ReadOnlyError].
func (s *Store) WriteEntry(context.Context, store.EntryWrite) error { return s.refuse("write entries") }

// Entries returns nil, because a file contains no entries.
func (s *Store) Entries(ctx context.Context, _ store.EntryQuery) ([]store.Entry, error) {
	return nil, s.enter(ctx)
}

// Delete returns a *[store.ReadOnlyError].
func (s *Store) Delete(_ context.Context, run event.RunID) error {
	return s.refuse("delete run " + string(run))
}

// Purge returns a *[store.ReadOnlyError].
func (s *Store) Purge(context.Context, int, int) (int, time.Time, error) {
	return 0, time.Time{}, s.refuse("purge runs")
}
