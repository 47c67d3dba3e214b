package sqlitestore

import (
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Share returns the fairness key of a run.
func (t limitTx) Share(r *run) (protocol.Share, error) {
	route, err := t.routeName(r.route)
	return protocol.Share{FlowID: store.FlowID{Route: route, Priority: r.priority}, Key: r.fair, Weight: r.share}, err
}

// Flow returns the state of a flow.
func (t limitTx) Flow(id store.FlowID) (f protocol.Flow, err error) {
	class, err := t.route(id.Route)
	if err != nil || class == 0 {
		return f, err
	}
	err = t.query(`SELECT waits, pass, last FROM flows WHERE class = +? AND priority = +?`, func(r row) error {
		f = protocol.Flow{Waits: r.ColumnInt(0), Pass: r.ColumnInt64(1), Last: r.ColumnInt64(2)}
		return nil
	}, class, id.Priority)
	return f, err
}

// SaveFlow stores a flow.
func (t limitTx) SaveFlow(id store.FlowID, f protocol.Flow) error {
	class, err := t.route(id.Route)
	if err != nil {
		return err
	}
	if f.Waits > 0 {
		return t.exec(`INSERT INTO flows VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE SET waits = ?3, pass = ?4, last = ?5`,
			class, id.Priority, f.Waits, f.Pass, f.Last)
	}
	for _, statement := range []string{`DELETE FROM flows WHERE class = +? AND priority = +?`, `DELETE FROM passes WHERE class = +? AND priority = +?`} {
		if err := t.exec(statement, class, id.Priority); err != nil {
			return err
		}
	}
	return nil
}

// Pass returns the pass of a key.
func (t limitTx) Pass(s protocol.Share) (int64, error) {
	class, err := t.route(s.Route)
	if err != nil {
		return 0, err
	}
	return t.number(`SELECT pass FROM passes WHERE class = +? AND priority = +? AND key = +?`, class, s.Priority, s.Key)
}

// SavePass stores it. With each key that comes up to two others are forgotten that have
// nothing to wait for, and would begin at the present pass.
func (t limitTx) SavePass(s protocol.Share, pass int64) error {
	class, err := t.route(s.Route)
	if err != nil {
		return err
	}
	if err := t.exec(`INSERT INTO passes VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET pass = ?4`, class, s.Priority, s.Key, pass); err != nil {
		return err
	}
	return t.exec(`DELETE FROM passes WHERE (class, priority, key) IN (SELECT class, priority, key FROM passes INDEXED BY passes_over
		WHERE class = +?1 AND priority = +?2 AND pass <= (SELECT pass FROM flows WHERE class = +?1 AND priority = +?2) ORDER BY pass LIMIT 2)`, class, s.Priority)
}

// Come returns the next number of the order in which runs come.
func (t limitTx) Come() (int64, error) { return t.next() }

// Came lets that go on after a place.
func (t limitTx) Came(place int64) error {
	t.seq = max(t.seq, place)
	return nil
}

// inspectFlows reads how many runs are counted in each flow.
func (c *conn) inspectFlows(snap *store.Snapshot) error {
	return c.query(`SELECT c.queue, c.workflow, f.priority, f.waits FROM flows f JOIN classes c ON c.id = f.class`, func(r row) error {
		snap.Flows[store.FlowID{Route: store.Route{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)}, Priority: r.ColumnInt(2)}] = r.ColumnInt(3)
		return nil
	})
}
