package sqlitestore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
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
	if err := t.makeDue(chores); err != nil {
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
	if claimed.Runs, err = t.take(served, max(c.Max, 0), l, c); err != nil {
		return store.Claimed{}, err
	}
	due, err := t.nextDue()
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

// candidate is a ready run.
type candidate struct {
	key, route, priority, ord int64
}

// take looks at the first ready runs of the routes, and grants those that the session
// may try. It wakes the next worker for
// routes that have more, and takes back the wake of those that have not.
func (t *tx) take(routes []int64, limit int, to *session, c *store.Claim) ([]store.ClaimedRun, error) {
	var ready []candidate
	left := map[int64]bool{}
	for _, route := range routes {
		found, err := t.ready(route, limit+1)
		if err != nil {
			return nil, err
		}
		ready = append(ready, found...)
	}
	slices.SortFunc(ready, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.ord, b.ord))
	})
	for _, rest := range ready[min(limit, len(ready)):] {
		left[rest.route] = true
	}
	var taken []store.ClaimedRun
	for _, first := range ready[:min(limit, len(ready))] {
		r, err := t.runByKey(first.key)
		if err != nil {
			return nil, err
		}
		ok, err := t.op.Take(r, to.id, c)
		if err != nil {
			return nil, writing(r, err)
		}
		if !ok {
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
	for _, route := range routes {
		if left[route] {
			t.wake(route)
		} else if err := t.calm(route); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

func (t *tx) ready(route int64, limit int) ([]candidate, error) {
	var found []candidate
	err := t.query(`SELECT key, class, priority, ord FROM runs WHERE place = 1 AND class = +? /*workable key*/ ORDER BY priority DESC, ord LIMIT +?`,
		func(r row) error {
			found = append(found, candidate{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2), r.ColumnInt64(3)})
			return nil
		}, route, limit)
	return found, err
}

// ClaimRun hands out one named run.
func (s *Store) ClaimRun(ctx context.Context, partition int, session store.SessionID, token event.Token, run event.RunID) (store.ClaimedRun, error) {
	var claimed store.ClaimedRun
	err := s.enterPartition(ctx, partition)
	if err == nil {
		lock := s.locks.identity()
		claimed, err = performOn(ctx, s, run, 0, func(t *tx) (store.ClaimedRun, error) { return t.claimRun(run, session, token, lock) })
	}
	if err != nil {
		s.notifier.heard(session, err)
		return store.ClaimedRun{}, fmt.Errorf("claim run %s: %w", run, err)
	}
	s.notifier.waiters.OpenSession(session)
	return claimed, nil
}

func (t *tx) claimRun(id event.RunID, session store.SessionID, token event.Token, lock string) (store.ClaimedRun, error) {
	r, err := t.op.ClaimRun(session, token, id)
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
			if err := t.makeDue(max(limit, 0)); err != nil {
				return time.Time{}, err
			}
			due, err := t.nextDue()
			return timeOf(due), err
		})
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("make due runs ready: %w", err)
	}
	return next, nil
}

// makeDue makes up to limit runs ready, in the order of their due times.
func (t *tx) makeDue(limit int) error {
	due, err := t.runs(selectRun+`WHERE r.due IS NOT NULL AND r.due <= +? /*workable r.key*/ ORDER BY r.due, r.id LIMIT +?`, t.ms(), limit)
	if err != nil {
		return err
	}
	for _, r := range due {
		if err := t.op.MakeReady(r); err != nil {
			return writing(r, err)
		}
	}
	return nil
}
