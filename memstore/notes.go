package memstore

import (
	"bytes"
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
	r := p.find(run)
	if r == nil || !r.holds(fence) {
		return fmt.Errorf("set note %s of run %s: %w", key, run, store.ErrFenced)
	}
	if r.rare().notes == nil {
		r.extra.notes = map[string][]byte{}
	}
	if old, ok := r.extra.notes[key]; progress && (!ok || !bytes.Equal(old, body)) {
		r.recoveries = 0
	}
	r.extra.notes[key] = body
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
