package check

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// liar is a Tx with one wrong method, or with two wrong methods that belong together.
type liar struct {
	*tx
	state     func(t *tx, r uint8, s protocol.Run[uint8]) protocol.Run[uint8]
	save      func(t *tx, before run, x *run)
	run       func(t *tx, id event.RunID) bool // reports whether Run returns none
	item      func(t *tx) event.ItemID
	runItem   bool // HasRunItem returns false
	noMove    bool // MoveItems drops the items
	noAdd     func(t *tx) bool
	noSeen    bool // Seen returns false
	noMemory  bool // Remember does nothing
	noActive  bool // Active returns the zero run
	noQueue   bool // NextInQueue returns the zero run
	noHeld    bool // Held returns no reasons
	early     bool // NextDue returns a time before all due times
	noBlock   bool // SetBlockers does nothing
	noTried   bool // Blockers returns no sessions
	noOpen    bool // HasBefore returns false
	noSettled bool // HasBefore ignores settled records
	noKept    bool // Held ignores remembered items
	noUnkeep  bool // Unkeep does nothing
	phase     func(store.Phase) (as store.Phase, old bool)
	insert    func(event.ItemID) event.ItemID
	now       bool // Now returns a time at which no request is late
}

func (l liar) bug() bug {
	return bug{tx: func(t *tx) protocol.Tx[uint8, uint8] {
		l.tx = t
		return &l
	}}
}

func (l *liar) State(r uint8) protocol.Run[uint8] {
	s := l.tx.State(r)
	if l.state != nil {
		return l.state(l.tx, r, s)
	}
	return s
}

func (l *liar) Save(r uint8, s protocol.Run[uint8]) error {
	x := l.tx.run(r)
	before := *x
	_ = l.tx.Save(r, s)
	if l.save != nil {
		l.save(l.tx, before, x)
	}
	return nil
}

func (l *liar) Run(id event.RunID) (uint8, error) {
	if l.run != nil && l.run(l.tx, id) {
		return 0, nil
	}
	return l.tx.Run(id)
}

func (l *liar) Item(r uint8, n int) (event.ItemID, error) {
	if l.item != nil {
		return l.item(l.tx), nil
	}
	return l.tx.Item(r, n)
}

func (l *liar) HasRunItem(r uint8, n int) (bool, error) {
	if l.runItem {
		return false, nil
	}
	return l.tx.HasRunItem(r, n)
}

func (l *liar) MoveItems(from, to uint8) error {
	if l.noMove {
		return nil
	}
	return l.tx.MoveItems(from, to)
}

func (l *liar) AddItem(r uint8, i store.Item) error {
	if l.noAdd != nil && l.noAdd(l.tx) {
		return nil
	}
	return l.tx.AddItem(r, i)
}

func (l *liar) Seen(chain event.RunID, id event.ItemID) (bool, error) {
	if l.noSeen {
		return false, nil
	}
	return l.tx.Seen(chain, id)
}

func (l *liar) Remember(chain event.RunID, id event.ItemID, at int64, keep bool) error {
	if l.noMemory {
		return nil
	}
	return l.tx.Remember(chain, id, at, keep)
}

func (l *liar) Active(id string) (uint8, error) {
	if l.noActive {
		return 0, nil
	}
	return l.tx.Active(id)
}

func (l *liar) NextInQueue(r uint8) (uint8, error) {
	if l.noQueue {
		return 0, nil
	}
	return l.tx.NextInQueue(r)
}

func (l *liar) Held(r uint8) (protocol.Held, error) {
	if l.noHeld {
		return protocol.Held{}, nil
	}
	held, err := l.tx.Held(r)
	held.Kept = held.Kept && !l.noKept
	return held, err
}

func (l *liar) NextDue() (int64, error) {
	if l.early {
		return 1, nil
	}
	return l.tx.NextDue()
}

func (l *liar) SetBlockers(r uint8, all []uint8) {
	if !l.noBlock {
		l.tx.SetBlockers(r, all)
	}
}

func (l *liar) Blockers(r uint8) ([]uint8, error) {
	if l.noTried {
		return nil, nil
	}
	return l.tx.Blockers(r)
}

