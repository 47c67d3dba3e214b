package sqlitestore

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// tx is the transaction in which a group of operations is executed.
type tx struct {
	*conn
	s         *Store
	now       time.Time // time of the operation in progress
	names     *names
	seq       int64 // last assigned number; 0 if not read yet
	wakes     []int64
	emptied   map[int64]bool // routes that have lost a run in this transaction
	tallies   map[tally]int  // changes of tallies
	notices   notices
	op        protocol.Op[*run, int64] // executes operations of the protocol on this transaction
	named     namedID                  // last workflow ID that was looked up
	lease     *session                 // last session that was looked up in the operation in progress
	purging   *run                     // run that is being purged
	unwritten *run                     // new run whose row is not in the table; see insertRow
	turned    bool                     // set if a limiter queue has a new recheck time
	called    bool                     // set if a limiter queue with a recheck time may have lost the time
}

// ms returns the time of the operation in milliseconds.
func (t *tx) ms() int64 { return t.now.UnixMilli() }

// names caches the numbers of the routes, and the last key of a run. The cache is valid until
// another process writes.
type names struct {
	ids     map[store.Route]int64
	routes  map[int64]store.Route
	lastKey int64 // last key assigned to a run; 0 if unknown
}

func newNames() names {
	return names{ids: map[store.Route]int64{}, routes: map[int64]store.Route{}}
}

func (n *names) add(id int64, c store.Route) {
	n.ids[c], n.routes[id] = id, c
}

func (n *names) drop(id int64) {
	delete(n.ids, n.routes[id])
	delete(n.routes, id)
}

// route returns the number of a route, or 0 if the route has no runs.
func (t *tx) route(c store.Route) (int64, error) {
	if id := t.names.ids[c]; id != 0 {
		return id, nil
	}
	id, err := t.number(`SELECT id FROM classes WHERE queue = +? AND workflow = +?`, c.Queue, c.Workflow)
	if err == nil && id != 0 {
		t.names.add(id, c)
	}
	return id, err
}

// ensureRoute returns the number of a route. It creates the row if necessary.
func (t *tx) ensureRoute(c store.Route) (int64, error) {
	id, err := t.route(c)
	if err != nil || id != 0 {
		return id, err
	}
	if err := t.exec(`INSERT INTO classes (queue, workflow, wake, blocks) VALUES (?, ?, 0, 0)`, c.Queue, c.Workflow); err != nil {
		return 0, err
	}
	id = t.LastInsertRowID()
	t.names.add(id, c)
	return id, nil
}

// routeName returns the route with a number.
func (t *tx) routeName(id int64) (store.Route, error) {
	if c, ok := t.names.routes[id]; ok {
		return c, nil
	}
	var c store.Route
	err := t.query(`SELECT queue, workflow FROM classes WHERE id = +?`, func(r row) error {
		c = store.Route{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)}
		return nil
	}, id)
	if err == nil {
		t.names.add(id, c)
	}
	return c, err
}

// next returns the next number of the counter for ready runs and items.
func (t *tx) next() (int64, error) {
	if t.seq == 0 {
		seq, err := t.number(`SELECT seq FROM counters`)
		if err != nil {
			return 0, err
		}
		t.seq = seq
	}
	t.seq++
	return t.seq, nil
}

// wake records that a route may have claimable runs. The end of the transaction announces it.
func (t *tx) wake(route int64) {
	if !slices.Contains(t.wakes, route) {
		t.wakes = append(t.wakes, route)
	}
}

// calm clears the wake of a route after a claim has emptied the route.
func (t *tx) calm(route int64) error {
	t.wakes = slices.DeleteFunc(t.wakes, func(known int64) bool { return known == route })
	return t.setWake(route, false)
}

// setWake sets or clears the wake of a route.
func (t *tx) setWake(route int64, set bool) error {
	return t.exec(`UPDATE classes SET wake = ?1 WHERE id = +?2 AND wake <> +?1`, set, route)
}

