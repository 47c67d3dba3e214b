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

// commit carries out commits. If one of them meets damage, or is larger than a row may be, it
// takes the transaction with it: then each half is tried by itself, until that one is alone.
func (s *Store) commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := perform(ctx, s, func(t *tx) ([]store.Committed, error) {
		answers := make([]store.Committed, len(commits))
		for i := range commits {
			var err error
			if answers[i], err = t.op.Commit(&commits[i]); err == nil {
				err = t.announce()
			}
			if err != nil {
				return nil, fmt.Errorf("commit to run %s: %w", commits[i].Run, err)
			}
		}
		return answers, nil
	})
	if err == nil || !ofOneRun(err) {
		return answers, err
	}
	if len(commits) == 1 {
		return []store.Committed{{Err: aboutRun(commits[0].Run, len(commits[0].Frame), err)}}, nil
	}
	half := len(commits) / 2
	first, err := s.commit(ctx, commits[:half])
	if err != nil {
		return nil, err
	}
	second, err := s.commit(ctx, commits[half:])
	return append(first, second...), err
}
