package history

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// The implementation of protocol.Tx on plain maps. It never changes in place a value that a
// snapshot may contain.

var _ protocol.Tx[*modelRun, store.SessionID] = (*model)(nil)

func (m *model) create(c store.Create) store.Created {
	defer m.announce()
	unlimited := c
	unlimited.Uses, unlimited.Fair, unlimited.Share = nil, "", 0
	m.limits.urgent, m.limits.creates = c.Cancel.ID, &c
	answer, _ := m.op.Create(&unlimited)
	m.limits.urgent, m.limits.creates = "", nil
	return answer
}

// grant gives a ready run to a session, and returns the claimed run.
func (m *model) grant(r *modelRun, c *store.Claim) store.ClaimedRun {
	_, _ = m.op.Take(r, c.Session, c, nil)
	return r.claimed()
}

func (r *modelRun) claimed() store.ClaimedRun {
	return store.ClaimedRun{
		Run: r.Run, WorkflowID: r.WorkflowID, Route: r.Route, Fence: r.Fence, Recoveries: r.Recoveries,
		N: r.N, Seq: r.Seq, Last: r.Last, Unread: len(r.Inbox) > 0, LeftQueue: r.LeftQueue, Group: r.Group,
	}
}

// claimRun implements ClaimRun for the model. may is set if the limits allow the claim.
func (m *model) claimRun(s store.SessionID, token event.Token, run event.RunID, may bool) (store.ClaimedRun, error) {
	if !may && !m.over(s) {
		return store.ClaimedRun{}, store.ErrNotClaimable
	}
	r, err := m.op.ClaimRun(s, token, run)
	if err != nil {
		return store.ClaimedRun{}, err
	}
	return r.claimed(), nil
}

func (m *model) release(run event.RunID, fence store.Fence) error {
	defer m.announce()
	return m.op.Release(run, fence)
}

// makeReady makes a run ready after the store has done so. Runs that become ready in one action
// have equal turns.
func (m *model) makeReady(r *modelRun, turn int) {
	_ = m.op.MakeReady(r)
	m.become(r, turn)
	m.announce()
}

// deliver implements Deliver for the model.
func (m *model) deliver(d store.Deliver) (event.RunID, error) {
	defer m.announce()
	if d.Urgent {
		m.limits.urgent = d.Item.ID
	}
	run, err := m.op.Deliver(&d)
	m.limits.urgent = ""
	return run, err
}

// commit implements Commit for the model. executed is false if the commit was refused, or was
// executed by an earlier call.
func (m *model) commit(c store.Commit) (answer store.Committed, executed bool) {
	defer m.announce()
	known := c.Frame != nil && m.runs[c.Run] != nil && m.runs[c.Run].Last == c.CommitID
	held := m.runs[c.Run] != nil && m.runs[c.Run].Permits
	m.limits.yields, m.limits.unused = c.Effect == store.EffectYield, c.Unused
	answer, _ = m.op.Commit(&c)
	m.limits.yields, m.limits.unused = false, store.UnusedNone
	executed = answer.Err == nil && !known
	if executed && c.HoldBack > 0 {
		m.holdBack(m.runs[c.Run].Uses, c.Held())
	}
	if executed && held && c.Unused != store.UnusedNone {
		m.refund(m.runs[c.Run].Uses)
	}
	return answer, executed
}

func (m *model) mark(k store.Mark) {
	defer m.announce()
	_ = m.op.Mark(&k)
}

func (m *model) confirm(run event.RunID, record event.ItemID) { _ = m.op.Confirm(run, record) }

func (m *model) delete(run event.RunID) error { return m.op.Delete(run) }

func (m *model) purge(r *modelRun) { _ = m.op.PurgeRun(r) }

func (m *model) publish(run event.RunID, fence store.Fence, chunks []store.Publication) error {
	return m.op.Publish(run, fence, chunks)
}

// announce records the wakes and the unread items that the last operation has announced.
func (m *model) announce() {
	for _, r := range slices.Concat(m.op.Changes.Ready, m.op.Changes.Due) {
		m.wakes[r.Route] = true
	}
	for _, r := range m.op.Changes.Unread {
		if m.untold[r.Owner] == nil {
			m.untold[r.Owner] = map[event.RunID]bool{}
		}
		m.untold[r.Owner][r.Run] = true
	}
	m.op.Changes.Reset()
}

func (m *model) Now() time.Time { return m.clock.Now() }

func (m *model) Run(id event.RunID) (*modelRun, error) { return m.runs[id], nil }

