package memstore

import (
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

// session is one execution of a worker in one partition.
type session struct {
	id         store.SessionID
	worker     string
	code       string // fingerprint of its code
	routes     []store.Route
	ttl        time.Duration
	expires    int64
	up         int64 // accumulated up time of the partition when the lease was renewed
	recovering bool

	owned  list[*run]
	unread map[*run]struct{} // owned runs with items in their inbox

	waiters *notify.Waiters // also record which of these items no Wait has reported
}

// addUnread records that the inbox of an owned run is not empty.
func (s *session) addUnread(r *run) {
	if s.unread == nil {
		s.unread = map[*run]struct{}{}
	}
	s.unread[r] = struct{}{}
}

// read removes a run whose inbox is empty from unread.
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

// OpenSession adds a lease. If the session exists, it renews the lease, or returns store.ErrExpired
// if the session is being recovered.
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

// renew extends the lease from now, and updates the accumulated up time of the partition.
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

// live returns a session whose recovery has not begun.
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

// CloseSession removes a lease, and recovers the runs that the session still owns. A
// session that does not exist was closed before.
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

// recoverDead recovers up to limit runs of dead sessions for the session by. It skips by itself,
// which is alive.
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

// recover takes up to limit runs from a session, and removes the session after the last one. The
// fence changes here, not at the next claim. It returns the number of runs.
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

// enterPartition is enter for an operation on a partition by its number.
func (s *Store) enterPartition(ctx context.Context, number int) (*partition, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	if number < 0 || number >= len(s.parts) {
		return nil, fmt.Errorf("partition %d of %d does not exist", number, len(s.parts))
	}
	return s.parts[number], nil
}
