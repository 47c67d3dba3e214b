package sqlitestore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

var (
	_ store.Limiter    = (*Store)(nil)
	_ store.TurnReader = (*Store)(nil)
)

// encodeUses returns the stored form of uses; empty if there are no uses.
func encodeUses(uses []store.Use) (string, error) {
	if len(uses) == 0 {
		return "", nil
	}
	b, err := json.Marshal(uses)
	if err != nil {
		return "", fmt.Errorf("encode uses: %w", err)
	}
	return string(b), nil
}

func decodeUses(text string) (uses []store.Use, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &uses); err != nil {
		return nil, fmt.Errorf("decode uses: %w: %w", err, errDamaged)
	}
	return uses, nil
}

// Limits returns the access to the limits.
func (t *tx) Limits() protocol.LimitTx[*run] { return limitTx{t} }

// limitTx implements protocol.LimitTx in a transaction.
type limitTx struct{ *tx }

// Uses returns the uses of a run.
func (t limitTx) Uses(r *run) ([]store.Use, error) { return decodeUses(r.uses) }

// Limit returns the state of a limit or of a key of a limit.
func (t limitTx) Limit(id store.LimitID) (protocol.Limit, error) {
	s, err := t.limitState(id)
	return s.Limit, err
}

// limitState is the state of a limit or key, and the source of its configuration.
type limitState struct {
	protocol.Limit
	set, code bool
}

// limitState reads a limit or key. Its configuration is, in this order, its own, the one set for
// the whole limit, or the one in the code.
func (c *conn) limitState(id store.LimitID) (s limitState, err error) {
	var texts [3]string
	err = c.query(`SELECT l.held, l.waits, l.tat, p.given, w.given, w.by_code, a.weights FROM (SELECT 1)
		LEFT JOIN limit_aways a ON a.name = +?1 AND a.key = +?2
		LEFT JOIN limits l ON l.name = +?1 AND l.key = +?2
		LEFT JOIN limit_configs p ON p.name = +?1 AND p.key = +?2
		LEFT JOIN limit_configs w ON w.name = +?1 AND w.key = ''`, func(r row) error {
		s.Held, s.Waits, s.TAT, s.Away = r.ColumnInt(0), r.ColumnInt(1), r.ColumnInt64(2), r.ColumnInt(6)
		texts = [3]string{r.ColumnText(3), r.ColumnText(4), r.ColumnText(5)}
		return nil
	}, id.Name, id.Key)
	var all [3]*store.LimitConfig
	for i, text := range texts {
		if err == nil {
			all[i], err = limitConfigOf(text)
		}
	}
	if err != nil {
		return s, fmt.Errorf("read limit %s: %w", id, err)
	}
	s.LimitConfig, s.set, s.code = store.MergeConfigs(all[0], all[1], all[2])
	return s, nil
}

// limitConfigOf decodes a configuration. It returns nil for an empty text.
func limitConfigOf(text string) (*store.LimitConfig, error) {
	if text == "" {
		return nil, nil
	}
	c := &store.LimitConfig{}
	return c, json.Unmarshal([]byte(text), c)
}

// SaveLimit stores the counts of a limit or key. If all counts are 0, it removes the row.
func (t limitTx) SaveLimit(id store.LimitID, l protocol.Limit) error {
	if l.Held == 0 && l.Waits == 0 && l.TAT <= t.now.UnixMicro() {
		return t.exec(`DELETE FROM limits WHERE name = +? AND key = +?`, id.Name, id.Key)
	}
	return t.exec(`INSERT INTO limits VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET held = ?3, waits = ?4, tat = ?5`,
		id.Name, id.Key, l.Held, l.Waits, l.TAT)
}

