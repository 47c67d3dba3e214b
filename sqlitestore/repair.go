package sqlitestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// RepairRun puts a run where it belongs, if it is as it was examined.
func (e *partitionScan) RepairRun(ctx context.Context, m store.RunRepair) (bool, error) {
	done, err := perform(ctx, e.s, func(t *tx) (bool, error) { return t.repairRun(e.snap.Runs[m.Record.Run], &m) })
	if err != nil {
		return false, fmt.Errorf("repair run %s: %w", m.Record.Run, err)
	}
	return done, nil
}

func (t *tx) repairRun(seen *store.RunState, m *store.RunRepair) (bool, error) {
	if seen == nil {
		return false, nil
	}
	found, err := t.loose(selectLoose+`WHERE r.id = +?`, m.Record.Run)
	if err != nil || len(found) == 0 || found[0].hidden != seen.Hidden || !reflect.DeepEqual(found[0].Record, seen.Record) {
		return false, err
	}
	r, err := t.runByKey(found[0].key)
	if err != nil {
		return false, err
	}
	if same, err := t.dropItems(r, seen.Inbox, m.Drop); err != nil || !same {
		return false, err
	}
	if err := t.addAudit(r, m.Reason, m.By); err != nil {
		return false, err
	}
	before := *r
	for _, write := range []func(*run, *store.RunRepair) error{t.rewrite, t.replaceTags, t.remember, t.keepStepData, t.putInState} {
		if err := write(r, m); err != nil {
			return false, err
		}
	}
	if r, err = t.runByKey(r.key); err != nil {
		return false, err
	}
	if err := errors.Join(t.recount(&before), t.recount(r)); err != nil {
		return false, err
	}
	t.notices.frames = append(t.notices.frames, r.id)
	if r.uses != "" || r.fair != "" {
		return true, t.rebuildLimits()
	}
	return true, nil
}

