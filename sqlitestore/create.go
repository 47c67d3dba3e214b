package sqlitestore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Create stores new runs, all of them in one transaction.
func (s *Store) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	if len(runs) == 0 {
		return nil, s.enter(ctx)
	}
	answers, err := perform(ctx, s, func(t *tx) ([]store.Created, error) {
		answers := make([]store.Created, len(runs))
		for i := range runs {
			var err error
			if answers[i], err = t.create(&runs[i]); err != nil {
				return nil, fmt.Errorf("create run %s: %w", runs[i].Run, err)
			}
		}
		return answers, nil
	})
	if err != nil {
		return nil, fmt.Errorf("create %d runs: %w", len(runs), err)
	}
	for i, a := range answers {
		switch owner := runs[i].Owner; {
		case owner == nil:
		case a.Fence != store.Fence{}:
			s.hub.openSession(owner.Session)
		default:
			s.hub.heard(owner.Session, a.Err)
		}
	}
	return answers, nil
}

func (t *tx) create(c *store.Create) (store.Created, error) {
	if err := c.Check(); err != nil {
		return store.Created{Err: err}, nil
	}
	if t.late(c.Deadline) {
		return store.Created{Err: store.ErrStale}, nil
	}
	known, err := t.number(`SELECT key FROM runs WHERE id = +?`, packRun(c.Run))
	if err != nil {
		return store.Created{}, err
	}
	if known != 0 {
		return t.createAgain(known, c)
	}
	w, err := t.workflowID(c.WorkflowID)
	switch {
	case err != nil:
		return store.Created{}, err
	case w.active != 0:
		return t.createBehind(w, c)
	case w.last != 0:
		if err := t.refuses(w, c); err != nil {
			return keepRefusal(err)
		}
	}
	due := t.startTime(c)
	owner, err := t.ownerOf(c, due)
	if err != nil {
		return keepRefusal(err)
	}
	r, err := t.insertWithItems(c, w)
	if err != nil {
		return store.Created{}, err
	}
	if r.wid != 0 {
		if err := t.exec(`UPDATE workflow_ids SET active = ? WHERE id = +?`, r.key, r.wid); err != nil {
			return store.Created{}, err
		}
	}
	switch {
	case owner != nil:
		t.own(r, owner, c.Owner.Token)
		err = t.save(r)
	case due != 0:
		err = t.park(r, due)
	default:
		err = t.makeReady(r)
	}
	return r.answer(c), err
}

// createAgain answers a request whose run an earlier try has created.
func (t *tx) createAgain(key int64, c *store.Create) (store.Created, error) {
	if c.Owner == nil {
		return store.Created{Run: c.Run, New: true}, nil
	}
	r, err := t.runByKey(key)
	if err != nil {
		return store.Created{}, err
	}
	return r.answer(c), nil
}

// answer says that the run of a request is there, created now or by an earlier try.
func (r *run) answer(c *store.Create) store.Created {
	answer := store.Created{Run: r.id, New: true}
	if c.Owner != nil && r.holds(c.Owner.Fence()) {
		answer.Fence = store.Fence{Epoch: r.epoch, Token: r.token}
	}
	return answer
}

// ownerOf returns the session that will own a new run from its creation on, nil if
// the run waits for a worker; due is when it may start.
func (t *tx) ownerOf(c *store.Create, due int64) (*session, error) {
	switch {
	case c.Owner == nil:
		return nil, nil //nolint:nilnil // it waits for a worker
	case due != 0:
		return nil, refuse(store.ErrNotClaimable)
	}
	l, err := t.live(c.Owner.Session)
	if err != nil {
		return nil, err
	}
	return l, t.adopt(l, t.s.locks.identity())
}

// workflowID is the state of a workflow id.
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

// createBehind answers a start whose workflow id has an active run.
func (t *tx) createBehind(w workflowID, c *store.Create) (store.Created, error) {
	active, err := t.runByKey(w.active)
	if err != nil {
		return store.Created{}, err
	}
	if active == nil {
		return store.Created{}, fmt.Errorf("workflow id %q has an active run that is not there: %w", c.WorkflowID, errDamaged)
	}
	switch c.Active {
	case store.ActiveFail:
		return store.Created{Err: &store.ActiveError{WorkflowID: c.WorkflowID, Run: active.id}}, nil
	case store.ActiveCancel:
		if c.Owner != nil {
			return store.Created{Err: store.ErrNotClaimable}, nil
		}
		return t.createInLine(w, active, c)
	}
	return store.Created{Run: active.id}, nil
}

