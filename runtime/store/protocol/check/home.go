package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// This file models limits. Runs of one partition wait in limiter queues, are claimed together with
// their permits, give the permits back, and are recovered. All data of a limit is in this
// partition, so each operation is one atomic action. Requests and answers are separate steps and
// may be lost.

// kinds is the number of limits.
const kinds = 3

// clockTick is the unit of time of the model. A rate admits one weight every rateTicks.
const (
	clockTick = protocol.AdmitTime
	rateTicks = 2
)

// homeConfig is a configuration of the model of limits.
type homeConfig struct {
	name      string
	short     int
	runs      int // number of runs; 0 means slots
	need      [slots][kinds]uint8
	class     [slots]uint8 // number of the route
	priority  [slots]uint8
	whole     [slots]bool  // the run keeps its permits to its end
	within    [slots]uint8 // number, from 1, of the run above: it starts this run while it holds its permits, and ends after it
	again     [slots]bool  // another run with the same needs arrives after the end of the run
	serves    [2][2]bool   // the classes that a worker serves
	free      [kinds]uint8
	rate      [kinds]bool
	sets      []capacity // configurations to set, in order
	owned     bool       // workers start runs that they own at once
	continues bool       // R0 continues as R1
	cover     bool       // workers check periodically; otherwise wakes alone must suffice
	gone      bool       // a crashed worker does not return
	left      homeBudget
}

// homeBudget contains how often each event may still happen.
type homeBudget struct {
	crash, expire, lose, late, cancel, resend, yield, localstart, park, again, set, tool, seize, unused uint8
}

// capacity is a configuration of a limit. If atOnce is paused, the limit admits nothing; if it is
// 0, the limit is unlimited.
type capacity struct{ limit, atOnce uint8 }

const paused = 255

// home is a state of the model of limits.
type home struct {
	p     partition
	x     limited
	w     [2]homeWorker
	wakes [2]bool // wakes that are set, by class
	net   homeRequest
	left  homeBudget

	// Ghost variables.
	asked  uint8        // set of the runs that were examined in vain
	seized uint8        // set of the runs that their owners have seized
	age    [kinds]uint8 // ticks since the last weight began, by limit
}

// limited contains the limits and the limiter queues of a partition.
type limited struct {
	flags  [slots]permits
	order  [slots + 1]uint8  // the runs in limiter queues, in order of position
	lines  [slots]lineState  // by the number of the queue; see homeConfig.line
	limits [kinds]limitState // by the number of the limit
}

type permits struct {
	has, off bool
	place    uint8
}

// lineState is the state of a limiter queue. Times are in ticks from the present.
type lineState struct {
	mode  protocol.QueueMode
	timed bool
	until uint8
	owed  bool
	at    uint8 // set of the limits at which the queue counts
}

type limitState struct {
	atOnce      uint8
	paused      bool
	rate        bool
	held, waits int8
	tat         uint8
}

type homeWorker struct {
	phase   phase
	session uint8
	run     uint8 // number of the run, from 1
	epoch   uint8
	life    uint8 // number of sessions that the worker has had
	next    uint8 // ticks, from 1, until a sleeping worker checks; 0 if it does not
}

type phase uint8

// Phases of a worker.
const (
	awake   phase = iota // claims next
	asleep               // sleeps until a wake of its classes or until next
	working              // executes a run
	ending               // has sent the end of its run, and waits for the answer
	down
)

// homeRequest is a request in flight to the store.
type homeRequest struct {
	kind                requestKind
	session, run, epoch uint8
}

var classes = [2]store.Route{{Queue: "q", Workflow: "v"}, {Queue: "q", Workflow: "w"}}

var limitIDs = [kinds]store.LimitID{{Name: "a"}, {Name: "b"}, {Name: "c"}}

func kindOf(id store.LimitID) uint8 { return id.Name[0] - 'a' }

// uses returns the uses of run r. Runs are numbered from 1.
func (c *homeConfig) uses(r uint8) (uses []store.Use) {
	for l, n := range c.need[r-1] {
		if n > 0 {
			uses = append(uses, store.Use{LimitID: limitIDs[l], Weight: int(n), Nested: c.within[r-1] != 0})
		}
	}
	return uses
}

// line returns the number of the limiter queue of run r. It is the index of the first run with the
// same route and uses.
func (c *homeConfig) line(r uint8) uint8 {
	for i := range c.need {
		if c.class[i] == c.class[r-1] && c.need[i] == c.need[r-1] && (c.within[i] == 0) == (c.within[r-1] == 0) {
			return uint8(i)
		}
	}
	panic("check: a run has no line")
}