func (m *model) State(r *modelRun) protocol.Run[store.SessionID] {
	return protocol.Run[store.SessionID]{
		ID: r.Run, Chain: r.Chain, WorkflowID: r.WorkflowID, CreatedBy: r.CreatedBy, QueueState: r.QueueState, Status: r.Status,
		N: r.N, Seq: r.Seq, Last: r.Last, Fence: r.Fence, Owner: r.Owner, Unread: len(r.Inbox), Due: protocol.Millis(r.Due),
		Created: protocol.Millis(r.CreatedAt), Ended: protocol.Millis(r.EndedAt), Retention: r.Retention,
		Recoveries: r.Recoveries, Closing: r.Closing, Exempt: r.Exempt, Hidden: r.Hidden, Group: r.Group,
		Collect: r.collect,
	}
}

func (m *model) Save(r *modelRun, s protocol.Run[store.SessionID]) error {
	if r.QueueState == store.StateOwned && s.QueueState != store.StateOwned {
		delete(m.untold[r.Owner], r.Run)
	}
	ready := r.QueueState != store.StateReady && s.QueueState == store.StateReady
	m.moves(r, s.QueueState)
	if line := m.lines[r.WorkflowID]; r.QueueState == store.StateQueued && s.QueueState != store.StateQueued {
		m.lines[r.WorkflowID] = slices.DeleteFunc(slices.Clone(line), func(one event.RunID) bool { return one == r.Run })
	} else if r.QueueState != store.StateQueued && s.QueueState == store.StateQueued {
		m.lines[r.WorkflowID] = append(slices.Clone(line), r.Run)
	}
	r.QueueState, r.Status, r.N, r.Seq, r.Last, r.Fence, r.Owner = s.QueueState, s.Status, s.N, s.Seq, s.Last, s.Fence, s.Owner
	r.Due, r.EndedAt, r.Recoveries, r.CreatedBy = protocol.Time(s.Due), protocol.Time(s.Ended), s.Recoveries, s.CreatedBy
	r.Closing, r.Exempt, r.Hidden, r.collect, r.Group = s.Closing, s.Exempt, s.Hidden, s.Collect, s.Group
	if ready {
		m.become(r, m.nextTurn())
	}
	return nil
}

func (m *model) Insert(c *store.Create, chain event.RunID, createdBy event.ItemID) (*modelRun, error) {
	if m.limits.creates != nil {
		c = m.limits.creates
		if err := m.guardLimited(c); err != nil {
			return nil, err
		}
	}
	return m.insert(c, chain, createdBy), nil
}

func (m *model) AppendFrame(r *modelRun, _ uint64, frame []byte) error {
	r.Frames = append(slices.Clone(r.Frames), frame)
	return nil
}

func (m *model) Latest(r *modelRun) (*modelRun, error) {
	for _, other := range m.runs {
		if other.Chain == r.Chain && other.Next == "" {
			return other, nil
		}
	}
	return nil, nil
}

func (m *model) SetNext(r, next *modelRun) error {
	r.Next = next.Run
	m.handOn(r, next)
	return nil
}

func (m *model) SetRerun(r *modelRun, rerun event.RunID) error {
	r.Rerun = rerun
	return nil
}

func (m *model) Clear(r *modelRun) error {
	r.Inbox, r.Incompatible = nil, nil
	return nil
}

func (m *model) StepData(*modelRun, string) ([]byte, bool, error) { return nil, false, nil }

func (m *model) SetStepData(*modelRun, string, []byte) error { return nil }

func (m *model) NextDue() (int64, error) { return protocol.Millis(m.nextDue()), nil }

func (m *model) Item(r *modelRun, n int) (event.ItemID, error) { return r.Inbox[n].ID, nil }

func (m *model) HasRunItem(r *modelRun, n int) (bool, error) {
	return slices.ContainsFunc(r.Inbox[n:], func(i store.Item) bool { return i.Scope == store.ScopeRun }), nil
}

func (m *model) AddItem(r *modelRun, item store.Item) error {
	r.Inbox = append(slices.Clone(r.Inbox), item)
	switch {
	case item.ID != m.limits.urgent:
	case r.Waits():
		m.callOff(r)
	case len(r.Uses) > 0 && !r.Permits && r.QueueState != store.StateReady && r.QueueState != store.StateOwned:
		r.LeftQueue = true // when the run becomes ready, it needs no permits [L9]
	}
	return nil
}

