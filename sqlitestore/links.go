package sqlitestore

import (
	"bytes"
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// RepairLinks changes the outbox of a run and what others have left with it, if both
// are as they were examined.
func (e *partitionScan) RepairLinks(ctx context.Context, m store.LinkRepair) (bool, error) {
	done, err := perform(ctx, e.s, func(t *tx) (bool, error) { return t.repairLinks(&m) })
	if err != nil {
		return false, fmt.Errorf("repair links of run %s: %w", m.Run, err)
	}
	return done, nil
}

func (t *tx) repairLinks(m *store.LinkRepair) (bool, error) {
	r, err := t.anyRun(m.Run)
	if err != nil || r == nil {
		return false, err
	}
	if same, err := t.linkable(r, m); err != nil || !same {
		return false, err
	}
	if err := t.addAudit(r, m.Reason, m.By); err != nil {
		return false, err
	}
	for _, o := range m.Remove {
		if err := t.exec(`DELETE FROM outbox WHERE sender = +? AND id = +?`, r.key, string(o.ID)); err != nil {
			return false, err
		}
	}
	for i := range m.Write {
		if _, err := t.AddRecord(r, &m.Write[i], t.ms()); err != nil {
			return false, err
		}
	}
	for _, id := range m.Confirm {
		if err := t.op.Confirm(r.id, id); err != nil {
			return false, err
		}
	}
	if r, err = t.anyRun(r.id); err != nil { // Confirm has changed it
		return false, err
	}
	return true, t.op.Reschedule(r)
}

// linkable reports whether everything is as it was examined.
func (t *tx) linkable(r *run, m *store.LinkRepair) (bool, error) {
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
