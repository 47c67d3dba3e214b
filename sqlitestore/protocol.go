package sqlitestore

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

var _ protocol.Tx[*run, int64] = (*tx)(nil)

// Now returns the time of the operation in progress.
func (t *tx) Now() time.Time { return t.now }

// Run returns a run, hidden or not.
func (t *tx) Run(id event.RunID) (*run, error) { return t.anyRun(id) }

// State returns the state of a run.
func (t *tx) State(r *run) protocol.Run[int64] { return stateOf(r) }

func stateOf(r *run) protocol.Run[int64] {
	return protocol.Run[int64]{
		ID: r.id, Chain: r.chain, WorkflowID: r.workflowID, CreatedBy: r.createdBy, QueueState: r.queueState, Status: r.status,
		N: r.n, Seq: r.seq, Last: r.last, Fence: store.Fence{Epoch: r.epoch, Token: r.token}, Owner: r.owner, Unread: r.inbox,
		Due: r.due, Created: r.created, Ended: r.ended, Purge: r.purge, Retention: r.retention, Recoveries: r.recoveries,
		Closing: r.closing, Exempt: r.exempt, Hidden: r.hidden,
		Limited: r.uses != "", Permits: r.permits, Whole: r.whole, LeftQueue: r.leftQueue, Place: r.place(), WaitsSince: r.waitsSince, Fair: r.fair != "",
		Collect: r.collect, Group: r.failureGroup,
	}
}

// Save stores the changed columns of a run. The sets of the queue states are partial indexes, which
// SQLite updates.
func (t *tx) Save(r *run, s protocol.Run[int64]) error {
	before := stateOf(r)
	if before == s {
		return nil
	}
	t.tally(r, -1)
	defer func() { t.tally(r, 1) }()
	line := r.line
	if s.QueueState != r.queueState || s.Waits() != (line != 0) {
		if err := t.move(r, &s); err != nil {
			return err
		}
	}
	if r.owner != 0 && s.Owner == r.owner && r.inbox > 0 && s.Unread == 0 {
		t.notices.inbox(inboxEmpty, r.session, r.id, 0)
	}
	if s.Owner != r.owner && s.Owner != 0 {
		if err := t.toldOf(r, &s); err != nil {
			return err
		}
	}
	r.queueState, r.status, r.n, r.seq, r.last, r.epoch, r.token = s.QueueState, s.Status, s.N, s.Seq, s.Last, s.Fence.Epoch, s.Fence.Token
	r.owner, r.inbox, r.due, r.ended, r.purge, r.recoveries = s.Owner, s.Unread, s.Due, s.Ended, s.Purge, s.Recoveries
	r.closing, r.exempt, r.hidden, r.createdBy = s.Closing, s.Exempt, s.Hidden, s.CreatedBy
	r.permits, r.leftQueue, r.waitsSince, r.collect, r.failureGroup = s.Permits, s.LeftQueue, s.WaitsSince, s.Collect, s.Group

	if err := t.saveColumns(r, changed(&before, &s, r, line)); err != nil {
		return err
	}
	if line == r.line {
		return nil
	}
	if err := t.countIn(r, line, -1); err != nil {
		return err
	}
	if err := t.countIn(r, r.line, 1); err != nil {
		return err
	}
	return t.turn(line, r.line)
}

// changed returns the columns in which two states of a run differ. line is the limiter queue in
// which the run was before.
func changed(before, now *protocol.Run[int64], r *run, line int64) columns {
	c := logColumns
	for _, of := range []struct {
		columns columns
		differ  bool
	}{
		{inboxColumn, now.Unread != before.Unread},
		{placeColumns, now.QueueState != before.QueueState || now.Owner != before.Owner || now.Fence != before.Fence || r.line != line},
		{dueColumn, now.Due != before.Due},
		{endColumns, now.Status != before.Status || now.Ended != before.Ended || now.Purge != before.Purge},
		{rareColumns, now.CreatedBy != before.CreatedBy || now.WaitsSince != before.WaitsSince || now.Collect != before.Collect || now.Group != before.Group ||
			r.line != line || r.incompatible != r.misfits},
		{hiddenColumn, now.Hidden != before.Hidden},
	} {
		if of.differ {
			c |= of.columns
		}
	}
	return c
}

// toldOf records that the claim notifies the new owner of all items in the inbox.
func (t *tx) toldOf(r *run, s *protocol.Run[int64]) error {
	owner, err := t.Session(s.Owner)
	if r.session = owner.ID; err != nil || s.Unread == 0 {
		return err
	}
	last, err := t.number(`SELECT max(seq) FROM inbox WHERE run = +?`, r.key)
	if err == nil {
		t.notices.inbox(inboxKnown, r.session, r.id, last)
	}
	return err
}

