package memstore

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

var _ protocol.Tx[*run, *session] = (*partition)(nil)

// Now returns the time of the clock.
func (p *partition) Now() time.Time { return p.clock.Now() }

// now returns the time of the clock in milliseconds.
func (p *partition) now() int64 { return p.clock.Now().UnixMilli() }

// Run returns a run, hidden or not.
func (p *partition) Run(id event.RunID) (*run, error) { return p.runs[id], nil }

// State returns the state of a run.
func (p *partition) State(r *run) protocol.Run[*session] {
	s := protocol.Run[*session]{
		ID: r.id, Chain: r.chain, WorkflowID: r.wid, QueueState: r.queueState, Status: r.status, N: uint64(len(r.frames)), Seq: r.seq, Last: r.last,
		Fence: r.fence(), Owner: r.owner, Unread: len(r.inbox), Due: r.due, Created: r.created, Ended: r.ended, Retention: r.retention(),
		Recoveries: int(r.recoveries), Closing: r.closing, Exempt: r.exempt, Hidden: r.hidden,
	}
	if r.links != nil {
		s.CreatedBy = r.links.createdBy
	}
	if r.extra != nil {
		s.Collect, s.Group = r.extra.collect, r.extra.group
	}
	if r.limited != nil {
		s.Limited, s.Fair = len(r.uses) > 0, r.fair != ""
		s.Permits, s.Whole, s.LeftQueue, s.Place, s.WaitsSince = r.permits, r.whole, r.leftQueue, r.place, r.since
	}
	if r.queueState == store.StateEnded && r.timer != unpurged {
		s.Purge = p.purges[r.timer].at
	}
	return s
}

// Save stores the state of a run, and adds the run to the list of its queue state. Frames and inbox
// are stored before by other methods.
func (p *partition) Save(r *run, s protocol.Run[*session]) error {
	moved := s.QueueState != r.queueState || s.Due != r.due
	if r.limited != nil {
		moved = moved || s.Waits() != (r.line != nil)
		r.permits, r.leftQueue, r.place, r.since = s.Permits, s.LeftQueue, s.Place, s.WaitsSince
	}
	if moved {
		p.leave(r)
		p.enter(r, &s)
	}
	if s.Group != r.group() {
		p.regroup(r, s.Group)
	}
	r.seq, r.last, r.status, r.epoch, r.token = s.Seq, s.Last, s.Status, s.Fence.Epoch, s.Fence.Token
	r.ended, r.recoveries, r.closing, r.exempt, r.hidden = s.Ended, int32(s.Recoveries), s.Closing, s.Exempt, s.Hidden
	if r.links != nil {
		r.links.createdBy = s.CreatedBy
	}
	if r.extra != nil && r.extra.collect != s.Collect || r.extra == nil && s.Collect != "" {
		p.setCollect(r, s.Collect)
	}
	if r.queueState == store.StateEnded {
		p.setPurge(r, s.Purge)
	}
	return nil
}

// leave removes a run from the list of its queue state.
func (p *partition) leave(r *run) {
	switch r.queueState {
	case store.StateReady:
		if r.limited != nil && r.line != nil {
			p.limits.leave(r)
			break
		}
		r.route.remove(r)
	case store.StateOwned:
		r.owner.drop(r)
		r.owner, r.token = nil, event.Token{}
		r.exempt = false
	case store.StateParked:
		r.route.parked--
		if r.due != 0 {
			p.timers.remove(r)
			r.due = 0
		}
	case store.StateBlocked:
		r.route.blocked.remove(r)
	case store.StateQueued:
		r.route.parked--
		n := p.name(r.wid)
		n.line = slices.DeleteFunc(n.line, func(one *run) bool { return one == r })
	}
	r.queueState = 0
}

// enter adds a run that is in no list to the list of its new queue state.
func (p *partition) enter(r *run, s *protocol.Run[*session]) {
	r.queueState = s.QueueState
	switch s.QueueState {
	case store.StateReady:
		p.order++
		r.order = p.order
		if s.Fair && s.Place != 0 {
			r.order = uint64(s.Place)
		}
		if s.Waits() {
			p.limits.enter(r)
			break
		}
		r.route.push(r)
	case store.StateOwned:
		r.owner = s.Owner
		r.owner.owned.push(r)
		if len(r.inbox) > 0 {
			r.owner.addUnread(r)
		}
	case store.StateParked:
		r.route.parked++
		if r.due = s.Due; r.due != 0 {
			p.timers.add(r, r.due)
		}
	case store.StateBlocked:
		r.route.blocked.push(r)
	case store.StateQueued:
		r.route.parked++
		n := p.name(r.wid)
		n.line = append(n.line, r)
	case store.StateEnded:
		r.timer = unpurged
	}
}