func (c *homeConfig) shares(a, b uint8) bool {
	for l := range kinds {
		if c.need[a-1][l] > 0 && c.need[b-1][l] > 0 {
			return true
		}
	}
	return false
}

// waits reports whether run r waits in a limiter queue, as computed from its state.
func (h *home) waits(c *homeConfig, r uint8) bool { return waits(c, &h.p, &h.x, r) }

func waits(c *homeConfig, p *partition, x *limited, r uint8) bool {
	run, f := &p.runs[r-1], &x.flags[r-1]
	return run.there && run.queueState == store.StateReady && len(c.uses(r)) > 0 && !f.has && !f.off
}

// awaits reports whether run r has started another run that has not ended.
func (h *home) awaits(c *homeConfig, r uint8) bool {
	for i, above := range c.within {
		if x := &h.p.runs[i]; above == r && h.x.flags[r-1].has && (!x.there || x.queueState != store.StateEnded) {
			return true
		}
	}
	return false
}

// keepsBack reports whether the waiting run y holds back run r at a limit that both use. It holds
// back a nested run only if y waits for no other limit.
func (h *home) keepsBack(c *homeConfig, y, r uint8) bool {
	var lacks, shared [kinds]bool
	n := 0
	for l, x := range h.x.limits {
		need := int8(c.need[y-1][l])
		line := h.x.lines[c.line(y)]
		counts := line.mode == protocol.QueueOpen || line.at>>l&1 == 1 // the queue of a run that was examined in vain is closed
		if shared[l] = need > 0 && c.need[r-1][l] > 0 && counts; need > 0 && (x.paused || x.atOnce > 0 && x.held+need > int8(x.atOnce) || x.rate && x.tat > 0) {
			lacks[l], n = true, n+1
		}
	}
	for l := range kinds {
		called := h.x.lines[c.line(y)].mode == protocol.QueueAdmitted
		if shared[l] && (c.within[r-1] == 0 || n == 1 && lacks[l] || n == 0 && called) {
			return true
		}
	}
	return false
}

// before reports whether the position of run a precedes that of b.
func (x *limited) before(c *homeConfig, a, b uint8) bool {
	if c.priority[a-1] != c.priority[b-1] {
		return c.priority[a-1] > c.priority[b-1]
	}
	return x.flags[a-1].place < x.flags[b-1].place
}

// firsts returns the first run of each limiter queue, in order of position.
func (x *limited) firsts(c *homeConfig) []uint8 {
	var firsts []uint8
	var seen [slots]bool
	for _, r := range x.order {
		if r != 0 && !seen[c.line(r)] {
			seen[c.line(r)] = true
			firsts = append(firsts, r)
		}
	}
	return firsts
}

func (x *limited) enter(c *homeConfig, r uint8) {
	if x.flags[r-1].place == 0 {
		for _, f := range x.flags {
			x.flags[r-1].place = max(x.flags[r-1].place, f.place+1)
		}
	}
	at := 0
	for at < slots && x.order[at] != 0 && !x.before(c, r, x.order[at]) {
		at++
	}
	copy(x.order[at+1:], x.order[at:slots])
	x.order[at] = r
}

func (x *limited) leave(c *homeConfig, r uint8) {
	n := 0
	others := false
	for _, o := range x.order {
		if o != 0 && o != r {
			x.order[n] = o
			n++
			others = others || c.line(o) == c.line(r)
		}
	}
	clear(x.order[n:])
	if !others {
		x.lines[c.line(r)] = lineState{}
	}
}

// limitedState copies the limiter data of run r into s.
func (t *tx) limitedState(r uint8, s *protocol.Run[uint8]) {
	f := t.x.flags[r-1]
	s.Limited, s.Whole = len(t.home.uses(r)) > 0, t.home.whole[r-1]
	s.Permits, s.LeftQueue, s.Place = f.has, f.off, int64(f.place)
}

func (t *tx) saveLimited(r uint8, s *protocol.Run[uint8], waited bool) {
	t.x.flags[r-1] = permits{s.Permits, s.LeftQueue, uint8(s.Place)}
	switch is := waits(t.home, t.p, t.x, r); {
	case is && !waited:
		t.x.enter(t.home, r)
	case waited && !is:
		t.x.leave(t.home, r)
	}
}

// limitTx is the LimitTx of the model. It stores lists, and computes all other data.
type limitTx struct{ *tx }

func (t limitTx) Uses(r uint8) ([]store.Use, error) { return t.home.uses(r), nil }

