package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The operations of the model, in the words of the protocol.

func (m *model) create(c store.Create) store.Created {
	if err := c.Check(); err != nil {
		return store.Created{Err: err}
	}
	return m.createValid(c)
}

func (m *model) createValid(c store.Create) store.Created {
	if m.late(c.Deadline) {
		return store.Created{Err: store.ErrStale}
	}
	if r := m.runs[c.Run]; r != nil {
		return r.answer(c)
	}
	due := c.At
	if after := m.clock.Now().Add(c.Delay); after.After(due) {
		due = after
	}
	later := due.After(m.clock.Now())
	if active, ok := m.active[c.WorkflowID]; ok && c.WorkflowID != "" {
		switch c.Active {
		case store.ActiveUse:
			return store.Created{Run: active}
		case store.ActiveFail:
			return store.Created{Err: &store.ActiveError{WorkflowID: c.WorkflowID, Run: active}}
		}
		if c.Owner != nil {
			return store.Created{Err: store.ErrNotClaimable}
		}
		r := m.insertWithItems(c)
		r.Place = store.PlaceLined
		for _, before := range append([]event.RunID{active}, m.lines[c.WorkflowID]...) {
			r := m.runs[before]
			s := m.State(r)
			_ = m.op.Tell(r, &s, c.Cancel)
			m.announce()
		}
		m.lines[c.WorkflowID] = append(slices.Clone(m.lines[c.WorkflowID]), c.Run)
		return store.Created{Run: c.Run, New: true}
	}
	if last, ok := m.last[c.WorkflowID]; ok && c.WorkflowID != "" {
		status := m.runs[last].Status
		if c.Finished == store.FinishedReject || c.Finished == store.FinishedAllowFailure && status == event.StatusCompleted {
			return store.Created{Err: &store.FinishedError{WorkflowID: c.WorkflowID, Run: last, Status: status}}
		}
	}
	if c.Owner != nil {
		if later {
			return store.Created{Err: store.ErrNotClaimable}
		}
		if _, live := m.leases[c.Owner.Session]; !live {
			return store.Created{Err: store.ErrExpired}
		}
	}
	r := m.insertWithItems(c)
	if c.WorkflowID != "" {
		m.active[c.WorkflowID] = c.Run
	}
	switch {
	case c.Owner != nil:
		m.grant(r, c.Owner.Session, c.Owner.Token, 0)
	case later:
		m.park(r, due)
	default:
		m.makeReady(r, m.nextTurn())
	}
	return r.answer(c)
}

// answer is that of a create whose run is there.
func (r *modelRun) answer(c store.Create) store.Created {
	answer := store.Created{Run: c.Run, New: true}
	if c.Owner != nil && r.Place == store.PlaceOwned && r.Fence == c.Owner.Fence() {
		answer.Fence = r.Fence
	}
	return answer
}

func (m *model) insertWithItems(c store.Create) *modelRun {
	r := m.insert(&c, c.Run, c.Birth)
	s := m.State(r)
	for _, i := range c.Items {
		_ = m.op.Accept(r, &s, i, false)
	}
	return r
}

func (m *model) insert(c *store.Create, chain event.RunID, createdBy event.ItemID) *modelRun {
	r := &modelRun{RunState: store.RunState{
		Record: store.Record{
			Run: c.Run, Chain: chain, Birth: createdBy, WorkflowID: c.WorkflowID, Class: c.Class, Priority: c.Priority,
			Tags: c.Tags, Parent: c.Parent, Root: c.Root, Status: cmp.Or(c.Status, event.StatusPending),
			N: 1, Seq: c.Seq, Last: c.CID, CreatedAt: m.clock.Now(), Retention: cmp.Or(c.Retention, store.DefaultRetention),
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

// hear notes that a session was heard.
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
	return store.Heartbeat{Owned: len(m.owned(s)), Mail: m.mail(s), Next: m.nextDue(), Outbox: m.nextRecord()}, nil
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

// recover takes everything from a session, for the session by.
func (m *model) recover(s, by store.SessionID, reason store.Reason, turn int) {
	for _, r := range m.owned(s) {
		m.audit = append(m.audit, store.AuditEntry{
			Time: m.clock.Now(), Run: r.Run, Reason: reason, By: by, Owner: s, Place: r.Place, Status: r.Status, Epoch: r.Fence.Epoch,
		})
		r.Fence.Epoch++
		if !r.Exempt {
			r.Recoveries++
		}
		m.makeReady(r, turn)
	}
	delete(m.leases, s)
	delete(m.news, s)
}

func (m *model) closeSession(s store.SessionID) {
	m.recover(s, s, store.ReasonSessionClosed, m.nextTurn())
}

func (m *model) due(limit int) time.Time {
	for n, r := range m.timers() {
		if n < limit && !r.Due.After(m.clock.Now()) {
			m.makeReady(r, m.nextTurn())
		}
	}
	return m.nextDue()
}

// chores does what a claim does before it takes runs.
func (m *model) chores(c store.Claim) {
	turn := m.nextTurn()
	for id, l := range m.leases {
		if id != c.Session && l.Expires.Before(m.clock.Now()) && m.up-m.renewed[id] >= l.TTL {
			m.recover(id, c.Session, store.ReasonExpiredClaim, turn)
		}
	}
	m.due(1000)
}

// grant gives a run to a session.
func (m *model) grant(r *modelRun, s store.SessionID, token event.Token, exempt int) store.ClaimedRun {
	m.leave(r)
	r.Place, r.Owner, r.Closing, r.Exempt = store.PlaceOwned, s, false, exempt > 0 && r.Recoveries >= exempt
	r.Fence = store.Fence{Epoch: r.Fence.Epoch + 1, Token: token}
	return store.ClaimedRun{
		Run: r.Run, WorkflowID: r.WorkflowID, Class: r.Class, Fence: r.Fence, Recoveries: r.Recoveries,
		N: r.N, Seq: r.Seq, Last: r.Last, Mail: len(r.Inbox) > 0,
	}
}

func (m *model) claimRun(s store.SessionID, token event.Token, run event.RunID) (store.ClaimedRun, error) {
	r := m.find(run)
	_, live := m.leases[s]
	switch {
	case !live:
		return store.ClaimedRun{}, store.ErrExpired
	case r == nil:
		return store.ClaimedRun{}, store.ErrRunNotFound
	case r.Place == store.PlaceEnded:
		return store.ClaimedRun{}, &store.TerminalError{Run: run, Status: r.Status}
	case r.Place == store.PlaceOwned:
		return store.ClaimedRun{}, store.ErrOwned
	case r.Place == store.PlaceLined:
		return store.ClaimedRun{}, store.ErrNotClaimable
	}
	return m.grant(r, s, token, 0), nil
}

func (m *model) release(run event.RunID, fence store.Fence) error {
	r := m.find(run)
	if r == nil || r.Place != store.PlaceOwned || r.Fence != fence {
		return store.ErrFenced
	}
	r.Fence.Epoch++
	m.makeReady(r, m.nextTurn())
	return nil
}

func (m *model) late(deadline time.Time) bool {
	return !deadline.IsZero() && m.clock.Now().After(deadline)
}