// setPurge sets the time at which an ended run may be purged; 0 means that the run is held back.
func (p *partition) setPurge(r *run, at int64) {
	if r.timer != unpurged {
		if p.purges[r.timer].at == at {
			return
		}
		p.purges.remove(r)
		r.timer = unpurged
	}
	if at != 0 {
		p.purges.add(r, at)
	}
}

// Insert stores a new run without a queue state.
func (p *partition) Insert(c *store.Create, chain event.RunID, createdBy event.ItemID) (*run, error) {
	return p.insert(c, chain, createdBy, p.now()), nil
}

// insert stores the log and the state of a run without a queue state.
func (p *partition) insert(c *store.Create, chain event.RunID, createdBy event.ItemID, created int64) *run {
	r := &run{
		id: c.Run, chain: chain, wid: c.WorkflowID, route: p.route(c.Route), priority: c.Priority,
		frames: [][]byte{c.Frame}, seq: c.Seq, last: c.CommitID,
		status: cmp.Or(c.Status, event.StatusPending), created: created,
	}
	retention := max(c.Retention, 0)
	if retention == store.DefaultRetention {
		retention = 0
	}
	if len(c.Tags) > 0 || c.Parent != "" || c.Root != "" || retention > 0 {
		r.extra = &extra{tags: c.Tags, parent: c.Parent, root: c.Root, retention: retention}
	}
	if createdBy != "" {
		r.links = &links{createdBy: createdBy}
	}
	if len(c.Uses) > 0 || c.Fair != "" {
		r.limited = &limited{uses: c.Uses, whole: c.Whole, fair: c.Fair, share: c.Weight()}
	}
	if chain != c.Run {
		p.chained(chain).later++
	}
	p.runs[r.id] = r
	p.ids.add(r)
	r.route.runs++
	return r
}

// AppendFrame appends a frame to the log.
func (p *partition) AppendFrame(r *run, _ uint64, frame []byte) error {
	r.frames = append(r.frames, frame)
	return nil
}

// Latest returns the last run of the chain of r.
func (p *partition) Latest(r *run) (*run, error) {
	if c := p.chains[r.chain]; c != nil {
		return c.latest, nil
	}
	return r, nil
}

// SetRerun records the rerun of a run.
func (p *partition) SetRerun(r *run, rerun event.RunID) error {
	r.rare().rerun = rerun
	return nil
}

// SetNext makes next the continuation of r and the latest run of the chain.
func (p *partition) SetNext(r, next *run) error {
	r.linked().next = next.id
	p.chains[r.chain].latest = next
	return nil
}

// Clear removes the data that only open runs have.
func (p *partition) Clear(r *run) error {
	r.inbox = nil
	if r.extra != nil {
		r.extra.stepData, r.extra.blockers = nil, nil
	}
	return nil
}

// StepData returns step data.
func (p *partition) StepData(r *run, key string) ([]byte, bool, error) {
	if r.extra == nil {
		return nil, false, nil
	}
	body, found := r.extra.stepData[key]
	return body, found, nil
}

// SetStepData stores step data.
func (p *partition) SetStepData(r *run, key string, body []byte) error {
	if r.rare().stepData == nil {
		r.extra.stepData = map[string][]byte{}
	}
	r.extra.stepData[key] = body
	return nil
}

// NextDue returns the earliest due time of the partition.
func (p *partition) NextDue() (int64, error) { return p.nextDue(), nil }

// Item returns the ID of an unread item.
func (p *partition) Item(r *run, n int) (event.ItemID, error) { return r.inbox[n].ID, nil }

// HasRunItem reports whether any unread item from number n on is for this run alone.
func (p *partition) HasRunItem(r *run, n int) (bool, error) {
	return slices.ContainsFunc(r.inbox[n:], func(i store.Item) bool { return i.Scope == store.ScopeRun }), nil
}

// AddItem adds an item to the end of the inbox.
func (p *partition) AddItem(r *run, item store.Item) error {
	r.inbox = append(r.inbox, item)
	return nil
}

// DropItems removes the first n items. It does not change the array of the inbox, which readers may
// share.
func (p *partition) DropItems(r *run, n int) error {
	r.inbox = r.inbox[n:]
	if len(r.inbox) == 0 {
		r.inbox = nil
		if r.owner != nil {
			r.owner.read(r)
		}
	}
	return nil
}

// MoveItems moves all unread items of a run to another run.
func (p *partition) MoveItems(from, to *run) error {
	to.inbox, from.inbox = from.inbox, nil
	return nil
}

