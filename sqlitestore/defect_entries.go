package sqlitestore

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// entryTable is a table whose rows belong to no run and have no references. Invalid rows are
// removed, because they cannot be derived from other data.
type entryTable struct {
	invariant        int
	selectAll        string // key and body, sorted
	remove           string // deletes a row that has not changed
	unpack           func(key string, body []byte) error
	what             string // describes the problem of a body with a key
	explain, removes string
}

var entryTables = []entryTable{
	{
		invariant: 24, selectAll: `SELECT id, entry FROM journal ORDER BY id`, remove: `DELETE FROM journal WHERE id = +? AND entry = +?`,
		unpack: func(id string, body []byte) error { _, err := store.UnpackJournal(id, body); return err },
		what:   "the journal has %.60q under %.60q, which is no entry", explain: "it is shown to nobody", removes: "remove it",
	},
	{
		invariant: 25, selectAll: `SELECT workflow, entry FROM catalog ORDER BY workflow`, remove: `DELETE FROM catalog WHERE workflow = +? AND entry = +?`,
		unpack: func(name string, body []byte) error { _, err := store.UnpackCatalog(name, body); return err },
		what:   "the catalogue has %.60q of workflow %.60q, which is no entry", explain: "it is shown to nobody", removes: "remove it: a worker that starts writes it again",
	},
	{
		invariant: 27, selectAll: `SELECT name, body FROM saved_views ORDER BY name`, remove: `DELETE FROM saved_views WHERE name = +? AND body = +?`,
		unpack: func(name string, body []byte) error { _, err := store.UnpackView(name, body); return err },
		what:   "there is %.60q as view %.60q, which is none", explain: "it is shown to nobody", removes: "remove it: an operator can save it again",
	},
}

// brokenEntry is an invalid row as it was read.
type brokenEntry struct {
	table *entryTable
	key   string
	body  []byte
}

// readEntries finds the invalid rows. Damaged pages are reported by readPages.
func (e *partitionState) readEntries(c *conn) error {
	for i := range entryTables {
		table := &entryTables[i]
		err := c.QueryOnce(table.selectAll, func(r row) error {
			b := brokenEntry{table: table, key: r.ColumnText(0), body: blob(r, 1)}
			if table.unpack(b.key, b.body) == nil {
				return nil
			}
			f := store.Defect{
				Invariant: table.invariant, What: fmt.Sprintf(table.what, b.body, b.key), Explain: table.explain, Repair: table.removes,
			}
			f.Do = e.s.repairing(f.What, func(t *tx) (bool, error) { return t.removeEntry(b) })
			e.defects = append(e.defects, f)
			return nil
		})
		if err != nil && !isDamage(err) {
			return err
		}
	}
	return nil
}

// removeEntry removes a row, and reports whether it was unchanged.
func (t *tx) removeEntry(b brokenEntry) (bool, error) {
	err := t.exec(b.table.remove, b.key, b.body)
	return err == nil && t.Changes() > 0, err
}
