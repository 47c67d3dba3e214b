package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// session is the lease of one incarnation of a worker.
type session struct {
	id      int64
	name    store.SessionID
	code    string // fingerprint of the code of its process
	expires int64
	ttl     time.Duration
	up      int64        // value of counters.up when the lease was renewed
	reason  store.Reason // reason of its recovery; empty while the session is live
	lock    string
}

const selectSession = `SELECT id, name, expires, ttl, reason, lock, program, renewed FROM sessions `

func scanSession(r row) *session {
	return &session{
		id: r.ColumnInt64(0), name: store.SessionID(r.ColumnText(1)), expires: r.ColumnInt64(2),
		ttl: time.Duration(r.ColumnInt64(3)), reason: store.Reason(r.ColumnText(4)), lock: r.ColumnText(5), code: r.ColumnText(6), up: r.ColumnInt64(7),
	}
}

func (c *conn) sessions(query string, args ...any) ([]*session, error) {
	var found []*session
	err := c.query(query, func(r row) error { found = append(found, scanSession(r)); return nil }, args...)
	return found, err
}

// session returns the row of a session, or nil if there is none.
func (c *conn) session(name store.SessionID) (found *session, err error) {
	err = c.query(selectSession+`WHERE name = +?`, func(r row) error { found = scanSession(r); return nil }, string(name))
	if err != nil {
		return nil, err
	}
	return found, nil
}

// live returns a session that is not being recovered. Otherwise it returns an error.
func (t *tx) live(name store.SessionID) (*session, error) {
	l, err := t.session(name)
	if err == nil && (l == nil || l.reason != "") {
		err = refuse(store.ErrExpired)
	}
	t.lease = l
	return l, err
}

// adopt ties the session to this store. When the store ends, the session ends. A session is tied to
// the store through which it was last used.
func (t *tx) adopt(l *session, lock string) error {
	if l.lock == lock {
		return nil
	}
	return t.exec(`UPDATE sessions SET lock = ? WHERE id = +?`, nonEmpty(lock), l.id)
}

