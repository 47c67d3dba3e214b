package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/outbox"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// session is the worker's life on one partition, renewed by heartbeats.
type session struct {
	w         *Worker
	partition int
	stopped   chan struct{}
	done      chan struct{}
	ctx       context.Context
	cancel    context.CancelFunc

	behind bool // runs may wait for a place here; guarded by Worker.mu

	renewing chan struct{} // holds a value while a new session is opened
	relay    *outbox.Relay

	looking atomic.Bool    // at runs that nobody serves
	looks   sync.WaitGroup // what does

	asking chan claimAnswer // of a claim that takes long; of the claim loop alone
	silent atomic.Bool      // there is one: the partition does not answer

	mu       sync.Mutex
	id       store.SessionID
	over     bool      // the id has expired and there is no new one yet
	renewed  time.Time // when the last request that succeeded was sent; by the clock of the process, which is monotonic
	claiming int       // claim calls in flight: what they get is not known yet
}

// openSessions begins a session on each partition, on many at the same time. Those that do
// not answer, be it all of them, are begun later, as after an outage: the worker starts all
// the same. It does not if the store refuses it, be it for good or until somebody changes
// its permissions.
func (w *Worker) openSessions(ctx context.Context) error {
	n := w.store.Partitions()
	failed := make([]error, n)
	var opening sync.WaitGroup
	slots := make(chan struct{}, openingMost)
	for p := range n {
		s := w.newSession(p)
		w.sessions = append(w.sessions, s)
		if n == 1 {
			failed[p] = s.open(ctx)
			break
		}
		slots <- struct{}{}
		opening.Go(func() {
			defer func() { <-slots }()
			failed[p] = s.open(ctx)
		})
	}
	opening.Wait()
	for _, err := range failed {
		if err != nil && (!store.Unknown(err) || errors.Is(err, store.ErrRefused) || ctx.Err() != nil) {
			return err
		}
	}
	return nil
}

// hasSession reports whether some partition has answered.
func (w *Worker) hasSession() bool {
	return slices.ContainsFunc(w.sessions, func(s *session) bool { return s.current() != "" })
}

// openingMost bounds how many sessions are opened at the same time.
const openingMost = 16

