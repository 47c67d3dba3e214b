package sqlitestore

import (
	"github.com/flowgen/flowgen/runtime/store"
)

// chores is how many runs one claim recovers and makes due at most, so that a
// claim after a long stop does not hold up everybody else. The next claim goes
// on with the rest.
const chores = 1000

// recoverDead recovers runs of sessions that are over, on behalf of a session
// that is not: of those whose process has ended, and of those that were silent for too
// long, as package store says.
func (t *tx) recoverDead(by *session) error {
	others, err := t.sessions(selectSession+`WHERE id <> +? ORDER BY id`, by.id)
	if err != nil {
		return err
	}
	left := chores
	dead := map[string]bool{} // by lock; several sessions may share one
	for _, l := range others {
		reason := l.reason
		if reason == "" && l.lock != "" && l.lock != by.lock {
			gone, known := dead[l.lock]
			if !known {
				gone = t.s.locks.ended(l.lock)
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

// recover takes up to limit runs from a session (all, if limit is negative) and
// removes it if that is all: a session that owns a damaged run stays. The fence changes
// here, not at the next claim. It returns how many it took.
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

// removeSession removes a lease under which nothing is owned.
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

// wakeAgain sets the wake of each route that has ready runs. Whoever died may
// have taken one without claiming.
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
