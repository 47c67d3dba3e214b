package sqlitestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// rebuild deletes the derived data of a run and writes them again. It uses one transaction, so a
// crash leaves the old or the new state, and no other operation comes between. The stored state of
// the run must be unchanged since it was read. Each rebuild changes that state by increasing the
// epoch of the run. So of several concurrent repairs only one rebuilds the run, and a repair reads
// a run again if a commit came between. The epoch also invalidates the fence of an owner: its next
// commit is refused as if its lease had expired. Unread items are kept, except those that the
// caller has found to be duplicates or to be in the log already.
func (e *partitionState) rebuild(ctx context.Context, m *store.Rebuild) (bool, error) {
	done, err := perform(ctx, e.s, func(t *tx) (bool, error) {
		if m.Record == nil {
			return t.forget(m.Run)
		}
		return t.rebuild(e, m)
	})
	if err != nil {
		return false, fmt.Errorf("rebuild run %s: %w", m.Run, err)
	}
	return done, nil
}

func (t *tx) rebuild(e *partitionState, m *store.Rebuild) (bool, error) {
	r, err := t.unchanged(e, m)
	if err != nil || r == nil {
		return false, err
	}
	if same, err := t.dropItems(r, e.snap.Runs[m.Run].Inbox, m.Drop); err != nil || !same {
		return false, err
	}
	for _, reason := range m.Reasons {
		if err := t.addAudit(r, reason, m.By); err != nil {
			return false, err
		}
	}
	before := *r
	for _, write := range []func(*run, *store.Rebuild) error{t.rewrite, t.replaceTags, t.remember, t.keepStepData} {
		if err := write(r, m); err != nil {
			return false, err
		}
	}
	turn := int64(0) // position of a run in the queue of its workflow ID, which it keeps
	if before.queueState == store.StateQueued && before.wid == r.wid {
		turn = before.ord
	}
	err = errors.Join(t.putInState(r, m, turn), t.relink(r, m), t.lead(r, m, e.leads[m.Run]))
	if err != nil {
		return false, err
	}
	if r, err = t.runByKey(r.key); err != nil {
		return false, err
	}
	t.tally(&before, -1)
	t.tally(r, 1)
	t.notices.frames = append(t.notices.frames, r.id)
	if r.uses != "" || r.fair != "" {
		return true, t.rebuildLimits()
	}
	return true, nil
}

// unchanged returns the run. It returns nil if the run or related data have changed since they were
// read.
func (t *tx) unchanged(e *partitionState, m *store.Rebuild) (*run, error) {
	seen := e.snap.Runs[m.Run]
	if seen == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	found, err := t.loose(selectLoose+`WHERE r.id = +?`, m.Run)
	if err != nil || len(found) == 0 || found[0].hidden != seen.Hidden || !reflect.DeepEqual(found[0].Record, seen.Record) {
		return nil, err
	}
	now, err := t.leads(m.Record.WorkflowID)
	if err != nil {
		return nil, err
	}
	was := leads{e.snap.Active[m.Record.WorkflowID], e.snap.LastEnded[m.Record.WorkflowID]}
	if !now.allow(was, m) {
		return nil, nil //nolint:nilnil // it has changed
	}
	r, err := t.runByKey(found[0].key)
	if err != nil {
		return nil, err
	}
	if same, err := t.linkable(r, m); err != nil || !same {
		return nil, err
	}
	return r, nil
}