// newSession returns a session that was not opened.
func (w *Worker) newSession(partition int) *session {
	s := &session{w: w, partition: partition, behind: true, over: true, stopped: make(chan struct{}), done: make(chan struct{}), renewing: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.relay = outbox.New(outbox.Params{
		Store: w.store, Clock: w.clock, Log: w.log, Activity: w.activity, Partition: partition, Name: w.cfg.Name, Heartbeat: w.cfg.Heartbeat,
		Silent: w.silent,
	})
	return s
}

// open begins a new session. Its id is never used again.
func (s *session) open(ctx context.Context) error {
	id := store.SessionID(s.w.cfg.Name + "/" + event.NewToken().String())
	sent := time.Now()
	err := s.w.store.OpenSession(ctx, store.Session{
		Partition: s.partition, ID: id, Worker: s.w.cfg.Name, TTL: s.w.cfg.ClaimExpiry,
		Classes: s.w.classes, Fingerprint: s.w.fit,
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.over, s.renewed = id, false, sent
	return nil
}

// silent reports whether a partition does not answer at the moment.
func (w *Worker) silent(partition int) bool { return w.sessions[partition].silent.Load() }

func (s *session) current() store.SessionID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id
}

// holds reports whether what was claimed under the id is this worker's.
func (s *session) holds(id store.SessionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id == id && !s.over
}

// alive reports whether what was claimed under the id is certainly still this
// worker's: one that has not reached the store for a whole expiry starts nothing.
func (s *session) alive(id store.SessionID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.id == id && !s.over && time.Since(s.renewed) < s.w.cfg.ClaimExpiry
}

// awaitAlive waits until what was claimed under the id is certainly this
// worker's, or until ctx ends, which it does once the claim is known to be lost:
// then it returns the cause.
func (s *session) awaitAlive(ctx context.Context, id store.SessionID) error {
	for !s.alive(id) {
		if !wait.For(ctx, s.w.clock, overdue) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// loop sends heartbeats until the worker has stopped.
func (s *session) loop() {
	defer close(s.done)
	tick := make(chan struct{}, 1)
	for {
		stop := s.w.clock.AfterFunc(s.w.cfg.Heartbeat, func() { tick <- struct{}{} })
		select {
		case <-s.stopped:
			stop()
			return
		case <-tick:
		}
		s.beat()
	}
}

func (s *session) beat() {
	id := s.current()
	s.mu.Lock()
	claiming := s.claiming
	s.mu.Unlock()
	if id == "" { // it could not be opened yet
		_ = s.renew(s.ctx, id)
		return
	}
	sent := time.Now() // the lease lasts from some time after that
	answer, err := s.w.store.Heartbeat(s.ctx, s.partition, id)
	switch {
	case errors.Is(err, store.ErrExpired):
		_ = s.renew(s.ctx, id) // logged; the next heartbeat tries again
	case err != nil: // the next one tries again
	default:
		s.mu.Lock()
		gap := time.Since(s.renewed) >= s.w.cfg.ClaimExpiry
		s.renewed = sent
		s.mu.Unlock()
		if gap { // tasks have held back their steps
			s.w.eachOwned(s.partition, func(t *task) { t.post(input{kind: inputTick}) })
		}
		for _, run := range answer.Mail {
			s.w.notifyMail(run)
		}
		s.relay.Heard(answer.Outbox)
		s.w.tellDamage()
		s.lookAtUnserved(answer.Unserved)
		if claiming == 0 && answer.Owned != s.w.ownedOn(s.partition) {
			s.reconcile(id)
		}
	}
}

// renew drops what the expired session owned and opens a new one. It tries until
// ctx ends or the store is closed.
func (s *session) renew(ctx context.Context, expired store.SessionID) error {
	select {
	case s.renewing <- struct{}{}:
		defer func() { <-s.renewing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if s.current() != expired {
		return nil // done already
	}
	if expired != "" {
		s.w.log.Warn("worker session expired: its runs may belong to others", "session", expired)
	}
	s.mu.Lock()
	s.over = true // what a claim under it still brings is not taken in
	s.mu.Unlock()
	s.w.dropPartition(s.partition)
	for {
		err := s.open(ctx)
		if err == nil {
			s.w.poke()
			return nil
		}
		if errors.Is(err, store.ErrClosed) || !wait.For(ctx, s.w.clock, time.Second) {
			return err
		}
	}
}

// reconcile compares what the store says is owned with what the worker works
// on: an answer of a claim may have been lost, or a run may have been taken.
func (s *session) reconcile(id store.SessionID) {
	asked := s.w.claimSeq.Load()
	// A run that is here now may end before the answer comes, which then still names it.
	here := map[event.RunID]bool{}
	s.w.eachOwned(s.partition, func(t *task) { here[t.id] = true })
	owned, err := s.w.store.Reconcile(s.ctx, s.partition, id)
	if err != nil {
		if errors.Is(err, store.ErrExpired) {
			_ = s.renew(s.ctx, id) // logged; the next heartbeat tries again
		}
		return
	}
	s.mu.Lock()
	busy := s.claiming > 0
	s.mu.Unlock()
	if busy || s.current() != id {
		return // the answer of a claim is on its way: look again at the next heartbeat
	}
	known := map[event.RunID]store.Fence{}
	for _, o := range owned {
		known[o.Run] = o.Fence
		if !here[o.Run] && !s.w.owns(o.Run) && !s.w.isAside(o.Run) {
			s.w.log.Warn("giving back a run that was claimed without an answer", "run", o.Run)
			_ = s.w.store.Release(s.ctx, o.Run, o.Fence) // fenced: it is somebody else's already
		}
	}
	answer := &ownedRuns{known, asked}
	s.w.eachOwned(s.partition, func(t *task) { t.post(input{kind: inputOwned, owned: answer}) })
}

// endSessions ends all sessions at once, so that a store that does not answer is waited
// for only once, however many partitions it has.
func (w *Worker) endSessions() {
	ctx, cancel := context.WithTimeout(context.Background(), closePatience)
	defer cancel()
	var all sync.WaitGroup
	for _, s := range w.sessions {
		all.Go(s.stop)
	}
	all.Wait()
	w.closeSessions(ctx)
}

// stop ends the heartbeats, and carries over what was written last.
func (s *session) stop() {
	close(s.stopped)
	s.cancel()
	<-s.done
	s.looks.Wait()
	s.relay.Stop()
}

// closePatience bounds how long the worker waits for the store to end its sessions.
const closePatience = 5 * time.Second

// closeSessions closes the sessions that were opened. The store recovers at once what they
// still own.
func (w *Worker) closeSessions(ctx context.Context) {
	var all sync.WaitGroup
	failed := make([]error, len(w.sessions))
	for i, s := range w.sessions {
		if s.current() == "" {
			continue
		}
		all.Go(func() {
			err := w.store.CloseSession(ctx, s.partition, s.current())
			if err != nil && !errors.Is(err, store.ErrClosed) && !errors.Is(err, store.ErrExpired) {
				failed[i] = err
			}
		})
	}
	all.Wait()
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	if len(failed) > 0 {
		w.log.Warn("close worker sessions failed: their runs are taken over when their claims expire", "sessions", len(failed), "error", failed[0])
	}
}