// move updates the position of a run for its new queue state. If the run had an owner, move records
// that the owner has lost it.
func (t *tx) move(r *run, to *protocol.Run[int64]) (err error) {
	if r.owner != 0 {
		t.notices.inbox(inboxLost, r.session, r.id, 0)
		r.session = ""
	}
	r.ord, r.line = 0, 0
	if to.Limited || to.Fair { // the run keeps its position among the waiting runs
		r.ord = to.Place
	}
	placed := to.Place != 0 && (to.Fair || to.Waits())
	if to.QueueState == store.StateQueued || to.QueueState == store.StateReady && !placed {
		if r.ord, err = t.next(); err != nil {
			return err
		}
	}
	if to.Waits() {
		r.line, err = t.ensureQueue(r)
	}
	return err
}

// Insert stores a new run without a queue state.
func (t *tx) Insert(c *store.Create, chain event.RunID, createdBy event.ItemID) (*run, error) {
	w, err := t.lookUp(c.WorkflowID)
	if err != nil {
		return nil, err
	}
	t.named = namedID{} // the insert may create the row of the workflow ID
	return t.insert(c, w, chain, createdBy, t.ms())
}

// AppendFrame stores a frame.
func (t *tx) AppendFrame(r *run, n uint64, frame []byte) error { return t.appendFrame(r.key, n, frame) }

// Latest returns the last run of a chain, which has not continued.
func (t *tx) Latest(r *run) (*run, error) {
	last := r.id
	err := t.query(`SELECT tip FROM runs WHERE id = +? AND tip IS NOT NULL`, func(row row) error {
		last = db.UnpackRun(row, 0)
		return nil
	}, r.chain)
	if err != nil || last == r.id {
		return r, err
	}
	return t.anyRun(last)
}

// SetRerun records the rerun of a run.
func (t *tx) SetRerun(r *run, rerun event.RunID) error {
	return t.exec(`UPDATE runs SET next = ? WHERE key = +?`, rerun, r.key)
}

// SetNext makes next the continuation of r and the latest run of the chain.
func (t *tx) SetNext(r, next *run) error {
	if err := t.insertRow(next); err != nil { // later queries on the chain must find the row
		return err
	}
	if err := t.exec(`UPDATE runs SET next = ? WHERE key = +?`, next.id, r.key); err != nil {
		return err
	}
	return t.exec(`UPDATE runs SET tip = ? WHERE id = +?`, next.id, r.chain)
}

// Clear removes the data that only open runs have.
func (t *tx) Clear(r *run) error {
	r.incompatible = ""
	if r.items > 0 {
		if err := t.exec(`DELETE FROM inbox WHERE run = +?`, r.key); err != nil {
			return err
		}
		r.items = 0
	}
	if r.bare {
		return nil
	}
	return t.exec(`DELETE FROM notes WHERE run = +?`, r.key)
}

// StepData returns step data.
func (t *tx) StepData(r *run, key string) (body []byte, found bool, err error) {
	err = t.query(`SELECT body FROM notes WHERE run = +? AND key = +?`, func(row row) error {
		body, found = blob(row, 0), true
		return nil
	}, r.key, key)
	return body, found, err
}

// SetStepData stores step data.
func (t *tx) SetStepData(r *run, key string, body []byte) error {
	return t.exec(`INSERT OR REPLACE INTO notes (run, key, body) VALUES (?, ?, ?)`, r.key, key, body)
}

// NextDue returns the earliest due time of the partition.
func (t *tx) NextDue() (int64, error) { return t.nextDue() }

// Item returns the ID of an unread item.
func (t *tx) Item(r *run, n int) (id event.ItemID, err error) {
	err = t.query(`SELECT seq, id FROM inbox WHERE run = +? ORDER BY seq LIMIT 1 OFFSET +?`, func(row row) error {
		r.upTo, r.upToN, id = row.ColumnInt64(0), n+1, event.ItemID(row.ColumnText(1))
		return nil
	}, r.key, n)
	return id, err
}

// HasRunItem reports whether any unread item from number n on is for this run alone.
func (t *tx) HasRunItem(r *run, n int) (bool, error) {
	found, err := t.number(`SELECT EXISTS (SELECT 1 FROM (SELECT scope FROM inbox WHERE run = +? ORDER BY seq LIMIT -1 OFFSET +?) WHERE scope = +?)`,
		r.key, n, int(store.ScopeRun))
	return found != 0, err
}

