package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Load reads runs. The result shares memory with the store and must not be
// changed.
func (s *Store) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	answers := make([]store.Loaded, len(runs))
	s.byPartition(len(runs), func(i int) event.RunID { return runs[i].Run }, func(p *partition, i int) {
		answers[i] = p.load(&runs[i])
	})
	return answers, nil
}

func (p *partition) load(l *store.Load) store.Loaded {
	r := p.find(l.Run)
	if r == nil {
		return store.Loaded{Err: store.ErrRunNotFound}
	}
	answer := store.Loaded{Record: r.record()}
	if n := uint64(len(r.frames)); l.Limit >= 0 && l.After < n {
		end := n
		if l.Limit > 0 {
			end = min(n, l.After+uint64(l.Limit))
		}
		answer.Frames = r.frames[l.After:end:end]
	}
	if l.Inbox && len(r.inbox) > 0 {
		answer.Inbox = slices.Clip(r.inbox)
	}
	return answer
}

// Resolve returns the active run of a workflow ID. If there is none, it returns the last run that
// ended, if that run is retained.
func (s *Store) Resolve(ctx context.Context, workflowID string) (event.RunID, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	p := s.parts[int(event.SlotOf(workflowID))%len(s.parts)]
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.names[workflowID]; n != nil {
		switch {
		case n.active != nil:
			return n.active.id, nil
		case n.last != nil:
			return n.last.id, nil
		}
	}
	return "", fmt.Errorf("resolve workflow id %q: %w", workflowID, store.ErrRunNotFound)
}