func (m *model) ReplaceItem(r *modelRun, item store.Item) error {
	r.Inbox = append([]store.Item{item}, r.Inbox[1:]...)
	return nil
}

func (m *model) Collecting(key string) (*modelRun, error) {
	for _, r := range m.runs {
		if r.collect == key {
			return r, nil
		}
	}
	return nil, nil
}

func (m *model) Joined(start event.RunID) (event.RunID, error) { return m.joined[start], nil }

func (m *model) Join(start event.RunID, r *modelRun, _ int64) error {
	m.joined[start] = r.Run
	return nil
}

func (m *model) DropItems(r *modelRun, n int) error {
	if r.Inbox = r.Inbox[n:]; len(r.Inbox) == 0 {
		r.Inbox = nil
		delete(m.untold[r.Owner], r.Run)
	}
	return nil
}

func (m *model) MoveItems(from, to *modelRun) error {
	to.Inbox, from.Inbox = from.Inbox, nil
	return nil
}

func (m *model) Seen(chain event.RunID, id event.ItemID) (bool, error) {
	return !m.seen[chain][id].IsZero(), nil
}

func (m *model) Remember(chain event.RunID, id event.ItemID, at int64, keep bool) error {
	if m.seen[chain] == nil {
		m.seen[chain] = map[event.ItemID]time.Time{}
	}
	m.seen[chain][id] = protocol.Time(at)
	if !keep {
		return nil
	}
	if m.kept[chain] == nil {
		m.kept[chain] = map[event.ItemID]bool{}
	}
	m.kept[chain][id] = true
	return nil
}

func (m *model) ForgetSeen(*modelRun, int64) error { return nil } // histories are too short for it

func (m *model) Unkeep(chain event.RunID, id event.ItemID) error {
	if m.kept[chain][id] {
		delete(m.kept[chain], id)
		delete(m.seen[chain], id)
		if len(m.seen[chain]) == 0 {
			delete(m.seen, chain)
		}
	}
	return nil
}

func (m *model) Active(workflowID string) (*modelRun, error) {
	return m.runs[m.active[workflowID]], nil
}

func (m *model) LastEnded(workflowID string) (*modelRun, error) {
	return m.runs[m.last[workflowID]], nil
}

func (m *model) Line(workflowID string) ([]*modelRun, error) {
	var line []*modelRun
	for _, id := range m.lines[workflowID] {
		line = append(line, m.runs[id])
	}
	return line, nil
}

func (m *model) FindSession(id store.SessionID) (store.SessionID, error) { return id, nil }

func (m *model) IsActive(r *modelRun) (bool, error) { return m.active[r.WorkflowID] == r.Run, nil }

func (m *model) NextInQueue(r *modelRun) (*modelRun, error) {
	if line := m.lines[r.WorkflowID]; len(line) > 0 {
		return m.runs[line[0]], nil
	}
	return nil, nil
}

func (m *model) SetActive(r, active *modelRun, ended bool) error {
	delete(m.active, r.WorkflowID)
	if active != nil {
		m.active[r.WorkflowID] = active.Run
	}
	if ended {
		m.last[r.WorkflowID] = r.Run
	}
	return nil
}

func (m *model) ForgetEnded(r *modelRun) error {
	if m.last[r.WorkflowID] == r.Run {
		delete(m.last, r.WorkflowID)
	}
	return nil
}

func (m *model) AddRecord(from *modelRun, s *store.Send, now int64) (protocol.Record, error) {
	if m.record(from.Run, s.ID) >= 0 {
		return protocol.Record{}, nil
	}
	o := store.Outgoing{Send: *s, From: from.Run, Phase: store.PhaseFresh, Since: protocol.Time(now)}
	o.First = false
	m.outbox = append(slices.Clone(m.outbox), o)
	return m.Record(from, s.ID)
}

func (m *model) Record(from *modelRun, id event.ItemID) (protocol.Record, error) {
	i := m.record(from.Run, id)
	if i < 0 {
		return protocol.Record{}, nil
	}
	return protocol.Record{ID: id, To: m.outbox[i].To, Phase: m.outbox[i].Phase}, nil
}

func (m *model) SetPhase(from *modelRun, rec protocol.Record, phase store.Phase, now int64) error {
	m.outbox = slices.Clone(m.outbox)
	o := &m.outbox[m.record(from.Run, rec.ID)]
	o.Phase, o.Since = phase, protocol.Time(now)
	return nil
}

