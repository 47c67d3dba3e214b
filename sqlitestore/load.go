package sqlitestore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// Load reads runs in one snapshot of the store.
func (s *Store) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	var answers []store.Loaded
	err := s.read(ctx, func(c *conn) error {
		answers = make([]store.Loaded, len(runs))
		for i := range runs {
			var err error
			if answers[i], err = c.load(&runs[i]); err != nil && ofOneRun(err) {
				answers[i] = store.Loaded{Err: aboutRun(runs[i].Run, 0, s.explain(err))}
			} else if err != nil {
				return fmt.Errorf("run %s: %w", runs[i].Run, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("load %d runs: %w", len(runs), err)
	}
	return answers, nil
}

func (c *conn) load(l *store.Load) (store.Loaded, error) {
	found, err := c.stored(selectStored+`WHERE r.id = +? AND r.hidden = 0`, l.Run)
	if err != nil {
		return store.Loaded{}, err
	}
	if len(found) == 0 {
		return store.Loaded{Err: store.ErrRunNotFound}, nil
	}
	answer := store.Loaded{Record: found[0].Record}
	if l.Limit >= 0 && l.After < answer.Record.N {
		limit := l.Limit
		if limit == 0 {
			limit = -1 // -1 is no limit in SQLite
		}
		if answer.Frames, err = c.frames(found[0].key, l.After, limit); err != nil {
			return store.Loaded{}, err
		}
	}
	if l.Inbox && found[0].inbox > 0 {
		answer.Inbox, err = c.items(found[0].key)
	}
	return answer, err
}

// stored is a run as read from its row, with its key.
type stored struct {
	store.Record
	key          int64
	inbox        int
	hidden       bool
	incompatible incompatible
}

const selectStored = `SELECT ` + runColumns + `, c.queue, c.workflow, r.parent, r.root, r.tags, r.next
	FROM runs r JOIN classes c ON c.id = r.class `

func (c *conn) stored(query string, args ...any) ([]stored, error) {
	var found []stored
	err := c.query(query, func(r row) error {
		one, err := scanStored(r)
		found = append(found, one)
		return err
	}, args...)
	return found, err
}

func scanStored(r row) (stored, error) {
	v := scanRun(r)
	s := stored{key: v.key, inbox: v.inbox, hidden: v.hidden, incompatible: v.incompatible, Record: store.Record{
		Run: v.id, Chain: v.chain, WorkflowID: v.workflowID, Priority: v.priority, QueueState: v.queueState, Status: v.status,
		N: v.n, Seq: v.seq, Last: v.last, Fence: store.Fence{Epoch: v.epoch, Token: v.token}, Owner: v.session,
		Due: timeOf(v.due), Recoveries: v.recoveries, Closing: v.closing, Exempt: v.exempt,
		CreatedAt: timeOf(v.created), EndedAt: timeOf(v.ended), Retention: v.retention,
		Route:  store.Route{Queue: r.ColumnText(36), Workflow: r.ColumnText(37)},
		Parent: db.UnpackRun(r, 38), Root: db.UnpackRun(r, 39),
		CreatedBy: v.createdBy,
	}}
	if next := db.UnpackRun(r, 41); s.Status == event.StatusContinued || s.QueueState != store.StateEnded {
		s.Next = next
	} else {
		s.Rerun = next
	}
	s.Fair, s.Share, s.Group = v.fair, v.share, v.failureGroup
	if v.uses != "" {
		var err error
		if s.Uses, err = decodeUses(v.uses); err != nil {
			return s, fmt.Errorf("read uses of run %s: %w", v.id, err)
		}
		s.Whole, s.Permits, s.LeftQueue, s.WaitsSince = v.whole, v.permits, v.leftQueue, timeOf(v.waitsSince)
	}
	if !r.ColumnIsNull(40) {
		if err := json.Unmarshal([]byte(r.ColumnText(40)), &s.Tags); err != nil {
			return s, fmt.Errorf("read tags of run %s: %w", v.id, err)
		}
	}
	return s, nil
}

func (c *conn) frames(run int64, after uint64, limit int) ([][]byte, error) {
	var frames [][]byte
	err := c.query(`SELECT data FROM frames WHERE run = +? AND n > +? ORDER BY n LIMIT +?`, func(r row) error {
		frames = append(frames, blob(r, 0))
		return nil
	}, run, after, limit)
	return frames, err
}

func (c *conn) items(run int64) ([]store.Item, error) {
	var items []store.Item
	err := c.query(`SELECT id, scope, body FROM inbox WHERE run = +? ORDER BY seq`, func(r row) error {
		items = append(items, store.Item{ID: event.ItemID(r.ColumnText(0)), Scope: store.Scope(r.ColumnInt(1)), Body: blob(r, 2)})
		return nil
	}, run)
	return items, err
}

// Resolve returns the active run of a workflow ID. If there is none, it returns the last run that
// ended, if that run is retained.
func (s *Store) Resolve(ctx context.Context, name string) (event.RunID, error) {
	var id event.RunID
	err := s.read(ctx, func(c *conn) error {
		id = ""
		return c.query(`SELECT r.id FROM workflow_ids w JOIN runs r ON r.key = coalesce(w.active, w.last) WHERE w.name = +?`,
			func(r row) error { id = db.UnpackRun(r, 0); return nil }, name)
	})
	if err == nil && id == "" {
		err = store.ErrRunNotFound
	}
	if err != nil {
		return "", fmt.Errorf("resolve workflow id %q: %w", name, ofRun("", 0, err))
	}
	return id, nil
}
