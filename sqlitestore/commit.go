package sqlitestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Commit appends frames and applies effects in one transaction, which it shares with other
// operations that have arrived. It returns when that transaction is in the file; Synchronous
// defines how durable it is.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	if len(commits) == 0 {
		return nil, s.enter(ctx)
	}
	for i := range commits {
		if err := protocol.CheckCommit(&commits[i]); err != nil {
			return nil, err
		}
	}
	answers, err := s.commit(ctx, commits)
	if err != nil {
		return nil, fmt.Errorf("commit to %d runs: %w", len(commits), err)
	}
	return answers, nil
}

// commit executes commits, each separately if one of them fails.
func (s *Store) commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	one := func(t *tx, c *store.Commit) (store.Committed, error) {
		answer, err := t.op.Commit(c)
		if err == nil {
			answer.Next, err = t.announceNext(c)
		}
		if err != nil {
			err = fmt.Errorf("commit to run %s: %w", c.Run, err)
		}
		return answer, err
	}
	return inHalves(ctx, s, commits, one, func(c *store.Commit) (store.Committed, error) {
		answer, err := performOn(ctx, s, c.Run, len(c.Frame), func(t *tx) (store.Committed, error) { return one(t, c) })
		if ofOneRun(err) {
			return store.Committed{Err: err}, nil
		}
		return answer, err
	})
}

// announceNext announces the changes of a commit, and executes its claim in the same transaction.
// Waiting calls are notified of the runs that are left.
func (t *tx) announceNext(c *store.Commit) (claimed store.Claimed, err error) {
	announced := len(t.wakes)
	if err := t.announce(); err != nil || c.Next == nil || c.Effect == store.EffectNone || len(t.wakes) == announced {
		return claimed, err
	}
	served, err := t.served(c.Next.Routes)
	if err != nil || !slices.ContainsFunc(t.wakes[announced:], func(route int64) bool { return slices.Contains(served, route) }) {
		return claimed, err
	}
	to, err := t.live(c.Next.Session)
	if err != nil {
		_, failed := protocol.Answer(err) // after a refusal the runs are left to others
		return claimed, failed
	}
	free := protocol.FreeCapacityOf(c.Next)
	if claimed.Runs, err = t.take(served, max(c.Next.Max, 0), to, c.Next, free); err == nil && free != nil {
		claimed.Skipped = free.Skipped
	}
	return claimed, err
}