func (l *liar) HasBefore(from uint8, rec protocol.Record) (bool, error) {
	if l.noOpen {
		return false, nil
	}
	if l.noSettled {
		return l.hasOpenBefore(from, rec), nil
	}
	return l.tx.HasBefore(from, rec)
}

func (l *liar) hasOpenBefore(from uint8, rec protocol.Record) bool {
	for _, o := range l.tx.p.outbox[:l.tx.find(from, rec.ID)] {
		if o.from == from && runIDs[o.to] == rec.To && o.phase != store.PhaseSettled {
			return true
		}
	}
	return false
}

func (l *liar) Unkeep(chain event.RunID, id event.ItemID) error {
	if l.noUnkeep {
		return nil
	}
	return l.tx.Unkeep(chain, id)
}

func (l *liar) SetPhase(from uint8, rec protocol.Record, phase store.Phase, now int64) error {
	if l.phase == nil {
		return l.tx.SetPhase(from, rec, phase, now)
	}
	phase, old := l.phase(phase)
	_ = l.tx.SetPhase(from, rec, phase, now)
	l.tx.p.outbox[l.tx.find(from, rec.ID)].old = old
	return nil
}

func (l *liar) Insert(c *store.Create, chain event.RunID, createdBy event.ItemID) (uint8, error) {
	if l.insert != nil {
		createdBy = l.insert(createdBy)
	}
	return l.tx.Insert(c, chain, createdBy)
}

func (l *liar) Now() time.Time {
	if l.now && (l.tx.doing == creating || l.tx.doing == delivering) {
		return epoch0
	}
	return l.tx.Now()
}

// seeded are the bugs of the model of runs. The name of each begins with the rule that it breaks.
var seeded = []struct {
	name  string
	in    config
	bug   bug
	finds string // the first broken invariant, without the run or the item
}{
	{"F1 the fence is not compared", fence1, bug{commit: unfenced(func(run, *store.Commit) bool { return true })},
		"epochs go backwards in a log [F1]"},
	{"F1 the epoch is compared without the token", failover, bug{commit: unfenced(sameEpoch)},
		"two writers in one epoch [F1]"},
	{"F2 whatever takes a run keeps its epoch", fence1, liar{save: keepEpoch}.bug(),
		"a run was taken from its owner, and its fence did not change [F2]"},
	{"F3 the position is not compared", fence1, liar{state: anyPosition}.bug(),
		"a writer appended to a log other than the one that it had read [F3]"},
	{"F3 the position is a count", failover, liar{state: countedPosition}.bug(),
		"a writer appended to a log other than the one that it had read [F3]"},
	{"M1 what is accepted is not remembered", delivery, liar{noMemory: true}.bug(),
		"is there twice [M1]"},
	{"M1 what is accepted is not in the inbox", delivery, liar{noAdd: always, save: countItems}.bug(),
		"was accepted and is nowhere [M1]"},
	{"M1 what was accepted is not asked for", delivery, liar{noSeen: true}.bug(),
		"is there twice [M1]"},
	{"M2 a run that has ended is asked first", late, bug{deliver: endedFirst},
		"was refused to its sender, and the run has it [M2]"},
	{"M3 items are consumed by their number", failoverDelivery, liar{item: theOneNamed}.bug(),
		"a commit recorded one item and removed another [M3]"},
	{"M4 a run parks with unread items", two, liar{state: readAll(store.EffectPark), save: countItems}.bug(),
		"is parked with unread items [M4]"},
	{"M4 a run ends with unread items", two, liar{state: readAll(store.EffectFinish), save: countItems}.bug(),
		"was accepted and is nowhere [M1]"},
	{"M4 a run continues with unread items for itself", hooks, liar{runItem: true}.bug(),
		"an item for R0 alone is in the inbox of R1 [M4]"},
	{"M4 a run that continues drops unread items", continues, liar{noMove: true, save: countItems}.bug(),
		"was accepted and is nowhere [M1]"},
	{"C1 a start does not ask whether its run exists", inQueue, liar{run: noneToCreate}.bug(),
		"was created twice [C1]"},
	{"C1 a start does not see the active run", inQueue, liar{noActive: true}.bug(),
		"is not the active run of its workflow id, has not ended, and is not in line [C1]"},
	{"C1 the end of a run forgets the line", inQueue, liar{noQueue: true}.bug(),
		"a run is in line, and no run is before it"},
	{"C2 a run is created without its items", inQueue, liar{noAdd: toCreate, save: countItems}.bug(),
		"has 0 times the item that it was created with [C2]"},
	{"W2 a heartbeat does not compare runs", lostClaim, bug{forgets: true},
		"stuck: there is no way to the end without a fault"},
	{"W3 a commit is known by its number and its writer", failover, liar{state: knownByNumber}.bug(),
		"a commit was answered as applied, but another record is there"},
	{"K1 a claim by name takes an owned run", byName, liar{state: neverOwned}.bug(),
		"a run was taken from its owner [F2]"},
	{"K2 a run becomes ready and no wake is set", fence1, bug{after: func(c *protocol.Changes[uint8]) { c.Ready = nil }},
		"a run became ready, and nobody wakes [K2]"},
	{"K3 an earlier due time wakes nobody", fence1, liar{early: true}.bug(),
		"a run has the earliest due time, and nobody wakes [K3]"},
	{"B1 a block names no session", blocks, liar{noBlock: true}.bug(),
		"a claim gave a run to a session with the code of a blocker [B2]"},
	{"B2 a claim does not ask for blockers", blocks, liar{noTried: true}.bug(),
		"a claim gave a run to a session with the code of a blocker [B2]"},
	{"B3 a block tells nobody", blocks, bug{after: func(c *protocol.Changes[uint8]) { c.Blocked = nil }},
		"a run was blocked, and nobody is told [B3]"},
	{"P1 a run is purged when it has ended", purgeSoon, liar{save: purgeAtOnce}.bug(),
		"a run was purged that somebody may still send to [P1]"},
	{"P1 the first run of a chain is purged first", purgeSoon, liar{noHeld: true}.bug(),
		"is kept, and the first run of its chain is gone [P1]"},
	{"recoveries are counted by claims", fence1, liar{save: countClaims}.bug(),
		"has more recoveries than sessions died"},
	{"the owner is not told of an item", delivery, bug{after: func(c *protocol.Changes[uint8]) { c.Unread = nil }},
		"an owned run has a new item, and its owner is not told"},
}