// finish completes the transaction before the commit. For each wake it chooses a waiting call of
// this process. If there is none, it stores the wake for the next call in any process. A call that
// begins to wait before the commit does not read the stored wake; writer.passOn finds such calls
// after the commit.
func (t *tx) finish() error {
	if t.seq != 0 {
		if err := t.exec(`UPDATE counters SET seq = ?`, t.seq); err != nil {
			return err
		}
	}
	if err := t.forgetRoutes(); err != nil {
		return err
	}
	if err := t.saveTallies(); err != nil {
		return err
	}
	for _, id := range t.wakes {
		route, err := t.routeName(id)
		if err != nil {
			return err
		}
		taken := t.s.notifier.promise(route, &t.notices)
		if err := t.setWake(id, !taken); err != nil {
			return err
		}
		if !taken {
			t.notices.stored = append(t.notices.stored, route)
		}
	}
	return nil
}

// forgetRoutes removes routes that have lost their last run, together with their wakes. For each
// route it searches two indexes: that of deleted runs and that of other runs.
func (t *tx) forgetRoutes() error {
	for route := range t.emptied {
		err := t.exec(`DELETE FROM classes WHERE id = +?1
			AND NOT EXISTS (SELECT 1 FROM runs INDEXED BY runs_class WHERE class = +?1 AND hidden = 0)
			AND NOT EXISTS (SELECT 1 FROM runs INDEXED BY runs_hidden WHERE class = +?1 AND hidden = 1)`, route)
		if err != nil {
			return err
		}
		if t.Changes() > 0 {
			t.names.drop(route)
			t.wakes = slices.DeleteFunc(t.wakes, func(known int64) bool { return known == route })
		}
	}
	return nil
}

// nextDue returns the earliest due time in milliseconds, or 0 if there is none.
func (c *conn) nextDue() (int64, error) {
	//nolint:unqueryvet // of queries that name their columns
	return c.number(`SELECT min(due) FROM (
		SELECT * FROM (SELECT due FROM runs WHERE due IS NOT NULL /*workable key*/ ORDER BY due LIMIT 1)
		UNION ALL SELECT * FROM (SELECT until FROM lines WHERE until IS NOT NULL /*lines until*/ ORDER BY until LIMIT 1))`)
}

// run contains the columns of a run that operations read and change.
type run struct {
	key          int64
	id           event.RunID
	chain        event.RunID
	wid          int64 // number of the workflow ID; 0 if none
	workflowID   string
	route        int64
	priority     int
	queueState   store.QueueState
	status       event.Status
	n, seq       uint64
	last         event.CommitID
	epoch        uint64
	token        event.Token
	owner        int64           // number of the session; 0 if none
	session      store.SessionID // ID of the owning session
	ord          int64
	due          int64
	recoveries   int
	incompatible incompatible
	closing      bool
	exempt       bool
	child        bool // the run has a parent
	inbox        int
	created      int64
	ended        int64
	retention    time.Duration
	hidden       bool
	createdBy    event.ItemID
	purge        int64
	uses         string // stored form of the uses of limits; empty if none
	line         int64  // limiter queue in which the run waits; 0 if none
	permits      bool
	whole        bool
	leftQueue    bool
	waitsSince   int64
	collect      string // key whose starts the run collects; empty if none or after a claim
	failureGroup string // failure group of the run; empty if none
	fair         string // fairness key of the run; empty if none
	share        int

	// The following fields are not columns of the run.
	row     *newRow      // nil once the row is in the table
	misfits incompatible // column incompatible
	items   int          // present number of items; the column is updated at the next save
	upTo    int64        // number of item n, counted from 1, if it was looked up
	upToN   int
	newest  int64 // number of the newest item, if it was added in this transaction
	bare    bool  // the run is known to have no step data
}

const (
	runColumns = `r.key, r.id, r.chain, r.wid, (SELECT name FROM workflow_ids WHERE id = r.wid), r.class, r.priority,
		r.place, r.status, r.n, r.seq, r.last, r.epoch, r.token, r.owner, (SELECT name FROM sessions WHERE id = r.owner),
		r.ord, r.due, r.recoveries, r.misfits, r.bits, r.inbox, r.created, r.ended,
		r.retention, r.hidden, r.created_by, r.purge, r.uses, r.line, r.waits, r.collects, r.fair, r.share, r.child, r.failure_group`
	selectRun = `SELECT ` + runColumns + ` FROM runs r `
)