func (t limitTx) Limit(id store.LimitID) (protocol.Limit, error) {
	x := t.x.limits[kindOf(id)]
	l := protocol.Limit{Held: int(x.held), Waits: int(x.waits)}
	l.AtOnce, l.Paused = int(x.atOnce), x.paused
	if x.rate {
		l.Rate, l.Burst, l.Per = 1, 1, rateTicks*clockTick
	}
	if x.tat > 0 {
		l.TAT = t.Now().Add(time.Duration(x.tat) * clockTick).UnixMicro()
	}
	return l, nil
}

func (t limitTx) SaveLimit(id store.LimitID, l protocol.Limit) error {
	x := &t.x.limits[kindOf(id)]
	x.held, x.waits = int8(l.Held), int8(l.Waits)
	x.tat = ticks(l.TAT-t.Now().UnixMicro(), clockTick.Microseconds())
	return nil
}

// ticks returns a duration from now in ticks, rounded up. It returns 0 if the time has come.
func ticks(from, unit int64) uint8 { return uint8(max(0, (from+unit-1)/unit)) }

func (t limitTx) Configure(set *store.SetLimit) error {
	x := &t.x.limits[kindOf(set.LimitID)]
	x.atOnce, x.paused = uint8(set.Config.AtOnce), set.Config.Paused
	return nil
}

// Paced returns no parts, because the model changes no rates.
func (t limitTx) Paced(string) ([]store.LimitID, error) { return nil, nil }

func (t limitTx) Waiting(name string) ([]store.LimitID, error) {
	id := store.LimitID{Name: name}
	if lines, _ := t.LimiterQueues(id); len(lines) > 0 {
		return []store.LimitID{id}, nil
	}
	return nil, nil
}

func (t limitTx) QueueOf(r uint8) (protocol.LimiterQueue, error) {
	return t.number(t.home.line(r)), nil
}

// number returns the limiter queue with the number n.
func (t limitTx) number(n uint8) protocol.LimiterQueue {
	l := protocol.LimiterQueue{ID: string('0' + rune(n))}
	for _, r := range t.x.firsts(t.home) {
		if t.home.line(r) == n {
			s := t.x.lines[n]
			l.First, l.Priority, l.Place, l.Mode = runIDs[r], int(t.home.priority[r-1]), int64(t.x.flags[r-1].place), s.mode
			l.Owed = s.owed
			for i, u := range t.home.uses(r) {
				if s.at>>kindOf(u.LimitID)&1 == 1 {
					l.Stands |= 1 << i
				}
			}
			if s.timed {
				l.Until = t.Now().Add(time.Duration(s.until) * clockTick).UnixMilli()
			}
		}
	}
	return l
}

func (t limitTx) LimiterQueue(id string) (protocol.LimiterQueue, error) {
	return t.number(id[0] - '0'), nil
}

func (t limitTx) SaveQueue(l protocol.LimiterQueue) error {
	n := l.ID[0] - '0'
	if t.number(n).First == "" {
		return nil
	}
	s := lineState{mode: l.Mode, timed: l.Until != 0, owed: l.Owed && l.Mode == protocol.QueueClosed}
	if s.timed {
		s.until = ticks(l.Until-t.Now().UnixMilli(), clockTick.Milliseconds())
	}
	if l.Mode != protocol.QueueOpen {
		for i, u := range t.home.uses(n + 1) {
			if l.Stands>>i&1 == 1 {
				s.at |= 1 << kindOf(u.LimitID)
			}
		}
	}
	t.x.lines[n] = s
	return nil
}

// counts reports whether a queue counts at a limit.
func (t limitTx) counts(l protocol.LimiterQueue, id store.LimitID) bool {
	return t.x.lines[l.ID[0]-'0'].at>>kindOf(id)&1 == 1
}

func (t limitTx) LimiterQueues(id store.LimitID) (lines []protocol.LimiterQueue, _ error) {
	for _, r := range t.x.firsts(t.home) {
		if t.home.need[r-1][kindOf(id)] > 0 {
			lines = append(lines, t.number(t.home.line(r)))
		}
	}
	return lines, nil
}

func (t limitTx) FirstKept(id store.LimitID) (protocol.LimiterQueue, error) {
	lines, err := t.KeptQueues(id, 1)
	if len(lines) == 0 {
		return protocol.LimiterQueue{}, err
	}
	return lines[0], err
}

func (t limitTx) ClosedQueues(id store.LimitID, limit int) ([]protocol.LimiterQueue, error) {
	lines, err := t.KeptQueues(id, slots)
	lines = slices.DeleteFunc(lines, func(l protocol.LimiterQueue) bool { return l.Mode != protocol.QueueClosed })
	return lines[:min(limit, len(lines))], err
}

