package sqlitestore

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

var _ store.FleetTeller = (*Store)(nil)

// Fleet returns the sessions and the routes. It counts entries of the indexes of open runs until
// the budget is used, and reads no rows of runs.
func (s *Store) Fleet(ctx context.Context) (store.Fleet, error) {
	var f store.Fleet
	err := s.readAside(ctx, func(c *conn) error {
		census := &census{c: c, loads: map[int64]*store.RouteLoad{}, left: store.FleetBudget}
		sessions, err := census.sessions()
		if err == nil {
			err = census.routes()
		}
		if err != nil {
			return err
		}
		var loads []store.RouteLoad
		for _, l := range census.loads {
			loads = append(loads, *l)
		}
		f = store.FleetOf(s.clock.Now(), sessions, loads)
		return nil
	})
	if err != nil {
		return store.Fleet{}, fmt.Errorf("read the fleet: %w", err)
	}
	return f, nil
}

// census is one call of Fleet, in one snapshot of the database.
type census struct {
	c     *conn
	loads map[int64]*store.RouteLoad // by the number of the route
	left  int                        // unused part of the budget, in entries of indexes
}

const (
	fleetSessions = `SELECT s.id, s.name, s.worker, s.program, s.expires, s.ttl, s.reason IS NOT NULL,
		(SELECT count(*) FROM runs INDEXED BY runs_owned WHERE owner = s.id /*readable key*/) FROM sessions s`
	fleetServes  = `SELECT session, queue, workflow FROM serves`
	fleetRoutes  = `SELECT id, queue, workflow FROM classes`
	fleetOwned   = `SELECT class, count(*) FROM (SELECT class FROM runs INDEXED BY runs_owned WHERE owner IS NOT NULL /*readable key*/ LIMIT +?) GROUP BY class`
	fleetReady   = `SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_ready WHERE class = +? AND place = 1 /*readable key*/ LIMIT +?)`
	fleetBlocked = `SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_blocked WHERE class = +? AND place = 4 /*readable key*/ LIMIT +?)`
	fleetWaiting = `SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_waiting WHERE line = +? AND place = 7 /*readable key*/ LIMIT +?)`
	fleetFirst   = `SELECT id, priority FROM runs INDEXED BY runs_ready WHERE class = +? AND place = 1 AND priority < +? /*readable key*/ ORDER BY priority DESC, ord LIMIT 1`
	fleetQueues  = `SELECT id, mode FROM lines WHERE class = +? /*lines class*/ LIMIT +?`
	fleetTurns   = `SELECT r.id FROM lines l CROSS JOIN runs r ON r.key = l.first WHERE l.class = +? AND l.mode <> 1 /*lines l.class*/ /*readable r.key*/
		ORDER BY l.priority DESC, l.place LIMIT +?`
)