// traded are the bugs of the model of the outbox.
var traded = []struct {
	name  string
	in    trade
	bug   bug
	finds string
}{
	{"O1 what was answered is not taken back", trade2, liar{noOpen: true}.bug(),
		"a record was refused, and its receiver would have had it [O1]"},
	{"O1 an item comes into effect again", trade1, liar{noSeen: true}.bug(),
		"the message took effect twice [O1]"},
	{"O1 a run is created again", trade1, liar{run: noneToCreate}.bug(),
		"was created twice [O1]"},
	{"O1 a late record is let in", trade0, liar{now: true}.bug(),
		"the message took effect twice [O1]"},
	{"O2 what was answered counts as settled", trade2, liar{phase: settledAtOnce}.bug(),
		"a record was settled, and its effect is nowhere [O2]"},
	{"O2 nothing waits for a horizon", trade2, liar{phase: oldAtOnce}.bug(),
		"a record was settled, and its effect is nowhere [O2]"},
	{"O2 Confirm forgets nothing", trade0, liar{noUnkeep: true}.bug(),
		"what was confirmed is still remembered [O2]"},
	{"O1 what is settled does not count", trade3, liar{noSettled: true}.bug(),
		"a record was refused, and its receiver would have had it [O1]"},
	{"P1 a run is purged that remembers an item", trade1, liar{noKept: true}.bug(),
		"a record was refused, and its receiver would have had it [O1]"},
	{"P1 nobody knows what has created a run", trade4, liar{insert: unborn}.bug(),
		"a run was purged that its creator may send again [P1]"},
	{"P1 a run is purged before its records", trade1, liar{noHeld: true}.bug(),
		"a run was purged that has records in its outbox [P1]"},
}

