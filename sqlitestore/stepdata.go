package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// SetStepData stores step data of an owned run until the run ends. If progress is set and the data
// differ, it resets the number of recoveries of the run.
func (s *Store) SetStepData(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, progress bool) error {
	_, err := performOn(ctx, s, run, len(body), func(t *tx) (struct{}, error) {
		return struct{}{}, t.op.SetStepData(run, fence, key, body, progress)
	})
	if err != nil {
		return fmt.Errorf("set step data %s of run %s: %w", key, run, err)
	}
	return nil
}

// StepData returns the step data of a run.
func (s *Store) StepData(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	var data map[string][]byte // remains nil if the run does not exist
	err := s.read(ctx, func(c *conn) error {
		data = nil
		key, err := c.number(`SELECT key FROM runs WHERE id = +? AND hidden = 0`, run)
		if err != nil || key == 0 {
			return err
		}
		data = map[string][]byte{}
		return c.query(`SELECT key, body FROM notes WHERE run = +?`, func(r row) error {
			data[r.ColumnText(0)] = blob(r, 1)
			return nil
		}, key)
	})
	if err == nil && data == nil {
		err = store.ErrRunNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("step data of run %s: %w", run, ofRun(run, 0, err))
	}
	return data, nil
}