// Active returns the active run of a workflow ID.
func (p *partition) Active(workflowID string) (*run, error) {
	if n := p.names[workflowID]; n != nil {
		return n.active, nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// LastEnded returns the last ended run of a workflow ID.
func (p *partition) LastEnded(workflowID string) (*run, error) {
	if n := p.names[workflowID]; n != nil {
		return n.last, nil
	}
	return nil, nil //nolint:nilnil // there is none
}

// Line returns the runs that wait for the active run of a workflow ID, in order.
func (p *partition) Line(workflowID string) ([]*run, error) {
	return slices.Clone(p.name(workflowID).line), nil
}

// FindSession returns a session.
func (p *partition) FindSession(id store.SessionID) (*session, error) { return p.sessions[id], nil }

// IsActive reports whether r is the active run of its workflow ID.
func (p *partition) IsActive(r *run) (bool, error) { return p.name(r.wid).active == r, nil }

// NextInQueue returns the run that has waited longest for the workflow ID of r.
func (p *partition) NextInQueue(r *run) (*run, error) {
	if n := p.name(r.wid); len(n.line) > 0 {
		return n.line[0], nil
	}
	return nil, nil //nolint:nilnil // nobody waits
}

// SetActive makes active the active run of the workflow ID of r.
func (p *partition) SetActive(r, active *run, ended bool) error {
	n := p.name(r.wid)
	n.active = active
	if ended {
		n.last = r
	}
	return nil
}

// ForgetEnded clears the last ended run of a workflow ID.
func (p *partition) ForgetEnded(r *run) error {
	n := p.names[r.wid]
	if n == nil || n.last != r {
		return nil
	}
	n.last = nil
	if n.active == nil { // without an active run, no run waits for the ID
		delete(p.names, r.wid)
	}
	return nil
}

// Session returns the state of a session.
func (p *partition) Session(l *session) (protocol.Session, error) {
	return protocol.Session{ID: l.id, Code: l.code, Over: !p.isLive(l)}, nil
}

// Blockers returns the sessions that have blocked a run.
func (p *partition) Blockers(r *run) ([]*session, error) {
	if r.extra == nil {
		return nil, nil
	}
	return r.extra.blockers, nil
}

// SetBlockers replaces the sessions that have blocked a run.
func (p *partition) SetBlockers(r *run, sessions []*session) { r.rare().blockers = sessions }

// Held returns the reasons that keep a run from its purge.
func (p *partition) Held(r *run) (protocol.Held, error) {
	return protocol.Held{Records: r.links != nil && r.links.records > 0, Later: p.chains[r.id] != nil, Kept: len(p.kept[r.id]) > 0}, nil
}

// NextPurge returns the run that was due first for its purge, or nil if none is due.
func (p *partition) NextPurge(now int64) (*run, error) {
	if len(p.purges) == 0 || p.purges.next() > now {
		return nil, nil //nolint:nilnil // there is none
	}
	return p.purges.first(), nil
}

// Remove removes a run with everything that is stored under its ID.
func (p *partition) Remove(r *run) error {
	if r.timer != unpurged {
		p.purges.remove(r)
	}
	p.ids.remove(r)
	if r.group() != "" {
		p.leaveGroup(r)
	}
	delete(p.runs, r.id)
	r.route.runs--
	p.tidy(r.route)
	if r.chain == r.id {
		return nil
	}
	c := p.chains[r.chain]
	if c.latest == r {
		c.latest = nil
	}
	if c.later--; c.later == 0 {
		delete(p.chains, r.chain)
	}
	return nil
}

// ForgetChain removes the accepted items and the streams of a chain.
func (p *partition) ForgetChain(chain event.RunID) error {
	delete(p.seen, chain)
	delete(p.kept, chain)
	delete(p.streams, chain)
	return nil
}

// announce notifies the calls that wait for the changes of an operation.
func (p *partition) announce() {
	changes := &p.op.Changes
	for _, r := range changes.Ready {
		p.wake(r.route)
	}
	for _, r := range changes.Blocked {
		p.tellBlocked(r)
	}
	for _, r := range changes.Due {
		p.wake(r.route)
		p.waiters.Due(r.due)
	}
	for _, t := range changes.Turns {
		p.wake(t.First.route)
		p.waiters.Due(t.At)
	}
	for _, r := range changes.Unread {
		p.tell(r)
	}
	for _, r := range changes.Frames {
		p.frames.Notify(r.id)
	}
	for _, s := range changes.Streams {
		p.chunks.Notify(s.Chain)
	}
	changes.Reset()
}