func (t *tx) addAudit(r *run, reason store.Reason, by store.SessionID) error {
	return t.exec(`INSERT INTO audit (at, run, reason, by, owner, place, status, epoch) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ms(), r.key, string(reason), string(by), string(r.session), int(r.queueState), string(r.status), r.epoch)
}

// dropItems removes the items at the positions drop from an inbox, and counts the others. If the
// inbox does not equal seen, it removes nothing and returns false.
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

// rewrite writes the columns that only creates and repairs change.
func (t *tx) rewrite(r *run, m *store.Rebuild) error {
	rec := m.Record
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
	r.ended, r.purge, r.createdBy, r.fair, r.share, r.failureGroup = 0, 0, rec.CreatedBy, rec.Fair, rec.Share, rec.Group
	err = t.exec(`UPDATE runs SET chain = ?, wid = ?, class = ?, priority = ?, created = ?, retention = ?, hidden = ?, parent = ?, child = ?, root = ?, tags = ?,
		next = ?, created_by = ?, fair = ?, share = ? WHERE key = +?`, chain, nonZero(r.wid), r.route, rec.Priority, r.created, int64(r.retention), r.hidden,
		rec.Parent, rec.Parent != "", rec.Root, nonEmpty(tags), cmp.Or(rec.Next, rec.Rerun), nonEmpty(string(rec.CreatedBy)), nonEmpty(r.fair), nonZero(int64(r.share)), r.key)
	if err != nil {
		return err
	}
	return t.rejoin(before, r.chain)
}

// rejoin restores the data of the given chains: the chain of the run before the rebuild and after
// it.
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

// lastOfChain selects the run of the chain of runs.id that has not continued, if the chain has more
// than one run. If damage has left several such runs, it selects the newest.
const lastOfChain = `SELECT last.id FROM runs last WHERE (last.chain = runs.id OR last.id = runs.id) AND (last.next IS NULL OR last.status <> 'continued')
	AND EXISTS (SELECT 1 FROM runs later WHERE later.chain = runs.id) ORDER BY last.created DESC, last.chain IS NULL, last.id DESC LIMIT 1`

// ensureWorkflowID returns the number of a workflow ID. It creates the row if necessary.
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

func (t *tx) replaceTags(r *run, m *store.Rebuild) error {
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

func (t *tx) remember(r *run, m *store.Rebuild) error {
	for id, at := range m.Remember {
		if err := t.exec(`INSERT INTO seen VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING`, r.chain, string(id), millis(at)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) keepStepData(r *run, m *store.Rebuild) error {
	for key, body := range m.StepData {
		err := t.exec(`INSERT INTO notes VALUES (?, ?, ?) ON CONFLICT (run, key) DO UPDATE SET body = excluded.body`, r.key, key, body)
		if err != nil {
			return err
		}
	}
	return nil
}

// putInState moves a run from any queue state to the one in m.
func (t *tx) putInState(r *run, m *store.Rebuild, turn int64) error {
	rec := m.Record
	r.incompatible = ""
	t.leave(r)
	switch rec.QueueState {
	case store.StateReady:
		return t.makeReady(r)
	case store.StateParked:
		return t.park(r, millis(rec.Due))
	case store.StateBlocked:
		return t.block(r)
	case store.StateQueued:
		if turn == 0 {
			next, err := t.next()
			if err != nil {
				return err
			}
			turn = next
		}
		r.queueState, r.ord = store.StateQueued, turn
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

// leads contains the active run and the last ended run of a workflow ID.
type leads struct{ active, last event.RunID }

// leads returns the active run and the last ended run of a workflow ID.
func (t *tx) leads(workflowID string) (now leads, err error) {
	err = t.query(`SELECT a.id, l.id FROM workflow_ids w LEFT JOIN runs a ON a.key = w.active LEFT JOIN runs l ON l.key = w.last
		WHERE w.name = +?`, func(r row) error {
		now = leads{db.UnpackRun(r, 0), db.UnpackRun(r, 1)}
		return nil
	}, workflowID)
	return now, err
}

// allow reports whether the rebuild may change the active and the last run of the workflow ID. Each
// must be unchanged since it was read, or must be the run itself. A run that joins the queue must
// have another active run to wait for.
func (now leads) allow(was leads, m *store.Rebuild) bool {
	switch {
	case m.Record.WorkflowID == "":
		return true
	case m.Record.QueueState == store.StateQueued:
		return now.active != "" && now.active != m.Run
	case m.Record.QueueState != store.StateEnded:
		return now.active == was.active || now.active == m.Run
	}
	return !m.Last || now.last == was.last || now.last == m.Run
}

// lead updates the workflow ID of a run, and removes the run from other workflow IDs.
func (t *tx) lead(r *run, m *store.Rebuild, seen []string) error {
	ended, wid := m.Record.QueueState == store.StateEnded, m.Record.WorkflowID
	active := !ended && m.Record.QueueState != store.StateQueued
	for _, name := range seen {
		err := t.exec(`UPDATE workflow_ids SET active = iif(active = ?1 AND ?2, NULL, active), last = iif(last = ?1 AND ?3, NULL, last) WHERE name = +?4`,
			r.key, name != wid || !active, name != wid || !m.Last, name)
		if err != nil {
			return err
		}
	}
	if wid == "" || !active && !m.Last {
		return nil
	}
	return t.exec(`UPDATE workflow_ids SET active = iif(?2, ?1, active), last = iif(?3, ?1, last) WHERE id = +?4`, r.key, active, m.Last, r.wid)
}

// forget removes the accepted items and the streams of a chain that has no runs. All other data are
// stored under the key of a run and not under its ID.
func (t *tx) forget(run event.RunID) (bool, error) {
	const unknown = `chain = +?1 AND NOT EXISTS (SELECT 1 FROM runs WHERE id = +?1) AND NOT EXISTS (SELECT 1 FROM runs WHERE chain = +?1)`
	kept, err := t.number(`SELECT (SELECT count(*) FROM seen WHERE `+unknown+`) + (SELECT count(*) FROM streams WHERE `+unknown+`)`, run)
	if err != nil || kept == 0 {
		return false, err
	}
	if err := t.dropStreams(run); err != nil {
		return false, err
	}
	return true, t.exec(`DELETE FROM seen WHERE chain = +?`, run)
}

// relink changes the records in the outbox of a run, and the data that its records have left at
// receivers.
func (t *tx) relink(r *run, m *store.Rebuild) error {
	for _, o := range m.Remove {
		if err := t.exec(`DELETE FROM outbox WHERE sender = +? AND id = +?`, r.key, string(o.ID)); err != nil {
			return err
		}
	}
	for i := range m.Write {
		if _, err := t.AddRecord(r, &m.Write[i], t.ms()); err != nil {
			return err
		}
	}
	for _, id := range m.Confirm {
		if err := t.op.Confirm(r.id, id); err != nil {
			return err
		}
	}
	r, err := t.anyRun(r.id) // Confirm has changed the row
	if err != nil {
		return err
	}
	return t.op.Reschedule(r)
}

// linkable reports whether the run and its records are unchanged since they were read.
func (t *tx) linkable(r *run, m *store.Rebuild) (bool, error) {
	there := map[event.ItemID]store.Outgoing{}
	err := t.query(`SELECT `+outboxColumns+` FROM outbox o JOIN runs r ON r.key = o.sender WHERE o.sender = +?`, func(row row) error {
		o := scanOutgoing(row)
		there[o.ID] = o
		return nil
	}, r.key)
	if err != nil {
		return false, err
	}
	for _, seen := range m.Remove {
		o, ok := there[seen.ID]
		if !ok || o.Phase != seen.Phase || o.To != seen.To || !o.Since.Equal(seen.Since) || !bytes.Equal(o.Body, seen.Body) {
			return false, nil
		}
		delete(there, seen.ID)
	}
	for _, s := range m.Write {
		if _, ok := there[s.ID]; ok {
			return false, nil
		}
	}
	for _, id := range m.Confirm {
		n, err := t.number(`SELECT (SELECT count(*) FROM seen WHERE chain IN (?1, ?4) AND id = +?2 AND keep = 1) +
			(SELECT count(*) FROM runs WHERE key = +?3 AND created_by = +?2)`, r.chain, string(id), r.key, r.id)
		if err != nil || n == 0 {
			return false, err
		}
	}
	return true, nil
}
