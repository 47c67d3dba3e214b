// Package lease manages a worker's sessions on the partitions of a store. It renews sessions by
// heartbeats, reconciles the owned runs with the store, and opens a new session after one has
// expired.
package lease

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// Owner is the table of the runs that the worker owns.
type Owner interface {
	// Owned returns the runs of a partition that the worker owns.
	Owned(partition int) []event.RunID
	// Knows reports whether the worker owns a run or has set it aside.
	Knows(run event.RunID) bool
	// Claims returns the sequence number of the last claim.
	Claims() uint64
	// OnOwned receives the runs that the session owns according to the store. The answer covers at
	// least the claims up to the sequence number claims.
	OnOwned(partition int, fences map[event.RunID]store.Fence, claims uint64)
	// OnUnread is called with a run whose inbox has unread items.
	OnUnread(run event.RunID)
	// OnLost is called when all runs of a partition are lost.
	OnLost(partition int)
	// OnOpened is called when a new session replaces an expired one.
	OnOpened()
	// OnLate is called when a lease that was not renewed in time is alive again.
	OnLate(partition int)
}

// Params are the parts and settings of a [Lease].
type Params struct {
	Store     store.Store
	Clock     store.Clock
	Log       *slog.Logger
	Partition int
	Worker    string        // name of the worker
	Expiry    time.Duration // time after which a session without heartbeats expires
	Heartbeat time.Duration
	// Routes returns the routes from which the worker claims runs; see Announce. Fingerprint
	// identifies its code and its keys. A heartbeat announces a changed fingerprint.
	Routes      func() []store.Route
	Fingerprint func() string
	// Limits are the limits that the code declares and whose permits are in the partition.
	Limits []store.SetLimit
	Owner  Owner
	// OnAnnounced is called after a heartbeat has announced a changed fingerprint. It must not block.
	OnAnnounced func()
	// OnHeartbeat receives the answers to heartbeats. Its context ends with Stop.
	OnHeartbeat func(ctx context.Context, answer store.Heartbeat)
}

// Lease is the worker's session on one partition. Its owner must call Open, Run and Stop, each
// once.
type Lease struct {
	Params
	Pulse  wait.Pulse // of Run
	done   chan struct{}
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc

	renewing chan struct{} // holds a value while a new session is being opened
	changed  chan chan struct{}

	mu       sync.Mutex
	id       store.SessionID
	over     bool          // whether the session has expired and no new session was opened
	renewed  time.Time     // when the last successful request was sent, by the monotonic clock
	claiming int           // number of claim calls in flight
	answered time.Time     // when the store last answered about the session
	claimed  time.Time     // when the store last answered a claim
	said     []store.Route // routes of the session in the store
	saidFit  string        // fingerprint of the session in the store
}

// New returns a lease without a session.
func New(p Params) *Lease {
	l := &Lease{Params: p, over: true, done: make(chan struct{}), renewing: make(chan struct{}, 1), changed: make(chan chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Open begins a new session, whose ID is never reused. It configures the limits first, so that
// nothing is claimed without them. This also restores limits that a failover has lost.
func (l *Lease) Open(ctx context.Context) error {
	if limiter, ok := store.As[store.Limiter](l.Store); ok && len(l.Limits) > 0 {
		if err := limiter.SetLimits(ctx, l.Partition, l.Limits); err != nil {
			return err
		}
	}
	id := store.SessionID(l.Worker + "/" + event.NewToken().String())
	sent := time.Now()
	if err := l.open(ctx, id); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.over, l.renewed, l.answered = id, false, sent, time.Now()
	return nil
}

func (l *Lease) open(ctx context.Context, id store.SessionID) error {
	routes, fit := l.Routes(), l.Fingerprint()
	err := l.Store.OpenSession(ctx, store.Session{
		Partition: l.Partition, ID: id, Worker: l.Worker, TTL: l.Expiry,
		Routes: routes, Fingerprint: fit,
	})
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.said, l.saidFit = routes, fit
	}
	return err
}

// Announced reports whether the session in the store has the present routes.
func (l *Lease) Announced() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Equal(l.said, l.Routes())
}

// Quiet reports whether no claim under the session is in flight.
func (l *Lease) Quiet() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claiming == 0
}

