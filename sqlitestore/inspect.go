package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// Inspect returns the complete contents of the store as a consistent snapshot. It reads the whole
// file.
func (s *Store) Inspect(ctx context.Context) (*store.Snapshot, error) {
	var snap *store.Snapshot
	err := s.read(ctx, func(c *conn) error {
		snap = newSnapshot(s.clock.Now())
		for _, part := range []func(*store.Snapshot) error{
			c.inspectRuns, c.inspectWorkflowIDs, c.inspectCollecting, c.inspectIndexes, c.inspectPurges, c.inspectSeen, c.inspectStreams, c.inspectOutbox,
			c.inspectSessions, c.inspectWakes, c.checkRoutes, c.inspectLimits, c.inspectFailureGroups, c.inspectEntries,
		} {
			if err := part(snap); err != nil {
				return err
			}
		}
		var err error
		snap.Audit, err = c.audit(`ORDER BY a.id`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	return snap, nil
}

func (c *conn) inspectRuns(snap *store.Snapshot) error {
	all, err := c.stored(selectStored)
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
			return fmt.Errorf("run %s has %d items in its inbox and counts %d: %w", r.Run, len(r.Inbox), one.inbox, errDamaged)
		}
		snap.Runs[r.Run] = r
	}
	return nil
}

func (c *conn) inspectWorkflowIDs(snap *store.Snapshot) error {
	return c.query(`SELECT w.name, a.id, l.id FROM workflow_ids w
		LEFT JOIN runs a ON a.key = w.active LEFT JOIN runs l ON l.key = w.last`, func(r row) error {
		if active := db.UnpackRun(r, 1); active != "" {
			snap.Active[r.ColumnText(0)] = active
		}
		if last := db.UnpackRun(r, 2); last != "" {
			snap.LastEnded[r.ColumnText(0)] = last
		}
		return nil
	})
}

// inspectIndexes reads data that this store keeps as indexes of runs. It reads them through the
// indexes, so that damage of an index is detected.
func (c *conn) inspectIndexes(snap *store.Snapshot) error {
	err := c.query(`SELECT c.queue, c.workflow, r.id FROM runs r INDEXED BY runs_ready JOIN classes c ON c.id = r.class
		WHERE r.place = 1 ORDER BY r.class, r.priority DESC, r.ord`, func(r row) error {
		route := store.Route{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)}
		snap.Ready[route] = append(snap.Ready[route], db.UnpackRun(r, 2))
		return nil
	})
	if err != nil {
		return err
	}
	err = c.query(`SELECT id, due FROM runs INDEXED BY runs_due WHERE due IS NOT NULL`, func(r row) error {
		snap.Timers[db.UnpackRun(r, 0)] = timeOf(r.ColumnInt64(1))
		return nil
	})
	if err != nil {
		return err
	}
	return c.query(`SELECT w.name, r.id FROM runs r INDEXED BY runs_lined JOIN workflow_ids w ON w.id = r.wid
		WHERE r.place = 5 ORDER BY r.wid, r.ord`, func(r row) error {
		snap.Lines[r.ColumnText(0)] = append(snap.Lines[r.ColumnText(0)], db.UnpackRun(r, 1))
		return nil
	})
}

// inspectPurges returns the purge time of every ended run. It reads the runs that can be purged
// through their index. The index must not contain other runs.
func (c *conn) inspectPurges(snap *store.Snapshot) error {
	err := c.query(`SELECT id, purge FROM runs INDEXED BY runs_purge WHERE purge IS NOT NULL`, func(r row) error {
		snap.Purges[db.UnpackRun(r, 0)] = timeOf(r.ColumnInt64(1))
		return nil
	})
	if err != nil {
		return err
	}
	free := map[int64]bool{}
	err = c.query(`SELECT key FROM runs WHERE place = +? AND `+unneeded, func(r row) error {
		free[r.ColumnInt64(0)] = true
		return nil
	}, int(store.StateEnded))
	if err != nil {
		return err
	}
	ended, err := c.runs(selectRun+`WHERE r.place = +?`, int(store.StateEnded))
	if err != nil {
		return err
	}
	for _, r := range ended {
		listed, can := snap.Purges[r.id]
		state := stateOf(r)
		at := timeOf(state.PurgeTime())
		if can != free[r.key] || can && !listed.Equal(at) {
			return fmt.Errorf("run %s is due to be purged at %v, can be purged: %t, listed: %t at %v: %w",
				r.id, at, free[r.key], can, listed, errDamaged)
		}
		snap.Purges[r.id] = at
	}
	if len(snap.Purges) != len(ended) {
		return fmt.Errorf("%d runs can be purged, %d have ended: %w", len(snap.Purges), len(ended), errDamaged)
	}
	return nil
}

func (c *conn) inspectSeen(snap *store.Snapshot) error {
	return c.query(`SELECT chain, id, at, keep FROM seen ORDER BY chain, id`, func(r row) error {
		chain, id := db.UnpackRun(r, 0), event.ItemID(r.ColumnText(1))
		if snap.Seen[chain] == nil {
			snap.Seen[chain] = map[event.ItemID]time.Time{}
		}
		snap.Seen[chain][id] = timeOf(r.ColumnInt64(2))
		if r.ColumnBool(3) {
			snap.Kept[chain] = append(snap.Kept[chain], id)
		}
		return nil
	})
}

