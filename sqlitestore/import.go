package sqlitestore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

var (
	_ store.Importer          = (*Store)(nil)
	_ store.StreamLister      = (*Store)(nil)
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

// StreamNames returns the names of the streams of a run's chain.
func (s *Store) StreamNames(ctx context.Context, run event.RunID) (names []string, err error) {
	err = s.read(ctx, func(c *conn) error {
		names = nil
		chain, _, err := c.standing(run, "")
		if err == nil && chain == "" {
			err = store.ErrRunNotFound
		}
		if err != nil {
			return err
		}
		return c.query(`SELECT name FROM streams WHERE chain = +? ORDER BY name`, func(r row) error {
			names = append(names, string(blob(r, 0)))
			return nil
		}, chain)
	})
	if err != nil {
		return nil, fmt.Errorf("list streams of run %s: %w", run, ofRun(run, 0, err))
	}
	return names, nil
}
