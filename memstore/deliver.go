package memstore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Deliver puts an item into an inbox. The store keeps its body.
func (s *Store) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	p := s.partitionOf(d.Run)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.deliver(&d); err != nil {
		return "", fmt.Errorf("deliver to run %s: %w", d.Run, err)
	}
	return d.Run, nil
}

func (p *partition) deliver(d *store.Deliver) error {
	if !d.Deadline.IsZero() && p.clock.Now().After(d.Deadline) {
		return store.ErrStale
	}
	r := p.find(d.Run)
	if r == nil {
		return store.ErrRunNotFound
	}
	if s := p.seen[r.chain]; s != nil && s.has(d.Item.ID) {
		return nil // before "ended": what was accepted stays accepted
	}
	switch {
	case r.place == store.PlaceEnded:
		return &store.TerminalError{Run: r.id, Status: r.status}
	case r.closing:
		return store.ErrLater
	}
	p.push(r, d.Item)
	return nil
}

// push accepts an item: inbox and seen in one action.
func (p *partition) push(r *run, item store.Item) {
	s, now := p.seenOf(r.chain), p.now()
	s.prune(now, len(r.inbox))
	s.add(item.ID, now)
	r.inbox = append(r.inbox, item)
	switch r.place {
	case store.PlaceParked:
		p.makeReady(r)
	case store.PlaceOwned:
		p.tell(r)
	}
}
