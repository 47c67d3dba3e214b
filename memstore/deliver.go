package memstore

import (
	"context"
	"fmt"
	"time"

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
	run, err := p.deliver(&d)
	if err != nil {
		return "", fmt.Errorf("deliver to run %s: %w", d.Run, err)
	}
	return run, nil
}

func (p *partition) deliver(d *store.Deliver) (event.RunID, error) {
	if p.late(d.Deadline) {
		return "", store.ErrStale
	}
	r := p.find(d.Run)
	if r == nil {
		return "", store.ErrRunNotFound
	}
	if d.Item.Scope == store.ScopeChain {
		r = p.tip(r)
	}
	if p.accepted(r.chain, d.Item.ID) {
		return r.id, nil // before "ended": what was accepted stays accepted
	}
	switch {
	case r.place == store.PlaceEnded:
		return "", &store.TerminalError{Run: r.id, Status: r.status}
	case r.closing:
		return "", store.ErrLater
	}
	p.push(r, d.Item, d.Keep)
	return r.id, nil
}

// late reports whether a request arrives after its deadline.
func (p *partition) late(deadline time.Time) bool {
	return !deadline.IsZero() && p.clock.Now().After(deadline)
}

// push accepts an item: inbox and seen in one action.
func (p *partition) push(r *run, item store.Item, keep bool) {
	p.remember(r, item.ID, keep)
	r.inbox = append(r.inbox, item)
	switch r.place {
	case store.PlaceParked:
		p.makeReady(r)
	case store.PlaceOwned:
		p.tell(r)
	}
}