func (c *conn) inspectOutbox(snap *store.Snapshot) error {
	return c.query(`SELECT `+outboxColumns+` FROM outbox o LEFT JOIN runs r ON r.key = o.sender ORDER BY o.seq`, func(r row) error {
		snap.Outbox = append(snap.Outbox, scanOutgoing(r))
		return nil
	})
}

func (c *conn) inspectSessions(snap *store.Snapshot) error {
	err := c.query(`SELECT name, worker, expires, ttl, reason, program FROM sessions`, func(r row) error {
		id := store.SessionID(r.ColumnText(0))
		snap.Leases[id] = store.Lease{Session: id, Worker: r.ColumnText(1), Expires: timeOf(r.ColumnInt64(2)),
			TTL: time.Duration(r.ColumnInt64(3)), Recovering: !r.ColumnIsNull(4), Fingerprint: r.ColumnText(5)}
		return nil
	})
	if err != nil {
		return err
	}
	if snap.Owned, err = c.bySession(`SELECT s.name, r.id FROM runs r INDEXED BY runs_owned JOIN sessions s ON s.id = r.owner
		WHERE r.owner IS NOT NULL`); err != nil {
		return err
	}
	snap.Unread, err = c.bySession(`SELECT s.name, r.id FROM runs r INDEXED BY runs_mail JOIN sessions s ON s.id = r.owner
		WHERE r.owner IS NOT NULL AND r.inbox > 0`)
	return err
}

// bySession returns the runs of each session, sorted by their IDs.
func (c *conn) bySession(query string) (map[store.SessionID][]event.RunID, error) {
	runs := map[store.SessionID][]event.RunID{}
	err := c.query(query, func(r row) error {
		session := store.SessionID(r.ColumnText(0))
		runs[session] = append(runs[session], db.UnpackRun(r, 1))
		return nil
	})
	for _, of := range runs {
		slices.Sort(of)
	}
	return runs, err
}

// checkRoutes returns an error if a route has no runs, because it should have been removed, or if a
// run has no route.
func (c *conn) checkRoutes(*store.Snapshot) error {
	return c.query(`SELECT c.queue, c.workflow, r.class
		FROM classes c FULL JOIN (SELECT DISTINCT class FROM runs) r ON r.class = c.id
		WHERE c.id IS NULL OR r.class IS NULL`, func(r row) error {
		if r.ColumnIsNull(0) {
			return fmt.Errorf("a run has route number %d, which does not exist: %w", r.ColumnInt64(2), errDamaged)
		}
		return fmt.Errorf("workflow %q on queue %q has no runs, but was not removed: %w", r.ColumnText(1), r.ColumnText(0), errDamaged)
	})
}

func (c *conn) inspectWakes(snap *store.Snapshot) error {
	return c.query(`SELECT queue, workflow FROM classes WHERE wake = 1`, func(r row) error {
		snap.Wakes[store.Route{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)}] = true
		return nil
	})
}

func (c *conn) inspectStreams(snap *store.Snapshot) error {
	return c.showStreams(snap, func(*stream, *store.StreamState) bool { return true })
}

// scanStreams adds the streams with consecutive chunks. The other streams are reported as damage
// elsewhere.
func (c *conn) scanStreams(snap *store.Snapshot) error {
	return c.showStreams(snap, func(st *stream, state *store.StreamState) bool {
		for i, chunk := range state.Chunks {
			if chunk.Index != st.first+uint64(i) {
				return false
			}
		}
		return uint64(len(state.Chunks)) == st.last+1-st.first
	})
}

// showStreams adds the streams for which shown returns true to a snapshot.
func (c *conn) showStreams(snap *store.Snapshot, shown func(*stream, *store.StreamState) bool) error {
	type named struct {
		stream
		chain event.RunID
		name  string
	}
	var all []named
	err := c.query(`SELECT id, first, last, closed, chain, name FROM streams`, func(r row) error {
		all = append(all, named{*scanStream(r, 0), db.UnpackRun(r, 4), string(blob(r, 5))})
		return nil
	})
	if err != nil {
		return err
	}
	for _, st := range all {
		state, err := c.streamState(&st.stream)
		if err != nil {
			return err
		}
		if !shown(&st.stream, &state) {
			continue
		}
		if snap.Streams[st.chain] == nil {
			snap.Streams[st.chain] = map[string]store.StreamState{}
		}
		snap.Streams[st.chain][st.name] = state
	}
	return nil
}

// streamState returns the state of a stream, with all its chunks and writers.
func (c *conn) streamState(st *stream) (store.StreamState, error) {
	state := store.StreamState{Last: st.last, Closed: st.closed}
	err := c.query(`SELECT n, data FROM chunks WHERE stream = +? ORDER BY n`, func(r row) error {
		state.Chunks = append(state.Chunks, store.Chunk{Index: uint64(r.ColumnInt64(0)), Body: blob(r, 1)})
		return nil
	}, st.id)
	if err != nil {
		return state, err
	}
	err = c.query(`SELECT writer, nth FROM writers WHERE stream = +?`, func(r row) error {
		if state.Writers == nil {
			state.Writers = map[string]uint64{}
		}
		state.Writers[string(blob(r, 0))] = uint64(r.ColumnInt64(1))
		return nil
	}, st.id)
	return state, err
}
