package memstore

import (
	"context"
	"fmt"
	"maps"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// SetStepData stores step data of an owned run until the run ends. If progress is set and the data
// differ, it resets the number of recoveries of the run.
func (s *Store) SetStepData(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, progress bool) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.op.SetStepData(run, fence, key, body, progress); err != nil {
		return fmt.Errorf("set step data %s of run %s: %w", key, run, err)
	}
	return nil
}

// StepData returns the step data of a run.
func (s *Store) StepData(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	p := s.partitionOf(run)
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.find(run)
	if r == nil {
		return nil, fmt.Errorf("step data of run %s: %w", run, store.ErrRunNotFound)
	}
	var data map[string][]byte
	if r.extra != nil {
		data = maps.Clone(r.extra.stepData)
	}
	return data, nil
}
