package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
)

var _ store.Journaler = (*Store)(nil)

// WriteJournal writes an entry and deletes entries that are too old or too many, in one
// transaction.
func (s *Store) WriteJournal(ctx context.Context, e store.JournalEntry, keep store.JournalKeep) error {
	body, err := e.Pack()
	if err == nil {
		err = s.write(ctx, func(t *tx) error { return t.writeJournal(e.ID, body, keep) })
	}
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	return nil
}

func (t *tx) writeJournal(id string, body []byte, keep store.JournalKeep) error {
	if err := t.exec(`INSERT INTO journal VALUES (?1, ?2) ON CONFLICT DO UPDATE SET entry = excluded.entry`, id, body); err != nil {
		return err
	}
	if oldest := keep.Oldest(id); oldest != "" {
		err := t.exec(`DELETE FROM journal WHERE id IN (SELECT id FROM journal WHERE id < +? ORDER BY id LIMIT +?)`, oldest, store.JournalTrim)
		if err != nil {
			return err
		}
	}
	if keep.Most <= 0 {
		return nil
	}
	n, err := t.number(`SELECT count(*) FROM journal`)
	if err != nil || n <= int64(keep.Most) {
		return err
	}
	return t.exec(`DELETE FROM journal WHERE id IN (SELECT id FROM journal ORDER BY id LIMIT +?)`, min(n-int64(keep.Most), store.JournalTrim))
}

// Journal returns a page of the journal.
func (s *Store) Journal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	var page store.JournalPage
	err := s.read(ctx, func(c *conn) (err error) {
		page, err = paging.Journal(&q, c.journalLines)
		return err
	})
	return page, err
}

// noBound is larger than any ID.
const noBound = "~"

func (c *conn) journalLines(low, high string, n int) (lines []store.JournalLine, err error) {
	if high == "" {
		high = noBound
	}
	err = c.query(`SELECT id, entry FROM journal WHERE id >= +? AND id < +? ORDER BY id DESC LIMIT +?`, func(r row) error {
		lines = append(lines, store.JournalLine{ID: r.ColumnText(0), Body: blob(r, 1)})
		return nil
	}, low, high, n)
	return lines, err
}

// inspectJournal adds all entries to a snapshot, the oldest first.
func (c *conn) inspectJournal(snap *store.Snapshot) error {
	return c.query(`SELECT id, entry FROM journal ORDER BY id`, func(r row) error {
		snap.Journal = append(snap.Journal, store.JournalLine{ID: r.ColumnText(0), Body: blob(r, 1)})
		return nil
	})
}