func scanRun(r row) *run {
	v := &run{
		key: r.ColumnInt64(0), id: db.UnpackRun(r, 1), chain: db.UnpackRun(r, 2),
		wid: r.ColumnInt64(3), workflowID: r.ColumnText(4), route: r.ColumnInt64(5), priority: r.ColumnInt(6),
		queueState: store.QueueState(r.ColumnInt(7)), status: statusOf(r, 8),
		n: uint64(r.ColumnInt64(9)), seq: uint64(r.ColumnInt64(10)), epoch: uint64(r.ColumnInt64(12)),
		owner: r.ColumnInt64(14), session: store.SessionID(r.ColumnText(15)), ord: r.ColumnInt64(16), due: r.ColumnInt64(17),
		recoveries: r.ColumnInt(18), incompatible: incompatible(r.ColumnText(19)), closing: r.ColumnInt(20)&isClosing != 0, exempt: r.ColumnInt(20)&isExempt != 0, inbox: r.ColumnInt(21),
		created: r.ColumnInt64(22), ended: r.ColumnInt64(23),
		retention: time.Duration(r.ColumnInt64(24)), hidden: r.ColumnBool(25), createdBy: event.ItemID(r.ColumnText(26)), purge: r.ColumnInt64(27),
		uses: r.ColumnText(28), line: r.ColumnInt64(29), permits: r.ColumnInt(20)&hasPermits != 0, whole: r.ColumnInt(20)&isWhole != 0, leftQueue: r.ColumnInt(20)&isLeftQueue != 0,
		waitsSince: r.ColumnInt64(30), fair: r.ColumnText(32), share: r.ColumnInt(33), child: r.ColumnBool(34), failureGroup: r.ColumnText(35),
	}
	if v.epoch == 0 {
		v.collect = r.ColumnText(31)
	}
	if v.queueState == waits {
		v.queueState = store.StateReady
	}
	r.ColumnBytes(11, v.last[:])
	r.ColumnBytes(13, v.token[:])
	v.items, v.misfits = v.inbox, v.incompatible
	if v.chain == "" {
		v.chain = v.id
	}
	return v
}

// statusOf returns a status. It allocates nothing for the statuses of most runs.
func statusOf(r row, col int) event.Status {
	var text [16]byte
	switch n := r.ColumnBytes(col, text[:]); event.Status(text[:n]) {
	case event.StatusPending:
		return event.StatusPending
	case event.StatusRunning:
		return event.StatusRunning
	case event.StatusCompleted:
		return event.StatusCompleted
	}
	return event.Status(r.ColumnText(col))
}

// Bits of the column bits.
const (
	isClosing = 1 << iota
	isExempt
	hasPermits
	isWhole
	isLeftQueue
)

// waits is the value of the column place of a ready run that waits for permits. Such a run is in no
// index of claimable runs.
const waits store.QueueState = 7

// place returns the position of a run among the waiting runs, or 0 if it has none. The column ord
// has another meaning for a run that is queued for its workflow ID or that runs without permits. If
// a queued run kept its ord, it would later join its limiter queue before runs that have waited
// there longer.
func (r *run) place() int64 {
	if r.uses == "" && r.fair == "" || r.leftQueue || r.queueState == store.StateQueued {
		return 0
	}
	return r.ord
}

func (r *run) marks() (n int) {
	if r.closing {
		n |= isClosing
	}
	if r.exempt {
		n |= isExempt
	}
	if r.permits {
		n |= hasPermits
	}
	if r.whole {
		n |= isWhole
	}
	if r.leftQueue {
		n |= isLeftQueue
	}
	return n
}

// runs returns the runs of a query that begins with selectRun.
func (c *conn) runs(query string, args ...any) ([]*run, error) {
	var found []*run
	err := c.query(query, func(r row) error { found = append(found, scanRun(r)); return nil }, args...)
	return found, err
}

// anyRun returns a run, deleted or not. It returns nil if the run does not exist.
func (c *conn) anyRun(id event.RunID) (*run, error) {
	return c.oneRun(selectRun+`WHERE r.id = +?`, id)
}

func (c *conn) runByKey(key int64) (*run, error) {
	return c.oneRun(selectRun+`WHERE r.key = +?`, key)
}

// oneRun returns the run of a query that finds at most one.
func (c *conn) oneRun(query string, args ...any) (found *run, err error) {
	err = c.query(query, func(r row) error { found = scanRun(r); return nil }, args...)
	if err != nil {
		return nil, err
	}
	return found, nil
}
