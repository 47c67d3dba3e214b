package sqlitestore

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// The counts of limits and the limiter queues can be derived from the runs. A flag of each run
// records whether it holds its permits. A repair therefore derives all limits and queues anew. [L1]

const (
	// asUses returns the uses of a row in the form that json_each accepts.
	asUses = `json_each(CASE WHEN json_valid(uses) THEN uses ELSE '[]' END)`
	// mustWait is the condition for runs that must wait for permits.
	mustWait = `(place IN (1, 7) AND uses IS NOT NULL AND bits & 20 = 0)`
	// wrongPermits is the condition for runs that hold permits without need, lack required permits,
	// or have unreadable uses.
	wrongPermits = `(uses IS NULL AND bits & 20 <> 0 OR bits & 4 <> 0 AND place <> 2 AND (bits & 8 = 0 OR place = 6)
		OR uses IS NOT NULL AND (place = 2 AND bits & 20 = 0 OR NOT json_valid(uses)))`
	// firstInQueue selects the first run of a limiter queue.
	firstInQueue = `SELECT key, priority, coalesce(ord, 0) FROM runs WHERE place = 7 AND line = lines.id ORDER BY priority DESC, ord LIMIT 1`
	// allParts selects the expected rows of line_parts.
	allParts = `SELECT lines.id, json_extract(value, '$.Name'), json_extract(value, '$.Key'),
		mode + 4 * coalesce(json_extract(value, '$.Nested'), 0), priority, place FROM lines, ` + asUses
	// parts selects the actual rows of line_parts, without the flag for limits at which the queue
	// does not count.
	parts = `SELECT line, name, key, mode & ~8, priority, place FROM line_parts`
	// lengths counts the runs of limiter queues.
	lengths = `SELECT line, count(*) AS runs FROM runs WHERE place = 7 AND line IS NOT NULL GROUP BY line`
	// aways selects the weights of the runs in closed queues that do not count at a limit.
	aways = `SELECT p.name, p.key, sum(n.runs * json_extract(u.value, '$.Weight')) AS weights FROM line_parts p JOIN lines l ON l.id = p.line
		JOIN (` + lengths + `) n ON n.line = l.id JOIN json_each(l.uses) u ON json_extract(u.value, '$.Name') = p.name AND json_extract(u.value, '$.Key') = p.key
		WHERE p.mode & 11 = 9 AND NOT coalesce(json_extract(u.value, '$.Local'), 0) GROUP BY 1, 2`
	// counted selects the held and the waiting weights of each limit.
	counted = `SELECT json_extract(value, '$.Name') AS name, json_extract(value, '$.Key') AS key,
		sum(iif(bits & 4, json_extract(value, '$.Weight'), 0)) AS held, sum(iif(place = 7, json_extract(value, '$.Weight'), 0)) AS waits
		FROM (SELECT uses, bits, place FROM runs WHERE uses IS NOT NULL AND (bits & 4 OR place = 7)), ` + asUses + ` GROUP BY 1, 2`
	// inFairKey is the condition for runs that are counted in a flow of fairness keys.
	inFairKey = `(fair IS NOT NULL AND place IN (1, 7) AND bits & 16 = 0)`
	// after computes the pass of a key after a run of the key. 5040 is store.Pace.
	after = `(ord + (5040 + share / 2) / share)`
)

