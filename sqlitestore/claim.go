package sqlitestore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// Claim recovers runs, makes due runs ready, and assigns ready runs to the session. The runs of all
// routes are ordered by priority, then by the time at which they became ready.
//
// If the process of a session has provably ended, its runs are recovered at once.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	var claimed store.Claimed
	err := s.enterPartition(ctx, c.Partition)
	if err == nil {
		lock := s.locks.Identity()
		claimed, err = performAside(ctx, s, func(t *tx) (store.Claimed, error) { return t.claim(&c, lock) })
	}
	if err != nil {
		s.notifier.heard(c.Session, err)
		return store.Claimed{}, fmt.Errorf("claim for session %s: %w", c.Session, err)
	}
	s.notifier.waiters.OpenSession(c.Session)
	return claimed, nil
}

func (t *tx) claim(c *store.Claim, lock string) (store.Claimed, error) {
	l, err := t.live(c.Session)
	if err != nil {
		return store.Claimed{}, err
	}
	if err := t.adopt(l, lock); err != nil {
		return store.Claimed{}, err
	}
	l.lock = lock
	if err := t.recoverDead(l); err != nil {
		return store.Claimed{}, err
	}
	due, err := t.makeDue(chores)
	if err != nil {
		return store.Claimed{}, err
	}
	served, err := t.served(c.Routes)
	if err != nil {
		return store.Claimed{}, err
	}
	if err := t.unblock(served, l, c.Max); err != nil {
		return store.Claimed{}, err
	}
	var claimed store.Claimed
	free := protocol.FreeCapacityOf(c)
	if claimed.Runs, err = t.take(served, max(c.Max, 0), l, c, free); err != nil {
		return store.Claimed{}, err
	}
	if free != nil {
		claimed.Skipped = free.Skipped
	}
	if t.turned || t.called && due != 0 {
		due, err = t.nextDue()
	}
	claimed.Next = timeOf(due)
	return claimed, err
}

// served returns the numbers of those routes that have runs in the store.
func (t *tx) served(routes []store.Route) ([]int64, error) {
	served := make([]int64, 0, len(routes))
	for _, c := range routes {
		id, err := t.route(c)
		if err != nil {
			return nil, err
		}
		if id != 0 && !slices.Contains(served, id) {
			served = append(served, id)
		}
	}
	return served, nil
}

// candidate is a ready run, or the first run of an open limiter queue.
type candidate struct {
	key, route, priority, ord int64
	line                      int64 // 0 if the run is not in a limiter queue
}

func (a candidate) compare(b candidate) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.ord, b.ord))
}

// take visits the first ready runs of the routes, and grants those that the session may execute. If
// a route has further runs, take wakes the next worker. Otherwise it clears the wake of the route.
func (t *tx) take(routes []int64, limit int, to *session, c *store.Claim, free *protocol.FreeCapacity) ([]store.ClaimedRun, error) {
	ready, err := t.candidates(routes, limit)
	if err != nil {
		return nil, err
	}
	var taken []store.ClaimedRun
	skipped := map[int64]int64{} // the routes of the skipped runs, by key of the run
	for vain := 0; len(ready) > 0 && len(taken) < limit && vain <= protocol.VainTries; {
		first := ready[0]
		ready = ready[1:]
		r, err := t.runByKey(first.key)
		if err != nil {
			return nil, err
		}
		if first.line != 0 && (r == nil || r.line != first.line) {
			// The first run that the queue names does not wait in it, which is damage. Give the
			// queue the position of its actual first run.
			if err := t.turn(first.line, 0); err != nil {
				return nil, err
			}
			if ready, err = t.again(ready, routes, free); err != nil {
				return nil, err
			}
			vain++
			continue
		}
		ok, err := t.op.Take(r, to.id, c, free)
		if err != nil {
			return nil, writing(r, err)
		}
		if first.line != 0 {
			if ready, err = t.again(ready, routes, free); err != nil {
				return nil, err
			}
		}
		if free.HasSkipped(r.id) {
			if free.Skipped[len(free.Skipped)-1].Route, err = t.routeName(r.route); err != nil {
				return nil, err
			}
			skipped[r.key] = r.route
		}
		if !ok {
			vain++
			if ready, err = t.refill(ready, first, limit, skipped); err != nil {
				return nil, err
			}
			continue
		}
		granted, err := t.claimed(r)
		if err != nil {
			return nil, writing(r, err)
		}
		taken = append(taken, granted)
	}
	if err := t.announce(); err != nil {
		return nil, err
	}
	left := map[int64]bool{}
	for _, route := range skipped {
		left[route] = true
	}
	for _, rest := range ready {
		left[rest.route] = true
	}
	return taken, t.wakeForRest(routes, left)
}

