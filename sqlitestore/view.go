package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.ViewKeeper = (*Store)(nil)

// SaveView saves a view.
func (s *Store) SaveView(ctx context.Context, v store.View) error {
	packed, err := v.Pack(s.clock.Now())
	full := false
	if err == nil {
		err = s.write(ctx, func(t *tx) (err error) {
			full, err = t.saveView(v.Name, packed)
			return err
		})
	}
	if err == nil && full {
		err = store.ErrViewsFull
	}
	if err != nil {
		return fmt.Errorf("save view: %w", err)
	}
	return nil
}

func (t *tx) saveView(name string, packed []byte) (full bool, err error) {
	others, err := t.number(`SELECT count(*) FROM saved_views WHERE name <> +?`, name)
	if err != nil || others >= store.MaxViews {
		return others >= store.MaxViews, err
	}
	return false, t.exec(`INSERT INTO saved_views VALUES (?1, ?2) ON CONFLICT DO UPDATE SET body = excluded.body`, name, packed)
}

// DeleteView removes a view.
func (s *Store) DeleteView(ctx context.Context, name string) error {
	found := false
	err := s.write(ctx, func(t *tx) (err error) {
		found, err = t.deleteView(name)
		return err
	})
	if err == nil && !found {
		err = store.ErrViewNotFound
	}
	if err != nil {
		return fmt.Errorf("delete view: %w", err)
	}
	return nil
}

func (t *tx) deleteView(name string) (found bool, err error) {
	err = t.exec(`DELETE FROM saved_views WHERE name = +?`, name)
	return err == nil && t.Changes() > 0, err
}

// Views returns all views.
func (s *Store) Views(ctx context.Context) ([]store.View, error) {
	var kept map[string][]byte
	err := s.read(ctx, func(c *conn) (err error) {
		kept, err = c.views()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read views: %w", err)
	}
	return store.UnpackViews(kept), nil
}

// views returns the stored views by name.
func (c *conn) views() (map[string][]byte, error) {
	kept := map[string][]byte{}
	err := c.query(`SELECT name, body FROM saved_views`, func(r row) error {
		kept[r.ColumnText(0)] = blob(r, 1)
		return nil
	})
	return kept, err
}

// inspectViews adds all views to a snapshot.
func (c *conn) inspectViews(snap *store.Snapshot) (err error) {
	snap.Views, err = c.views()
	return err
}
