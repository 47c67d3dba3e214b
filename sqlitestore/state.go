package sqlitestore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// partitionState is a snapshot of the file for a repair.
type partitionState struct {
	s       *Store
	snap    *store.Snapshot
	leads   map[event.RunID][]string // workflow IDs of which the run is the active or the last run
	defects []store.Defect
	partial bool
}

// ReadPartition reads the whole file, including rows with dangling references.
func (s *Store) ReadPartition(ctx context.Context, partition int) (*store.PartitionState, error) {
	e := &partitionState{s: s, leads: map[event.RunID][]string{}}
	err := s.enterPartition(ctx, partition)
	if err == nil {
		if err = s.read(ctx, e.read); isDamage(err) {
			err = e.readDamage(ctx, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read partition %d: %w", partition, err)
	}
	for _, leading := range []map[string]event.RunID{e.snap.Active, e.snap.LastEnded} {
		for name, run := range leading {
			e.leads[run] = append(e.leads[run], name)
		}
	}
	return &store.PartitionState{Snapshot: e.snap, Partial: e.partial, Defects: e.defects, Rebuild: e.rebuild}, nil
}

func (e *partitionState) read(c *conn) error {
	e.snap, e.defects = newSnapshot(e.s.clock.Now()), nil
	for _, part := range []func(*conn) error{e.readRuns, e.readTags, e.readPurges, e.readCounts, e.readEntries} {
		if err := part(c); err != nil {
			return err
		}
	}
	for _, part := range []func(*store.Snapshot) error{
		c.inspectWorkflowIDs, c.inspectIndexes, c.inspectSeen, c.scanStreams, c.scanOutbox, c.inspectSessions, c.inspectWakes, c.inspectLimits, c.inspectFailureGroups,
	} {
		if err := part(e.snap); err != nil {
			return err
		}
	}
	if err := e.readPages(c); err != nil {
		return err
	}
	var err error
	e.snap.Audit, err = c.audit(`ORDER BY a.id`)
	return err
}

// readPages reads every page. This includes indexes that no other function reads.
func (e *partitionState) readPages(c *conn) error {
	damaged := func(what string) {
		e.defects = append(e.defects, store.Defect{
			Invariant: 16, What: "the file is damaged: " + what,
			Explain: "the data of that page can neither be read nor written",
		})
	}
	err := c.QueryOnce(`PRAGMA quick_check(10)`, func(r row) error {
		if what := r.ColumnText(0); what != "ok" {
			damaged(what)
		}
		return nil
	})
	if isDamage(err) {
		damaged(err.Error())
		return nil
	}
	return err
}

// readDamage reports the runs whose rows cannot be read, if these rows have caused the error. It
// reports no other defects: nearly all data of the lost runs would appear invalid, and a repair
// would remove them.
func (e *partitionState) readDamage(ctx context.Context, damage error) error {
	lost, err := e.s.unreadable(ctx)
	if err != nil || len(lost) == 0 {
		return damage
	}
	e.snap, e.defects, e.partial = newSnapshot(e.s.clock.Now()), nil, true
	for _, run := range slices.Sorted(maps.Values(lost)) {
		e.defects = append(e.defects, store.Defect{
			Invariant: 16, What: fmt.Sprintf("the row of run %s cannot be read", run),
			Explain: fmt.Sprintf("a page of the file is damaged: the run does not continue, and the rest of the file is neither checked nor repaired: %v", damage),
		})
	}
	return nil
}

// selectLoose is like selectStored, but also selects runs without a route.
var selectLoose = strings.Replace(selectStored, "JOIN classes", "LEFT JOIN classes", 1)

func (e *partitionState) readRuns(c *conn) error {
	all, err := c.loose(selectLoose)
	if err != nil {
		return err
	}
	for _, one := range all {
		incompatible, err := c.liveIncompatible(one.incompatible)
		if err != nil {
			return err
		}
		r := &store.RunState{Record: one.Record, Hidden: one.hidden, Incompatible: incompatible}
		if r.Frames, err = c.frames(one.key, 0, -1); err != nil {
			return err
		}
		if r.Inbox, err = c.items(one.key); err != nil {
			return err
		}
		if len(r.Inbox) != one.inbox {
			e.found(10, r.Run, fmt.Sprintf("its inbox holds %d items and counts %d", len(r.Inbox), one.inbox), "it reads too few items, or waits for items that do not exist")
		}
		e.snap.Runs[r.Run] = r
	}
	return nil
}

// loose returns runs whose rows may be partially unreadable.
func (c *conn) loose(query string, args ...any) ([]stored, error) {
	var found []stored
	err := c.query(query, func(r row) error {
		one, err := scanStored(r)
		if err != nil {
			one.Tags = nil // the tags differ from those in the log
		}
		found = append(found, one)
		return nil
	}, args...)
	return found, err
}

// found records a defect that is repaired together with its run.
func (e *partitionState) found(invariant int, run event.RunID, what, explain string) {
	e.defects = append(e.defects, store.Defect{Invariant: invariant, Run: run, What: what, Explain: explain})
}

// readTags compares the table of tags with the tags of the runs.
func (e *partitionState) readTags(c *conn) error {
	rows := map[event.RunID]map[string]string{}
	err := c.query(`SELECT r.id, t.name, t.value FROM tags t JOIN runs r ON r.key = t.run`, func(r row) error {
		id := db.UnpackRun(r, 0)
		if rows[id] == nil {
			rows[id] = map[string]string{}
		}
		rows[id][r.ColumnText(1)] = r.ColumnText(2)
		return nil
	})
	for _, id := range slices.Sorted(maps.Keys(e.snap.Runs)) {
		if tags := e.snap.Runs[id].Tags; !maps.Equal(tags, rows[id]) {
			e.found(4, id, fmt.Sprintf("it is listed under the tags %v, but has %v", rows[id], tags), "it is not found by its tags")
		}
	}
	return err
}

// readPurges reads the purge times through their index. It compares them with the reasons that hold
// runs back.
func (e *partitionState) readPurges(c *conn) error {
	err := c.query(`SELECT id, purge FROM runs INDEXED BY runs_purge WHERE purge IS NOT NULL`, func(r row) error {
		e.snap.Purges[db.UnpackRun(r, 0)] = timeOf(r.ColumnInt64(1))
		return nil
	})
	if err != nil {
		return err
	}
	return c.query(`SELECT id FROM runs WHERE place = +? AND purge IS NOT NULL AND NOT (`+unneeded+`)`, func(r row) error {
		e.found(8, db.UnpackRun(r, 0), "it is due to be purged, although it is still needed", "it is purged too early")
		return nil
	}, int(store.StateEnded))
}

// scanOutbox reads the records with known senders. The records of unknown senders are counted
// elsewhere.
func (c *conn) scanOutbox(snap *store.Snapshot) error {
	err := c.inspectOutbox(snap)
	snap.Outbox = slices.DeleteFunc(snap.Outbox, func(o store.Outgoing) bool { return o.From == "" })
	return err
}

// repair finds one kind of damage, and repairs it with one statement or function.
type repair struct {
	invariant int
	// count counts the invalid rows, and repair corrects them. repair is empty if no statement can.
	count, repair string
	do            func(t *tx) error                           // used instead of repair if not nil
	find          func(c *conn, now time.Time) (int64, error) // used instead of count if not nil
	what, explain string
	repairing     string // description of the repair
}

// wrong returns the number of invalid rows.
func (r *repair) wrong(c *conn, now time.Time) (int64, error) {
	if r.find != nil {
		return r.find(c, now)
	}
	return c.number(r.count)
}

const leftover = "they are never cleaned up"

// repairs are in the order in which they are executed.
var repairs = []repair{
	{
		invariant: 5,
		count: `SELECT count(*) FROM (SELECT max(coalesce((SELECT max(ord) FROM runs), 0), coalesce((SELECT max(seq) FROM inbox), 0)) AS n)
			WHERE n > coalesce((SELECT seq FROM counters WHERE id = 1), -1)`,
		repair: `INSERT INTO counters SELECT 1, max(coalesce((SELECT max(ord) FROM runs), 0), coalesce((SELECT max(seq) FROM inbox), 0)),
			coalesce((SELECT max(renewed) FROM sessions), 0), 0 WHERE true
			ON CONFLICT (id) DO UPDATE SET seq = max(seq, excluded.seq)`,
		what: "the counter of the order is below the numbers that it has assigned, or missing", explain: "later entries are taken first, or replace existing ones",
		repairing: "set it to the highest assigned number",
	},
	{
		invariant: 16,
		count:     `SELECT count(*) FROM classes WHERE id NOT IN (SELECT class FROM runs)`,
		repair:    `DELETE FROM classes WHERE id NOT IN (SELECT class FROM runs)`,
		what:      "%d routes have no runs", explain: leftover, repairing: "remove them",
	},
	{
		invariant: 22,
		count:     `SELECT count(*) FROM runs WHERE child <> (parent IS NOT NULL)`,
		repair:    `UPDATE runs SET child = parent IS NOT NULL WHERE child <> (parent IS NOT NULL)`,
		what:      "%d runs are marked wrongly as having a parent or none", explain: "lists and counts of runs without a parent are wrong", repairing: "set the mark again",
	},
	{
		invariant: 22,
		count: `SELECT count(*) FROM (SELECT class, child, status, sum(n) FROM (SELECT class, child, status, n FROM tallies UNION ALL
			SELECT class, child, status, -1 FROM runs WHERE hidden = 0 AND status IN ` + terminal + `) GROUP BY 1, 2, 3 HAVING sum(n) <> 0)`,
		do:   (*tx).rebuildTallies,
		what: "%d counts of runs differ from the runs", explain: "counts differ from lists", repairing: "count them again",
	},
	{
		invariant: 22,
		count:     `SELECT count(*) FROM tags t JOIN runs r ON r.key = t.run WHERE t.created <> r.created`,
		repair:    `UPDATE tags SET created = (SELECT created FROM runs WHERE key = tags.run) WHERE run IN (SELECT key FROM runs)`,
		what:      "%d tags have another time than their runs", explain: "pages of runs with a tag skip or repeat some", repairing: "write it again",
	},
	{
		invariant: 23,
		count:     `SELECT count(DISTINCT failure_group) FROM runs WHERE failure_group IS NOT NULL AND failure_group NOT IN (SELECT name FROM failure_groups)`,
		repair: `INSERT INTO failure_groups SELECT failure_group, '', '', '', '', min(created), max(created), count(*) FROM runs
			WHERE failure_group IS NOT NULL AND failure_group NOT IN (SELECT name FROM failure_groups) GROUP BY failure_group`,
		what: "%d failure groups have runs, but no record", explain: "they are not listed", repairing: "list them without their descriptions",
	},
	{
		invariant: 19, find: countWrongLimits, do: (*tx).rebuildLimits,
		what: "%d permits, counts of limits or limiter queues differ from the runs", explain: "limits admit too many runs or too few, or runs wait for ever",
		repairing: "rebuild them from the runs",
	},
	{
		invariant: 9,
		count:     `SELECT count(*) FROM workflow_ids WHERE active NOT IN (SELECT key FROM runs)`,
		repair:    `UPDATE workflow_ids SET active = NULL WHERE active NOT IN (SELECT key FROM runs)`,
		what:      "%d workflow ids have an active run that does not exist", explain: "they cannot be started", repairing: "remove it from them",
	},
	{
		invariant: 9,
		count:     `SELECT count(*) FROM workflow_ids WHERE last NOT IN (SELECT key FROM runs)`,
		repair:    `UPDATE workflow_ids SET last = NULL WHERE last NOT IN (SELECT key FROM runs)`,
		what:      "%d workflow ids have a last run that does not exist", explain: "starts return the wrong run", repairing: "remove it from them",
	},
	{
		invariant: 16,
		count:     `SELECT count(*) FROM workflow_ids w WHERE NOT EXISTS (SELECT 1 FROM runs WHERE wid = w.id)`,
		repair:    `DELETE FROM workflow_ids WHERE NOT EXISTS (SELECT 1 FROM runs WHERE wid = workflow_ids.id)`,
		what:      "%d workflow ids have no run", explain: leftover, repairing: "remove them",
	},
	{
		invariant: 11,
		count:     `SELECT count(*) FROM runs WHERE tip IS NOT (` + lastOfChain + `) AND ((` + lastOfChain + `) IS NOT NULL OR tip IN (SELECT id FROM runs))`,
		repair:    `UPDATE runs SET tip = (` + lastOfChain + `) WHERE tip IS NOT (` + lastOfChain + `) AND ((` + lastOfChain + `) IS NOT NULL OR tip IN (SELECT id FROM runs))`,
		what:      "%d chains have no record of their last run", explain: "items for them go astray", repairing: "find it again",
	},
	brokenStreams, strayOf("chunks", "chunks of streams"), strayOf("writers", "writers of streams"),
	stray("inbox", "items in inboxes"), stray("notes", "step data"), stray("tags", "tags"), stray("audit", "entries in audit trails"),
	{
		invariant: 12,
		count:     `SELECT count(*) FROM outbox WHERE phase <> 1 AND sender NOT IN (SELECT key FROM runs)`,
		repair:    `DELETE FROM outbox WHERE phase <> 1 AND sender NOT IN (SELECT key FROM runs)`,
		what:      "%d records of the outbox were answered, and belong to no run", explain: "they are never settled", repairing: "remove them",
	},
	{
		invariant: 12,
		count:     `SELECT count(*) FROM outbox WHERE phase = 1 AND sender NOT IN (SELECT key FROM runs)`,
		what:      "%d records of the outbox belong to no run", explain: "the rows of their senders are lost, and they are not delivered: restore them from a backup",
	},
	{
		invariant: 12,
		count:     `SELECT count(*) FROM outbox WHERE (phase = 1) <> (due = 0) OR due < 0`,
		repair:    fmt.Sprintf(`UPDATE outbox SET due = CASE phase WHEN 1 THEN 0 ELSE since + %d END WHERE (phase = 1) <> (due = 0) OR due < 0`, store.Horizon.Milliseconds()),
		what:      "%d records of the outbox are due at a wrong time", explain: "operations that runs have begun are performed at the wrong time, or never", repairing: "write it again",
	},
	{
		invariant: 16, count: `SELECT count(*) FROM frames WHERE run NOT IN (SELECT key FROM runs)`,
		what: "%d frames of logs belong to no run", explain: "the rows of their runs are lost, and with them the ids: restore them from a backup",
	},
}

// stray returns a repair that removes the rows of a table that belong to no run.
func stray(table, what string) repair {
	const where = ` WHERE run NOT IN (SELECT key FROM runs)`
	return repair{
		invariant: 16, count: `SELECT count(*) FROM ` + table + where, repair: `DELETE FROM ` + table + where,
		what: "%d " + what + " belong to no run", explain: leftover, repairing: "remove them",
	}
}

func (e *partitionState) readCounts(c *conn) error {
	for i := range repairs {
		r := &repairs[i]
		n, err := r.wrong(c, e.snap.Now)
		if err != nil {
			return err
		}
		if n == 0 {
			continue
		}
		f := store.Defect{Invariant: r.invariant, What: r.what, Explain: r.explain, Repair: r.repairing}
		if strings.Contains(r.what, "%d") {
			f.What = fmt.Sprintf(r.what, n)
		}
		if r.repairing != "" {
			f.Do = e.s.repairing(f.What, r.mend)
		}
		e.defects = append(e.defects, f)
	}
	return nil
}

// mend corrects the invalid rows. It reports whether there were any.
func (r *repair) mend(t *tx) (bool, error) {
	if err := t.settle(); err != nil {
		return false, err
	}
	n, err := r.wrong(t.conn, t.now)
	if err != nil || n == 0 {
		return false, err
	}
	*t.names = newNames()
	if r.do != nil {
		return true, r.do(t)
	}
	return true, t.exec(r.repair)
}

// repairing returns a function that executes a repair in one transaction.
func (s *Store) repairing(what string, do func(t *tx) (bool, error)) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		done, err := perform(ctx, s, do)
		if err != nil {
			return false, fmt.Errorf("repair %s: %w", what, err)
		}
		return done, nil
	}
}