// wrongLimits count the differences between the stored values and those derived from the runs.
var wrongLimits = []string{
	`SELECT count(*) FROM runs WHERE ` + wrongPermits,
	`SELECT count(*) FROM runs WHERE place IN (1, 7) AND (place = 7) <> ` + mustWait + ` OR place <> 7 AND line IS NOT NULL`,
	`SELECT count(*) FROM runs r WHERE place = 7 AND NOT EXISTS (SELECT 1 FROM lines l WHERE l.id = r.line AND l.class = r.class AND l.uses = r.uses)`,
	`SELECT count(*) FROM lines WHERE (first, priority, place) IS NOT (` + firstInQueue + `) OR mode NOT IN (0, 1, 2) OR mode = 2 AND until IS NULL`,
	`SELECT count(*) FROM (SELECT * FROM (` + allParts + `) EXCEPT ` + parts + `)`,
	`SELECT count(*) FROM (` + parts + ` EXCEPT SELECT * FROM (` + allParts + `))`,
	`SELECT count(*) FROM (` + counted + `) w FULL JOIN limits l ON l.name = w.name AND l.key = w.key
		WHERE coalesce(w.held, 0) <> coalesce(l.held, 0) OR coalesce(w.waits, 0) <> coalesce(l.waits, 0)`,
	`SELECT count(*) FROM line_counts c LEFT JOIN (` + lengths + `) n ON n.line = c.line WHERE c.runs <> coalesce(n.runs, 0)`,
	`SELECT count(*) FROM (` + aways + `) w FULL JOIN limit_aways a ON a.name = w.name AND a.key = w.key WHERE coalesce(w.weights, 0) <> coalesce(a.weights, 0)`,
	`SELECT count(*) FROM (SELECT class, priority, count(*) AS waits FROM runs WHERE ` + inFairKey + ` GROUP BY 1, 2) w
		FULL JOIN flows f ON f.class = w.class AND f.priority = w.priority WHERE coalesce(w.waits, 0) <> coalesce(f.waits, 0)`,
	`SELECT count(*) FROM runs r JOIN flows f ON f.class = r.class AND f.priority = r.priority
		LEFT JOIN passes p ON p.class = r.class AND p.priority = r.priority AND p.key = r.fair
		WHERE ` + inFairKey + ` AND ` + after + ` > max(f.pass, coalesce(p.pass, 0))`,
	`SELECT count(*) FROM runs WHERE (fair IS NULL) <> (share IS NULL) OR share NOT BETWEEN 1 AND 100`,
}

// rebuiltLimits derive the stored values from the runs. All limiter queues are open afterwards.
// Claims examine each of them, and close those that are not admitted.
var rebuiltLimits = []string{
	`UPDATE runs SET uses = NULL WHERE uses IS NOT NULL AND NOT json_valid(uses)`,
	`UPDATE runs SET bits = CASE WHEN uses IS NULL THEN bits & ~20 WHEN place = 2 THEN bits | 4 ELSE bits & ~4 END WHERE ` + wrongPermits,
	`DELETE FROM lines`,
	`DELETE FROM line_parts`,
	`DELETE FROM line_counts`,
	`DELETE FROM limit_aways`,
	`UPDATE runs SET place = iif(` + mustWait + `, 7, 1) WHERE place IN (1, 7) AND (place = 7) <> ` + mustWait,
	`INSERT INTO lines (class, uses, mode, first, priority, place) SELECT class, uses, 0, 0, 0, 0 FROM runs WHERE place = 7 GROUP BY class, uses`,
	`UPDATE runs SET line = (SELECT id FROM lines l WHERE l.class = runs.class AND l.uses = runs.uses) WHERE place = 7`,
	`UPDATE runs SET line = NULL WHERE place <> 7 AND line IS NOT NULL`,
	`UPDATE lines SET (first, priority, place) = (` + firstInQueue + `)`,
	`INSERT OR IGNORE INTO line_parts ` + allParts,
	`UPDATE limits SET held = 0, waits = 0`,
	`INSERT INTO limits SELECT name, key, held, waits, 0 FROM (` + counted + `) WHERE true
		ON CONFLICT DO UPDATE SET held = excluded.held, waits = excluded.waits`,
	`UPDATE runs SET share = iif(fair IS NULL, NULL, 1) WHERE (fair IS NULL) <> (share IS NULL) OR share NOT BETWEEN 1 AND 100`,
	`DELETE FROM flows`,
	`DELETE FROM passes`,
	`INSERT INTO flows SELECT class, priority, count(*), min(ord), 0 FROM runs WHERE ` + inFairKey + ` GROUP BY 1, 2`,
	`INSERT INTO passes SELECT class, priority, fair, max` + after + ` FROM runs WHERE ` + inFairKey + ` GROUP BY 1, 2, 3`,
}