func (t limitTx) KeptQueues(id store.LimitID, limit int) ([]protocol.LimiterQueue, error) {
	lines, err := t.LimiterQueues(id)
	lines = slices.DeleteFunc(lines, func(l protocol.LimiterQueue) bool { return l.Mode == protocol.QueueOpen || !t.counts(l, id) })
	return lines[:min(limit, len(lines))], err
}

func (t limitTx) NestedClosed(id store.LimitID) ([]protocol.LimiterQueue, error) {
	var nested []protocol.LimiterQueue
	for _, r := range t.x.firsts(t.home) {
		if l := t.number(t.home.line(r)); t.home.need[r-1][kindOf(id)] > 0 && t.home.within[r-1] != 0 && l.Mode == protocol.QueueClosed && t.counts(l, id) {
			nested = append(nested, l)
		}
	}
	return nested, nil
}

// nextTurn returns the earliest recheck time of all limiter queues, in milliseconds; 0 if there is
// none.
func (t *tx) nextTurn() (at int64) {
	for _, s := range t.x.lines {
		if ms := t.Now().Add(time.Duration(s.until) * clockTick).UnixMilli(); s.timed && (at == 0 || ms < at) {
			at = ms
		}
	}
	return at
}

// homes is the model of limits.
type homes struct {
	homeConfig
	bug homeBug
	tx  tx
	op  kernel
	log uint16 // log with only the first record; all runs begin with it
}

func (c homeConfig) model(b homeBug) model[home] {
	c.left.set = uint8(len(c.sets))
	m := &homes{homeConfig: c, bug: b, tx: tx{logs: newLogs()}}
	m.tx.home = &m.homeConfig
	m.op.Tx = &m.tx
	if b.tx != nil {
		m.op.Tx = b.tx(&m.tx)
	}
	m.log = m.tx.number(node{kind: runCreated, gen: 1})
	s := home{left: c.left}
	for l := range s.x.limits {
		s.x.limits[l] = limitState{atOnce: c.free[l], rate: c.rate[l]}
		s.age[l] = rateTicks
	}
	for i := range s.w {
		m.open(&s, i)
	}
	return model[home]{init: s, next: m.next, check: m.check, goal: m.done}
}

// create returns the request that creates run r. Runs are numbered from 1.
func (m *homes) create(r uint8) store.Create {
	return store.Create{
		Run: runIDs[r], Route: classes[m.class[r-1]], Frame: m.tx.frames[m.log], CommitID: cid(m.log), Seq: 1, Status: event.StatusRunning,
		Uses: m.uses(r), Whole: m.whole[r-1], Priority: int(m.priority[r-1]),
	}
}

// exists reports whether the configuration includes the start of run r.
func (m *homes) exists(r uint8) bool {
	return int(r) <= cmp.Or(m.runs, slots) && !(m.continues && r == 2)
}

// done reports whether all runs have ended, except those that no worker serves because workers are
// gone.
func (m *homes) done(s home) bool {
	for i, x := range s.p.runs {
		served := false
		for w := range s.w {
			served = served || m.serves[w][m.class[i]] && s.w[w].phase != down
		}
		ended := x.there && x.queueState == store.StateEnded
		if m.exists(uint8(i+1)) || x.there {
			if !ended && (served || !m.gone) {
				return false
			}
		}
	}
	return true
}

// open opens a session for worker i. If the worker has used all its sessions, it is down.
func (m *homes) open(n *home, i int) {
	life := n.w[i].life
	if life == 2 || m.gone && life == 1 {
		n.w[i] = homeWorker{phase: down, life: life}
		return
	}
	session := uint8(2*i) + life + 1
	n.w[i] = homeWorker{session: session, life: life + 1}
	n.p.leases[session], n.p.codes[session] = leaseLive, 1
}

// The following methods do nothing, because no run of the model has a fairness key.

func (t limitTx) Share(uint8) (protocol.Share, error) { return protocol.Share{}, nil }

func (t limitTx) FairKey(store.FairID) (protocol.FairKey, error) { return protocol.FairKey{}, nil }

func (t limitTx) SaveFairKey(store.FairID, protocol.FairKey) error { return nil }

func (t limitTx) Pass(protocol.Share) (int64, error) { return 0, nil }

func (t limitTx) SavePass(protocol.Share, int64) error { return nil }

func (t limitTx) Come() (int64, error) { return 0, nil }

func (t limitTx) Came(int64) error { return nil }