// wakeForRest wakes the next worker for the routes with further runs, and clears the wakes of the
// others.
func (t *tx) wakeForRest(routes []int64, left map[int64]bool) error {
	for _, route := range routes {
		if left[route] {
			t.wake(route)
		} else if err := t.calm(route); err != nil {
			return err
		}
	}
	return nil
}

// candidates returns the first runs that a claim visits, in order: ready runs, and the first runs
// of limiter queues.
func (t *tx) candidates(routes []int64, limit int) ([]candidate, error) {
	var all []candidate
	for _, route := range routes {
		//nolint:unqueryvet // of queries that name their columns
		err := t.query(`SELECT * FROM (`+firstRuns+`)
			UNION ALL SELECT * FROM (`+firstQueue+`)`, collect(&all), route, limit+1)
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, candidate.compare)
	return all, nil
}

const firstRuns = `SELECT key, class, priority, ord, 0 FROM runs WHERE place = 1 AND class = +?1 /*workable key*/ ORDER BY priority DESC, ord LIMIT +?2`

const firstQueues = `SELECT first, class, priority, place, id, (SELECT id FROM runs WHERE key = first)
	FROM lines WHERE mode <> 1 AND class = +?1 /*lines class*/ /*workable first*/ ORDER BY priority DESC, place LIMIT +?2`

const firstQueue = `SELECT first, class, priority, place, id FROM lines WHERE mode <> 1 AND class = +?1 /*lines class*/ /*workable first*/ ORDER BY priority DESC, place LIMIT 1`

func collect(all *[]candidate) func(row) error {
	return func(r row) error {
		*all = append(*all, candidate{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2), r.ColumnInt64(3), r.ColumnInt64(4)})
		return nil
	}
}

// refill reads further ready runs of a route after the claim has examined run last in vain, unless
// ready still has runs of the route.
func (t *tx) refill(ready []candidate, last candidate, limit int, skipped map[int64]int64) ([]candidate, error) {
	if last.line != 0 || slices.ContainsFunc(ready, func(c candidate) bool { return c.line == 0 && c.route == last.route }) {
		return ready, nil
	}
	var all []candidate
	err := t.query(firstRuns, collect(&all), last.route, limit+1+len(skipped))
	for _, c := range all {
		if _, known := skipped[c.key]; !known {
			ready = append(ready, c)
		}
	}
	slices.SortFunc(ready, candidate.compare)
	return ready, err
}

// again reads the first limiter queues of the routes again. The caller has changed one of them: it
// has another first run, or was closed or admitted.
func (t *tx) again(ready []candidate, routes []int64, free *protocol.FreeCapacity) ([]candidate, error) {
	ready = slices.DeleteFunc(ready, func(c candidate) bool { return c.line != 0 })
	for _, route := range routes {
		found := false
		err := t.query(firstQueues, func(r row) error {
			c := candidate{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2), r.ColumnInt64(3), r.ColumnInt64(4)}
			if !found && !free.HasSkipped(db.UnpackRun(r, 5)) {
				ready, found = append(ready, c), true
			}
			return nil
		}, route, 1+free.Tries())
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(ready, candidate.compare)
	return ready, nil
}

// ClaimRun assigns a named run to a session.
func (s *Store) ClaimRun(ctx context.Context, partition int, session store.SessionID, token event.Token, id event.RunID) (store.ClaimedRun, error) {
	return s.claimNamed(ctx, partition, session, "claim", id, func(t *tx) (*run, error) { return t.op.ClaimRun(session, token, id) })
}

// Seize assigns a named run to a session, and takes it from its owner or its queue.
func (s *Store) Seize(ctx context.Context, partition int, session store.SessionID, token event.Token, id event.RunID, owned bool) (store.ClaimedRun, error) {
	return s.claimNamed(ctx, partition, session, "seize", id, func(t *tx) (*run, error) { return t.op.Seize(session, token, id, owned) })
}

