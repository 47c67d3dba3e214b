package sqlitestore

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// Create stores new runs in one transaction. If one of them fails because of damage, the others are
// stored in separate transactions.
func (s *Store) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	if len(runs) == 0 {
		return nil, s.enter(ctx)
	}
	one := func(t *tx, c *store.Create) (store.Created, error) {
		answer, err := t.create(c)
		if err != nil {
			err = fmt.Errorf("create run %s: %w", c.Run, err)
		}
		return answer, err
	}
	answers, err := inHalves(ctx, s, runs, one, func(c *store.Create) (store.Created, error) {
		answer, err := orInFront(s, func() (store.Created, error) {
			return performOn(ctx, s, c.Run, len(c.Frame), func(t *tx) (store.Created, error) { return one(t, c) })
		})
		if ofOneRun(err) {
			return store.Created{Err: err}, nil
		}
		return answer, err
	})
	if err != nil {
		return nil, fmt.Errorf("create %d runs: %w", len(runs), err)
	}
	for i, a := range answers {
		switch owner := runs[i].Owner; {
		case owner == nil:
		case a.Fence != store.Fence{}:
			s.notifier.waiters.OpenSession(owner.Session)
		default:
			s.notifier.heard(owner.Session, a.Err)
		}
	}
	return answers, nil
}

// create executes a request. If a session owns the new run, create ties the session to this store.
func (t *tx) create(c *store.Create) (store.Created, error) {
	t.lease = nil
	answer, err := t.op.Create(c)
	if err == nil {
		err = t.announce()
	}
	if err == nil && t.lease != nil && answer.Fence != (store.Fence{}) {
		err = t.adopt(t.lease, t.s.locks.Identity())
	}
	return answer, err
}

// workflowID is the row of a workflow ID.
type workflowID struct {
	id, active, last int64
}

func (c *conn) workflowID(name string) (workflowID, error) {
	var w workflowID
	if name == "" {
		return w, nil
	}
	err := c.query(`SELECT id, active, last FROM workflow_ids WHERE name = +?`, func(r row) error {
		w = workflowID{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2)}
		return nil
	}, name)
	return w, err
}

// insert stores the log and the row of a run without a queue state. chain is the first run of the
// chain, which may be the run itself.
func (t *tx) insert(c *store.Create, w workflowID, chain event.RunID, createdBy event.ItemID, created int64) (*run, error) {
	r := &run{id: c.Run, chain: chain, wid: w.id, workflowID: c.WorkflowID, priority: c.Priority,
		status: cmp.Or(c.Status, event.StatusPending), n: 1, seq: c.Seq, last: c.CommitID, created: created,
		retention: cmp.Or(max(c.Retention, 0), store.DefaultRetention), createdBy: createdBy, child: c.Parent != "", whole: c.Whole, fair: c.Fair, share: c.Weight()}
	var err error
	if r.uses, err = encodeUses(c.Uses); err != nil {
		return nil, err
	}
	if r.route, err = t.ensureRoute(c.Route); err != nil {
		return nil, err
	}
	if c.WorkflowID != "" && w.id == 0 {
		if err := t.exec(`INSERT INTO workflow_ids (name) VALUES (?)`, c.WorkflowID); err != nil {
			return nil, err
		}
		r.wid = t.LastInsertRowID()
	}
	row := &newRow{later: chain, parent: c.Parent, root: c.Root}
	if chain == r.id {
		row.later = ""
	}
	if row.tags, err = encodeTags(c.Tags); err != nil {
		return nil, err
	}
	if err := t.insertRow(t.unwritten); err != nil { // only one row at a time can be unwritten
		return nil, err
	}
	if r.key, err = t.newKey(); err != nil {
		return nil, err
	}
	r.row, t.unwritten = row, r
	t.tally(r, 1)
	for name, value := range c.Tags {
		if err := t.exec(insertTag, name, value, r.key, r.created); err != nil {
			return nil, err
		}
	}
	return r, t.appendFrame(r.key, 1, c.Frame)
}

const insertTag = `INSERT INTO tags (name, value, run, created) VALUES (?, ?, ?, ?)`

// encodeTags returns the stored form of tags; empty if there are no tags.
func encodeTags(tags map[string]string) (string, error) {
	if len(tags) == 0 {
		return "", nil
	}
	b, err := json.Marshal(tags)
	if err != nil {
		return "", fmt.Errorf("encode tags: %w", err)
	}
	return string(b), nil
}

