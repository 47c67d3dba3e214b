package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// SetNote keeps a note of an owned run until the run ends.
func (s *Store) SetNote(ctx context.Context, run event.RunID, fence store.Fence, key string, body []byte) error {
	_, err := perform(ctx, s, func(t *tx) (struct{}, error) {
		r, err := t.run(run)
		if err != nil {
			return struct{}{}, err
		}
		if r == nil || !r.holds(fence) {
			return struct{}{}, refuse(store.ErrFenced)
		}
		return struct{}{}, t.exec(`INSERT OR REPLACE INTO notes (run, key, body) VALUES (?, ?, ?)`, r.key, key, body)
	})
	if err != nil {
		return fmt.Errorf("set note %s of run %s: %w", key, run, err)
	}
	return nil
}

// Notes returns the notes of a run.
func (s *Store) Notes(ctx context.Context, run event.RunID) (map[string][]byte, error) {
	var notes map[string][]byte
	err := s.read(ctx, func(c *conn) error {
		key, err := c.number(`SELECT key FROM runs WHERE id = +?`, packRun(run))
		if err != nil {
			return err
		}
		if key == 0 {
			return store.ErrRunNotFound
		}
		notes = map[string][]byte{}
		return c.query(`SELECT key, body FROM notes WHERE run = +?`, func(r row) error {
			body := make([]byte, r.ColumnLen(1))
			r.ColumnBytes(1, body)
			notes[r.ColumnText(0)] = body
			return nil
		}, key)
	})
	if err != nil {
		return nil, fmt.Errorf("notes of run %s: %w", run, err)
	}
	return notes, nil
}
