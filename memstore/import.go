package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

var (
	_ store.Importer          = (*Store)(nil)
	_ store.StreamLister      = (*Store)(nil)
	_ protocol.ImportTx[*run] = (*partition)(nil)
)

// Import adds a run that has ended in another store. The store keeps the frames, tags and chunks
// given.
func (s *Store) Import(ctx context.Context, m store.Import) (bool, error) {
	if err := s.enter(ctx); err != nil {
		return false, err
	}
	create := m.Create()
	if err := m.Check(); err != nil {
		return false, err
	}
	if err := s.routed(&create); err != nil {
		return false, err
	}
	p := s.partitionOf(m.Record.Run)
	p.mu.Lock()
	defer p.mu.Unlock()
	r, fresh, err := p.op.Import(p, &m)
	if err != nil { // a refusal: a Tx in memory does not fail
		refused, _ := protocol.Answer(err)
		return false, refused
	}
	if fresh {
		r.rare().audit = append(r.rare().audit, store.AuditEntry{
			Time: timeOf(p.now()), Run: r.id, Reason: store.ReasonImported, By: m.By, QueueState: r.queueState, Status: r.status, Epoch: r.epoch,
		})
	}
	p.announce()
	return fresh, nil
}

// InsertPast stores a run that was created at the given time.
func (p *partition) InsertPast(c *store.Create, chain event.RunID, created int64) (*run, error) {
	return p.insert(c, chain, "", created), nil
}

// SetChain records the next run of r and the latest run of its chain.
func (p *partition) SetChain(r *run, next, latest event.RunID) error {
	if next != "" {
		r.linked().next = next
	}
	if latest != "" {
		p.chains[r.chain].latest = p.runs[latest]
	}
	return nil
}

// ReplaceFrames replaces the log.
func (p *partition) ReplaceFrames(r *run, frames [][]byte) error {
	r.frames = slices.Clone(frames)
	return nil
}

// StreamNames returns the names of the streams of a run's chain.
func (s *Store) StreamNames(ctx context.Context, run event.RunID) ([]string, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.find(run)
	if r == nil {
		return nil, fmt.Errorf("list streams of run %s: %w", run, store.ErrRunNotFound)
	}
	return slices.Sorted(maps.Keys(p.streams[r.chain])), nil
}
