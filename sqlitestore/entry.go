package sqlitestore

import (
	"cmp"
	"context"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.Entries = (*Store)(nil)

// WriteEntry writes or removes an entry in one transaction. It also removes the entries that exceed
// the bounds of their space.
func (s *Store) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	if err := w.Check(); err != nil {
		return err
	}
	var refused error
	err := s.write(ctx, func(t *tx) (err error) {
		refused, err = t.writeEntry(&w)
		return err
	})
	if err == nil {
		err = refused
	}
	return err
}

func (t *tx) writeEntry(w *store.EntryWrite) (refused, err error) {
	var old []byte
	found := false
	err = t.query(`SELECT value FROM entries WHERE space = ? AND key = ?`, func(r row) error {
		old, found = blob(r, 0), true
		return nil
	}, w.Space, w.Key)
	if err != nil {
		return nil, err
	}
	refused = w.Refused(old, found, func() (n int, _ error) {
		n, err = t.entryCount(w.Space)
		return n, err
	})
	if refused != nil || err != nil {
		return refused, err
	}
	if len(w.Value) == 0 {
		err = t.exec(`DELETE FROM entries WHERE space = ? AND key = ?`, w.Space, w.Key)
	} else {
		err = t.exec(`INSERT INTO entries VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET value = excluded.value`, w.Space, w.Key, w.Value)
	}
	if err != nil {
		return nil, err
	}
	return nil, t.trimEntries(w)
}

func (c *conn) entryCount(space string) (int, error) {
	n, err := c.number(`SELECT count(*) FROM entries WHERE space = ?`, space)
	return int(n), err
}

// trimEntries removes the entries that exceed the bounds of their space.
func (t *tx) trimEntries(w *store.EntryWrite) error {
	if w.Keep.From != "" {
		err := t.exec(`DELETE FROM entries WHERE space = ?1 AND key IN (SELECT key FROM entries WHERE space = ?1 AND key < +?2 ORDER BY key LIMIT +?3)`, w.Space, w.Keep.From, store.EntryTrim)
		if err != nil {
			return err
		}
	}
	if w.Keep.Most <= 0 {
		return nil
	}
	n, err := t.entryCount(w.Space)
	if err != nil || n <= w.Keep.Most {
		return err
	}
	return t.exec(`DELETE FROM entries WHERE space = ?1 AND key IN (SELECT key FROM entries WHERE space = ?1 ORDER BY key LIMIT +?2)`, w.Space, min(n-w.Keep.Most, store.EntryTrim))
}

// noBound is greater than any key of an entry, because keys are UTF-8.
const noBound = "\xff"

// Entries returns the entries of a space that match the query.
func (s *Store) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	q.Below = cmp.Or(q.Below, noBound)
	order := `ASC`
	if q.Newest {
		order = `DESC`
	}
	var found []store.Entry
	err := s.read(ctx, func(c *conn) error {
		found = nil
		return c.query(`SELECT space, key, value FROM entries WHERE space = ?1 AND key >= +?2 AND key < +?3 ORDER BY key `+order+` LIMIT +?4`, func(r row) error {
			found = append(found, scanEntry(r))
			return nil
		}, q.Space, q.From, q.Below, q.Max())
	})
	return found, err
}

func scanEntry(r row) store.Entry {
	return store.Entry{Space: r.ColumnText(0), Key: r.ColumnText(1), Value: blob(r, 2)}
}

// inspectEntries adds the entries of all spaces to a snapshot.
func (c *conn) inspectEntries(snap *store.Snapshot) error {
	return c.query(`SELECT space, key, value FROM entries ORDER BY space, key`, func(r row) error {
		snap.Entries = append(snap.Entries, scanEntry(r))
		return nil
	})
}

// readEntries adds the entries of all spaces to the snapshot. It ignores damaged pages, because
// readPages reports them.
func (e *partitionState) readEntries(c *conn) error {
	err := c.inspectEntries(e.snap)
	if isDamage(err) {
		return nil
	}
	return err
}