// Announce makes the store replace the routes of the session, after the result of Routes has
// changed. It must be called after Run, and returns when the request was answered, ctx has ended or
// Stop was called. If the store does not answer, the next session has the new routes, and the
// caller should call Announce again.
func (l *Lease) Announce(ctx context.Context) {
	answered := make(chan struct{})
	select {
	case l.changed <- answered:
		select {
		case <-answered:
		case <-l.done:
		}
	case <-ctx.Done():
	case <-l.done:
	}
}

// announceFingerprint announces the fingerprint if it has changed. Claims by routes may then return runs
// that other sessions with the former fingerprint have blocked.
func (l *Lease) announceFingerprint() {
	l.mu.Lock()
	said := l.saidFit
	l.mu.Unlock()
	if said == l.Fingerprint() {
		return
	}
	l.Pulse.Wait()
	l.announce()
	l.Pulse.Work()
	l.Owner.OnOpened()
	l.OnAnnounced()
}

// announce opens the session again, under its own ID, while its lease is certain to be valid. The
// store then renews the lease and replaces the routes and the fingerprint, and changes nothing else. If the lease may
// have expired before the answer, the store may instead have recovered the runs of the session and
// opened a new one with its ID. The runs then count as lost, and a session with a new ID replaces
// it, as after an expiry.
func (l *Lease) announce() {
	id := l.Current()
	if !l.Alive(id) {
		return // the next session has the routes
	}
	sent := time.Now()
	err := l.open(l.ctx, id)
	if err == nil && l.Alive(id) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.renewed, l.answered = sent, time.Now()
		return
	}
	if err == nil || errors.Is(err, store.ErrExpired) || !l.Alive(id) {
		_ = l.Renew(l.ctx, id) // Renew logs its errors, and the next heartbeat retries.
	}
}

// State is the state of a lease.
type State struct {
	Alive    bool      // whether the worker is certain that its session is alive
	Answered time.Time // when the store last answered a heartbeat, a claim or the opening of a session; zero if it has not
	Claimed  time.Time // when the store last answered a claim; zero if it has not
}

// State returns the state of the lease. It sends no request.
func (l *Lease) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := State{Alive: l.alive(), Answered: l.answered, Claimed: l.claimed}
	if s.Answered.Before(s.Claimed) {
		s.Answered = s.Claimed
	}
	return s
}

// OnClaimed records that the store has answered a claim. An expired session counts as an answer.
func (l *Lease) OnClaimed(err error) {
	if err != nil && !errors.Is(err, store.ErrExpired) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimed = time.Now()
}

func (l *Lease) alive() bool {
	return l.id != "" && !l.over && time.Since(l.renewed) < l.Expiry
}

// Current returns the ID of the session, or "" if none was opened.
func (l *Lease) Current() store.SessionID {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id
}

// Holds reports whether id is the current session and the store has not reported its expiry. If it
// reports false, the worker has lost the runs claimed under id.
func (l *Lease) Holds(id store.SessionID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id == id && !l.over
}

// Alive reports whether the worker is certain to own the runs claimed under the session. If the
// store has not answered for a whole expiry, the worker is not certain and starts nothing.
func (l *Lease) Alive(id store.SessionID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.id == id && l.alive()
}

// recheck is the interval at which AwaitAlive rechecks the lease.
const recheck = 20 * time.Millisecond

// AwaitAlive waits until the worker is certain to own the runs claimed under the session, or until
// ctx ends. ctx must end when the claim is found to be lost. AwaitAlive then returns the cause.
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
	for {
		due := make(chan struct{})
		stop := l.Clock.AfterFunc(l.Heartbeat, func() { close(due) })
		for beaten := false; !beaten; {
			select {
			case <-due:
				l.Pulse.Work()
				l.beat()
				l.Pulse.Wait()
				beaten = true
			case answered := <-l.changed:
				l.announce()
				close(answered)
			case <-l.ctx.Done():
				stop()
				return
			}
		}
	}
}