// claimNamed assigns a named run to a session. It announces the changes as take does.
func (s *Store) claimNamed(ctx context.Context, partition int, session store.SessionID, verb string, id event.RunID, take func(*tx) (*run, error)) (store.ClaimedRun, error) {
	var claimed store.ClaimedRun
	err := s.enterPartition(ctx, partition)
	if err == nil {
		lock := s.locks.Identity()
		claimed, err = performOn(ctx, s, id, 0, func(t *tx) (store.ClaimedRun, error) { return t.claimNamed(take, lock) })
	}
	if err != nil {
		s.notifier.heard(session, err)
		return store.ClaimedRun{}, fmt.Errorf("%s run %s: %w", verb, id, err)
	}
	s.notifier.waiters.OpenSession(session)
	return claimed, nil
}

func (t *tx) claimNamed(take func(*tx) (*run, error), lock string) (store.ClaimedRun, error) {
	r, err := take(t)
	if err != nil {
		return store.ClaimedRun{}, err
	}
	if err := t.adopt(t.lease, lock); err != nil {
		return store.ClaimedRun{}, err
	}
	return t.claimed(r)
}

// Due makes up to limit due runs ready.
func (s *Store) Due(ctx context.Context, partition, limit int) (time.Time, error) {
	var next time.Time
	err := s.enterPartition(ctx, partition)
	if err == nil {
		next, err = performAside(ctx, s, func(t *tx) (time.Time, error) {
			due, err := t.makeDue(max(limit, 0))
			return timeOf(due), err
		})
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("make due runs ready: %w", err)
	}
	return next, nil
}

// makeDue makes up to limit runs ready, in the order of their due times, and rechecks up to limit
// limiter queues. It returns the next due time.
func (t *tx) makeDue(limit int) (int64, error) {
	next, err := t.nextDue()
	if err != nil || next == 0 || next > t.ms() {
		return next, err
	}
	due, err := t.runs(selectRun+`WHERE r.due IS NOT NULL AND r.due <= +? /*workable r.key*/ ORDER BY r.due, r.id LIMIT +?`, t.ms(), limit)
	if err != nil {
		return 0, err
	}
	for _, r := range due {
		if err := t.op.MakeReady(r); err != nil {
			return 0, writing(r, err)
		}
	}
	if err := t.takeTurns(limit); err != nil {
		return 0, err
	}
	return t.nextDue()
}

// Release makes an owned run ready under a new fence. It does not count as a recovery.
func (s *Store) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	_, err := performOn(ctx, s, run, 0, func(t *tx) (struct{}, error) {
		return struct{}{}, t.op.Release(run, fence)
	})
	if err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	return nil
}

// incompatible contains the numbers of the sessions that have blocked a run, in the order of the
// blocks, each preceded by a space. As the text of a column it groups the blocked runs of a route:
// a claim checks each text once, however many runs have it. There are few such texts, because the
// next block removes the numbers of ended sessions, and the remaining sessions all have different
// code.
type incompatible string

func (m incompatible) with(session int64) incompatible {
	return m + incompatible(fmt.Sprint(" ", session))
}

// sessions returns the numbers of the sessions.
func (m incompatible) sessions() []int64 {
	var all []int64
	for number := range strings.FieldsSeq(string(m)) {
		if id, err := strconv.ParseInt(number, 10, 64); err == nil { // the number identifies the session
			all = append(all, id)
		}
	}
	return all
}

// liveOf returns the sessions in m that are not being recovered.
func (c *conn) liveOf(m incompatible) ([]*session, error) {
	var live []*session
	for _, id := range m.sessions() {
		l, err := c.sessions(selectSession+`WHERE id = +? AND reason IS NULL`, id)
		if err != nil {
			return nil, err
		}
		live = append(live, l...)
	}
	return live, nil
}

// FindSession returns the number of a session, or 0 if it does not exist.
func (t *tx) FindSession(id store.SessionID) (int64, error) {
	l, err := t.session(id)
	if t.lease = l; err != nil || l == nil {
		return 0, err
	}
	return l.id, nil
}