// OpenSession adds a lease. If the session exists, OpenSession renews the lease. It returns
// store.ErrExpired if the session is being recovered.
func (s *Store) OpenSession(ctx context.Context, o store.Session) error {
	if err := o.Check(); err != nil {
		return fmt.Errorf("open session %s: %w", o.ID, err)
	}
	err := s.enterPartition(ctx, o.Partition)
	if err == nil {
		lock := s.locks.Identity()
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

// hear updates the total time during which any session renewed its lease. ttl is the TTL of the
// session that renews its lease now.
func (t *tx) hear(ttl time.Duration) error {
	return t.exec(`UPDATE counters SET up = up + max(min(?1 - heard, ?2), 0), heard = ?1`, t.ms(), store.CountedPause(ttl).Milliseconds())
}

// Heartbeat renews the lease of a session.
func (s *Store) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	var beat store.Heartbeat
	err := s.enterPartition(ctx, partition)
	if err == nil {
		lock := s.locks.Identity()
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
		beat.Unread = append(beat.Unread, db.UnpackRun(r, 0))
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

// reconcile only reads, but the writer executes it. So it follows every claim that was submitted
// before.
func (t *tx) reconcile(id store.SessionID) ([]store.Owned, error) {
	l, err := t.live(id)
	if err != nil {
		return nil, err
	}
	var owned []store.Owned
	err = t.query(`SELECT id, epoch, token FROM runs WHERE owner = +? /*readable key*/`, func(r row) error {
		var token event.Token
		r.ColumnBytes(2, token[:])
		owned = append(owned, store.Owned{Run: db.UnpackRun(r, 0), Fence: store.Fence{Epoch: uint64(r.ColumnInt64(1)), Token: token}})
		return nil
	}, l.id)
	return owned, err
}

// CloseSession removes a session, and recovers the runs that it owns. If the session does not
// exist, it was closed before, and CloseSession returns nil.
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

// chores is the maximum number of runs that one claim recovers or makes due. A claim after a long
// stop then does not block others for long. The next claim continues.
const chores = 1000

// recoverDead recovers runs of ended sessions on behalf of a live session. A session has ended if
// its process has ended, or if it was silent for too long by the rules of package store.
func (t *tx) recoverDead(by *session) error {
	others, err := t.sessions(selectSession+`WHERE id <> +? ORDER BY id`, by.id)
	if err != nil {
		return err
	}
	left := chores
	dead := map[string]bool{} // by lock, because several sessions may have the same lock
	for _, l := range others {
		reason := l.reason
		if reason == "" && l.lock != "" && l.lock != by.lock {
			gone, known := dead[l.lock]
			if !known {
				gone = t.s.locks.Ended(l.lock)
				dead[l.lock] = gone
			}
			if gone {
				reason = store.ReasonProcessEnded
			}
		}
		if reason == "" && l.expires < t.ms() {
			up, err := t.number(`SELECT up FROM counters`)
			if err != nil {
				return err
			}
			if up-l.up >= l.ttl.Milliseconds() {
				reason = store.ReasonExpiredClaim
			}
		}
		if reason == "" {
			continue
		}
		taken, err := t.recover(l, by.name, reason, left)
		if err != nil {
			return err
		}
		left -= taken
	}
	return nil
}

// recover takes up to limit runs from a session, or all runs if limit is negative. After the last
// run it removes the session; a session that owns a damaged run remains. The fence of a run changes
// now, and not at the next claim. recover returns the number of runs.
func (t *tx) recover(l *session, by store.SessionID, reason store.Reason, limit int) (int, error) {
	owned, err := t.runs(selectRun+`WHERE r.owner = +? /*workable r.key*/ ORDER BY r.key LIMIT +?`, l.id, limit)
	if err != nil {
		return 0, err
	}
	for _, r := range owned {
		err := t.exec(`INSERT INTO audit (at, run, reason, by, owner, place, status, epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			t.ms(), r.key, string(reason), string(by), string(l.name), int(r.queueState), string(r.status), r.epoch)
		if err != nil {
			return 0, err
		}
		if err := t.op.Recover(r); err != nil {
			return 0, writing(r, err)
		}
	}
	left, err := t.number(`SELECT count(*) FROM (SELECT 1 FROM runs WHERE owner = +? LIMIT 1)`, l.id)
	if err != nil {
		return 0, err
	}
	if left > 0 && l.reason == reason {
		return len(owned), nil
	}
	if left > 0 {
		return len(owned), t.exec(`UPDATE sessions SET reason = ? WHERE id = +?`, string(reason), l.id)
	}
	return len(owned), t.removeSession(l, reason)
}

// removeSession removes a session that owns no runs.
func (t *tx) removeSession(l *session, reason store.Reason) error {
	if err := t.exec(`DELETE FROM sessions WHERE id = +?`, l.id); err != nil {
		return err
	}
	if err := t.exec(`DELETE FROM serves WHERE session = +?`, l.id); err != nil {
		return err
	}
	if reason == store.ReasonSessionClosed {
		return nil
	}
	if l.lock != "" {
		sharing, err := t.number(`SELECT count(*) FROM sessions WHERE lock = +?`, l.lock)
		if err != nil {
			return err
		}
		if sharing == 0 {
			t.notices.locks = append(t.notices.locks, l.lock)
		}
	}
	return t.wakeAgain()
}

// wakeAgain sets the wake of each route with ready runs. The dead worker may have consumed a wake
// without claiming.
func (t *tx) wakeAgain() error {
	route := int64(0)
	for {
		//nolint:unqueryvet // of queries that name their columns
		next, err := t.number(`SELECT class FROM (
			SELECT * FROM (SELECT class FROM runs WHERE place = 1 AND class > +?1 ORDER BY class LIMIT 1)
			UNION ALL SELECT * FROM (SELECT class FROM lines WHERE mode <> 1 AND class > +?1 /*lines class*/ ORDER BY class LIMIT 1)) ORDER BY class LIMIT 1`, route)
		if err != nil || next == 0 {
			return err
		}
		t.wake(next)
		route = next
	}
}

var _ store.SessionDataStore = (*Store)(nil)

// SetSessionData stores the data of a session until the session ends.
func (s *Store) SetSessionData(ctx context.Context, partition int, id store.SessionID, body []byte) error {
	err := s.enterPartition(ctx, partition)
	if err == nil {
		err = store.CheckSessionData(body)
	}
	if err == nil {
		_, err = perform(ctx, s, func(t *tx) (struct{}, error) { return struct{}{}, t.setSessionData(id, body) })
	}
	if err != nil {
		return fmt.Errorf("set data of session %s: %w", id, err)
	}
	return nil
}

// setSessionData also removes the data of ended sessions.
func (t *tx) setSessionData(id store.SessionID, body []byte) error {
	l, err := t.live(id)
	if err != nil {
		return err
	}
	if err := t.exec(`DELETE FROM session_data WHERE session NOT IN (SELECT id FROM sessions)`); err != nil {
		return err
	}
	if len(body) == 0 {
		return t.exec(`DELETE FROM session_data WHERE session = +?`, l.id)
	}
	return t.exec(`INSERT INTO session_data (session, body) VALUES (?, ?) ON CONFLICT (session) DO UPDATE SET body = excluded.body`, l.id, body)
}

// SessionData returns the data of the sessions.
func (s *Store) SessionData(ctx context.Context, partition int) ([]store.SessionData, error) {
	err := s.enterPartition(ctx, partition)
	var all []store.SessionData
	if err == nil {
		err = s.read(ctx, func(c *conn) error {
			all = nil
			return c.query(`SELECT s.name, s.worker, s.program, s.expires, s.ttl, s.reason IS NOT NULL, d.body
				FROM session_data d JOIN sessions s ON s.id = d.session ORDER BY s.name`, func(r row) error {
				all = append(all, store.SessionData{
					Lease: store.Lease{
						Session: store.SessionID(r.ColumnText(0)), Worker: r.ColumnText(1), Fingerprint: r.ColumnText(2),
						Expires: timeOf(r.ColumnInt64(3)), TTL: time.Duration(r.ColumnInt64(4)), Recovering: r.ColumnBool(5),
					},
					Body: blob(r, 6),
				})
				return nil
			})
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read data of sessions: %w", err)
	}
	return all, nil
}