// AddItem adds an item to the end of the inbox.
func (t *tx) AddItem(r *run, item store.Item) (err error) {
	if r.newest, err = t.next(); err != nil {
		return err
	}
	r.items++
	return t.exec(`INSERT INTO inbox VALUES (?, ?, ?, ?, ?)`, r.key, r.newest, string(item.ID), int(item.Scope), item.Body)
}

// DropItems removes the first n items.
func (t *tx) DropItems(r *run, n int) error {
	if r.upToN != n {
		if _, err := t.Item(r, n-1); err != nil {
			return err
		}
	}
	r.items, r.upToN = r.items-n, 0
	return t.exec(`DELETE FROM inbox WHERE run = +? AND seq <= +?`, r.key, r.upTo)
}

// MoveItems moves all unread items of a run to another run.
func (t *tx) MoveItems(from, to *run) error {
	to.items, from.items = from.items, 0
	return t.exec(`UPDATE inbox SET run = ? WHERE run = +?`, to.key, from.key)
}

// Seen reports whether a chain has accepted an item.
func (t *tx) Seen(chain event.RunID, id event.ItemID) (bool, error) {
	n, err := t.number(`SELECT count(*) FROM seen WHERE chain = +? AND id = +?`, chain, string(id))
	return n > 0, err
}

// Remember records that a chain has accepted an item.
func (t *tx) Remember(chain event.RunID, id event.ItemID, at int64, keep bool) error {
	return t.exec(`INSERT INTO seen VALUES (?, ?, ?, ?)`, chain, string(id), at, keep)
}

// ForgetSeen removes the IDs of items that the chain accepted before a time.
func (t *tx) ForgetSeen(r *run, before int64) error {
	return t.exec(`DELETE FROM seen WHERE chain = +? AND keep = 0 AND at < +? AND id NOT IN (SELECT id FROM inbox WHERE run = +?)`,
		r.chain, before, r.key)
}

// Unkeep removes an item ID that was kept until Confirm.
func (t *tx) Unkeep(chain event.RunID, id event.ItemID) error {
	return t.exec(`DELETE FROM seen WHERE chain = +? AND id = +? AND keep = 1`, chain, string(id))
}

// namedID is the cached result of a look-up of a workflow ID.
type namedID struct {
	name string
	workflowID
}

// lookUp returns the row of a workflow ID. It reads the number of the ID only once, because the
// number does not change.
func (t *tx) lookUp(name string) (workflowID, error) {
	if name == "" {
		return workflowID{}, nil
	}
	if t.named.name == name {
		return t.named.workflowID, nil
	}
	w, err := t.workflowID(name)
	if err == nil {
		t.named = namedID{name, w}
	}
	return w, err
}

// Active returns the active run of a workflow ID.
func (t *tx) Active(workflowID string) (*run, error) {
	t.named = namedID{}
	w, err := t.lookUp(workflowID)
	if err != nil || w.active == 0 {
		return nil, err
	}
	r, err := t.runByKey(w.active)
	if err == nil && r == nil {
		err = fmt.Errorf("workflow id %q has an active run that does not exist: %w", workflowID, errDamaged)
	}
	return r, err
}

// LastEnded returns the last ended run of a workflow ID.
func (t *tx) LastEnded(workflowID string) (*run, error) {
	w, err := t.lookUp(workflowID)
	if err != nil || w.last == 0 {
		return nil, err
	}
	return t.runByKey(w.last)
}

// Line returns the runs that wait for the active run of a workflow ID, in order.
func (t *tx) Line(workflowID string) ([]*run, error) {
	w, err := t.lookUp(workflowID)
	if err != nil {
		return nil, err
	}
	return t.runs(selectRun+`WHERE r.wid = +? AND r.place = 5 /*readable r.key*/ ORDER BY r.ord`, w.id)
}

// IsActive reports whether r is the active run of its workflow ID.
func (t *tx) IsActive(r *run) (bool, error) {
	t.named = namedID{}
	w, err := t.lookUp(r.workflowID)
	return w.active == r.key, err
}

// NextInQueue returns the run that has waited longest for the workflow ID of r.
func (t *tx) NextInQueue(r *run) (*run, error) {
	return t.oneRun(selectRun+`WHERE r.wid = +? AND r.place = 5 /*readable r.key*/ ORDER BY r.ord LIMIT 1`, r.wid)
}

