package sqlitestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/paging"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// List returns a page of runs. It reads the most suitable index in the order of the list. If
// several ranges of the index match, List merges them and reads no more of each than necessary.
func (s *Store) List(ctx context.Context, q store.Query) (store.Page, error) {
	var answer store.Page
	if _, err := paging.New(&q); err != nil {
		return answer, fmt.Errorf("list runs: %w", err)
	}
	err := s.readAside(ctx, func(c *conn) error {
		page, err := paging.New(&q) // f may be executed more than once
		if err != nil {
			return err
		}
		search, err := c.search(&q)
		if err != nil {
			return err
		}
		defer search.close()
		merge := paging.NewMerge(page, false, search.sources())
		for page.More() {
			next, found, err := merge.Next()
			if err != nil {
				return err
			}
			if !found {
				page.End()
				break
			}
			r, err := c.matching(&next.Value)
			if err != nil {
				return err
			}
			page.Add(next.At, r)
		}
		answer = page.Done()
		return nil
	})
	if err != nil {
		return store.Page{}, fmt.Errorf("list runs: %w", err)
	}
	return answer, nil
}

// matching returns the record of a hit, or nil if the run does not match the query.
func (c *conn) matching(h *hit) (*store.Record, error) {
	if !h.matches {
		return nil, nil //nolint:nilnil // as paging wants it
	}
	found, err := c.stored(selectStored+`WHERE r.key = +?`, h.key)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0].Record, nil
}

// Count returns the number of matching runs. If the query selects only by route, status and root,
// Count takes the numbers of ended runs from the tallies and does not read those runs.
func (s *Store) Count(ctx context.Context, q store.Query) (store.Counts, error) {
	var answer store.Counts
	err := s.readAside(ctx, func(c *conn) error {
		counter := paging.Count(&q)
		search, err := c.search(&q)
		if err != nil {
			return err
		}
		defer search.close()
		if search.by != byClass && search.by != byCreation || !q.From.IsZero() || !q.To.IsZero() {
			err = search.count(counter)
		} else {
			err = search.countByTallies(counter)
		}
		answer = counter.Counts
		return err
	})
	if err != nil {
		return store.Counts{}, fmt.Errorf("count runs: %w", err)
	}
	return answer, nil
}

// index is the text of a query on an index of runs. It ends with the condition for the runs in a
// range.
type index string

const (
	byCreation     index = `runs r INDEXED BY runs_created WHERE true`
	byClass        index = `runs r INDEXED BY runs_class WHERE r.class = +? AND r.child = +? AND r.status = +?`
	byParent       index = `runs r INDEXED BY runs_parent WHERE r.parent = +?`
	byRoot         index = `runs r INDEXED BY runs_root WHERE r.root = +?`
	byID           index = `runs r WHERE r.id = +? AND r.root IS NULL`
	byWorkflowID   index = `runs r INDEXED BY runs_wid WHERE r.wid = +?`
	byGroup        index = `runs r INDEXED BY runs_failure_group WHERE r.failure_group = +?`
	byFailureGroup index = `runs r INDEXED BY runs_failing WHERE r.failure_group IS NOT NULL`
	byTag          index = `tags t INDEXED BY tags_value CROSS JOIN runs r ON r.key = t.run WHERE t.name = +? AND t.value = +?`
)

// created returns the name of the column with the creation time in the index.
func (x index) created() string {
	if x == byTag {
		return "t.created"
	}
	return "r.created"
}

// statement returns the query for a range. Its parameters are the arguments of the range, two
// positions and a limit. Its columns are those of a hit. The index sorts the runs; the query sorts
// only runs of the same millisecond.
func (x index) statement(q *store.Query, matches string) string {
	order, than, at := "DESC", "<", x.created()
	if q.Oldest {
		order, than = "ASC", ">"
	}
	return `SELECT r.key, r.id, ` + at + `, r.class, r.status, ` + matches + ` FROM ` + string(x) +
		` AND (` + at + `, r.id) ` + than + ` (+?, +?) AND ` + at + ` >= +? AND ` + at + ` < +?
		AND r.hidden = 0 /*readable r.key*/ ORDER BY ` + at + ` ` + order + `, r.id ` + order + ` LIMIT +?`
}

// hit is a run found in an index.
type hit struct {
	key     int64
	class   int64
	status  event.Status
	matches bool
}

// search executes a query in one snapshot of the database.
type search struct {
	c       *conn
	q       *store.Query
	by      index
	ranges  [][]any // arguments of the index, for each range
	classes map[int64]store.Route
	also    *search // conditions that the index does not contain
	matches *condition
	stmt    *sqlite.Stmt
}