// countWrongLimits returns the number of differences between the runs and the stored limits and
// limiter queues. It adds the number of queues that claims skip although they may be admitted.
func countWrongLimits(c *conn, now time.Time) (int64, error) {
	wrong := int64(0)
	for _, count := range wrongLimits {
		n, err := c.number(count)
		if err != nil {
			return 0, err
		}
		wrong += n
	}
	if wrong > 0 {
		return wrong, nil
	}
	return c.forgottenQueues(now)
}

// rebuildLimits derives the limits and the limiter queues from the runs.
func (t *tx) rebuildLimits() error {
	for _, statement := range rebuiltLimits {
		if err := t.exec(statement); err != nil {
			return err
		}
	}
	if err := t.exec(`DELETE FROM limits WHERE held = 0 AND waits = 0 AND tat <= +?`, t.now.UnixMicro()); err != nil {
		return err
	}
	return t.wakeAgain()
}

// forgottenQueues counts the closed queues that may be admitted but have no recheck scheduled.
func (c *conn) forgottenQueues(now time.Time) (int64, error) {
	kept, forgotten := map[store.LimitID]bool{}, int64(0)
	type line struct {
		uses   []store.Use
		stands uint16
		mode   protocol.QueueMode
		timely bool
	}
	var lines []line
	err := c.query(`SELECT uses, mode, until IS NOT NULL, (SELECT group_concat(mode) FROM line_parts p WHERE p.line = lines.id) FROM lines WHERE mode <> 0 ORDER BY priority DESC, place`, func(r row) error {
		uses, err := decodeUses(r.ColumnText(0))
		lines = append(lines, line{uses, standsIn(r.ColumnText(3)), protocol.QueueMode(r.ColumnInt(1)), r.ColumnBool(2)})
		return err
	})
	if err != nil {
		return 0, err
	}
	for _, l := range lines {
		may := l.mode == protocol.QueueClosed && !l.timely
		for _, u := range l.uses {
			s, err := c.limitState(u.LimitID)
			if err != nil {
				return 0, err
			}
			may = may && !kept[u.LimitID] && !s.Paused && (s.AtOnce == 0 || s.Held+u.Weight <= s.AtOnce) && s.Next(now) == 0
		}
		for i, u := range l.uses {
			kept[u.LimitID] = kept[u.LimitID] || l.stands>>i&1 == 1
		}
		if may {
			forgotten++
		}
	}
	return forgotten, nil
}

// limitTrees reads every table and index of the limits to its end.
var limitTrees = []string{
	`SELECT sum(length(uses)) FROM lines NOT INDEXED`, `SELECT sum(priority) FROM lines INDEXED BY lines_open WHERE mode <> 1`,
	`SELECT sum(until) FROM lines INDEXED BY lines_until WHERE until IS NOT NULL`, `SELECT sum(class) FROM lines INDEXED BY sqlite_autoindex_lines_1`,
	`SELECT sum(mode) FROM line_parts NOT INDEXED`, `SELECT sum(mode) FROM line_parts INDEXED BY line_turns`,
	`SELECT sum(waits) FROM flows`, `SELECT sum(pass) FROM passes NOT INDEXED`, `SELECT sum(pass) FROM passes INDEXED BY passes_over`,
	`SELECT sum(runs) FROM line_counts`, `SELECT sum(weights) FROM limit_aways`,
	`SELECT sum(held) FROM limits`, `SELECT sum(length(given)) FROM limit_configs`,
	`SELECT sum(ord) FROM runs INDEXED BY runs_waiting WHERE place = 7`,
}

// setQueuesAside searches for damage of the limits. If it finds any, all limiter queues are omitted
// for a while, so that runs without limits can continue. It reports false if they were already
// omitted. The caller must hold d.mu.
func (d *damages) setQueuesAside(c *conn, cause error) bool {
	if d.current(&d.lines) != nil {
		return false
	}
	for _, tree := range limitTrees {
		err := c.QueryOnce(tree, func(row) error { return nil })
		if isDamage(err) {
			d.Note("limits", &store.DamagedError{Err: fmt.Errorf("the limits cannot be read, and runs that wait for permits are not claimed: %w", cause)})
			d.lines.Store(&keySet{until: d.clock.Now().Add(lostFor)})
			return true
		}
		if err != nil {
			return false
		}
	}
	return false
}