// SetActive makes active the active run of the workflow ID of r.
func (t *tx) SetActive(r, active *run, ended bool) error {
	t.named = namedID{}
	var key any
	if active != nil {
		key = active.key
	}
	if ended {
		return t.exec(`UPDATE workflow_ids SET active = ?1, last = ?2 WHERE id = +?3`, key, r.key, r.wid)
	}
	return t.exec(`UPDATE workflow_ids SET active = ?1 WHERE id = +?2`, key, r.wid)
}

// ForgetEnded clears the last ended run of a workflow ID.
func (t *tx) ForgetEnded(r *run) error {
	return t.exec(`UPDATE workflow_ids SET last = NULL WHERE id = +?1 AND last = +?2`, r.wid, r.key)
}

// announce records the notifications of an operation. They are sent after the commit of the
// transaction.
func (t *tx) announce() error {
	if err := t.insertRow(t.unwritten); err != nil {
		return err
	}
	changes := &t.op.Changes
	for _, r := range changes.Ready {
		t.wake(r.route)
	}
	for _, r := range changes.Blocked {
		if err := t.tellBlocked(r); err != nil {
			return err
		}
	}
	for _, r := range changes.Due {
		t.wake(r.route)
		if t.notices.due == 0 || r.due < t.notices.due {
			t.notices.due = r.due
		}
	}
	for _, turn := range changes.Turns {
		t.wake(turn.First.route)
		if t.notices.due == 0 || turn.At < t.notices.due {
			t.notices.due = turn.At
		}
	}
	for _, r := range changes.Unread {
		t.notices.inbox(inboxNew, r.session, r.id, r.newest)
	}
	for _, r := range changes.Frames {
		t.notices.frames = append(t.notices.frames, r.id)
	}
	for _, s := range changes.Streams {
		t.notices.streams = append(t.notices.streams, streamTopic{chain: s.Chain, stream: s.Name})
	}
	changes.Reset()
	return nil
}

// leave removes a run from its queue state, and clears the columns that belong to the state. In the
// same transaction the caller must assign another state and save the run.
func (t *tx) leave(r *run) {
	if r.owner != 0 {
		t.notices.inbox(inboxLost, r.session, r.id, 0)
	}
	r.queueState, r.owner, r.session, r.token = 0, 0, "", event.Token{}
	r.ord, r.due, r.line, r.exempt = 0, 0, 0, false
}

// makeReady makes a run ready. It sets the queue state, adds the run to the ready set, and sets the
// wake of the route.
func (t *tx) makeReady(r *run) error {
	ord, err := t.next()
	if err != nil {
		return err
	}
	t.leave(r)
	r.queueState, r.ord = store.StateReady, ord
	t.wake(r.route)
	return t.save(r)
}

// park parks the run until due or until an item arrives. If due is 0, only an item ends the wait.
func (t *tx) park(r *run, due int64) error {
	t.leave(r)
	r.queueState, r.due = store.StateParked, due
	if due != 0 {
		earliest, err := t.nextDue()
		if err != nil {
			return err
		}
		if earliest == 0 || due < earliest {
			t.wake(r.route)
			t.notices.due = due
		}
	}
	return t.save(r)
}

// claimed returns the data that a session receives with a run.
func (t *tx) claimed(r *run) (store.ClaimedRun, error) {
	route, err := t.routeName(r.route)
	if err != nil {
		return store.ClaimedRun{}, err
	}
	granted := store.ClaimedRun{
		Run: r.id, WorkflowID: r.workflowID, Route: route, Fence: store.Fence{Epoch: r.epoch, Token: r.token},
		Recoveries: r.recoveries, N: r.n, Seq: r.seq, Last: r.last, Unread: r.inbox > 0,
		LeftQueue: r.leftQueue, Group: r.failureGroup,
	}
	if r.permits {
		granted.Waited = timeOf(r.waitsSince)
	}
	if r.uses != "" {
		uses, err := decodeUses(r.uses)
		if err != nil {
			return granted, err
		}
		granted.Uses = store.LocalOf(uses)
	}
	granted.Loaded, err = t.handOver(r)
	return granted, err
}

// handOver returns the log of a run that has only a short first frame. No session can have such a
// log in memory, and reading it later would take another transaction.
func (t *tx) handOver(r *run) (*store.Loaded, error) {
	if r.n != 1 || r.inbox > 0 || t.s.careful.Load() {
		return nil, nil //nolint:nilnil // the caller must read it
	}
	var loaded *store.Loaded
	err := t.query(`SELECT data FROM frames WHERE run = +? AND n = 1 AND length(data) <= 8192`, func(r row) error {
		loaded = &store.Loaded{Frames: [][]byte{blob(r, 0)}}
		return nil
	}, r.key)
	return loaded, err
}
