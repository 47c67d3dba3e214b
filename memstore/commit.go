package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Commit appends frames and applies effects. The store keeps the frames.
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
		if n := commits[i].Next; n != nil && commits[i].Effect != store.EffectNone {
			answers[i].Next = p.claimNext(n)
		}
		p.announce()
	})
	return answers, nil
}

// routedNext checks that a continuation is in the partition of its run.
func (s *Store) routedNext(c *store.Commit) error {
	if c.Continue == nil || c.Effect != store.EffectContinue || s.partitionOf(c.Run) == s.partitionOf(c.Continue.Run) {
		return nil
	}
	return fmt.Errorf("continue run %s as run %s: their slots are in different partitions", c.Run, c.Continue.Run)
}

// claimNext claims some of the runs that a commit has just made ready, before they are announced.
// It announces the routes that have further runs.
func (p *partition) claimNext(c *store.Claim) (claimed store.Claimed) {
	changes := &p.op.Changes
	served := p.served(c.Routes)
	ours := func(r *run) bool { return slices.Contains(served, r.route) }
	if !slices.ContainsFunc(changes.Ready, ours) && !slices.ContainsFunc(changes.Turns, func(t protocol.Turn[*run]) bool { return ours(t.First) }) {
		return claimed
	}
	to, err := p.live(c.Session)
	if err != nil {
		return claimed // the remaining runs are announced to other sessions
	}
	free := protocol.FreeCapacityOf(c)
	claimed.Runs = p.take(served, c.Max, to, c, free)
	if free != nil {
		claimed.Skipped = free.Skipped
	}
	changes.Ready = slices.DeleteFunc(changes.Ready, ours)
	for _, t := range changes.Turns {
		p.waiters.Due(t.At)
	}
	changes.Turns = slices.DeleteFunc(changes.Turns, func(t protocol.Turn[*run]) bool { return ours(t.First) })
	for _, route := range served {
		if route.head(nil) != nil {
			p.wake(route)
		}
	}
	return claimed
}