func (t *tx) addAudit(r *run, reason store.Reason, by store.SessionID) error {
	return t.exec(`INSERT INTO audit (at, run, reason, by, owner, place, status, epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ms(), r.key, string(reason), string(by), string(r.session), int(r.queueState), string(r.status), r.epoch)
}

// dropItems removes items from an inbox by their positions, and counts the rest.
// It reports whether they stood where they were seen; if not, nothing was written.
func (t *tx) dropItems(r *run, seen []store.Item, drop []int) (bool, error) {
	var items []int64
	var ids []event.ItemID
	err := t.query(`SELECT seq, id FROM inbox WHERE run = +? ORDER BY seq`, func(row row) error {
		items, ids = append(items, row.ColumnInt64(0)), append(ids, event.ItemID(row.ColumnText(1)))
		return nil
	}, r.key)
	if err != nil || slices.ContainsFunc(drop, func(n int) bool { return n >= len(ids) || ids[n] != seen[n].ID }) {
		return false, err
	}
	for _, n := range drop {
		if err := t.exec(`DELETE FROM inbox WHERE run = +? AND seq = +?`, r.key, items[n]); err != nil {
			return false, err
		}
	}
	r.inbox = len(items) - len(drop)
	return true, nil
}

// rewrite writes what only creates and repairs write.
func (t *tx) rewrite(r *run, m *store.RunRepair) error {
	rec := &m.Record
	route, err := t.ensureRoute(rec.Route)
	if err != nil {
		return err
	}
	if route != r.route {
		t.emptied[r.route] = true
		r.route = route
	}
	if r.wid, err = t.ensureWorkflowID(rec.WorkflowID); err != nil {
		return err
	}
	tags, err := encodeTags(rec.Tags)
	if err != nil {
		return err
	}
	chain := rec.Chain
	if chain == r.id {
		chain = ""
	}
	before := r.chain
	r.chain, r.status, r.n, r.seq, r.last, r.epoch = rec.Chain, rec.Status, rec.N, rec.Seq, rec.Last, rec.Fence.Epoch
	r.recoveries, r.closing, r.retention, r.hidden, r.created = rec.Recoveries, rec.Closing, rec.Retention, m.Hidden, millis(rec.CreatedAt)
	r.ended, r.purge, r.createdBy, r.fair, r.share, r.trouble = 0, 0, rec.CreatedBy, rec.Fair, rec.Share, rec.Group
	err = t.exec(`UPDATE runs SET chain = ?, wid = ?, class = ?, priority = ?, created = ?, retention = ?, hidden = ?, parent = ?, child = ?, root = ?, tags = ?,
		next = ?, created_by = ?, fair = ?, share = ? WHERE key = +?`, chain, nonZero(r.wid), r.route, rec.Priority, r.created, int64(r.retention), r.hidden,
		rec.Parent, rec.Parent != "", rec.Root, nonEmpty(tags), cmp.Or(rec.Next, rec.Rerun), nonEmpty(string(rec.CreatedBy)), nonEmpty(r.fair), nonZero(int64(r.share)), r.key)
	if err != nil {
		return err
	}
	return t.rejoin(before, r.chain)
}

// rejoin makes what is known of chains again that a run was or is in.
func (t *tx) rejoin(chains ...event.RunID) error {
	for _, chain := range chains {
		if err := t.exec(`UPDATE runs SET tip = (`+lastOfChain+`) WHERE id = +?1`, chain); err != nil {
			return err
		}
		head, err := t.anyRun(chain)
		if err != nil {
			return err
		}
		if head == nil {
			continue
		}
		if err := t.op.Reschedule(head); err != nil {
			return err
		}
	}
	return nil
}

// lastOfChain is the run of the chain of runs.id, if that has more than one, that
// has not continued. Of several, which is damage, it is the newest.
const lastOfChain = `SELECT last.id FROM runs last WHERE (last.chain = runs.id OR last.id = runs.id) AND (last.next IS NULL OR last.status <> 'continued')
	AND EXISTS (SELECT 1 FROM runs later WHERE later.chain = runs.id) ORDER BY last.created DESC, last.chain IS NULL, last.id DESC LIMIT 1`

// ensureWorkflowID returns the number of a workflow id and makes it if need be.
func (t *tx) ensureWorkflowID(name string) (int64, error) {
	if name == "" {
		return 0, nil
	}
	w, err := t.workflowID(name)
	if err != nil || w.id != 0 {
		return w.id, err
	}
	err = t.exec(`INSERT INTO workflow_ids (name) VALUES (?)`, name)
	return t.LastInsertRowID(), err
}

func (t *tx) replaceTags(r *run, m *store.RunRepair) error {
	if err := t.exec(`DELETE FROM tags WHERE run = +?`, r.key); err != nil {
		return err
	}
	for name, value := range m.Record.Tags {
		if err := t.exec(insertTag, name, value, r.key, r.created); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) remember(r *run, m *store.RunRepair) error {
	for id, at := range m.Remember {
		if err := t.exec(`INSERT INTO seen VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING`, r.chain, string(id), millis(at)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) keepStepData(r *run, m *store.RunRepair) error {
	for key, body := range m.StepData {
		err := t.exec(`INSERT INTO notes VALUES (?, ?, ?) ON CONFLICT (run, key) DO UPDATE SET body = excluded.body`, r.key, key, body)
		if err != nil {
			return err
		}
	}
	return nil
}

// putInState takes a run out of its queue state, whatever that is, and puts it where it
// belongs.
func (t *tx) putInState(r *run, m *store.RunRepair) error {
	rec := &m.Record
	r.incompatible = ""
	if rec.QueueState == store.StateOwned {
		r.due, r.ord, r.line = 0, 0, 0
		return t.save(r)
	}
	t.leave(r)
	switch rec.QueueState {
	case store.StateReady:
		return t.makeReady(r)
	case store.StateParked:
		return t.park(r, millis(rec.Due))
	case store.StateBlocked:
		return t.block(r)
	case store.StateQueued:
		ord, err := t.next()
		if err != nil {
			return err
		}
		r.queueState, r.ord = store.StateQueued, ord
	case store.StateEnded:
		for _, statement := range []string{`DELETE FROM inbox WHERE run = +?`, `DELETE FROM notes WHERE run = +?`} {
			if err := t.exec(statement, r.key); err != nil {
				return err
			}
		}
		r.queueState, r.inbox, r.ended, r.purge = store.StateEnded, 0, millis(rec.EndedAt), 0
		if err := t.save(r); err != nil {
			return err
		}
		return t.op.Reschedule(r)
	}
	return t.save(r)
}

// RepairName sets what a workflow id leads to, if it leads to what it was seen to.
func (e *partitionScan) RepairName(ctx context.Context, m store.NameRepair) (bool, error) {
	done, err := perform(ctx, e.s, func(t *tx) (bool, error) { return t.repairName(e.snap, &m) })
	if err != nil {
		return false, fmt.Errorf("repair workflow id %q: %w", m.WorkflowID, err)
	}
	return done, nil
}

func (t *tx) repairName(seen *store.Snapshot, m *store.NameRepair) (bool, error) {
	wid := m.WorkflowID
	now, err := t.leads(wid)
	if err != nil || now.Active != seen.Active[wid] || now.Last != seen.LastEnded[wid] {
		return false, err
	}
	if now.Active == m.Active && now.Last == m.Last && slices.Equal(now.Line, m.Line) {
		return false, nil // the line changes only when a run is queued, or ceases to be
	}
	id, err := t.ensureWorkflowID(wid)
	if err != nil {
		return false, err
	}
	err = t.exec(`UPDATE workflow_ids SET active = (SELECT key FROM runs WHERE id = +?), last = (SELECT key FROM runs WHERE id = +?) WHERE id = +?`,
		m.Active, m.Last, id)
	if err != nil {
		return false, err
	}
	for _, run := range m.Line {
		ord, err := t.next()
		if err == nil {
			err = t.exec(`UPDATE runs SET ord = ? WHERE id = +? AND place = 5`, ord, run)
		}
		if err != nil {
			return false, err
		}
	}
	r, err := first(t.runs(selectRun+`WHERE r.id = +?`, m.Run))
	if err != nil || r == nil {
		return err == nil, err
	}
	return true, t.addAudit(r, m.Reason, m.By)
}

// leads returns what a workflow id leads to.
func (t *tx) leads(workflowID string) (store.NameRepair, error) {
	var now store.NameRepair
	err := t.query(`SELECT a.id, l.id FROM workflow_ids w LEFT JOIN runs a ON a.key = w.active LEFT JOIN runs l ON l.key = w.last
		WHERE w.name = +?`, func(r row) error {
		now.Active, now.Last = unpackRun(r, 0), unpackRun(r, 1)
		return nil
	}, workflowID)
	if err != nil {
		return now, err
	}
	err = t.query(`SELECT r.id FROM runs r JOIN workflow_ids w ON w.id = r.wid WHERE w.name = +? AND r.place = 5 ORDER BY r.ord`, func(r row) error {
		now.Line = append(now.Line, unpackRun(r, 0))
		return nil
	}, workflowID)
	return now, err
}

// Forget removes what a chain has accepted, and the streams of a chain, of which no run
// exists. All else that is kept of a run is kept under its number, not its id.
func (e *partitionScan) Forget(ctx context.Context, run event.RunID) (bool, error) {
	done, err := perform(ctx, e.s, func(t *tx) (bool, error) {
		const unknown = `chain = +?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE id = +?1) AND NOT EXISTS (SELECT 1 FROM runs WHERE chain = +?1)`
		kept, err := t.number(`SELECT (SELECT count(*) FROM seen WHERE `+unknown+`) + (SELECT count(*) FROM streams WHERE `+unknown+`)`, run)
		if err != nil || kept == 0 {
			return false, err
		}
		if err := t.dropStreams(run); err != nil {
			return false, err
		}
		return true, t.exec(`DELETE FROM seen WHERE chain = +?`, run)
	})
	if err != nil {
		return false, fmt.Errorf("forget run %s: %w", run, err)
	}
	return done, nil
}