// Configure stores a configuration.
func (t limitTx) Configure(set *store.SetLimit) error {
	var was *store.LimitConfig
	err := t.query(`SELECT given FROM limit_configs WHERE name = +? AND key = +?`, func(r row) (err error) {
		was, err = limitConfigOf(r.ColumnText(0))
		return err
	}, set.Name, set.Key)
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	given := set.Given(was)
	text, err := json.Marshal(given)
	if err != nil {
		return fmt.Errorf("encode configuration: %w", err)
	}
	if err := t.exec(`INSERT OR IGNORE INTO limit_configs VALUES (?, ?, NULL, NULL)`, set.Name, set.Key); err != nil {
		return err
	}
	switch {
	case given == nil:
		err = t.exec(`UPDATE limit_configs SET given = NULL WHERE name = +? AND key = +?`, set.Name, set.Key)
	case set.Default:
		err = t.exec(`UPDATE limit_configs SET by_code = ? WHERE name = +? AND key = +?`, string(text), set.Name, set.Key)
	default:
		err = t.exec(`UPDATE limit_configs SET given = ? WHERE name = +? AND key = +?`, string(text), set.Name, set.Key)
	}
	if err != nil {
		return err
	}
	return t.exec(`DELETE FROM limit_configs WHERE name = +? AND key = +? AND given IS NULL AND by_code IS NULL`, set.Name, set.Key)
}

// Paced returns the keys of a limit whose rate comes from the configuration of the limit.
func (t limitTx) Paced(name string) (all []store.LimitID, err error) {
	err = t.query(`SELECT key FROM limits l WHERE name = +? AND tat > +? AND (key = '' OR NOT EXISTS
		(SELECT 1 FROM limit_configs c WHERE c.name = l.name AND c.key = l.key AND given IS NOT NULL AND given NOT LIKE '%"Follows":true%'))`, func(r row) error {
		all = append(all, store.LimitID{Name: name, Key: r.ColumnText(0)})
		return nil
	}, name, t.now.UnixMicro())
	return all, err
}

// Waiting returns the limit or the keys of it that have limiter queues.
func (t limitTx) Waiting(name string) (all []store.LimitID, err error) {
	err = t.query(`SELECT DISTINCT key FROM line_parts INDEXED BY line_turns WHERE name = +? ORDER BY key`, func(r row) error {
		all = append(all, store.LimitID{Name: name, Key: r.ColumnText(0)})
		return nil
	}, name)
	return all, err
}

const selectQueue = `SELECT l.id, r.id, l.priority, l.place, l.mode, l.until,
	(SELECT group_concat(mode) FROM line_parts s WHERE s.line = l.id), coalesce(c.owed, 0)
	FROM lines l JOIN runs r ON r.key = l.first LEFT JOIN line_counts c ON c.line = l.id `

func (c *conn) limiterQueues(query string, args ...any) (lines []protocol.LimiterQueue, err error) {
	err = c.query(query, func(r row) error {
		lines = append(lines, protocol.LimiterQueue{
			ID: strconv.FormatInt(r.ColumnInt64(0), 10), First: db.UnpackRun(r, 1), Priority: r.ColumnInt(2), Place: r.ColumnInt64(3),
			Mode: protocol.QueueMode(r.ColumnInt(4)), Until: r.ColumnInt64(5), Stands: standsIn(r.ColumnText(6)), Owed: r.ColumnBool(7),
		})
		return nil
	}, args...)
	return lines, err
}

func (t *tx) limiterQueue(query string, args ...any) (protocol.LimiterQueue, error) {
	lines, err := t.limiterQueues(query, args...)
	if err != nil || len(lines) == 0 {
		return protocol.LimiterQueue{}, err
	}
	return lines[0], nil
}

// QueueOf returns the limiter queue of a run.
func (t limitTx) QueueOf(r *run) (protocol.LimiterQueue, error) {
	return t.limiterQueue(selectQueue+`WHERE l.id = +?`, r.line)
}

// LimiterQueue returns a limiter queue.
func (t limitTx) LimiterQueue(id string) (protocol.LimiterQueue, error) {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return protocol.LimiterQueue{}, fmt.Errorf("line %q has no number: %w", id, err)
	}
	l, err := t.limiterQueue(selectQueue+`WHERE l.id = +?`, n)
	l.ID = id
	return l, err
}

