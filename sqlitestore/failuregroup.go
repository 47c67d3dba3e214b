package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

var _ store.FailureGroupLister = (*Store)(nil)

// EnterFailureGroup records that a run enters a failure group.
func (t *tx) EnterFailureGroup(g store.FailureGroup, at int64) (fresh bool, err error) {
	total, err := t.number(`INSERT INTO failure_groups VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?6, 1)
		ON CONFLICT DO UPDATE SET kind = excluded.kind, workflow = excluded.workflow, step = excluded.step, text = excluded.text,
			last = max(last, excluded.last), total = total + 1
		RETURNING total`, g.Group, string(g.Kind), g.Workflow, g.Step, g.Text, at)
	return total == 1, err
}

// ForgetFailureGroups removes up to limit groups without runs that no run has entered since before.
func (t *tx) ForgetFailureGroups(before int64, limit int) error {
	return t.exec(`DELETE FROM failure_groups WHERE name IN (
		SELECT name FROM failure_groups g INDEXED BY failure_groups_last WHERE g.last < +? AND NOT EXISTS (SELECT 1 FROM runs WHERE failure_group = g.name)
		ORDER BY g.last, g.name LIMIT +?)`, before, limit)
}

// selectFailureGroups selects groups and counts the runs of each in an index.
const selectFailureGroups = `SELECT g.name, g.kind, g.workflow, g.step, g.text, g.first, g.last, g.total,
	(SELECT count(*) FROM runs r INDEXED BY runs_failure_group WHERE r.failure_group = g.name)
	FROM failure_groups g INDEXED BY failure_groups_last `

// FailureGroups returns a page of the failure groups.
func (s *Store) FailureGroups(ctx context.Context, q store.FailureGroupQuery) (store.FailureGroupPage, error) {
	var page store.FailureGroupPage
	if _, _, err := q.After(); err != nil {
		return page, fmt.Errorf("list failure groups: %w", err)
	}
	err := s.readAside(ctx, func(c *conn) error {
		share := paging.FailureGroupShare(&q, 1)
		found, err := c.failureGroups(selectFailureGroups+`ORDER BY g.last DESC LIMIT +?`, share+1)
		if err != nil {
			return err
		}
		page, err = paging.FailureGroups(&q, found[:min(len(found), share)], len(found) > share)
		return err
	})
	if err != nil {
		return store.FailureGroupPage{}, fmt.Errorf("list failure groups: %w", err)
	}
	return page, nil
}

func (c *conn) failureGroups(query string, args ...any) (found []store.FailureGroupInfo, err error) {
	err = c.query(query, func(r row) error {
		found = append(found, store.FailureGroupInfo{
			FailureGroup: store.FailureGroup{
				Group: r.ColumnText(0), Kind: store.FailureKind(r.ColumnText(1)), Workflow: r.ColumnText(2), Step: r.ColumnText(3), Text: r.ColumnText(4),
			},
			First: timeOf(r.ColumnInt64(5)), Last: timeOf(r.ColumnInt64(6)), Total: r.ColumnInt(7), Open: r.ColumnInt(8),
		})
		return nil
	}, args...)
	return found, err
}

// inspectFailureGroups adds the groups and the runs of each to a snapshot. It reads the runs
// through their index.
func (c *conn) inspectFailureGroups(snap *store.Snapshot) error {
	all, err := c.failureGroups(selectFailureGroups)
	if err != nil {
		return err
	}
	for _, g := range all {
		runs, err := c.runsIn(`r INDEXED BY runs_failure_group WHERE r.failure_group = +?`, g.Group)
		if err != nil {
			return err
		}
		snap.AddFailureGroup(g, runs)
	}
	runs, err := c.runsIn(`r INDEXED BY runs_failing WHERE r.failure_group IS NOT NULL`)
	snap.AddFailing(runs)
	return err
}

func (c *conn) runsIn(where string, args ...any) (runs []event.RunID, err error) {
	err = c.query(`SELECT r.id FROM runs `+where, func(r row) error { runs = append(runs, db.UnpackRun(r, 0)); return nil }, args...)
	return runs, err
}