// createInLine stores a run that starts when all before it have ended, and asks
// them to end.
func (t *tx) createInLine(w workflowID, active *run, c *store.Create) (store.Created, error) {
	before, err := t.runs(selectRun+`WHERE r.wid = +? AND r.place = 5 ORDER BY r.ord`, w.id)
	if err != nil {
		return store.Created{}, err
	}
	r, err := t.insertWithItems(c, w)
	if err != nil {
		return store.Created{}, err
	}
	if r.ord, err = t.next(); err != nil {
		return store.Created{}, err
	}
	r.place = store.PlaceLined
	if err := t.save(r); err != nil {
		return store.Created{}, err
	}
	for _, other := range append([]*run{active}, before...) {
		if err := t.cancel(other, c.Cancel); err != nil {
			return store.Created{}, err
		}
	}
	return store.Created{Run: c.Run, New: true}, nil
}

// cancel delivers the wish of a successor. A run that is closing gets it, too:
// the successor cannot be told to come again.
func (t *tx) cancel(r *run, item store.Item) error {
	s := t.State(r)
	return t.op.Tell(r, &s, item)
}

// refuses returns a refusal if the way in which the last run of the workflow id
// has ended forbids another.
func (t *tx) refuses(w workflowID, c *store.Create) error {
	if c.Finished == store.FinishedAllow {
		return nil
	}
	last, err := t.runByKey(w.last)
	if err != nil || last == nil {
		return err
	}
	if c.Finished == store.FinishedAllowFailure && last.status != event.StatusCompleted {
		return nil
	}
	return refuse(&store.FinishedError{WorkflowID: c.WorkflowID, Run: last.id, Status: last.status})
}

// keepRefusal makes a refusal the answer to one of several requests.
func keepRefusal(err error) (store.Created, error) {
	if no, ok := errors.AsType[protocol.Refused](err); ok {
		return store.Created{Err: no.Err}, nil
	}
	return store.Created{}, err
}

// insertWithItems is insert for the first run of a chain, and accepts what it is created
// with. The caller puts the run into a place, and saves how many items it has.
func (t *tx) insertWithItems(c *store.Create, w workflowID) (*run, error) {
	r, err := t.insert(c, w, c.Run, c.Birth)
	if err != nil {
		return nil, err
	}
	s := t.State(r)
	for _, item := range c.Items {
		if err := t.op.Accept(r, &s, item, false); err != nil {
			return nil, err
		}
	}
	r.inbox = r.items
	return r, nil
}

// insert stores the log and what is known of the run, in no place yet. The first
// run of a chain is its own.
func (t *tx) insert(c *store.Create, w workflowID, chain event.RunID, createdBy event.ItemID) (*run, error) {
	r := &run{id: c.Run, chain: chain, wid: w.id, workflowID: c.WorkflowID, priority: c.Priority,
		status: cmp.Or(c.Status, event.StatusPending), n: 1, seq: c.Seq, last: c.CID, created: t.ms(),
		retention: cmp.Or(max(c.Retention, 0), store.DefaultRetention), createdBy: createdBy}
	var err error
	if r.class, err = t.ensureClass(c.Class); err != nil {
		return nil, err
	}
	if c.WorkflowID != "" && w.id == 0 {
		if err := t.exec(`INSERT INTO workflow_ids (name) VALUES (?)`, c.WorkflowID); err != nil {
			return nil, err
		}
		r.wid = t.LastInsertRowID()
	}
	var later any
	if chain != r.id {
		later = packRun(chain)
	}
	tags, err := encodeTags(c.Tags)
	if err != nil {
		return nil, err
	}
	err = t.exec(`INSERT INTO runs (id, chain, wid, class, priority, place, status, n, seq, last, epoch,
		recoveries, closing, inbox, created, retention, hidden, parent, root, tags, birth)
		VALUES (?, ?, ?, ?, ?, 0, ?, 1, ?, ?, 0, 0, 0, 0, ?, ?, 0, ?, ?, ?, ?)`,
		packRun(r.id), later, nonZero(r.wid), r.class, r.priority, string(r.status), r.seq, r.last[:],
		r.created, int64(r.retention), packRun(c.Parent), packRun(c.Root), nonEmpty(tags), nonEmpty(string(createdBy)))
	if err != nil {
		return nil, err
	}
	r.key = t.LastInsertRowID()
	t.countRun(r.class, 1)
	for name, value := range c.Tags {
		if err := t.exec(`INSERT INTO tags VALUES (?, ?, ?)`, name, value, r.key); err != nil {
			return nil, err
		}
	}
	return r, t.appendFrame(r.key, 1, c.Frame)
}

// encodeTags returns the stored form of tags; empty: there are none.
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

// appendFrame stores a frame. A frame that is nil is stored as an empty one.
func (t *tx) appendFrame(run int64, n uint64, frame []byte) error {
	if frame == nil {
		frame = []byte{}
	}
	return t.exec(`INSERT INTO frames VALUES (?, ?, ?)`, run, n, frame)
}

// startTime returns when a new run may start; 0: now.
func (t *tx) startTime(c *store.Create) int64 {
	due := c.At
	if c.Delay > 0 {
		if after := t.now.Add(c.Delay); after.After(due) {
			due = after
		}
	}
	if ms := millis(due); ms > t.ms() {
		return ms
	}
	return 0
}
