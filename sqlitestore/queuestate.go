package sqlitestore

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// leave takes a run out of its queue state with everything that belongs to it. The
// caller puts it somewhere else and saves it, in the same action.
func (t *tx) leave(r *run) {
	if r.owner != 0 {
		t.notices.inbox(inboxLost, r.session, r.id, 0)
	}
	r.queueState, r.owner, r.session, r.token = 0, 0, "", event.Token{}
	r.ord, r.due, r.line, r.exempt = 0, 0, 0, false
}

// makeReady is the one way to ready: queue state, ready set, wake.
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

// park leaves the run until due, 0 for ever, or until an item arrives.
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

// claimed says what a session is given with a run.
func (t *tx) claimed(r *run) (store.ClaimedRun, error) {
	route, err := t.routeName(r.route)
	if err != nil {
		return store.ClaimedRun{}, err
	}
	granted := store.ClaimedRun{
		Run: r.id, WorkflowID: r.workflowID, Route: route, Fence: store.Fence{Epoch: r.epoch, Token: r.token},
		Recoveries: r.recoveries, N: r.n, Seq: r.seq, Last: r.last, Unread: r.inbox > 0,
		CalledOff: r.calledOff, Group: r.trouble,
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

// handOver returns the log of a run of which there is nothing but a short first
// frame: nobody can have it in memory, and to read it would take a transaction of its
// own.
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
