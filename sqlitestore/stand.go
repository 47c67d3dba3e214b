package sqlitestore

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// awayMode is added to the mode of a queue in line_parts for each limit at which the queue is
// closed but does not count.

const (
	// nestedMode is added to the mode of a queue in line_parts if its uses are nested.
	nestedMode = 4
	awayMode   = 8
)

// standsIn returns the set of uses at which a queue counts. modes contains its mode at each limit,
// in the order of its uses.
func standsIn(modes string) (at uint16) {
	for i, text := range strings.Split(modes, ",") {
		if mode, err := strconv.Atoi(text); err == nil && mode&3 != 0 && mode&awayMode == 0 && i < store.MaxUses {
			at |= 1 << i
		}
	}
	return at
}

// partMode returns the mode of a queue for its i-th use.
func partMode(l *protocol.LimiterQueue, uses []store.Use, i int) int {
	mode := int(l.Mode)
	if uses[i].Nested {
		mode += nestedMode
	}
	if l.Mode != protocol.QueueOpen && l.Stands>>i&1 == 0 {
		mode += awayMode
	}
	return mode
}

// isAway reports whether a queue is closed and does not count at its i-th use, because its runs
// wait for another limit first.
func isAway(l *protocol.LimiterQueue, uses []store.Use, i int) bool {
	return l.Mode == protocol.QueueClosed && !uses[i].Local && l.Stands>>i&1 == 0
}

// saveStand stores the uses at which a queue counts. was is the previous state of the queue.
func (t limitTx) saveStand(was, l *protocol.LimiterQueue, id int64) error {
	uses, err := t.lineUses(id)
	if err != nil {
		return err
	}
	for i, u := range uses {
		mode := partMode(l, uses, i)
		if err := t.exec(`UPDATE line_parts SET mode = +?1 WHERE line = +?2 AND name = +?3 AND key = +?4 AND mode <> +?1`, mode, id, u.Name, u.Key); err != nil {
			return err
		}
		before, now := isAway(was, uses, i), isAway(l, uses, i)
		if before == now {
			continue
		}
		runs, err := t.lineLength(id)
		if before {
			runs = -runs
		}
		if err == nil {
			err = t.addAway(u, runs)
		}
		if err != nil {
			return err
		}
	}
	if was.Owed == l.Owed {
		return nil
	}
	if _, err := t.lineLength(id); err != nil { // lineLength creates the row of the queue
		return err
	}
	return t.exec(`UPDATE line_counts SET owed = ? WHERE line = +?`, l.Owed, id)
}

// lineUses returns the uses of a queue.
func (t limitTx) lineUses(id int64) (uses []store.Use, err error) {
	err = t.query(`SELECT uses FROM lines WHERE id = +?`, func(r row) (err error) {
		uses, err = decodeUses(r.ColumnText(0))
		return err
	}, id)
	return uses, err
}

// lineLength returns the number of runs in a queue. It stores the number if there is no row.
func (t *tx) lineLength(id int64) (n int, err error) {
	known := false
	err = t.query(`SELECT runs FROM line_counts WHERE line = +?`, func(r row) error {
		n, known = r.ColumnInt(0), true
		return nil
	}, id)
	if err != nil || known {
		return n, err
	}
	count, err := t.number(`SELECT count(*) FROM runs INDEXED BY runs_waiting WHERE place = 7 AND line = +?`, id)
	if err != nil {
		return 0, err
	}
	return int(count), t.exec(`INSERT INTO line_counts VALUES (?, ?, 0)`, id, count)
}

// addAway adds runs to the runs in queues that do not count at the limit of u.
func (t *tx) addAway(u store.Use, runs int) error {
	if runs == 0 {
		return nil
	}
	err := t.exec(`INSERT INTO limit_aways VALUES (?1, ?2, max(?3, 0)) ON CONFLICT DO UPDATE SET weights = max(weights + ?3, 0)`, u.Name, u.Key, runs*u.Weight)
	if err != nil || runs > 0 {
		return err
	}
	return t.exec(`DELETE FROM limit_aways WHERE name = +? AND key = +? AND weights = 0`, u.Name, u.Key)
}

// countIn counts a run that has joined a queue (n is 1) or has left it (n is -1). The caller has
// written the row of the run. A queue with a single limit always counts at that limit, so its runs
// are not counted.
func (t *tx) countIn(r *run, line int64, n int) error {
	if line == 0 {
		return nil
	}
	uses, err := decodeUses(r.uses)
	if err != nil || len(uses) < 2 {
		return err
	}
	if err := t.exec(`UPDATE line_counts SET runs = max(runs + ?, 0) WHERE line = +?`, n, line); err != nil {
		return err
	}
	if t.Changes() == 0 {
		if _, err := t.lineLength(line); err != nil {
			return err
		}
	}
	l, err := limitTx{t}.LimiterQueue(strconv.FormatInt(line, 10))
	if err != nil {
		return fmt.Errorf("count line %d: %w", line, err)
	}
	for i, u := range uses {
		if isAway(&l, uses, i) {
			err = errors.Join(err, t.addAway(u, n))
		}
	}
	return err
}
