package memstore

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

// session is the lease of one incarnation of a worker in one partition.
type session struct {
	id         store.SessionID
	worker     string
	code       string // fingerprint of the code of its process
	routes     []store.Route
	ttl        time.Duration
	expires    int64
	up         int64 // value of partition.up when the lease was renewed
	recovering bool
	data       []byte // for operators; see store.SessionDataStore

	owned  list[*run]
	unread map[*run]struct{} // owned runs with items in their inboxes

	waiters *notify.Waiters // waiting calls of all sessions; they also record the items that no Wait has reported
}

// addUnread records that the inbox of an owned run is not empty.
func (s *session) addUnread(r *run) {
	if s.unread == nil {
		s.unread = map[*run]struct{}{}
	}
	s.unread[r] = struct{}{}
}

// read removes a run with an empty inbox from unread.
func (s *session) read(r *run) {
	if _, ok := s.unread[r]; ok {
		delete(s.unread, r)
		s.waiters.Read(s.id, r.id)
	}
}

// drop removes a run from the session.
func (s *session) drop(r *run) {
	s.owned.remove(r)
	s.read(r)
}

// ids returns the sorted IDs of a set of runs.
func ids(runs map[*run]struct{}) []event.RunID {
	if len(runs) == 0 {
		return nil
	}
	all := make([]event.RunID, 0, len(runs))
	for r := range runs {
		all = append(all, r.id)
	}
	slices.Sort(all)
	return all
}