// search chooses the index for a query.
func (c *conn) search(q *store.Query) (*search, error) {
	s := &search{c: c, q: q, classes: map[int64]store.Route{}, matches: conditions(q)}
	err := c.query(`SELECT id, queue, workflow FROM classes`, func(r row) error {
		if route := (store.Route{Queue: r.ColumnText(1), Workflow: r.ColumnText(2)}); q.OfRoute(route) {
			s.classes[r.ColumnInt64(0)] = route
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case q.Group != "":
		s.by, s.ranges = byGroup, [][]any{{q.Group}}
	case q.Failing:
		s.by, s.ranges = byFailureGroup, [][]any{nil}
	case q.Root != "":
		s.by, s.ranges = byRoot, [][]any{{q.Root}}
		top := *s
		top.by = byID
		s.also = &top
	case q.Parent != "":
		s.by, s.ranges = byParent, [][]any{{q.Parent}}
	case q.WorkflowID != "":
		w, err := c.workflowID(q.WorkflowID)
		if err != nil {
			return nil, err
		}
		s.by, s.ranges = byWorkflowID, [][]any{{w.id}}
	case len(q.Tags) > 0:
		name, err := c.rarest(q.Tags)
		if err != nil {
			return nil, err
		}
		s.by, s.ranges = byTag, [][]any{{name, q.Tags[name]}}
	case len(q.Statuses) > 0 || q.Workflow != "" || q.Queue != "" || q.Roots:
		s.by = byClass
		var ranges []tally
		ranges, err = c.rangesOfClasses(q, s.classes)
		for _, of := range ranges {
			s.ranges = append(s.ranges, []any{of.class, of.child, string(of.status)})
		}
	default:
		s.by, s.ranges = byCreation, [][]any{nil}
	}
	return s, err
}

// rarest returns the tag with the fewest runs, as far as a bounded search can determine it.
func (c *conn) rarest(tags map[string]string) (rarest string, err error) {
	const few = 1000
	least := int64(few + 1)
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		n := int64(0)
		if len(tags) > 1 {
			n, err = c.number(`SELECT count(*) FROM (SELECT 1 FROM tags WHERE name = +? AND value = +? LIMIT +?)`, name, tags[name], few)
			if err != nil {
				return "", err
			}
		}
		if n < least {
			rarest, least = name, n
		}
	}
	return rarest, nil
}

// rangesOfClasses returns the ranges of the index by class that may contain matching runs. There is
// one for each route and status, with and without a parent.
func (c *conn) rangesOfClasses(q *store.Query, classes map[int64]store.Route) (ranges []tally, err error) {
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		for _, child := range []bool{false, true} {
			if child && q.Roots {
				continue
			}
			for status := ""; err == nil; {
				next := ""
				err = c.query(`SELECT r.status FROM runs r INDEXED BY runs_class WHERE r.class = +? AND r.child = +? AND r.status > +? AND r.hidden = 0
					ORDER BY r.status LIMIT 1`, func(r row) error { next = r.ColumnText(0); return nil }, class, child, status)
				if status = next; status == "" {
					break
				}
				if q.OfStatus(event.Status(status)) {
					ranges = append(ranges, tally{class, child, event.Status(status)})
				}
			}
		}
	}
	return ranges, err
}

// sources returns the ranges as sources of a merge.
func (s *search) sources() []paging.Source[hit] {
	var sources []paging.Source[hit]
	for _, args := range s.ranges {
		sources = append(sources, func(after paging.Position, n int) (hits []paging.Entry[hit], more bool, err error) {
			err = s.read(args, after, n+1, func(r row) error {
				h := hit{key: r.ColumnInt64(0), class: r.ColumnInt64(3), status: event.Status(r.ColumnText(4)), matches: r.ColumnBool(5)}
				if _, ok := s.classes[h.class]; !ok {
					h.matches = false
				}
				hits = append(hits, paging.Entry[hit]{At: paging.Position{Created: r.ColumnInt64(2), Run: db.UnpackRun(r, 1)}, Value: h})
				return nil
			})
			if len(hits) > n {
				return hits[:n], true, err
			}
			return hits, false, err
		})
	}
	if s.also != nil {
		sources = append(sources, s.also.sources()...)
	}
	return sources
}

// read calls each for up to n runs of a range after a position.
func (s *search) read(args []any, after paging.Position, n int, each func(row) error) error {
	if s.stmt == nil {
		text := s.by.statement(s.q, s.matches.String())
		stmt, _, err := s.c.PrepareTransient(s.c.damages.expand(text))
		if err != nil {
			return err
		}
		s.stmt = stmt
	}
	from, to := int64(-1<<62), int64(1<<62)
	if !s.q.From.IsZero() {
		from = millis(s.q.From)
	}
	if !s.q.To.IsZero() {
		to = millis(s.q.To)
	}
	switch {
	case after.Run == "" && s.q.Oldest:
		after.Created = from - 1
	case after.Run == "":
		after.Created = to
	case s.q.Oldest:
		from = max(from, after.Created)
	default:
		to = min(to, after.Created+1)
	}
	return db.Step(s.stmt, each, slices.Concat(s.matches.args, args, []any{after.Created, after.Run, from, to, n}))
}