func (m *model) RemoveRecord(from *modelRun, rec protocol.Record) error {
	i := m.record(from.Run, rec.ID)
	m.outbox = slices.Delete(slices.Clone(m.outbox), i, i+1)
	return nil
}

// before returns the IDs of the earlier records of the same sender and receiver in the outbox.
func (m *model) before(from *modelRun, rec protocol.Record) []event.ItemID {
	var ids []event.ItemID
	for _, o := range m.outbox[:m.record(from.Run, rec.ID)] {
		if o.From == from.Run && o.To == rec.To {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

func (m *model) HasBefore(from *modelRun, rec protocol.Record) (bool, error) {
	return len(m.before(from, rec)) > 0, nil
}

func (m *model) Refresh(from *modelRun, rec protocol.Record, now int64) error {
	for _, id := range m.before(from, rec) {
		if m.outbox[m.record(from.Run, id)].Phase == store.PhaseAnswered {
			_ = m.SetPhase(from, protocol.Record{ID: id}, store.PhaseFresh, now)
		}
	}
	return nil
}

func (m *model) Stream(chain event.RunID, name string) (protocol.Stream, error) {
	st, found := m.streams[chain][name]
	s := protocol.Stream{Chain: chain, Name: name, Found: found, First: st.Last + 1, Last: st.Last, Closed: st.Closed}
	if len(st.Chunks) > 0 {
		s.First = st.Chunks[0].Index
	}
	return s, nil
}

func (m *model) SaveStream(s protocol.Stream) (protocol.Stream, error) {
	if m.streams[s.Chain] == nil {
		m.streams[s.Chain] = map[string]store.StreamState{}
	}
	st := m.streams[s.Chain][s.Name]
	st.Last, st.Closed = s.Last, s.Closed
	m.streams[s.Chain][s.Name], s.Found = st, true
	return s, nil
}

func (m *model) TrimStream(s protocol.Stream) error {
	st := m.streams[s.Chain][s.Name]
	st.Chunks = slices.DeleteFunc(slices.Clone(st.Chunks), func(c store.Chunk) bool { return c.Index < s.First })
	m.streams[s.Chain][s.Name] = st
	return nil
}

func (m *model) AddChunk(s protocol.Stream, p *store.Publication) error {
	st := m.streams[s.Chain][s.Name]
	st.Chunks = append(slices.Clone(st.Chunks), store.Chunk{Index: s.Last, Body: p.Body})
	if st.Writers == nil && p.Writer != "" {
		st.Writers = map[string]uint64{}
	}
	if p.Writer != "" {
		st.Writers[p.Writer] = p.Nth
	}
	m.streams[s.Chain][s.Name] = st
	return nil
}

func (m *model) Written(s protocol.Stream, writer string) (uint64, error) {
	return m.streams[s.Chain][s.Name].Writers[writer], nil
}

func (m *model) DropStream(s protocol.Stream) error {
	delete(m.streams[s.Chain], s.Name)
	if len(m.streams[s.Chain]) == 0 {
		delete(m.streams, s.Chain)
	}
	return nil
}

func (m *model) Session(s store.SessionID) (protocol.Session, error) {
	return protocol.Session{ID: s, Code: m.leases[s].Fingerprint, Over: m.over(s)}, nil
}

func (m *model) Blockers(r *modelRun) ([]store.SessionID, error) { return r.Incompatible, nil }

func (m *model) SetBlockers(r *modelRun, sessions []store.SessionID) { r.Incompatible = sessions }

func (m *model) Held(r *modelRun) (protocol.Held, error) {
	return protocol.Held{
		Records: slices.ContainsFunc(m.outbox, func(o store.Outgoing) bool { return o.From == r.Run }),
		Later:   slices.ContainsFunc(m.sorted(), func(o *modelRun) bool { return o.Chain == r.Run && o != r }),
		Kept:    len(m.kept[r.Run]) > 0,
	}, nil
}

func (m *model) NextPurge(int64) (*modelRun, error) { return nil, nil } // histories adopt the store's choice of purged runs

func (m *model) Remove(r *modelRun) error {
	delete(m.runs, r.Run)
	m.audit = slices.DeleteFunc(slices.Clone(m.audit), func(e store.AuditEntry) bool { return e.Run == r.Run })
	return nil
}

func (m *model) ForgetChain(chain event.RunID) error {
	delete(m.seen, chain)
	delete(m.kept, chain)
	delete(m.streams, chain)
	return nil
}

// Limits returns nil, because the model implements limits without package protocol.
func (m *model) Limits() protocol.LimitTx[*modelRun] { return nil }
