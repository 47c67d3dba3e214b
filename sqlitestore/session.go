package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// session is the lease of one life of one worker.
type session struct {
	id      int64
	name    store.SessionID
	code    string // fingerprint of what it runs
	expires int64
	ttl     time.Duration
	up      int64        // how long the store had been up when the lease was renewed
	reason  store.Reason // why it is being recovered; empty: it is live
	lock    string
}

const selectSession = `SELECT id, name, expires, ttl, reason, lock, program, renewed FROM sessions `

func (c *conn) sessions(query string, args ...any) ([]*session, error) {
	var found []*session
	err := c.query(query, func(r row) error {
		found = append(found, &session{
			id: r.ColumnInt64(0), name: store.SessionID(r.ColumnText(1)), expires: r.ColumnInt64(2),
			ttl: time.Duration(r.ColumnInt64(3)), reason: store.Reason(r.ColumnText(4)), lock: r.ColumnText(5), code: r.ColumnText(6), up: r.ColumnInt64(7),
		})
		return nil
	}, args...)
	return found, err
}

// session returns the lease of a session, nil if there is none.
func (c *conn) session(name store.SessionID) (*session, error) {
	found, err := c.sessions(selectSession+`WHERE name = +?`, string(name))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return found[0], nil
}

// live returns a session that nobody has begun to recover, and refuses if there
// is none.
func (t *tx) live(name store.SessionID) (*session, error) {
	l, err := t.session(name)
	if err == nil && (l == nil || l.reason != "") {
		err = refuse(store.ErrExpired)
	}
	t.lease = l
	return l, err
}

// adopt makes this store the one whose end ends the session. It is the store
// through which the session was last heard of.
func (t *tx) adopt(l *session, lock string) error {
	if l.lock == lock {
		return nil
	}
	return t.exec(`UPDATE sessions SET lock = ? WHERE id = +?`, nonEmpty(lock), l.id)
}

// OpenSession adds a lease. If the session exists, it renews the lease, or returns store.ErrExpired
// if the session is being recovered.
func (s *Store) OpenSession(ctx context.Context, o store.Session) error {
	if err := o.Check(); err != nil {
		return fmt.Errorf("open session %s: %w", o.ID, err)
	}
	err := s.enterPartition(ctx, o.Partition)
	if err == nil {
		lock := s.locks.identity()
		_, err = perform(ctx, s, func(t *tx) (struct{}, error) { return struct{}{}, t.openSession(&o, lock) })
	}
	if err != nil {
		return fmt.Errorf("open session %s: %w", o.ID, err)
	}
	s.notifier.waiters.OpenSession(o.ID)
	return nil
}

func (t *tx) openSession(o *store.Session, lock string) error {
	l, err := t.session(o.ID)
	if err != nil {
		return err
	}
	if l != nil && l.reason != "" {
		return refuse(store.ErrExpired)
	}
	if err := t.hear(o.TTL); err != nil {
		return err
	}
	err = t.exec(`INSERT INTO sessions (name, worker, program, expires, ttl, lock, renewed) VALUES (?, ?, ?, ?, ?, ?, coalesce((SELECT up FROM counters), 0))
		ON CONFLICT (name) DO UPDATE SET worker = excluded.worker, program = excluded.program, expires = excluded.expires, ttl = excluded.ttl,
			lock = excluded.lock, renewed = excluded.renewed`,
		string(o.ID), o.Worker, o.Fingerprint, millis(t.now.Add(o.TTL)), int64(o.TTL), nonEmpty(lock))
	if err != nil {
		return err
	}
	return t.setServed(o)
}

// hear counts for how long somebody was heard: a session with that TTL is now.
func (t *tx) hear(ttl time.Duration) error {
	return t.exec(`UPDATE counters SET up = up + max(min(?1 - heard, ?2), 0), heard = ?1`, t.ms(), store.CountedPause(ttl).Milliseconds())
}