// appendFrame stores a frame. A nil frame is stored as an empty one.
func (t *tx) appendFrame(run int64, n uint64, frame []byte) error {
	if frame == nil {
		frame = []byte{}
	}
	return t.exec(`INSERT INTO frames VALUES (?, ?, ?)`, run, n, frame)
}

// Collecting returns the run that collects the starts of a key. It ignores a claimed run, which may
// still have the key after a repair.
func (t *tx) Collecting(key string) (*run, error) {
	return t.oneRun(selectRun+`WHERE r.collects = +? AND r.epoch = 0 ORDER BY r.key LIMIT 1`, key)
}

// Joined returns the run that a start has joined.
func (t *tx) Joined(start event.RunID) (joined event.RunID, err error) {
	err = t.query(`SELECT run FROM joined WHERE start = +?`, func(row row) error {
		joined = db.UnpackRun(row, 0)
		return nil
	}, start)
	return joined, err
}

// Join records that a start has joined a run. It also removes entries older than a horizon, whose
// starts are not repeated.
func (t *tx) Join(start event.RunID, r *run, at int64) error {
	if err := t.exec(`INSERT INTO joined VALUES (?, ?, ?)`, start, r.id, at); err != nil {
		return err
	}
	return t.exec(`DELETE FROM joined WHERE at <= +?`, at-store.Horizon.Milliseconds())
}

// ReplaceItem replaces the first item of the inbox.
func (t *tx) ReplaceItem(r *run, item store.Item) error {
	return t.exec(`UPDATE inbox SET id = ?, scope = ?, body = ? WHERE run = +?4 AND seq = (SELECT min(seq) FROM inbox WHERE run = +?4)`,
		string(item.ID), int(item.Scope), item.Body, r.key)
}

func (c *conn) inspectCollecting(snap *store.Snapshot) error {
	return c.query(`SELECT collects, id FROM runs INDEXED BY runs_collects WHERE collects IS NOT NULL AND epoch = 0`, func(r row) error {
		snap.Collecting[r.ColumnText(0)] = db.UnpackRun(r, 1)
		return nil
	})
}

var (
	_ store.Importer          = (*Store)(nil)
	_ protocol.ImportTx[*run] = (*tx)(nil)
)

// Import adds a run that has ended in another store, in one transaction.
func (s *Store) Import(ctx context.Context, m store.Import) (bool, error) {
	if err := m.Check(); err != nil {
		return false, err
	}
	size := 0
	for _, frame := range m.Frames {
		size += len(frame)
	}
	fresh, err := performOn(ctx, s, m.Record.Run, size, func(t *tx) (bool, error) { return t.importRun(&m) })
	if err != nil {
		return false, fmt.Errorf("import run %s: %w", m.Record.Run, err)
	}
	return fresh, nil
}

func (t *tx) importRun(m *store.Import) (bool, error) {
	r, fresh, err := t.op.Import(t, m)
	if err == nil && fresh {
		err = t.addAudit(r, store.ReasonImported, m.By)
	}
	if err != nil {
		return false, err
	}
	return fresh, t.announce()
}

// InsertPast stores a run that was created at the given time.
func (t *tx) InsertPast(c *store.Create, chain event.RunID, created int64) (*run, error) {
	w, err := t.lookUp(c.WorkflowID)
	if err != nil {
		return nil, err
	}
	t.named = namedID{}
	r, err := t.insert(c, w, chain, "", created)
	if err != nil {
		return nil, err
	}
	return r, t.insertRow(r)
}

// ReplaceFrames replaces the log.
func (t *tx) ReplaceFrames(r *run, frames [][]byte) error {
	if err := t.exec(`DELETE FROM frames WHERE run = ?`, r.key); err != nil {
		return err
	}
	for i, frame := range frames {
		if err := t.appendFrame(r.key, uint64(i)+1, frame); err != nil {
			return err
		}
	}
	return nil
}

// SetChain records the next run of r and the latest run of its chain.
func (t *tx) SetChain(r *run, next, latest event.RunID) error {
	if next != "" {
		if err := t.exec(`UPDATE runs SET next = ? WHERE key = +?`, next, r.key); err != nil {
			return err
		}
	}
	if latest == "" {
		return nil
	}
	return t.exec(`UPDATE runs SET tip = ? WHERE id = +?`, latest, r.chain)
}
