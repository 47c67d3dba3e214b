package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Commit appends frames and carries out effects, all in one transaction, which
// it shares with whatever else has arrived meanwhile. The answer comes when that
// transaction is in the file; Synchronous says what that means.
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

// commit carries out commits, each by itself if one of them cannot be carried out.
func (s *Store) commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	one := func(t *tx, c *store.Commit) (store.Committed, error) {
		answer, err := t.op.Commit(c)
		if err == nil {
			err = t.announce()
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
