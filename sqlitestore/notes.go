package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// SetNote keeps a note of an owned run until the run ends, and forgets its recoveries if the note
// is progress.
func (s *Store) SetNote(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte, progress bool) error {
	_, err := performOn(ctx, s, run, len(body), func(t *tx) (struct{}, error) {
		return struct{}{}, t.op.SetNote(run, fence, key, body, progress)
	})
	if err != nil {
		return fmt.Errorf("set note %s of run %s: %w", key, run, err)
	}
	return nil
}

// Notes returns the notes of a run.
func (s *Store) Notes(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	var notes map[string][]byte // nil: there is no such run
	err := s.read(ctx, func(c *conn) error {
		notes = nil
		key, err := c.number(`SELECT key FROM runs WHERE id = +? AND hidden = 0`, packRun(run))
		if err != nil || key == 0 {
			return err
		}
		notes = map[string][]byte{}
		return c.query(`SELECT key, body FROM notes WHERE run = +?`, func(r row) error {
			notes[r.ColumnText(0)] = blob(r, 1)
			return nil
		}, key)
	})
	if err == nil && notes == nil {
		err = store.ErrRunNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("notes of run %s: %w", run, ofRun(run, 0, err))
	}
	return notes, nil
}