func (l *Lease) beat() {
	id := l.Current()
	l.mu.Lock()
	claiming := l.claiming
	l.mu.Unlock()
	if id == "" { // no session could be opened so far
		l.renew(id)
		return
	}
	sent := time.Now() // the expiry is counted from this time
	l.Pulse.Wait()
	answer, err := l.Store.Heartbeat(l.ctx, l.Partition, id)
	l.Pulse.Work()
	switch {
	case errors.Is(err, store.ErrExpired):
		l.renew(id)
	case err != nil: // the next heartbeat retries
	default:
		l.mu.Lock()
		gap := time.Since(l.renewed) >= l.Expiry
		l.renewed = sent
		l.answered = time.Now()
		l.mu.Unlock()
		if gap { // runs have delayed their steps
			l.Owner.OnLate(l.Partition)
		}
		for _, run := range answer.Unread {
			l.Owner.OnUnread(run)
		}
		l.OnHeartbeat(l.ctx, answer)
		l.announceFingerprint()
		if claiming == 0 && answer.Owned != len(l.Owner.Owned(l.Partition)) {
			l.reconcile(id)
		}
	}
}

// renew calls Renew for Run. Renew logs its errors, and the next heartbeat retries.
func (l *Lease) renew(expired store.SessionID) {
	l.Pulse.Wait()
	defer l.Pulse.Work()
	_ = l.Renew(l.ctx, expired)
}

// Renew drops the runs of the expired session and opens a new session. It retries until ctx ends or
// the store is closed.
func (l *Lease) Renew(ctx context.Context, expired store.SessionID) error {
	select {
	case l.renewing <- struct{}{}:
		defer func() { <-l.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.Current() != expired {
		return nil // another goroutine has renewed the session
	}
	if expired != "" {
		l.Log.Warn("worker session expired: its runs may be owned by other workers", "session", expired)
	}
	l.mu.Lock()
	l.over = true // Runs that a claim under the expired session returns later are not adopted.
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
// worker. They differ if the answer of a claim was lost or if another worker has claimed a run.
func (l *Lease) reconcile(id store.SessionID) {
	asked := l.Owner.Claims()
	// A run that the worker owns at this time may end before the answer arrives. The answer then
	// contains it although the worker does not own it.
	here := map[event.RunID]bool{}
	for _, run := range l.Owner.Owned(l.Partition) {
		here[run] = true
	}
	l.Pulse.Wait()
	owned, err := l.Store.Reconcile(l.ctx, l.Partition, id)
	l.Pulse.Work()
	if err != nil {
		if errors.Is(err, store.ErrExpired) {
			l.renew(id)
		}
		return
	}
	l.mu.Lock()
	busy := l.claiming > 0
	l.mu.Unlock()
	if busy || l.Current() != id {
		return // a claim is in flight, so the next heartbeat compares again
	}
	known := map[event.RunID]store.Fence{}
	for _, o := range owned {
		known[o.Run] = o.Fence
		if !here[o.Run] && !l.Owner.Knows(o.Run) {
			l.Log.Warn("releasing a run that was claimed without an answer", "run", o.Run)
			l.Pulse.Wait()
			_ = l.Store.Release(l.ctx, o.Run, o.Fence) // if the release is fenced, another worker owns the run
			l.Pulse.Work()
		}
	}
	l.Owner.OnOwned(l.Partition, known, asked)
}

// Stop ends the heartbeats.
func (l *Lease) Stop() {
	l.cancel()
	<-l.done
}

// Close closes the session. The store recovers the runs of the session at once.
func (l *Lease) Close(ctx context.Context) error {
	id := l.Current()
	if id == "" {
		return nil // no session was opened
	}
	err := l.Store.CloseSession(ctx, l.Partition, id)
	if errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrExpired) {
		return nil
	}
	return err
}

// Claim calls f, which claims runs under the session and passes them to the owner. Until f returns,
// runs without an owner are not given back.
func (l *Lease) Claim(f func()) {
	answered := l.Claiming()
	f()
	answered()
}

// Claiming records that a claim under the session begins. The caller must call answered after it
// has passed the claimed runs to the owner.
func (l *Lease) Claiming() (answered func()) {
	l.claims(1)
	return func() { l.claims(-1) }
}

func (l *Lease) claims(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claiming += n
}