// Session returns the state of a session.
func (t *tx) Session(id int64) (protocol.Session, error) {
	if l := t.lease; l != nil && l.id == id {
		return protocol.Session{ID: l.name, Code: l.code, Over: l.reason != ""}, nil
	}
	found, err := t.sessions(selectSession+`WHERE id = +?`, id)
	if err != nil || len(found) == 0 {
		return protocol.Session{Over: true}, err
	}
	return protocol.Session{ID: found[0].name, Code: found[0].code, Over: found[0].reason != ""}, nil
}

// Blockers returns the sessions that have blocked a run.
func (t *tx) Blockers(r *run) ([]int64, error) { return r.incompatible.sessions(), nil }

// SetBlockers replaces the sessions that have blocked a run.
func (t *tx) SetBlockers(r *run, sessions []int64) {
	r.incompatible = ""
	for _, id := range sessions {
		r.incompatible = r.incompatible.with(id)
	}
}

// block adds a run to the blocked runs of its route, and notifies all waiting calls for the route.
func (t *tx) block(r *run) error {
	if err := t.tellBlocked(r); err != nil {
		return err
	}
	t.leave(r)
	r.queueState = store.StateBlocked
	return t.save(r)
}

// tellBlocked notifies all calls that wait for the route of a run that the run was blocked. Other
// processes poll a counter.
func (t *tx) tellBlocked(r *run) error {
	if err := t.exec(`UPDATE classes SET blocks = blocks + 1 WHERE id = +?`, r.route); err != nil {
		return err
	}
	times, err := t.number(`SELECT blocks FROM classes WHERE id = +?`, r.route)
	if err != nil {
		return err
	}
	route, err := t.routeName(r.route)
	if err != nil {
		return err
	}
	if t.notices.blocks == nil {
		t.notices.blocks = map[store.Route]int64{}
	}
	t.notices.blocks[route] = times
	return nil
}

// isIncompatible reports whether a live session with the same code as s has blocked a run.
func (c *conn) isIncompatible(m incompatible, s *session) (bool, error) {
	if m == "" {
		return false, nil
	}
	live, err := c.liveOf(m)
	return slices.ContainsFunc(live, func(l *session) bool { return l.code == s.code }), err
}

// liveIncompatible returns the live sessions that have blocked a run.
func (c *conn) liveIncompatible(m incompatible) ([]store.SessionID, error) {
	live, err := c.liveOf(m)
	var all []store.SessionID
	for _, l := range live {
		all = append(all, l.name)
	}
	slices.Sort(all)
	return all, err
}

// unblock makes up to limit blocked runs of the routes ready. It skips runs that a session with the
// same code has blocked.
func (t *tx) unblock(routes []int64, by *session, limit int) error {
	blocked, err := t.number(`SELECT count(*) FROM (SELECT 1 FROM runs WHERE place = 4 LIMIT 1)`)
	if err != nil || blocked == 0 {
		return err
	}
	for _, route := range routes {
		m, found, err := t.nextIncompatible(`SELECT misfits FROM runs WHERE place = 4 AND class = +? ORDER BY misfits LIMIT 1`, route)
		for err == nil && found && limit > 0 {
			var unfit bool
			if unfit, err = t.isIncompatible(m, by); err == nil && !unfit {
				limit, err = t.unblockAll(route, m, limit)
			}
			if err != nil {
				break
			}
			m, found, err = t.nextIncompatible(`SELECT misfits FROM runs WHERE place = 4 AND class = +? AND misfits > +? ORDER BY misfits LIMIT 1`, route, string(m))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) nextIncompatible(query string, args ...any) (m incompatible, found bool, err error) {
	err = t.query(query, func(r row) error {
		m, found = incompatible(r.ColumnText(0)), true
		return nil
	}, args...)
	return m, found, err
}

// unblockAll makes runs of a route ready that the same sessions have blocked. It returns the unused
// part of limit.
func (t *tx) unblockAll(route int64, m incompatible, limit int) (int, error) {
	fitting, err := t.runs(selectRun+`WHERE r.place = 4 AND r.class = +? AND r.misfits = +? /*workable r.key*/ ORDER BY r.key LIMIT +?`, route, string(m), limit)
	if err != nil {
		return 0, err
	}
	for _, r := range fitting {
		if err := t.op.MakeReady(r); err != nil {
			return 0, writing(r, err)
		}
	}
	return limit - len(fitting), nil
}
