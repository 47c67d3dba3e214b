package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

var _ store.TroubleLister = (*Store)(nil)

// EnterTrouble records that a run enters a failure group.
func (t *tx) EnterTrouble(g store.Trouble, at int64) (fresh bool, err error) {
	total, err := t.number(`INSERT INTO troubles VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, 1)
		ON CONFLICT DO UPDATE SET kind = excluded.kind, workflow = excluded.workflow, step = excluded.step, text = excluded.text,
			last = max(last, excluded.last), total = total + 1
		RETURNING total`, g.Group, string(g.Kind), g.Workflow, g.Step, g.Text, at)
	return total == 1, err
}

// ForgetTroubles removes groups that are not needed any more.
func (t *tx) ForgetTroubles(before int64, limit int) error {
	return t.exec(`DELETE FROM troubles WHERE name IN (
		SELECT name FROM troubles g INDEXED BY troubles_last WHERE g.last < +? AND NOT EXISTS (SELECT 1 FROM runs WHERE trouble = g.name)
		ORDER BY g.last, g.name LIMIT +?)`, before, limit)
}

// selectTroubles selects groups with the number of their runs, from an index.
const selectTroubles = `SELECT g.name, g.kind, g.workflow, g.step, g.text, g.first, g.last, g.total,
	(SELECT count(*) FROM runs r INDEXED BY runs_trouble WHERE r.trouble = g.name)
	FROM troubles g INDEXED BY troubles_last `

// Troubles returns a page of the failure groups.
func (s *Store) Troubles(ctx context.Context, q store.TroubleQuery) (store.TroublePage, error) {
	var page store.TroublePage
	if _, _, err := q.After(); err != nil {
		return page, fmt.Errorf("list troubles: %w", err)
	}
	err := s.readAside(ctx, func(c *conn) error {
		share := paging.TroubleShare(&q, 1)
		found, err := c.troubles(selectTroubles+`ORDER BY g.last DESC LIMIT +?`, share+1)
		if err != nil {
			return err
		}
		page, err = paging.Troubles(&q, found[:min(len(found), share)], len(found) > share)
		return err
	})
	if err != nil {
		return store.TroublePage{}, fmt.Errorf("list troubles: %w", err)
	}
	return page, nil
}

func (c *conn) troubles(query string, args ...any) (found []store.TroubleGroup, err error) {
	err = c.query(query, func(r row) error {
		found = append(found, store.TroubleGroup{
			Trouble: store.Trouble{
				Group: r.ColumnText(0), Kind: store.TroubleKind(r.ColumnText(1)), Workflow: r.ColumnText(2), Step: r.ColumnText(3), Text: r.ColumnText(4),
			},
			First: timeOf(r.ColumnInt64(5)), Last: timeOf(r.ColumnInt64(6)), Total: r.ColumnInt(7), Open: r.ColumnInt(8),
		})
		return nil
	}, args...)
	return found, err
}

// inspectTroubles adds the groups, and the runs in their indexes, to a snapshot.
func (c *conn) inspectTroubles(snap *store.Snapshot) error {
	all, err := c.troubles(selectTroubles)
	if err != nil {
		return err
	}
	for _, g := range all {
		runs, err := c.runsIn(`r INDEXED BY runs_trouble WHERE r.trouble = +?`, g.Group)
		if err != nil {
			return err
		}
		snap.AddTrouble(g, runs)
	}
	runs, err := c.runsIn(`r INDEXED BY runs_troubled WHERE r.trouble IS NOT NULL`)
	snap.AddTroubled(runs)
	return err
}

func (c *conn) runsIn(where string, args ...any) (runs []event.RunID, err error) {
	err = c.query(`SELECT r.id FROM runs `+where, func(r row) error { runs = append(runs, db.UnpackRun(r, 0)); return nil }, args...)
	return runs, err
}