// settle stores the values that the transaction has accumulated in memory, so that statements can
// compare them.
func (t *tx) settle() error {
	if t.seq != 0 {
		if err := t.exec(`UPDATE counters SET seq = ?`, t.seq); err != nil {
			return err
		}
		t.seq = 0
	}
	err := errors.Join(t.saveTallies(), t.forgetRoutes())
	clear(t.tallies)
	clear(t.emptied)
	return err
}

func newSnapshot(now time.Time) *store.Snapshot {
	return &store.Snapshot{
		Now:  timeOf(now.UnixMilli()),
		Runs: map[event.RunID]*store.RunState{}, Active: map[string]event.RunID{}, LastEnded: map[string]event.RunID{},
		Lines: map[string][]event.RunID{}, Collecting: map[string]event.RunID{}, Seen: map[event.RunID]map[event.ItemID]time.Time{}, Kept: map[event.RunID][]event.ItemID{},
		Ready: map[store.Route][]event.RunID{}, Timers: map[event.RunID]time.Time{}, Leases: map[store.SessionID]store.Lease{},
		Owned: map[store.SessionID][]event.RunID{}, Unread: map[store.SessionID][]event.RunID{}, Wakes: map[store.Route]bool{},
		Purges: map[event.RunID]time.Time{}, Streams: map[event.RunID]map[string]store.StreamState{},
		Limits:   map[store.LimitID]store.LimitState{},
		FairKeys: map[store.FairID]int{}, FailureGroups: map[string]store.FailureGroupState{},
	}
}

