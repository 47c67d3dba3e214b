// Package lease manages a worker's sessions on the partitions of a store: it renews them by
// heartbeats, compares the runs that they own according to the store with the runs that the worker
// has, and opens a new session after one has expired.
package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// Owner is the table of the runs that are owned under a lease.
type Owner interface {
	// Owned returns the runs of a partition that the owner has.
	Owned(partition int) []event.RunID
	// Knows reports whether the owner has a run, or has set it aside.
	Knows(run event.RunID) bool
	// Claims returns the sequence number of the last claim.
	Claims() uint64
	// OnOwned receives the runs that the session owns according to the store. The answer includes
	// at least the claims up to number claims.
	OnOwned(partition int, fences map[event.RunID]store.Fence, claims uint64)
	// OnUnread is called with a run whose inbox has unread items.
	OnUnread(run event.RunID)
	// OnLost is called when everything owned in a partition is lost.
	OnLost(partition int)
	// OnOpened is called when a new session follows one that was lost.
	OnOpened()
	// OnLate is called when a lease is alive again that was not renewed in time.
	OnLate(partition int)
}

// Params are the parts and settings of a [Lease].
type Params struct {
	Store     store.Store
	Clock     store.Clock
	Log       *slog.Logger
	Partition int
	Worker    string        // name of the worker
	Expiry    time.Duration // of a session without heartbeats
	Heartbeat time.Duration
	// Routes and Fingerprint describe what the worker can execute.
	Routes      []store.Route
	Fingerprint string
	// Limits are the limits declared by the code whose permits are in the partition.
	Limits []store.SetLimit
	Owner  Owner
	// OnHeartbeat is called with the answers to heartbeats. Its context ends with Stop.
	OnHeartbeat func(ctx context.Context, answer store.Heartbeat)
}

// Lease is the worker's session on one partition. Its owner must call Open, Run and Stop, each
// once.
type Lease struct {
	Params
	stopped chan struct{}
	done    chan struct{}
	ctx     context.Context
	cancel  context.CancelFunc

	renewing chan struct{} // holds a value while a new session is being opened

	mu       sync.Mutex
	id       store.SessionID
	over     bool      // the session has expired and there is no new one yet
	renewed  time.Time // when the last successful request was sent, by the monotonic clock of the process
	claiming int       // number of claim calls in flight, whose runs are not known yet
}