// SaveQueue stores the mode of a limiter queue and where it counts.
func (t limitTx) SaveQueue(l protocol.LimiterQueue) error {
	t.turned, t.called = t.turned || l.Until != 0, true
	id, err := strconv.ParseInt(l.ID, 10, 64)
	if err != nil {
		return fmt.Errorf("line %q has no number: %w", l.ID, err)
	}
	was, err := t.LimiterQueue(l.ID)
	if err != nil || was.First == "" {
		return err
	}
	if was.Mode != l.Mode || was.Until != l.Until {
		if err := t.exec(`UPDATE lines SET mode = ?, until = ? WHERE id = +?`, int(l.Mode), nonZero(l.Until), id); err != nil {
			return err
		}
	}
	if was.Mode == l.Mode && was.Stands == l.Stands && was.Owed == l.Owed {
		return nil
	}
	return t.saveStand(&was, &l, id)
}

// LimiterQueues returns the limiter queues of a limit or key.
func (t limitTx) LimiterQueues(id store.LimitID) ([]protocol.LimiterQueue, error) {
	return t.limiterQueues(selectQueue+`JOIN line_parts p ON p.line = l.id WHERE p.name = +? AND p.key = +? ORDER BY p.priority DESC, p.place`, id.Name, id.Key)
}

// firstIn returns the query for the first queues that count at a limit and have the given mode. The
// mode includes whether their uses are nested.
func firstIn(mode protocol.QueueMode) string {
	const some = selectQueue + `WHERE l.id IN (SELECT line FROM line_parts INDEXED BY line_turns
		WHERE name = +?1 AND key = +?2 AND mode = %d ORDER BY priority DESC, place LIMIT +?3)`
	return fmt.Sprintf(some+` UNION ALL `+some, mode, mode+nestedMode)
}

var (
	closedQueues = firstIn(protocol.QueueClosed)
	keptQueues   = closedQueues + ` UNION ALL ` + firstIn(protocol.QueueAdmitted)
)

const nestedClosed = selectQueue + `JOIN line_parts p INDEXED BY line_turns ON p.line = l.id
		WHERE p.name = +? AND p.key = +? AND p.mode = 5 ORDER BY p.priority DESC, p.place`

// firstOf returns the first queues that a query finds, in order of position.
func (c *conn) firstOf(query string, id store.LimitID, limit int) ([]protocol.LimiterQueue, error) {
	lines, err := c.limiterQueues(query, id.Name, id.Key, limit)
	if len(lines) > 1 {
		slices.SortFunc(lines, func(a, b protocol.LimiterQueue) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Place, b.Place))
		})
	}
	return lines[:min(limit, len(lines))], err
}

// FirstKept returns the first closed or admitted queue that counts at a limit or key.
func (t limitTx) FirstKept(id store.LimitID) (protocol.LimiterQueue, error) {
	lines, err := t.firstOf(keptQueues, id, 1)
	if err != nil || len(lines) == 0 {
		return protocol.LimiterQueue{}, err
	}
	return lines[0], nil
}

// KeptQueues returns the first closed and admitted queues that count at a limit or key.
func (t limitTx) KeptQueues(id store.LimitID, limit int) ([]protocol.LimiterQueue, error) {
	return t.firstOf(keptQueues, id, limit)
}

// ClosedQueues returns the first closed queues that count at a limit or key.
func (t limitTx) ClosedQueues(id store.LimitID, limit int) ([]protocol.LimiterQueue, error) {
	return t.firstOf(closedQueues, id, limit)
}

// NestedClosed returns the closed queues with nested uses that count at a limit or key.
func (t limitTx) NestedClosed(id store.LimitID) ([]protocol.LimiterQueue, error) {
	return t.limiterQueues(nestedClosed, id.Name, id.Key)
}

