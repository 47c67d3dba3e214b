package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// SetStepData stores step data of an owned run until the run ends. If progress is set, it resets
// the count of recoveries.
func (s *Store) SetStepData(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, progress bool) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	mark := ""
	if progress {
		mark = "p"
	}
	c := &call{
		script: scriptStepData, p: p, keys: []string{p.meta(short(run)), p.stepData(short(run))},
		args: []any{packFence(fence), key, body, mark},
	}
	if err := s.do(ctx, c); err != nil {
		return fmt.Errorf("set step data %s of run %s: %w", key, run, err)
	}
	if c.answer().word() != answerOK {
		return fmt.Errorf("set step data %s of run %s: %w", key, run, store.ErrFenced)
	}
	return nil
}

// StepData returns the step data of a run by key.
func (s *Store) StepData(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	var there *redis.IntCmd
	var kept *redis.MapStringStringCmd
	p := s.partitionOf(run)
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		there, kept = tx.Exists(ctx, p.meta(short(run))), tx.HGetAll(ctx, p.stepData(short(run)))
	})
	if err == nil && there.Val() == 0 {
		err = store.ErrRunNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("step data of run %s: %w", run, err)
	}
	data := make(map[string][]byte, len(kept.Val()))
	for key, body := range kept.Val() {
		data[key] = []byte(body)
	}
	return data, nil
}