// New returns a lease without a session.
func New(p Params) *Lease {
	l := &Lease{Params: p, over: true, stopped: make(chan struct{}), done: make(chan struct{}), renewing: make(chan struct{}, 1)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Open begins a new session. Its id is never reused. Limits are configured first, so that nothing
// is claimed without them, which also restores limits that a failover has lost.
func (l *Lease) Open(ctx context.Context) error {
	if limiter, ok := store.As[store.Limiter](l.Store); ok && len(l.Limits) > 0 {
		if err := limiter.SetLimits(ctx, l.Partition, l.Limits); err != nil {
			return err
		}
	}
	id := store.SessionID(l.Worker + "/" + event.NewToken().String())
	sent := time.Now()
	err := l.Store.OpenSession(ctx, store.Session{
		Partition: l.Partition, ID: id, Worker: l.Worker, TTL: l.Expiry,
		Routes: l.Routes, Fingerprint: l.Fingerprint,
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.over, l.renewed = id, false, sent
	return nil
}

// Current returns the id of the session, or "" if none was opened yet.
func (l *Lease) Current() store.SessionID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// Holds reports whether the worker still owns what was claimed under the id.
func (l *Lease) Holds(id store.SessionID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id == id && !l.over
}

// Alive reports whether the worker certainly still owns what was claimed under the id. A worker
// that has not reached the store for a whole expiry starts nothing.
func (l *Lease) Alive(id store.SessionID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id == id && !l.over && time.Since(l.renewed) < l.Expiry
}

// recheck is the interval at which AwaitAlive rechecks the lease.
const recheck = 20 * time.Millisecond

// AwaitAlive waits until the worker certainly owns what was claimed under the id, or until ctx
// ends. ctx ends once the claim is known to be lost; AwaitAlive then returns the cause.
func (l *Lease) AwaitAlive(ctx context.Context, id store.SessionID) error {
	for !l.Alive(id) {
		if !wait.For(ctx, l.Clock, recheck) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// Run sends heartbeats until Stop.
func (l *Lease) Run() {
	defer close(l.done)
	tick := make(chan struct{}, 1)
	for {
		stop := l.Clock.AfterFunc(l.Heartbeat, func() { tick <- struct{}{} })
		select {
		case <-l.stopped:
			stop()
			return
		case <-tick:
		}
		l.beat()
	}
}

// beat sends one heartbeat.
func (l *Lease) beat() {
	id := l.Current()
	l.mu.Lock()
	claiming := l.claiming
	l.mu.Unlock()
	if id == "" { // it could not be opened yet
		_ = l.Renew(l.ctx, id)
		return
	}
	sent := time.Now() // the lease begins after this time
	answer, err := l.Store.Heartbeat(l.ctx, l.Partition, id)
	switch {
	case errors.Is(err, store.ErrExpired):
		_ = l.Renew(l.ctx, id) // logged; the next heartbeat retries
	case err != nil: // the next heartbeat retries
	default:
		l.mu.Lock()
		gap := time.Since(l.renewed) >= l.Expiry
		l.renewed = sent
		l.mu.Unlock()
		if gap { // runs have held back their steps
			l.Owner.OnLate(l.Partition)
		}
		for _, run := range answer.Unread {
			l.Owner.OnUnread(run)
		}
		l.OnHeartbeat(l.ctx, answer)
		if claiming == 0 && answer.Owned != len(l.Owner.Owned(l.Partition)) {
			l.reconcile(id)
		}
	}
}

// Renew drops what the expired session owned and opens a new session. It retries until ctx ends or
// the store is closed.
func (l *Lease) Renew(ctx context.Context, expired store.SessionID) error {
	select {
	case l.renewing <- struct{}{}:
		defer func() { <-l.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.Current() != expired {
		return nil // renewed already
	}
	if expired != "" {
		l.Log.Warn("worker session expired: its runs may belong to others", "session", expired)
	}
	l.mu.Lock()
	l.over = true // runs that a claim under the expired session still returns are not adopted
	l.mu.Unlock()
	l.Owner.OnLost(l.Partition)
	for {
		err := l.Open(ctx)
		if err == nil {
			l.Owner.OnOpened()
			return nil
		}
		if errors.Is(err, store.ErrClosed) || !wait.For(ctx, l.Clock, time.Second) {
			return err
		}
	}
}

// reconcile compares the runs that the session owns according to the store with the runs of the
// worker. The answer of a claim may have been lost, or a run may have been taken away.
func (l *Lease) reconcile(id store.SessionID) {
	asked := l.Owner.Claims()
	// A run that is here now may end before the answer arrives, which then still names it.
	here := map[event.RunID]bool{}
	for _, run := range l.Owner.Owned(l.Partition) {
		here[run] = true
	}
	owned, err := l.Store.Reconcile(l.ctx, l.Partition, id)
	if err != nil {
		if errors.Is(err, store.ErrExpired) {
			_ = l.Renew(l.ctx, id) // logged; the next heartbeat retries
		}
		return
	}
	l.mu.Lock()
	busy := l.claiming > 0
	l.mu.Unlock()
	if busy || l.Current() != id {
		return // the answer of a claim is in flight: recheck at the next heartbeat
	}
	known := map[event.RunID]store.Fence{}
	for _, o := range owned {
		known[o.Run] = o.Fence
		if !here[o.Run] && !l.Owner.Knows(o.Run) {
			l.Log.Warn("giving back a run that was claimed without an answer", "run", o.Run)
			_ = l.Store.Release(l.ctx, o.Run, o.Fence) // if fenced, another worker owns the run already
		}
	}
	l.Owner.OnOwned(l.Partition, known, asked)
}

// Stop ends the heartbeats.
func (l *Lease) Stop() {
	close(l.stopped)
	l.cancel()
	<-l.done
}

// Close closes the session. The store recovers at once what it still owns.
func (l *Lease) Close(ctx context.Context) error {
	id := l.Current()
	if id == "" {
		return nil // it was never opened
	}
	err := l.Store.CloseSession(ctx, l.Partition, id)
	if errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrExpired) {
		return nil
	}
	return err
}

// Claim calls f, which claims runs under the session and passes them to the owner. Until f returns,
// the set of owned runs is uncertain.
func (l *Lease) Claim(f func()) {
	answered := l.Claiming()
	f()
	answered()
}

// Claiming records that a claim under the session begins. The caller must call answered after the
// claimed runs were passed to the owner.
func (l *Lease) Claiming() (answered func()) {
	l.claims(1)
	return func() { l.claims(-1) }
}

func (l *Lease) claims(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claiming += n
}
