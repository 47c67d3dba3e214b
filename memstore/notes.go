package memstore

import (
	"context"
	"fmt"
	"maps"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// SetNote keeps a note of an owned run until the run ends, and forgets its recoveries if the note
// is progress.
func (s *Store) SetNote(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, progress bool) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.op.SetNote(run, fence, key, body, progress); err != nil {
		return fmt.Errorf("set note %s of run %s: %w", key, run, err)
	}
	return nil
}

// Notes returns the notes of a run.
func (s *Store) Notes(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.find(run)
	if r == nil {
		return nil, fmt.Errorf("notes of run %s: %w", run, store.ErrRunNotFound)
	}
	var notes map[string][]byte
	if r.extra != nil {
		notes = maps.Clone(r.extra.notes)
	}
	return notes, nil
}
