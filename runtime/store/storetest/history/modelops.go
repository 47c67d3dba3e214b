package history

import (
	"cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Operations of the model on inserts, sessions, recovery and due runs.

func (m *model) insert(c *store.Create, chain event.RunID, createdBy event.ItemID) *modelRun {
	r := &modelRun{RunState: store.RunState{
		Record: store.Record{
			Run: c.Run, Chain: chain, CreatedBy: createdBy, WorkflowID: c.WorkflowID, Route: c.Route, Priority: c.Priority,
			Tags: c.Tags, Parent: c.Parent, Root: c.Root, Status: cmp.Or(c.Status, event.StatusPending),
			N: 1, Seq: c.Seq, Last: c.CommitID, CreatedAt: m.clock.Now(), Retention: cmp.Or(c.Retention, store.DefaultRetention),
			Uses: c.Uses, Whole: len(c.Uses) > 0 && c.Whole, Fair: c.Fair, Share: c.Weight(),
		},
		Frames: [][]byte{c.Frame},
	}}
	m.runs[c.Run] = r
	return r
}

func (m *model) openSession(s store.Session) {
	m.leases[s.ID] = store.Lease{
		Session: s.ID, Worker: s.Worker, Fingerprint: s.Fingerprint, TTL: s.TTL, Expires: m.clock.Now().Add(s.TTL),
	}
	m.hear(s.ID)
}

// hear records that a session was opened or has sent a heartbeat.
func (m *model) hear(s store.SessionID) {
	now := m.clock.Now()
	if !m.heard.IsZero() {
		m.up += min(now.Sub(m.heard), store.CountedPause(m.leases[s].TTL))
	}
	m.heard, m.renewed[s] = now, m.up
}

func (m *model) heartbeat(s store.SessionID) (store.Heartbeat, error) {
	l, ok := m.leases[s]
	if !ok {
		return store.Heartbeat{}, store.ErrExpired
	}
	l.Expires = m.clock.Now().Add(l.TTL)
	m.leases[s] = l
	m.hear(s)
	return store.Heartbeat{Owned: len(m.owned(s)), Unread: m.unread(s), Next: m.nextDue(), Outbox: m.nextRecord()}, nil
}

func (m *model) reconcile(s store.SessionID) ([]store.Owned, error) {
	if _, ok := m.leases[s]; !ok {
		return nil, store.ErrExpired
	}
	var owned []store.Owned
	for _, r := range m.owned(s) {
		owned = append(owned, store.Owned{Run: r.Run, Fence: r.Fence})
	}
	return owned, nil
}

// recover recovers all runs of session s on behalf of session by. The runs become ready with the
// given turn.
func (m *model) recover(s, by store.SessionID, reason store.Reason, turn int) {
	for _, r := range m.owned(s) {
		m.audit = append(m.audit, store.AuditEntry{
			Time: m.clock.Now(), Run: r.Run, Reason: reason, By: by, Owner: s, QueueState: r.QueueState, Status: r.Status, Epoch: r.Fence.Epoch,
		})
		_ = m.op.Recover(r)
		m.become(r, turn)
	}
	m.announce()
	delete(m.leases, s)
	delete(m.untold, s)
}

func (m *model) closeSession(s store.SessionID) {
	m.recover(s, s, store.ReasonSessionClosed, m.nextTurn())
}

func (m *model) due(limit int) {
	for n, r := range m.timers() {
		if n < limit && !r.Due.After(m.clock.Now()) {
			m.makeReady(r, m.nextTurn())
		}
	}
}

// chores executes the recovery and the due runs that precede a claim.
func (m *model) chores(c store.Claim) {
	turn := m.nextTurn()
	for id, l := range m.leases {
		if id != c.Session && l.Expires.Before(m.clock.Now()) && m.up-m.renewed[id] >= l.TTL {
			m.recover(id, c.Session, store.ReasonExpiredClaim, turn)
		}
	}
	m.due(1000)
}
