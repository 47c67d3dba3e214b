package sqlitestore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Claim recovers, makes due runs ready, and hands ready runs out: of all the
// routes the highest priority first, then the run that has been ready for longest.
//
// Sessions whose process has provably ended are recovered at once.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	var claimed store.Claimed
	err := s.enterPartition(ctx, c.Partition)
	if err == nil {
		lock := s.locks.identity()
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
	room := protocol.RoomOf(c)
	if claimed.Runs, err = t.take(served, max(c.Max, 0), l, c, room); err != nil {
		return store.Claimed{}, err
	}
	if room != nil {
		claimed.Passed = room.Passed
	}
	if t.turned || t.called && due != 0 {
		due, err = t.nextDue()
	}
	claimed.Next = timeOf(due)
	return claimed, err
}

// served returns the numbers of those of the routes that ever had a run.
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

// candidate is a ready run, or the first run of a line at which claims look.
type candidate struct {
	key, route, priority, ord int64
	line                      int64 // 0: it is not in a line
}

func (a candidate) compare(b candidate) int {
	return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.ord, b.ord))
}

// take looks at the first ready runs of the routes, and grants those that the session
// may try. It wakes the next worker for
// routes that have more, and takes back the wake of those that have not.
func (t *tx) take(routes []int64, limit int, to *session, c *store.Claim, room *protocol.Room) ([]store.ClaimedRun, error) {
	ready, err := t.candidates(routes, limit)
	if err != nil {
		return nil, err
	}
	var taken []store.ClaimedRun
	passed := map[int64]bool{}
	for vain := 0; len(ready) > 0 && len(taken) < limit && vain <= protocol.VainTries; {
		first := ready[0]
		ready = ready[1:]
		r, err := t.runByKey(first.key)
		if err != nil {
			return nil, err
		}
		if first.line != 0 && (r == nil || r.line != first.line) {
			// Its first run does not wait in it: that is damage, and the line gets the turn of
			// the run that does.
			if err := t.turn(first.line, 0); err != nil {
				return nil, err
			}
			if ready, err = t.again(ready, routes, room); err != nil {
				return nil, err
			}
			vain++
			continue
		}
		ok, err := t.op.Take(r, to.id, c, room)
		if err != nil {
			return nil, writing(r, err)
		}
		if first.line != 0 {
			if ready, err = t.again(ready, routes, room); err != nil {
				return nil, err
			}
		}
		if room.HasPassed(r.id) {
			if room.Passed[len(room.Passed)-1].Route, err = t.routeName(r.route); err != nil {
				return nil, err
			}
			passed[r.route] = true
		}
		if !ok {
			vain++
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
	left := passed
	for _, rest := range ready {
		left[rest.route] = true
	}
	if err := t.wakeForRest(routes, left); err != nil {
		return nil, err
	}
	return taken, nil
}

// wakeForRest wakes the next worker for those of the routes that have runs left, and takes back the wake of the others.
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

// candidates returns what a claim of so many looks at first, in order: ready runs, and of
// each route the first line.
func (t *tx) candidates(routes []int64, limit int) ([]candidate, error) {
	var all []candidate
	for _, route := range routes {
		//nolint:unqueryvet // of queries that name their columns
		err := t.query(`SELECT * FROM (SELECT key, class, priority, ord, 0 FROM runs WHERE place = 1 AND class = +?1 /*workable key*/ ORDER BY priority DESC, ord LIMIT +?2)
			UNION ALL SELECT * FROM (`+firstLine+`)`, collect(&all), route, limit+1)
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, candidate.compare)
	return all, nil
}

const firstLines = `SELECT first, class, priority, place, id, (SELECT id FROM runs WHERE key = first)
	FROM lines WHERE mode <> 1 AND class = +?1 /*lines class*/ /*workable first*/ ORDER BY priority DESC, place LIMIT +?2`

const firstLine = `SELECT first, class, priority, place, id FROM lines WHERE mode <> 1 AND class = +?1 /*lines class*/ /*workable first*/ ORDER BY priority DESC, place LIMIT 1`

func collect(all *[]candidate) func(row) error {
	return func(r row) error {
		*all = append(*all, candidate{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2), r.ColumnInt64(3), r.ColumnInt64(4)})
		return nil
	}
}

// again reads the first lines of the routes again: a line has another first run now, is shut,
// or was called.
func (t *tx) again(ready []candidate, routes []int64, room *protocol.Room) ([]candidate, error) {
	ready = slices.DeleteFunc(ready, func(c candidate) bool { return c.line != 0 })
	for _, route := range routes {
		found := false
		err := t.query(firstLines, func(r row) error {
			c := candidate{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2), r.ColumnInt64(3), r.ColumnInt64(4)}
			if !found && !room.HasPassed(unpackRun(r, 5)) {
				ready, found = append(ready, c), true
			}
			return nil
		}, route, 1+room.Tries())
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(ready, candidate.compare)
	return ready, nil
}

// ClaimRun hands out one named run.
func (s *Store) ClaimRun(ctx context.Context, partition int, session store.SessionID, token event.Token, id event.RunID) (store.ClaimedRun, error) {
	return s.claimNamed(ctx, partition, session, "claim", id, func(t *tx) (*run, error) { return t.op.ClaimRun(session, token, id) })
}

// Seize takes a run from whatever has it.
func (s *Store) Seize(ctx context.Context, partition int, session store.SessionID, token event.Token, id event.RunID, owned bool) (store.ClaimedRun, error) {
	return s.claimNamed(ctx, partition, session, "seize", id, func(t *tx) (*run, error) { return t.op.Seize(session, token, id, owned) })
}

// claimNamed hands out one named run, as take does.
func (s *Store) claimNamed(ctx context.Context, partition int, session store.SessionID, verb string, id event.RunID, take func(*tx) (*run, error)) (store.ClaimedRun, error) {
	var claimed store.ClaimedRun
	err := s.enterPartition(ctx, partition)
	if err == nil {
		lock := s.locks.identity()
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

// Due makes up to limit runs ready whose time has come.
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

// makeDue makes up to limit runs ready, in the order of their due times, and gives up to as
// many lines their turns. It returns the next time.
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

// Release makes an owned run ready under a new fence. No recovery is counted.
func (s *Store) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	_, err := performOn(ctx, s, run, 0, func(t *tx) (struct{}, error) {
		return struct{}{}, t.op.Release(run, fence)
	})
	if err != nil {
		return fmt.Errorf("release run %s: %w", run, err)
	}
	return nil
}