// Heartbeat renews the lease of a session.
func (s *Store) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	var beat store.Heartbeat
	err := s.enterPartition(ctx, partition)
	if err == nil {
		lock := s.locks.identity()
		beat, err = performAside(ctx, s, func(t *tx) (store.Heartbeat, error) { return t.heartbeat(id, lock) })
	}
	if err != nil {
		s.notifier.heard(id, err)
		return store.Heartbeat{}, fmt.Errorf("heartbeat of session %s: %w", id, err)
	}
	s.notifier.waiters.OpenSession(id)
	return beat, nil
}

func (t *tx) heartbeat(id store.SessionID, lock string) (store.Heartbeat, error) {
	l, err := t.live(id)
	if err != nil {
		return store.Heartbeat{}, err
	}
	if err := t.hear(l.ttl); err != nil {
		return store.Heartbeat{}, err
	}
	if err := t.exec(`UPDATE sessions SET expires = ?, renewed = coalesce((SELECT up FROM counters), 0) WHERE id = +?`, millis(t.now.Add(l.ttl)), l.id); err != nil {
		return store.Heartbeat{}, err
	}
	if err := t.adopt(l, lock); err != nil {
		return store.Heartbeat{}, err
	}
	owned, err := t.number(`SELECT count(*) FROM runs WHERE owner = +? /*readable key*/`, l.id)
	if err != nil {
		return store.Heartbeat{}, err
	}
	beat := store.Heartbeat{Owned: int(owned)}
	err = t.query(`SELECT id FROM runs WHERE owner = +? AND inbox > 0 /*readable key*/`, func(r row) error {
		beat.Unread = append(beat.Unread, unpackRun(r, 0))
		return nil
	}, l.id)
	if err != nil {
		return store.Heartbeat{}, err
	}
	due, err := t.nextDue()
	if err != nil {
		return store.Heartbeat{}, err
	}
	beat.Next = timeOf(due)
	if beat.Outbox, err = t.nextSend(); err != nil {
		return store.Heartbeat{}, err
	}
	beat.Unserved, err = t.unserved(l)
	return beat, err
}

// Reconcile returns the runs that a session owns.
func (s *Store) Reconcile(ctx context.Context, partition int, id store.SessionID) ([]store.Owned, error) {
	var owned []store.Owned
	err := s.enterPartition(ctx, partition)
	if err == nil {
		owned, err = performAside(ctx, s, func(t *tx) ([]store.Owned, error) { return t.reconcile(id) })
	}
	if err != nil {
		return nil, fmt.Errorf("reconcile session %s: %w", id, err)
	}
	return owned, nil
}

// reconcile is executed by the writer although it only reads: so it comes after
// every claim that was sent before it.
func (t *tx) reconcile(id store.SessionID) ([]store.Owned, error) {
	l, err := t.live(id)
	if err != nil {
		return nil, err
	}
	var owned []store.Owned
	err = t.query(`SELECT id, epoch, token FROM runs WHERE owner = +? /*readable key*/`, func(r row) error {
		var token event.Token
		r.ColumnBytes(2, token[:])
		owned = append(owned, store.Owned{Run: unpackRun(r, 0), Fence: store.Fence{Epoch: uint64(r.ColumnInt64(1)), Token: token}})
		return nil
	}, l.id)
	return owned, err
}

// CloseSession removes a lease, and recovers the runs that the session still owns. A
// session that does not exist was closed before.
func (s *Store) CloseSession(ctx context.Context, partition int, id store.SessionID) error {
	err := s.enterPartition(ctx, partition)
	if err == nil {
		_, err = performAside(ctx, s, func(t *tx) (struct{}, error) {
			l, err := t.session(id)
			if err != nil || l == nil {
				return struct{}{}, err
			}
			_, err = t.recover(l, id, store.ReasonSessionClosed, -1)
			return struct{}{}, err
		})
	}
	if err != nil {
		return fmt.Errorf("close session %s: %w", id, err)
	}
	s.notifier.waiters.CloseSession(id)
	return nil
}
