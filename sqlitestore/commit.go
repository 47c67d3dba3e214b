package sqlitestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Commit appends frames and applies effects in one transaction, which it shares with other waiting
// operations. It returns when the transaction is in the file. Config.Synchronous determines which
// failures the commits then survive.
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

// commit executes commits in one transaction. If one of them fails, it executes each separately.
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

// announceNext announces the changes of a commit, and executes the claim of the commit in the same
// transaction. It notifies waiting calls of the remaining runs.
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
		_, failed := protocol.Answer(err) // a refused claim leaves the runs to other sessions
		return claimed, failed
	}
	free := protocol.FreeCapacityOf(c.Next)
	if claimed.Runs, err = t.take(served, max(c.Next.Max, 0), to, c.Next, free); err == nil && free != nil {
		claimed.Skipped = free.Skipped
	}
	return claimed, err
}