// selectBroken selects the streams whose chunks are not consecutive from first to last.
const selectBroken = `SELECT s.id FROM streams s
	LEFT JOIN (SELECT stream, count(*) AS n, min(n) AS low, max(n) AS high FROM chunks GROUP BY stream) c ON c.stream = s.id
	WHERE coalesce(c.n, 0) <> s.last - s.first + 1 OR c.low <> s.first OR c.high <> s.last`

// brokenStreams keeps the chunks after the last gap of a stream. If no chunks remain, the stream
// continues after its recorded last chunk.
var brokenStreams = repair{
	invariant: 18, count: `SELECT count(*) FROM (` + selectBroken + `)`,
	what: "%d streams count chunks that differ from the stored ones", explain: "readers miss chunks, or wait for some that exist",
	repairing: "keep the chunks after the last gap, and count them", do: (*tx).repairStreams,
}

func (t *tx) repairStreams() error {
	var broken []int64
	err := t.query(selectBroken, func(r row) error {
		broken = append(broken, r.ColumnInt64(0))
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range broken {
		for _, statement := range []string{
			`DELETE FROM chunks WHERE stream = +?1 AND n < (SELECT max(n) FROM chunks c WHERE stream = +?1
				AND NOT EXISTS (SELECT 1 FROM chunks before WHERE before.stream = +?1 AND before.n = c.n - 1))`,
			`UPDATE streams SET last = coalesce((SELECT max(n) FROM chunks WHERE stream = +?1), last) WHERE id = +?1`,
			`UPDATE streams SET first = coalesce((SELECT min(n) FROM chunks WHERE stream = +?1), last + 1) WHERE id = +?1`,
		} {
			if err := t.exec(statement, id); err != nil {
				return err
			}
		}
	}
	return nil
}

// strayOf returns a repair that removes the rows of a table that belong to no stream.
func strayOf(table, what string) repair {
	const where = ` WHERE stream NOT IN (SELECT id FROM streams)`
	return repair{
		invariant: 16, count: `SELECT count(*) FROM ` + table + where, repair: `DELETE FROM ` + table + where,
		what: "%d " + what + " belong to no known stream", explain: leftover, repairing: "remove them",
	}
}
