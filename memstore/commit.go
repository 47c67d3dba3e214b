package memstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Commit appends frames and carries out effects. The store keeps the frames.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	for i := range commits {
		if err := errors.Join(protocol.CheckCommit(&commits[i]), s.routedNext(&commits[i])); err != nil {
			return nil, err
		}
	}
	answers := make([]store.Committed, len(commits))
	s.byPartition(len(commits), func(i int) event.RunID { return commits[i].Run }, func(p *partition, i int) {
		answers[i], _ = p.op.Commit(&commits[i]) // a Tx in memory does not fail
		p.announce()
	})
	return answers, nil
}

// routedNext checks that a run that continues and the new one will be in one partition.
func (s *Store) routedNext(c *store.Commit) error {
	if c.Continue == nil || c.Effect != store.EffectContinue || s.partitionOf(c.Run) == s.partitionOf(c.Continue.Run) {
		return nil
	}
	return fmt.Errorf("continue run %s as run %s: their slots are not of one partition", c.Run, c.Continue.Run)
}