// OpenSession adds a lease. If the session exists, OpenSession renews the lease. It returns
// store.ErrExpired if the session is being recovered.
func (s *Store) OpenSession(ctx context.Context, o store.Session) error {
	if err := o.Check(); err != nil {
		return fmt.Errorf("open session %s: %w", o.ID, err)
	}
	p, err := s.enterPartition(ctx, o.Partition)
	if err != nil {
		return fmt.Errorf("open session %s: %w", o.ID, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.sessions[o.ID]
	if l == nil {
		l = &session{id: o.ID, waiters: p.waiters}
		p.sessions[o.ID] = l
		p.waiters.OpenSession(o.ID)
	}
	if l.recovering {
		return fmt.Errorf("open session %s: %w", o.ID, store.ErrExpired)
	}
	l.worker, l.code, l.ttl, l.routes = o.Worker, o.Fingerprint, o.TTL, slices.Clone(o.Routes)
	p.renew(l)
	return nil
}

// renew renews a lease, and updates the total time during which any session renewed its lease.
func (p *partition) renew(l *session) {
	now := p.now()
	if p.heard != 0 {
		p.up += max(min(now-p.heard, store.CountedPause(l.ttl).Milliseconds()), 0)
	}
	p.heard, l.up = now, p.up
	l.expires = millis(p.clock.Now().Add(l.ttl))
	p.expiry = min(p.expiry, l.expires)
}

// Heartbeat renews the lease of a session.
func (s *Store) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return store.Heartbeat{}, fmt.Errorf("heartbeat of session %s: %w", id, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := p.live(id)
	if err != nil {
		return store.Heartbeat{}, fmt.Errorf("heartbeat of session %s: %w", id, err)
	}
	p.renew(l)
	return store.Heartbeat{
		Owned: l.owned.n, Unread: ids(l.unread), Next: timeOf(p.nextDue()), Outbox: timeOf(p.outbox.next(p.now())),
		Unserved: p.unserved(l),
	}, nil
}

// live returns the session with the id. It returns an error if the session does not exist or its
// recovery has begun.
func (p *partition) live(id store.SessionID) (*session, error) {
	l := p.sessions[id]
	if l == nil || l.recovering {
		return nil, store.ErrExpired
	}
	return l, nil
}

// Reconcile returns the runs that a session owns.
func (s *Store) Reconcile(ctx context.Context, partition int, id store.SessionID) ([]store.Owned, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("reconcile session %s: %w", id, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l, err := p.live(id)
	if err != nil {
		return nil, fmt.Errorf("reconcile session %s: %w", id, err)
	}
	owned := make([]store.Owned, 0, l.owned.n)
	for r := l.owned.first; r != nil; r = r.after {
		owned = append(owned, store.Owned{Run: r.id, Fence: r.fence()})
	}
	return owned, nil
}

// CloseSession removes a session, and recovers the runs that it owns. If the session does not
// exist, it was closed before, and CloseSession returns nil.
func (s *Store) CloseSession(ctx context.Context, partition int, id store.SessionID) error {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return fmt.Errorf("close session %s: %w", id, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if l := p.sessions[id]; l != nil {
		p.recover(l, id, store.ReasonSessionClosed, math.MaxInt)
	}
	return nil
}

// recoverDead recovers up to limit runs of dead sessions on behalf of the live session by. It does
// not examine by itself.
func (p *partition) recoverDead(by *session, limit int) {
	now := p.now()
	if now <= p.expiry {
		return
	}
	p.expiry = math.MaxInt64
	var dead []*session
	for _, l := range p.sessions {
		silent := p.up-l.up >= l.ttl.Milliseconds()
		if l != by && (l.recovering || l.expires < now && silent) {
			dead = append(dead, l)
		}
	}
	slices.SortFunc(dead, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.expires, b.expires), cmp.Compare(a.id, b.id))
	})
	for _, l := range dead {
		limit -= p.recover(l, by.id, store.ReasonExpiredClaim, limit)
	}
	for _, l := range p.sessions {
		p.expiry = min(p.expiry, l.expires)
	}
}

// recover takes up to limit runs from a session, and removes the session after the last run. The
// fence of a run changes now, and not at the next claim. recover returns the number of runs.
func (p *partition) recover(l *session, by store.SessionID, reason store.Reason, limit int) int {
	l.recovering = true
	taken := 0
	for l.owned.first != nil && taken < limit {
		r := l.owned.first
		r.rare().audit = append(r.rare().audit, store.AuditEntry{
			Time: timeOf(p.now()), Run: r.id, Reason: reason, By: by, Owner: l.id,
			QueueState: r.queueState, Status: r.status, Epoch: r.epoch,
		})
		_ = p.op.Recover(r) // a Tx in memory does not fail
		taken++
	}
	p.announce()
	if l.owned.n == 0 {
		delete(p.sessions, l.id)
		p.waiters.CloseSession(l.id)
	}
	return taken
}

// enterPartition is like enter for an operation on a numbered partition, which it returns.
func (s *Store) enterPartition(ctx context.Context, number int) (*partition, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if number < 0 || number >= len(s.parts) {
		return nil, fmt.Errorf("partition %d of %d does not exist", number, len(s.parts))
	}
	return s.parts[number], nil
}

var _ store.SessionDataStore = (*Store)(nil)

// SetSessionData stores the data of a session until the session ends.
func (s *Store) SetSessionData(ctx context.Context, partition int, id store.SessionID, body []byte) error {
	p, err := s.enterPartition(ctx, partition)
	if err == nil {
		err = store.CheckSessionData(body)
	}
	if err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		var l *session
		if l, err = p.live(id); err == nil {
			l.data = bytes.Clone(body)
		}
	}
	if err != nil {
		return fmt.Errorf("set data of session %s: %w", id, err)
	}
	return nil
}

// SessionData returns the data of the sessions of a partition.
func (s *Store) SessionData(ctx context.Context, partition int) ([]store.SessionData, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("read data of sessions: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []store.SessionData
	for _, l := range p.sessions {
		if len(l.data) > 0 {
			all = append(all, store.SessionData{Lease: p.lease(l), Body: bytes.Clone(l.data)})
		}
	}
	slices.SortFunc(all, func(a, b store.SessionData) int { return cmp.Compare(a.Session, b.Session) })
	return all, nil
}