func settledAtOnce(p store.Phase) (store.Phase, bool) {
	if p == store.PhaseAnswered {
		return store.PhaseSettled, false
	}
	return p, false
}

func oldAtOnce(p store.Phase) (store.Phase, bool) { return p, true }

func unborn(event.ItemID) event.ItemID { return "" }

// unfenced gives the run the fence of the commit for the duration of the commit.
func unfenced(which func(run, *store.Commit) bool) func(*kernel, *tx, *store.Commit) (store.Committed, error) {
	return func(op *kernel, t *tx, c *store.Commit) (store.Committed, error) {
		x := &t.p.runs[number(c.Run)-1]
		before := *x
		if !x.there || x.queueState == store.StateEnded || !which(before, c) {
			return op.Commit(c)
		}
		x.queueState, x.epoch, x.token = store.StateOwned, uint8(c.Fence.Epoch), c.Fence.Token[0]
		got, err := op.Commit(c)
		if x.queueState == store.StateOwned {
			x.queueState, x.due = before.queueState, before.due
		}
		if x.queueState != store.StateEnded {
			x.epoch = before.epoch
		}
		if x.queueState == before.queueState {
			x.token = before.token
		}
		return got, err
	}
}

func sameEpoch(x run, c *store.Commit) bool {
	return x.queueState == store.StateOwned && uint64(x.epoch) == c.Fence.Epoch
}

func keepEpoch(t *tx, before run, x *run) {
	if before.queueState == store.StateOwned && x.queueState == store.StateReady && t.doing != committing {
		x.epoch = before.epoch
	}
}

func anyPosition(t *tx, r uint8, s protocol.Run[uint8]) protocol.Run[uint8] {
	if t.doing == committing && s.ID == t.commit.Run {
		s.Last, s.Seq = t.commit.Prev, t.commit.First-1
	}
	return s
}

func countedPosition(t *tx, r uint8, s protocol.Run[uint8]) protocol.Run[uint8] {
	if t.doing == committing && s.ID == t.commit.Run && t.commit.Frame != nil && s.Seq == t.commit.First-1 {
		s.Last = t.commit.Prev
	}
	return s
}

func knownByNumber(t *tx, r uint8, s protocol.Run[uint8]) protocol.Run[uint8] {
	c := t.commit
	if t.doing == committing && s.ID == c.Run && c.Frame != nil && s.Seq == c.Last && t.run(r).lastToken == c.Fence.Token[0] {
		s.Last = c.CommitID
	}
	return s
}

func countItems(_ *tx, _ run, x *run) { x.unread = x.length() }

func always(*tx) bool { return true }

func toCreate(t *tx) bool { return t.doing == creating }

func noneToCreate(t *tx, _ event.RunID) bool { return t.doing == creating }

func theOneNamed(t *tx) event.ItemID { return t.commit.ConsumeLast }

func readAll(e store.Effect) func(*tx, uint8, protocol.Run[uint8]) protocol.Run[uint8] {
	return func(t *tx, _ uint8, s protocol.Run[uint8]) protocol.Run[uint8] {
		if t.doing == committing && s.ID == t.commit.Run && t.commit.Effect == e {
			s.Unread = t.commit.Consume
		}
		return s
	}
}

func endedFirst(op *kernel, t *tx, d *store.Deliver) (event.RunID, error) {
	for i, x := range t.p.runs {
		if x.there && x.chain == 1 && x.queueState == store.StateEnded && x.next == 0 {
			return "", &store.TerminalError{Run: runIDs[i+1]}
		}
	}
	return op.Deliver(d)
}

func neverOwned(t *tx, _ uint8, s protocol.Run[uint8]) protocol.Run[uint8] {
	if t.doing == claiming && s.QueueState == store.StateOwned {
		s.QueueState = store.StateParked
	}
	return s
}

func purgeAtOnce(t *tx, _ run, x *run) {
	if x.purge != 0 {
		x.purge = t.p.now + 1
	}
}

func countClaims(_ *tx, before run, x *run) {
	if before.queueState != store.StateOwned && x.queueState == store.StateOwned {
		x.recoveries++
	}
}
