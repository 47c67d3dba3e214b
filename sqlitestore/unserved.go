package sqlitestore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.Roster = (*Store)(nil)

// looking is the position of this store in reporting the runs that no session serves. Each process
// that has the file open has its own. Only the writer uses it.
type looking struct {
	last int64 // when
	turn store.UnservedTurn
}

// setServed records the routes of a session.
func (t *tx) setServed(o *store.Session) error {
	l, err := t.session(o.ID)
	if err != nil {
		return err
	}
	if err := t.exec(`DELETE FROM serves WHERE session = +?`, l.id); err != nil {
		return err
	}
	for _, c := range o.Routes {
		if err := t.exec(`INSERT OR IGNORE INTO serves (queue, workflow, session) VALUES (?, ?, ?)`, c.Queue, c.Workflow, l.id); err != nil {
			return err
		}
	}
	return nil
}

// unserved returns ready runs, first those that wait for a worker only and then those in lines
// at which claims look, that no live session serves, if this store has not looked just now.
func (t *tx) unserved(by *session) ([]event.RunID, error) {
	look := &t.s.looking
	if ms := t.ms(); look.last != 0 && ms >= look.last && ms-look.last < store.CountedPause(by.ttl).Milliseconds() {
		return nil, nil
	}
	look.last = t.ms()
	ids := map[store.Route]int64{}
	var waiting []store.Route
	err := t.query(`SELECT c.id, c.queue, c.workflow FROM classes c
		WHERE (EXISTS (SELECT 1 FROM runs r WHERE r.class = c.id AND r.place = 1 /*readable r.key*/)
			OR EXISTS (SELECT 1 FROM lines l WHERE l.class = c.id AND l.mode <> 1 /*lines l.class*/)) AND NOT EXISTS (
			SELECT 1 FROM serves v JOIN sessions s ON s.id = v.session
			WHERE v.queue = c.queue AND v.workflow = c.workflow AND s.reason IS NULL AND s.expires >= +?)`,
		func(r row) error {
			c := store.Route{Queue: r.ColumnText(1), Workflow: r.ColumnText(2)}
			ids[c] = r.ColumnInt64(0)
			waiting = append(waiting, c)
			return nil
		}, t.ms())
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	slices.SortFunc(waiting, store.CompareRoutes)
	return look.turn.Next(waiting, func(c store.Route, skip, limit int) ([]event.RunID, error) {
		var found []event.RunID
		//nolint:unqueryvet // of queries that name their columns
		err := t.query(`SELECT id FROM (
			SELECT * FROM (SELECT 0, id FROM runs WHERE class = +?1 AND place = 1 /*readable key*/ ORDER BY priority DESC, ord LIMIT +?2 + ?3)
			UNION ALL SELECT * FROM (SELECT 1, r.id FROM lines l CROSS JOIN runs r ON r.line = l.id AND r.place = 7
				WHERE l.class = +?1 AND l.mode <> 1 /*lines l.class*/ /*readable r.key*/ ORDER BY l.priority DESC, l.place LIMIT +?2 + ?3))
			LIMIT +?2 OFFSET +?3`, func(r row) error {
			found = append(found, unpackRun(r, 0))
			return nil
		}, ids[c], limit, skip)
		return found, err
	})
}

// Serves reports whether a session whose lease has not expired serves the route.
func (s *Store) Serves(ctx context.Context, partition int, c store.Route) (bool, error) {
	var serving int64
	err := s.enterPartition(ctx, partition)
	if err == nil {
		err = s.read(ctx, func(r *conn) (err error) {
			serving, err = r.number(`SELECT count(*) FROM serves v JOIN sessions s ON s.id = v.session
				WHERE v.queue = ? AND v.workflow = ? AND s.reason IS NULL AND s.expires >= +?`, c.Queue, c.Workflow, s.clock.Now().UnixMilli())
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("ask who serves %s on queue %s: %w", c.Workflow, c.Queue, err)
	}
	return serving > 0, nil
}
