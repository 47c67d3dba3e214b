package sqlitestore

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Gathering returns the run that gathers the starts of a key. What has been claimed does not
// any more, also if a repair has left its key there.
func (t *tx) Gathering(key string) (*run, error) {
	return first(t.runs(selectRun+`WHERE r.gather = +? AND r.epoch = 0 ORDER BY r.key LIMIT 1`, key))
}

// Joined returns the run that a start has joined.
func (t *tx) Joined(start event.RunID) (joined event.RunID, err error) {
	err = t.query(`SELECT run FROM joined WHERE start = +?`, func(row row) error {
		joined = unpackRun(row, 0)
		return nil
	}, start)
	return joined, err
}

// Join records it, and forgets what nobody sends again.
func (t *tx) Join(start event.RunID, r *run, at int64) error {
	if err := t.exec(`INSERT INTO joined VALUES (?, ?, ?)`, start, r.id, at); err != nil {
		return err
	}
	return t.exec(`DELETE FROM joined WHERE at <= +?`, at-store.Horizon.Milliseconds())
}

// ReplaceItem puts an item in the place of the first one of the inbox.
func (t *tx) ReplaceItem(r *run, item store.Item) error {
	return t.exec(`UPDATE inbox SET id = ?, scope = ?, body = ? WHERE run = +?4 AND seq = (SELECT min(seq) FROM inbox WHERE run = +?4)`,
		string(item.ID), int(item.Scope), item.Body, r.key)
}

func (c *conn) inspectGathering(snap *store.Snapshot) error {
	return c.query(`SELECT gather, id FROM runs INDEXED BY runs_gather WHERE gather IS NOT NULL AND epoch = 0`, func(r row) error {
		snap.Gathering[r.ColumnText(0)] = unpackRun(r, 1)
		return nil
	})
}