// close finalizes the statements of the search.
func (s *search) close() {
	if s.also != nil {
		s.also.close()
	}
	if s.stmt != nil {
		_ = s.stmt.Finalize() // the statement has already returned its error
	}
}

// count counts the runs of all ranges.
func (s *search) count(counter *paging.Counter) error {
	for _, source := range s.sources() {
		for at, more := (paging.Position{}), true; more; {
			var hits []paging.Entry[hit]
			var err error
			if hits, more, err = source(at, 1000); err != nil {
				return err
			}
			for _, h := range hits {
				if !counter.More() {
					return nil
				}
				counter.Add(h.Value.matches, h.Value.status, s.classes[h.Value.class])
				at = h.At
			}
		}
	}
	return nil
}

const countRange = `SELECT count(*) FROM (SELECT 1 FROM runs r INDEXED BY runs_class
	WHERE r.class = +? AND r.child = +? AND r.status = +? AND r.hidden = 0 LIMIT +?)`

// countByTallies counts ended runs by the tallies, and other runs by the index.
func (s *search) countByTallies(counter *paging.Counter) error {
	err := s.c.query(`SELECT class, status, n FROM tallies WHERE child = 0 OR NOT +?`, func(r row) error {
		status := event.Status(r.ColumnText(1))
		route, ok := s.classes[r.ColumnInt64(0)]
		if ok && s.q.OfStatus(status) {
			counter.Counts.Add(status, route, r.ColumnInt(2))
		}
		return nil
	}, s.q.Roots)
	if err != nil {
		return err
	}
	ranges, err := s.c.rangesOfClasses(s.q, s.classes)
	if err != nil {
		return err
	}
	for _, of := range ranges {
		if of.status.Terminal() {
			continue
		}
		left := s.q.Work() - counter.Counts.Looked
		n, err := s.c.number(countRange, of.class, of.child, string(of.status), left+1)
		if err != nil {
			return err
		}
		counter.Counts.Exact = counter.Counts.Exact && int(n) <= left
		counter.Counts.Looked += min(int(n), left)
		counter.Counts.Add(of.status, s.classes[of.class], min(int(n), left))
	}
	return nil
}

// condition is a conjunction of terms.
type condition struct {
	terms []string
	args  []any
}

func (c *condition) add(term string, args ...any) {
	c.terms = append(c.terms, term)
	c.args = append(c.args, args...)
}

func (c *condition) String() string {
	if len(c.terms) == 0 {
		return "true"
	}
	return strings.Join(c.terms, " AND ")
}

// conditions returns the conditions of a query on a run. They exclude its route, its position in
// the list, and the conditions of the index.
func conditions(q *store.Query) *condition {
	where := &condition{}
	if len(q.Statuses) > 0 {
		var args []any
		for _, s := range q.Statuses {
			args = append(args, string(s))
		}
		where.add(`r.status IN (+?`+strings.Repeat(`, +?`, len(args)-1)+`)`, args...)
	}
	if q.WorkflowID != "" {
		where.add(`r.wid = (SELECT id FROM workflow_ids WHERE name = +?)`, q.WorkflowID)
	}
	if q.Group != "" {
		where.add(`r.failure_group = +?`, q.Group)
	}
	if q.Failing {
		where.add(`r.failure_group IS NOT NULL`)
	}
	if q.Roots {
		where.add(`r.parent IS NULL`)
	}
	for name, value := range q.Tags {
		where.add(`EXISTS (SELECT 1 FROM tags WHERE run = r.key AND name = +? AND value = +?)`, name, value)
	}
	if q.Parent != "" {
		where.add(`r.parent IS +?`, q.Parent)
	}
	if q.Root != "" {
		where.add(`coalesce(r.root, r.id) = +?`, q.Root)
	}
	return where
}

// Audit returns the interventions in a run by the store and by operators, the oldest first.
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
			Time: timeOf(r.ColumnInt64(0)), Run: db.UnpackRun(r, 1), Reason: store.Reason(r.ColumnText(2)),
			By: store.SessionID(r.ColumnText(3)), Owner: store.SessionID(r.ColumnText(4)),
			QueueState: store.QueueState(r.ColumnInt(5)), Status: event.Status(r.ColumnText(6)), Epoch: uint64(r.ColumnInt64(7)),
		})
		return nil
	}, args...)
	return entries, err
}