// ensureQueue returns the limiter queue of a run that begins to wait. It creates the queue if
// necessary. A new queue is open, and the run is its first.
func (t *tx) ensureQueue(r *run) (int64, error) {
	id, err := t.number(`SELECT id FROM lines WHERE class = +? AND uses = +?`, r.route, r.uses)
	if err != nil || id != 0 {
		return id, err
	}
	if err := t.exec(`INSERT INTO lines (class, uses, mode, first, priority, place) VALUES (?, ?, 0, ?, ?, ?)`,
		r.route, r.uses, r.key, r.priority, r.ord); err != nil {
		return 0, err
	}
	id = t.LastInsertRowID()
	uses, err := decodeUses(r.uses)
	if err != nil {
		return 0, err
	}
	for _, u := range uses {
		mode := 0
		if u.Nested {
			mode = nestedMode
		}
		if err := t.exec(`INSERT INTO line_parts VALUES (?, ?, ?, ?, ?, ?)`, id, u.Name, u.Key, mode, r.priority, r.ord); err != nil {
			return 0, err
		}
	}
	return id, nil
}

const firstWaiting = `SELECT key, 0, priority, ord, line FROM runs WHERE place = 7 AND line = +? ORDER BY priority DESC, ord LIMIT 1`

// turn updates the positions of two queues: one that a run has left and one that it has joined. A
// queue gets the position of its first run; an empty queue is removed. 0 means no queue.
func (t *tx) turn(left, joined int64) error {
	for _, line := range []int64{left, joined} {
		if line == 0 {
			continue
		}
		var first candidate
		err := t.query(firstWaiting, func(r row) error {
			first = candidate{r.ColumnInt64(0), 0, r.ColumnInt64(2), r.ColumnInt64(3), r.ColumnInt64(4)}
			return nil
		}, line)
		switch {
		case err != nil:
			return err
		case first.line == 0:
			t.called = true
			for _, statement := range []string{`DELETE FROM lines WHERE id = +?`, `DELETE FROM line_parts WHERE line = +?`, `DELETE FROM line_counts WHERE line = +?`} {
				if err := t.exec(statement, line); err != nil {
					return err
				}
			}
			continue
		}
		if err := t.exec(`UPDATE lines SET first = ?, priority = ?, place = ? WHERE id = +? AND first <> +?`, first.key, first.priority, first.ord, line, first.key); err != nil {
			return err
		}
		if t.Changes() == 0 {
			continue
		}
		if err := t.exec(`UPDATE line_parts SET priority = ?, place = ? WHERE line = +?`, first.priority, first.ord, line); err != nil {
			return err
		}
	}
	return nil
}

const dueQueues = `SELECT id FROM lines WHERE until IS NOT NULL AND until <= +? /*lines until*/ ORDER BY until LIMIT +?`

// takeTurns rechecks up to limit queues whose time has come.
func (t *tx) takeTurns(limit int) error {
	var due []int64
	err := t.query(dueQueues, func(r row) error {
		due = append(due, r.ColumnInt64(0))
		return nil
	}, t.ms(), limit)
	if err != nil {
		return err
	}
	for _, id := range due {
		if err := t.op.Turn(strconv.FormatInt(id, 10)); err != nil {
			return err
		}
	}
	return nil
}

// SetLimits configures limits.
func (s *Store) SetLimits(ctx context.Context, partition int, set []store.SetLimit) error {
	err := s.enterPartition(ctx, partition)
	for i := range set {
		err = cmp.Or(err, set[i].Check())
	}
	if err == nil {
		_, err = perform(ctx, s, func(t *tx) (struct{}, error) {
			for i := range set {
				if err := t.op.SetLimit(&set[i]); err != nil {
					return struct{}{}, err
				}
			}
			return struct{}{}, nil
		})
	}
	if err != nil {
		return fmt.Errorf("set limits: %w", err)
	}
	return nil
}