// sessions returns the sessions and the routes that they serve.
func (n *census) sessions() ([]store.FleetSession, error) {
	var all []store.FleetSession
	at := map[int64]int{}
	err := n.c.query(fleetSessions, func(r row) error {
		at[r.ColumnInt64(0)] = len(all)
		all = append(all, store.FleetSession{
			Lease: store.Lease{
				Session: store.SessionID(r.ColumnText(1)), Worker: r.ColumnText(2), Fingerprint: r.ColumnText(3),
				Expires: timeOf(r.ColumnInt64(4)), TTL: time.Duration(r.ColumnInt64(5)), Recovering: r.ColumnBool(6),
			},
			Owned: r.ColumnInt(7),
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = n.c.query(fleetServes, func(r row) error {
		if i, ok := at[r.ColumnInt64(0)]; ok {
			all[i].Routes = append(all[i].Routes, store.Route{Queue: r.ColumnText(1), Workflow: r.ColumnText(2)})
		}
		return nil
	})
	return all, err
}

// routes counts the runs of all routes.
func (n *census) routes() error {
	err := n.c.query(fleetRoutes, func(r row) error {
		n.loads[r.ColumnInt64(0)] = &store.RouteLoad{Route: store.Route{Queue: r.ColumnText(1), Workflow: r.ColumnText(2)}}
		return nil
	})
	if err != nil {
		return err
	}
	if err := n.owned(); err != nil {
		return err
	}
	for _, count := range []func(int64, *store.RouteLoad) error{n.ready, n.parked} { // ready runs come first, because they are the most important when the budget is short
		for class, l := range n.loads {
			if err := count(class, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// owned counts the runs owned by sessions, by route.
func (n *census) owned() error {
	total := 0
	err := n.c.query(fleetOwned, func(r row) error {
		total += r.ColumnInt(1)
		if l := n.loads[r.ColumnInt64(0)]; l != nil {
			l.Owned = r.ColumnInt(1)
		}
		return nil
	}, n.left)
	if n.left -= total; n.left > 0 {
		return err
	}
	for _, l := range n.loads {
		l.Inexact = true
	}
	return err
}

// number counts the entries that a query returns, within the budget. It marks l if the budget is
// used up.
func (n *census) number(l *store.RouteLoad, query string, args ...any) (int, error) {
	found, err := n.c.number(query, append(args, n.left)...)
	if n.left -= int(found); n.left <= 0 {
		l.Inexact = true
	}
	return int(found), err
}

// ready counts the ready, the waiting and the blocked runs of a route, and determines the first of
// them.
func (n *census) ready(class int64, l *store.RouteLoad) (err error) {
	if l.Ready, err = n.number(l, fleetReady, class); err != nil {
		return err
	}
	if l.Blocked, err = n.number(l, fleetBlocked, class); err != nil {
		return err
	}
	lines := map[int64]int64{} // modes by the number of the queue
	err = n.c.query(fleetQueues, func(r row) error { lines[r.ColumnInt64(0)] = r.ColumnInt64(1); return nil }, class, n.left)
	n.left -= len(lines)
	for id, mode := range lines {
		if err != nil {
			return err
		}
		var waiting int
		waiting, err = n.number(l, fleetWaiting, id)
		if mode != queueClosed && waiting > 0 {
			l.Ready, waiting = l.Ready+1, waiting-1
		}
		l.Waiting += waiting
	}
	if err != nil {
		return err
	}
	return n.first(class, l)
}

// queueClosed is the mode of a limiter queue that claims skip.
const queueClosed = int64(protocol.QueueClosed)

// first determines the first runs of a route, for some of its priorities and limiter queues.
func (n *census) first(class int64, l *store.RouteLoad) error {
	name := func(r row) error { //nolint:unparam // the shape of what a query gives its rows to
		l.First = append(l.First, db.UnpackRun(r, 0))
		return nil
	}
	for below, found := int64(math.MaxInt64), true; found && len(l.First) < store.FleetFirst; {
		found = false
		err := n.c.query(fleetFirst, func(r row) error {
			below, found = r.ColumnInt64(1), true
			return name(r)
		}, class, below)
		if err != nil {
			return err
		}
	}
	return n.c.query(fleetTurns, name, class, store.FleetFirst)
}

// parked counts the parked runs of a route. It subtracts the other open runs, which are counted
// already, from all open runs.
func (n *census) parked(class int64, l *store.RouteLoad) error {
	ranges, err := n.c.rangesOfClasses(&store.Query{}, map[int64]store.Route{class: l.Route})
	open := 0
	for _, of := range ranges {
		if of.status.Terminal() {
			continue
		}
		found, err := n.number(l, countRange, class, of.child, string(of.status))
		if err != nil {
			return err
		}
		open += found
	}
	l.Parked = max(open-l.Ready-l.Waiting-l.Owned-l.Blocked, 0)
	return err
}

var _ store.Roster = (*Store)(nil)

// looking is the position of this store in its search for runs that no session serves. Each process
// searches independently. Only the writer uses it.
type looking struct {
	last int64 // time of the last search
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

// unserved returns ready runs without a live session that serves them. Runs that wait only for a
// worker come first, then the first runs of open limiter queues. Shortly after the last search,
// unserved returns none.
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
			found = append(found, db.UnpackRun(r, 0))
			return nil
		}, ids[c], limit, skip)
		return found, err
	})
}

var _ store.ReadyLister = (*Store)(nil)

// Statements for the first ready runs of a route and the first runs of its open limiter queues.
const (
	readyRuns   = `SELECT id, priority, ord FROM runs INDEXED BY runs_ready WHERE class = +?1 AND place = 1 /*readable key*/ ORDER BY priority DESC, ord LIMIT +?2`
	readyQueues = `SELECT r.id, l.priority, l.place FROM lines l CROSS JOIN runs r ON r.key = l.first WHERE l.class = +?1 AND l.mode <> 1 /*lines l.class*/ /*readable r.key*/
		ORDER BY l.priority DESC, l.place LIMIT +?2`
)

// Ready returns the first ready runs of the routes.
func (s *Store) Ready(ctx context.Context, partition int, routes []store.Route, limit int) ([]event.RunID, error) {
	type ready struct {
		run             event.RunID
		priority, place int64
	}
	var found []ready
	err := s.enterPartition(ctx, partition)
	if err == nil {
		err = s.read(ctx, func(c *conn) error {
			found = found[:0]
			for _, of := range routes {
				class, err := c.number(`SELECT id FROM classes WHERE queue = +? AND workflow = +?`, of.Queue, of.Workflow)
				if err != nil {
					return err
				}
				for _, statement := range []string{readyRuns, readyQueues} {
					if err := c.query(statement, func(r row) error {
						found = append(found, ready{db.UnpackRun(r, 0), r.ColumnInt64(1), r.ColumnInt64(2)})
						return nil
					}, class, limit); err != nil {
						return err
					}
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list ready runs: %w", err)
	}
	slices.SortStableFunc(found, func(a, b ready) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.place, b.place))
	})
	var all []event.RunID
	for _, r := range found[:min(len(found), limit)] {
		all = append(all, r.run)
	}
	return all, nil
}

// Serves reports whether a session with an unexpired lease serves the route.
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
		return false, fmt.Errorf("read the workers that serve %s on queue %s: %w", c.Workflow, c.Queue, err)
	}
	return serving > 0, nil
}
