package check

import (
	"encoding/binary"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// tx is the Tx of the models. It reads and writes a partition.
type tx struct {
	*logs
	p *partition

	// The model of limits sets these fields.
	x    *limited
	home *homeConfig

	// The Tx of bugs read these fields: the operation in progress, and its commit.
	doing  operation
	commit *store.Commit
}

// operation is the kind of the operation that the kernel carries out.
type operation uint8

const (
	otherwise operation = iota
	creating
	committing
	delivering
	claiming
	confirming
	recovering
	configuring
	turning
	seizing
)

var _ protocol.Tx[uint8, uint8] = (*tx)(nil)

func (t *tx) run(r uint8) *run { return &t.p.runs[r-1] }

// EnterFailureGroup and ForgetFailureGroups do nothing, because no commit of the models has a
// label.
func (t *tx) EnterFailureGroup(store.FailureGroup, int64) (bool, error) { return false, nil }

func (t *tx) ForgetFailureGroups(int64, int) error { return nil }

// SetRerun does nothing, because the models rerun no runs.
func (t *tx) SetRerun(uint8, event.RunID) error { return nil }

func (t *tx) Now() time.Time { return protocol.Time(millis(t.p.now + 1)) }

func (t *tx) Run(id event.RunID) (uint8, error) {
	if id == "" {
		return 0, nil
	}
	if r := number(id); t.run(r).there {
		return r, nil
	}
	return 0, nil
}

func (t *tx) State(r uint8) protocol.Run[uint8] {
	x := t.run(r)
	s := protocol.Run[uint8]{
		ID: runIDs[r], Chain: runIDs[x.chain], CreatedBy: itemIDs[x.createdBy], QueueState: x.queueState, Status: statuses[x.status],
		N: uint64(x.n), Seq: uint64(x.n), Last: cid(x.last), Fence: fence(x.epoch, x.token), Owner: x.owner,
		Unread: int(x.unread), Created: millis(x.created), Ended: millis(x.ended), Purge: millis(x.purge),
		Retention: time.Millisecond, Recoveries: int(x.recoveries), Closing: x.closing, Exempt: x.exempt, Hidden: x.hidden,
	}
	if x.named {
		s.WorkflowID = workflowID
	}
	if x.due {
		s.Due = dueMillis
	}
	if t.x != nil {
		t.limitedState(r, &s)
	}
	return s
}

const workflowID = "w"

func fence(epoch, token uint8) store.Fence {
	return store.Fence{Epoch: uint64(epoch), Token: event.Token{token}}
}

func (t *tx) Save(r uint8, s protocol.Run[uint8]) error {
	x := t.run(r)
	waited := t.x != nil && waits(t.home, t.p, t.x, r)
	if x.queueState == store.StateQueued && s.QueueState != store.StateQueued {
		t.p.line = without(t.p.line, r)
	} else if x.queueState != store.StateQueued && s.QueueState == store.StateQueued {
		t.p.line = with(t.p.line, r)
	}
	x.createdBy, x.queueState, x.status = item(s.CreatedBy), s.QueueState, 0
	for i, known := range statuses {
		if known == s.Status {
			x.status = uint8(i)
		}
	}
	x.n, x.last, x.epoch, x.token, x.owner = uint8(s.N), logOf(s.Last), uint8(s.Fence.Epoch), s.Fence.Token[0], s.Owner
	x.unread, x.due, x.ended, x.purge = uint8(s.Unread), s.Due != 0, tick(s.Ended), tick(s.Purge)
	x.recoveries, x.closing, x.exempt, x.hidden = uint8(s.Recoveries), s.Closing, s.Exempt, s.Hidden
	x.came = x.came && s.QueueState != store.StateEnded
	if t.x != nil {
		t.saveLimited(r, &s, waited)
	}
	return nil
}

func with(line [2]uint8, r uint8) [2]uint8 {
	if line[0] == 0 {
		return [2]uint8{r}
	}
	return [2]uint8{line[0], r}
}

func without(line [2]uint8, r uint8) [2]uint8 {
	if line[0] == r {
		return [2]uint8{line[1]}
	}
	return [2]uint8{line[0]}
}

func (t *tx) Insert(c *store.Create, chain event.RunID, createdBy event.ItemID) (uint8, error) {
	r := number(c.Run)
	log := binary.BigEndian.Uint16(c.Frame)
	*t.run(r) = run{
		there: true, named: c.WorkflowID != "", log: log, last: logOf(c.CommitID), n: uint8(c.Seq), chain: number(chain),
		createdBy: item(createdBy), created: t.p.now + 1,
	}
	t.p.created[r-1]++
	return r, nil
}

func (t *tx) AppendFrame(r uint8, _ uint64, frame []byte) error {
	n := t.nodes[binary.BigEndian.Uint16(frame)]
	n.prev = t.run(r).log
	t.run(r).log = t.number(n)
	return nil
}

func (t *tx) Latest(r uint8) (uint8, error) {
	for i, x := range t.p.runs {
		if x.there && x.chain == t.run(r).chain && x.next == 0 {
			return uint8(i + 1), nil
		}
	}
	return 0, nil
}

func (t *tx) SetNext(r, next uint8) error {
	t.run(r).next = next
	return nil
}

func (t *tx) Clear(r uint8) error {
	t.run(r).inbox, t.run(r).blockers = [queue]uint8{}, 0
	return nil
}

func (t *tx) StepData(uint8, string) ([]byte, bool, error) { return nil, false, nil }

func (t *tx) SetStepData(uint8, string, []byte) error { return nil }

func (t *tx) NextDue() (int64, error) {
	if t.x != nil {
		if at := t.nextTurn(); at != 0 {
			return at, nil // the due times of runs are later
		}
	}
	for i := range t.p.runs {
		if t.p.runs[i].due {
			return dueMillis, nil
		}
	}
	return 0, nil
}

func (t *tx) Item(r uint8, n int) (event.ItemID, error) { return itemIDs[t.run(r).inbox[n]], nil }

func (t *tx) HasRunItem(r uint8, n int) (bool, error) {
	for _, i := range t.run(r).inbox[n:] {
		if i != 0 && scope(i) == store.ScopeRun {
			return true, nil
		}
	}
	return false, nil
}

func (t *tx) AddItem(r uint8, i store.Item) error {
	x := t.run(r)
	x.inbox[x.length()] = item(i.ID)
	return nil
}

func (t *tx) DropItems(r uint8, n int) error {
	x := t.run(r)
	var rest [queue]uint8
	copy(rest[:], x.inbox[n:])
	x.inbox = rest
	return nil
}

func (t *tx) MoveItems(from, to uint8) error {
	t.run(to).inbox, t.run(from).inbox = t.run(from).inbox, [queue]uint8{}
	return nil
}

func (t *tx) Seen(chain event.RunID, id event.ItemID) (bool, error) {
	return t.p.seen[number(chain)-1]>>item(id)&1 == 1, nil
}

func (t *tx) Remember(chain event.RunID, id event.ItemID, _ int64, keep bool) error {
	t.p.seen[number(chain)-1] |= 1 << item(id)
	if keep {
		t.p.kept[number(chain)-1] |= 1 << item(id)
	}
	return nil
}

// ForgetSeen does nothing, because no exploration covers a day.
func (t *tx) ForgetSeen(uint8, int64) error { return nil }

func (t *tx) Unkeep(chain event.RunID, id event.ItemID) error {
	seen, kept := &t.p.seen[number(chain)-1], &t.p.kept[number(chain)-1]
	if *kept>>item(id)&1 == 1 {
		*seen &^= 1 << item(id)
		*kept &^= 1 << item(id)
	}
	return nil
}

func (t *tx) Active(string) (uint8, error) { return t.p.active, nil }

func (t *tx) LastEnded(string) (uint8, error) { return t.p.last, nil }

func (t *tx) Line(string) ([]uint8, error) {
	var line []uint8
	for _, r := range t.p.line {
		if r != 0 {
			line = append(line, r)
		}
	}
	return line, nil
}

func (t *tx) IsActive(r uint8) (bool, error) { return t.p.active == r, nil }

func (t *tx) NextInQueue(uint8) (uint8, error) { return t.p.line[0], nil }

func (t *tx) SetActive(r, active uint8, ended bool) error {
	t.p.active = active
	if ended {
		t.p.last = r
	}
	return nil
}

func (t *tx) ForgetEnded(r uint8) error {
	if t.p.last == r {
		t.p.last = 0
	}
	return nil
}

func (t *tx) AddRecord(from uint8, s *store.Send, _ int64) (protocol.Record, error) {
	if rec, _ := t.Record(from, s.ID); rec.Phase != 0 {
		return protocol.Record{}, nil
	}
	for i := range t.p.outbox {
		if t.p.outbox[i].phase == 0 {
			t.p.outbox[i] = record{id: item(s.ID), from: from, to: number(s.To), phase: store.PhaseFresh}
			return t.Record(from, s.ID)
		}
	}
	panic("check: the outbox is full")
}

// find returns the index of a record, or -1.
func (t *tx) find(from uint8, id event.ItemID) int {
	for i, rec := range t.p.outbox {
		if rec.phase != 0 && rec.from == from && itemIDs[rec.id] == id {
			return i
		}
	}
	return -1
}

func (t *tx) Record(from uint8, id event.ItemID) (protocol.Record, error) {
	i := t.find(from, id)
	if i < 0 {
		return protocol.Record{}, nil
	}
	return protocol.Record{ID: id, To: runIDs[t.p.outbox[i].to], Phase: t.p.outbox[i].phase}, nil
}

func (t *tx) SetPhase(from uint8, rec protocol.Record, phase store.Phase, _ int64) error {
	o := &t.p.outbox[t.find(from, rec.ID)]
	o.phase, o.old = phase, false
	return nil
}

func (t *tx) RemoveRecord(from uint8, rec protocol.Record) error {
	i := t.find(from, rec.ID)
	copy(t.p.outbox[i:], t.p.outbox[i+1:])
	t.p.outbox[records-1] = record{}
	return nil
}

func (t *tx) HasBefore(from uint8, rec protocol.Record) (bool, error) {
	for _, o := range t.p.outbox[:t.find(from, rec.ID)] {
		if o.from == from && runIDs[o.to] == rec.To {
			return true, nil
		}
	}
	return false, nil
}

func (t *tx) Refresh(from uint8, rec protocol.Record, _ int64) error {
	before := t.p.outbox[:t.find(from, rec.ID)]
	for i := range before {
		if o := &before[i]; o.from == from && runIDs[o.to] == rec.To && o.phase == store.PhaseAnswered {
			o.phase, o.old = store.PhaseFresh, false
		}
	}
	return nil
}

func (t *tx) FindSession(id store.SessionID) (uint8, error) {
	if s := id[1] - '0'; t.p.leases[s] != leaseNone {
		return s, nil
	}
	return 0, nil
}

func (t *tx) Session(s uint8) (protocol.Session, error) {
	return protocol.Session{ID: sessionIDs[s], Code: codes[t.p.codes[s]], Over: t.p.leases[s] != leaseLive}, nil
}

var codes = [...]string{"", "old", "new"}

func (t *tx) Blockers(r uint8) ([]uint8, error) {
	var all []uint8
	for s := uint8(1); s < sessions; s++ {
		if t.run(r).blockers>>s&1 == 1 {
			all = append(all, s)
		}
	}
	return all, nil
}

func (t *tx) SetBlockers(r uint8, all []uint8) {
	t.run(r).blockers = 0
	for _, s := range all {
		t.run(r).blockers |= 1 << s
	}
}

func (t *tx) Held(r uint8) (held protocol.Held, _ error) {
	held.Kept = t.p.kept[r-1] != 0
	for _, o := range t.p.outbox {
		held.Records = held.Records || o.phase != 0 && o.from == r
	}
	for i, x := range t.p.runs {
		held.Later = held.Later || x.there && x.chain == r && uint8(i+1) != r
	}
	return held, nil
}

func (t *tx) NextPurge(now int64) (first uint8, _ error) {
	for i, x := range t.p.runs {
		if x.there && x.purge != 0 && millis(x.purge) <= now && (first == 0 || x.purge < t.run(first).purge) {
			first = uint8(i + 1)
		}
	}
	return first, nil
}

func (t *tx) Remove(r uint8) error {
	*t.run(r) = run{}
	return nil
}

func (t *tx) ForgetChain(chain event.RunID) error {
	t.p.seen[number(chain)-1], t.p.kept[number(chain)-1] = 0, 0
	return nil
}

// The following methods do nothing, because the models have no streams.

func (t *tx) Stream(event.RunID, string) (protocol.Stream, error) { return protocol.Stream{}, nil }

func (t *tx) SaveStream(s protocol.Stream) (protocol.Stream, error) { return s, nil }

func (t *tx) TrimStream(protocol.Stream) error { return nil }

func (t *tx) AddChunk(protocol.Stream, *store.Publication) error { return nil }

func (t *tx) Written(protocol.Stream, string) (uint64, error) { return 0, nil }

func (t *tx) DropStream(protocol.Stream) error { return nil }

// The following methods do nothing, because no run collects starts in the models that use this Tx;
// see collect.go.

func (t *tx) Collecting(string) (uint8, error) { return 0, nil }

func (t *tx) Joined(event.RunID) (event.RunID, error) { return "", nil }

func (t *tx) Join(event.RunID, uint8, int64) error { return nil }

func (t *tx) ReplaceItem(uint8, store.Item) error { return nil }

// Limits returns nil in the models without limits.
func (t *tx) Limits() protocol.LimitTx[uint8] {
	if t.x == nil {
		return nil
	}
	return limitTx{t}
}
