package functions

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// errLost is the answer of a store that is lost.
var errLost = errors.New("the connection to the store is lost")

// lossy is a store that can be lost for a while, for one process. It counts requests.
type lossy struct {
	store.Store
	lost     atomic.Bool
	refused  atomic.Int64
	requests atomic.Int64
}

func pass[T any](l *lossy, f func() (T, error)) (got T, err error) {
	l.requests.Add(1)
	if l.lost.Load() {
		l.refused.Add(1)
		return got, errLost
	}
	return f()
}

func (l *lossy) do(f func() error) error {
	_, err := pass(l, func() (struct{}, error) { return struct{}{}, f() })
	return err
}

func (l *lossy) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	return pass(l, func() ([]store.Created, error) { return l.Store.Create(ctx, runs) })
}

func (l *lossy) OpenSession(ctx context.Context, s store.Session) error {
	return l.do(func() error { return l.Store.OpenSession(ctx, s) })
}

func (l *lossy) Heartbeat(ctx context.Context, partition int, s store.SessionID) (store.Heartbeat, error) {
	return pass(l, func() (store.Heartbeat, error) { return l.Store.Heartbeat(ctx, partition, s) })
}

func (l *lossy) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	return pass(l, func() (store.Claimed, error) { return l.Store.Claim(ctx, c) })
}

func (l *lossy) ClaimRun(ctx context.Context, partition int, s store.SessionID, t event.Token, run event.RunID) (store.ClaimedRun, error) {
	return pass(l, func() (store.ClaimedRun, error) { return l.Store.ClaimRun(ctx, partition, s, t, run) })
}

func (l *lossy) Commit(ctx context.Context, c []store.Commit) ([]store.Committed, error) {
	return pass(l, func() ([]store.Committed, error) { return l.Store.Commit(ctx, c) })
}

func (l *lossy) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	return pass(l, func() ([]store.Loaded, error) { return l.Store.Load(ctx, runs) })
}

func (l *lossy) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	var next time.Time
	got, err := pass(l, func() (all []store.Outgoing, err error) {
		all, next, err = l.Store.Outbox(ctx, partition, limit)
		return all, err
	})
	return got, next, err
}

func (l *lossy) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	return pass(l, func() (store.Woken, error) { return l.Store.Wait(ctx, w) })
}

// Ready calls Ready of the wrapped store, or fails while the store is lost.
func (l *lossy) Ready(ctx context.Context, partition int, routes []store.Route, limit int) ([]event.RunID, error) {
	return pass(l, func() ([]event.RunID, error) {
		r, ok := store.As[store.ReadyLister](l.Store)
		if !ok {
			return nil, errors.ErrUnsupported
		}
		return r.Ready(ctx, partition, routes, limit)
	})
}

// Purge calls Purge of the wrapped store, or fails while the store is lost.
func (l *lossy) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	var next time.Time
	n, err := pass(l, func() (n int, err error) {
		p, ok := store.As[store.Purger](l.Store)
		if !ok {
			return 0, errors.ErrUnsupported
		}
		n, next, err = p.Purge(ctx, partition, limit)
		return n, err
	})
	return n, next, err
}