// Limits returns a page of limits.
func (s *Store) Limits(ctx context.Context, partition int, after store.LimitID, limit int) ([]store.LimitState, error) {
	var page []store.LimitState
	err := s.enterPartition(ctx, partition)
	if err == nil {
		err = s.read(ctx, func(c *conn) (err error) {
			page, err = c.limitStates(after, cmp.Or(max(limit, 0), 100), s.clock.Now().UnixMicro())
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	return page, nil
}

// Turns returns the states of the given limits and keys.
func (s *Store) Turns(ctx context.Context, partition int, ids []store.LimitID) ([]store.Turn, error) {
	all := make([]store.Turn, len(ids))
	err := s.enterPartition(ctx, partition)
	if err == nil {
		err = s.read(ctx, func(c *conn) error {
			for i, id := range ids {
				stands, err := c.limitState(id)
				if err != nil {
					return err
				}
				first, err := c.firstOf(keptQueues, id, 1)
				if err != nil {
					return err
				}
				if all[i].LimitState = stands.state(id, s.clock.Now()); len(first) > 0 {
					all[i].First = first[0].First
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read positions in limiter queues: %w", err)
	}
	return all, nil
}

// state returns the state in the form of package store.
func (s *limitState) state(id store.LimitID, now time.Time) store.LimitState {
	return store.LimitState{LimitID: id, Config: s.LimitConfig, Set: s.set, Default: s.code, Held: s.Held, Waits: s.Waits, Away: s.Away, Next: timeOf(s.Next(now))}
}

func (c *conn) limitStates(after store.LimitID, limit int, now int64) ([]store.LimitState, error) {
	var known []store.LimitID
	err := c.query(`SELECT name, key FROM limits WHERE (name, key) > (+?1, +?2) AND (held > 0 OR waits > 0 OR tat > +?4)
		UNION SELECT name, key FROM limit_configs WHERE (name, key) > (+?1, +?2) ORDER BY name, key LIMIT +?3`, func(r row) error {
		known = append(known, store.LimitID{Name: r.ColumnText(0), Key: r.ColumnText(1)})
		return nil
	}, after.Name, after.Key, limit, now)
	if err != nil {
		return nil, err
	}
	page := make([]store.LimitState, 0, len(known))
	for _, id := range known {
		s, err := c.limitState(id)
		if err != nil {
			return nil, err
		}
		page = append(page, s.state(id, timeOf(now/1000)))
	}
	return page, nil
}

// inspectLimits adds limits and limiter queues to a snapshot.
func (c *conn) inspectLimits(snap *store.Snapshot) error {
	all, err := c.limitStates(store.LimitID{}, -1, snap.Now.UnixMicro())
	if err != nil {
		return err
	}
	for _, s := range all {
		snap.Limits[s.LimitID] = s
	}
	if err := c.inspectFairKeys(snap); err != nil {
		return err
	}
	type shown struct {
		id   int64
		line store.WaitingQueue
	}
	var lines []shown
	err = c.query(`SELECT l.id, c.queue, c.workflow, l.uses, l.mode, l.until,
		(SELECT group_concat(mode) FROM line_parts s WHERE s.line = l.id), coalesce(n.owed, 0)
		FROM lines l JOIN classes c ON c.id = l.class LEFT JOIN line_counts n ON n.line = l.id
		ORDER BY l.priority DESC, l.place`, func(r row) error {
		uses, err := decodeUses(r.ColumnText(3))
		mode := protocol.QueueMode(r.ColumnInt(4))
		lines = append(lines, shown{r.ColumnInt64(0), store.WaitingQueue{
			Route: store.Route{Queue: r.ColumnText(1), Workflow: r.ColumnText(2)}, Uses: uses,
			Closed: mode == protocol.QueueClosed, Admitted: mode == protocol.QueueAdmitted, Until: timeOf(r.ColumnInt64(5)),
			Stands: standsIn(r.ColumnText(6)), Owed: r.ColumnBool(7),
		}})
		return err
	})
	if err != nil {
		return err
	}
	for _, l := range lines {
		var runs []event.RunID
		err := c.query(`SELECT id FROM runs INDEXED BY runs_waiting WHERE place = 7 AND line = +? ORDER BY priority DESC, ord`, func(r row) error {
			runs = append(runs, db.UnpackRun(r, 0))
			return nil
		}, l.id)
		if err != nil {
			return err
		}
		l.line.Runs = runs
		snap.Waiting = append(snap.Waiting, l.line)
	}
	return nil
}

// Share returns the fairness key of a run.
func (t limitTx) Share(r *run) (protocol.Share, error) {
	route, err := t.routeName(r.route)
	return protocol.Share{FairID: store.FairID{Route: route, Priority: r.priority}, Key: r.fair, Weight: r.share}, err
}

// FairKey returns the state of a flow: the ready runs with fairness keys of a route and a priority.
func (t limitTx) FairKey(id store.FairID) (f protocol.FairKey, err error) {
	class, err := t.route(id.Route)
	if err != nil || class == 0 {
		return f, err
	}
	err = t.query(`SELECT waits, pass, last FROM flows WHERE class = +? AND priority = +?`, func(r row) error {
		f = protocol.FairKey{Waits: r.ColumnInt(0), Pass: r.ColumnInt64(1), Last: r.ColumnInt64(2)}
		return nil
	}, class, id.Priority)
	return f, err
}

// SaveFairKey stores the state of a flow.
func (t limitTx) SaveFairKey(id store.FairID, f protocol.FairKey) error {
	class, err := t.route(id.Route)
	if err != nil {
		return err
	}
	if f.Waits > 0 {
		return t.exec(`INSERT INTO flows VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET waits = ?3, pass = ?4, last = ?5`,
			class, id.Priority, f.Waits, f.Pass, f.Last)
	}
	for _, statement := range []string{`DELETE FROM flows WHERE class = +? AND priority = +?`, `DELETE FROM passes WHERE class = +? AND priority = +?`} {
		if err := t.exec(statement, class, id.Priority); err != nil {
			return err
		}
	}
	return nil
}

// Pass returns the pass of a fairness key.
func (t limitTx) Pass(s protocol.Share) (int64, error) {
	class, err := t.route(s.Route)
	if err != nil {
		return 0, err
	}
	return t.number(`SELECT pass FROM passes WHERE class = +? AND priority = +? AND key = +?`, class, s.Priority, s.Key)
}

// SavePass stores the pass of a key. It also removes up to two other keys that have no waiting runs
// and whose pass does not exceed the pass of a new key.
func (t limitTx) SavePass(s protocol.Share, pass int64) error {
	class, err := t.route(s.Route)
	if err != nil {
		return err
	}
	if err := t.exec(`INSERT INTO passes VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET pass = ?4`, class, s.Priority, s.Key, pass); err != nil {
		return err
	}
	return t.exec(`DELETE FROM passes WHERE (class, priority, key) IN (SELECT class, priority, key FROM passes INDEXED BY passes_over
		WHERE class = +?1 AND priority = +?2 AND pass <= (SELECT pass FROM flows WHERE class = +?1 AND priority = +?2) ORDER BY pass LIMIT 2)`, class, s.Priority)
}

// Come returns the next number in the order of arrivals.
func (t limitTx) Come() (int64, error) { return t.next() }

// Came advances the order of arrivals to a place.
func (t limitTx) Came(place int64) error {
	t.seq = max(t.seq, place)
	return nil
}

// inspectFairKeys adds the number of counted runs of each flow to a snapshot.
func (c *conn) inspectFairKeys(snap *store.Snapshot) error {
	return c.query(`SELECT c.queue, c.workflow, f.priority, f.waits FROM flows f JOIN classes c ON c.id = f.class`, func(r row) error {
		snap.FairKeys[store.FairID{Route: store.Route{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)}, Priority: r.ColumnInt(2)}] = r.ColumnInt(3)
		return nil
	})
}
