package sqlitestore

import (
	"context"
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// pageSize is the size of a page that asks for none.
const pageSize = 100

// newestFirst sorts only the runs of one millisecond: the index has the others in order.
const newestFirst = ` ORDER BY r.created DESC, r.id DESC LIMIT ?`

// afterCursor is true of the runs that come after the last one of the page before.
const afterCursor = `(r.created, r.id) < (?, ?)`

// notInternal is true of the runs whose workflows event.Internal does not name.
const notInternal = `r.class NOT IN (SELECT id FROM classes WHERE workflow IN (?, ?) OR substr(workflow, 1, ?) = ?)`

// List returns a page of runs, newest first.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	created, last, err := q.After()
	if err != nil {
		return store.Page{}, fmt.Errorf("list runs: %w", err)
	}
	if q.Limit <= 0 {
		q.Limit = pageSize
	}
	where := conditions(&q)
	if last != "" {
		where.add(afterCursor, millis(created), last)
	}
	var page store.Page
	err = s.readAside(ctx, func(c *conn) error {
		page = store.Page{}
		query := selectStored + where.String() + newestFirst
		return c.queryOnce(query, func(r row) error {
			if len(page.Runs) == q.Limit {
				page.Cursor = store.CursorAfter(&page.Runs[q.Limit-1])
				return nil
			}
			one, err := scanStored(r)
			page.Runs = append(page.Runs, one.Record)
			return err
		}, append(where.args, q.Limit+1)...)
	})
	if err != nil {
		return store.Page{}, fmt.Errorf("list runs: %w", err)
	}
	return page, nil
}

// Count returns how many runs of each status match.
func (s *Store) Count(ctx context.Context, q store.Query) (map[event.Status]int, error) {
	where := conditions(&q)
	var counts map[event.Status]int
	err := s.readAside(ctx, func(c *conn) error {
		counts = map[event.Status]int{}
		return c.queryOnce(countByStatus(where), func(r row) error {
			counts[event.Status(r.ColumnText(0))] = r.ColumnInt(1)
			return nil
		}, where.args...)
	})
	if err != nil {
		return nil, fmt.Errorf("count runs: %w", err)
	}
	return counts, nil
}

func countByStatus(where *condition) string {
	return `SELECT r.status, count(*) FROM runs r ` + where.String() + ` GROUP BY r.status`
}

// condition is a WHERE clause: all terms must hold.
type condition struct {
	terms []string
	args  []any
}

func (c *condition) add(term string, args ...any) {
	c.terms = append(c.terms, term)
	c.args = append(c.args, args...)
}

func (c *condition) String() string {
	return "WHERE " + strings.Join(c.terms, " AND ")
}

// conditions returns what a query asks for, but for its cursor and limit. What
// was deleted is not found.
func conditions(q *store.Query) *condition {
	where := &condition{}
	where.add(`r.hidden = 0 /*readable r.key*/`)
	if len(q.Statuses) > 0 {
		var args []any
		for _, s := range q.Statuses {
			args = append(args, string(s))
		}
		where.add(`r.status IN (?`+strings.Repeat(`, ?`, len(args)-1)+`)`, args...)
	}
	if q.Workflow != "" {
		where.add(`r.class IN (SELECT id FROM classes WHERE workflow = ?)`, q.Workflow)
	}
	if q.Queue != "" {
		where.add(`r.class IN (SELECT id FROM classes WHERE queue = ?)`, q.Queue)
	}
	if q.Started {
		where.add(notInternal, event.HookRun, event.PermitRun, len(event.StepRunPrefix), event.StepRunPrefix)
	}
	for name, value := range q.Tags {
		where.add(`r.key IN (SELECT run FROM tags WHERE name = ? AND value = ? /*readable run*/)`, name, value)
	}
	if q.Parent != "" {
		where.add(`r.parent = ?`, q.Parent)
	}
	if q.Root != "" {
		where.add(`(r.root = ? OR r.id = ? AND r.root IS NULL)`, q.Root, q.Root)
	}
	if !q.From.IsZero() {
		where.add(`r.created >= ?`, millis(q.From))
	}
	if !q.To.IsZero() {
		where.add(`r.created < ?`, millis(q.To))
	}
	return where
}

// Audit returns the interventions into a run from outside of it, oldest first.
func (s *Store) Audit(ctx context.Context, run event.RunID) ([]store.AuditEntry, error) {
	var entries []store.AuditEntry
	err := s.read(ctx, func(c *conn) (err error) {
		entries, err = c.audit(`WHERE r.id = +? AND r.hidden = 0 ORDER BY a.id`, run)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("audit run %s: %w", run, ofRun(run, 0, err))
	}
	return entries, nil
}

func (c *conn) audit(where string, args ...any) ([]store.AuditEntry, error) {
	var entries []store.AuditEntry
	err := c.query(`SELECT a.at, r.id, a.reason, a.by, a.owner, a.place, a.status, a.epoch
		FROM audit a JOIN runs r ON r.key = a.run `+where, func(r row) error {
		entries = append(entries, store.AuditEntry{
			Time: timeOf(r.ColumnInt64(0)), Run: unpackRun(r, 1), Reason: store.Reason(r.ColumnText(2)),
			By: store.SessionID(r.ColumnText(3)), Owner: store.SessionID(r.ColumnText(4)),
			QueueState: store.QueueState(r.ColumnInt(5)), Status: event.Status(r.ColumnText(6)), Epoch: uint64(r.ColumnInt64(7)),
		})
		return nil
	}, args...)
	return entries, err
}
