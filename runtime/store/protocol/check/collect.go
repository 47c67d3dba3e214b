package check

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// This file models starts that share a run. Three clients start with the same key. Each sends its
// request again until it is answered, and each request may be late. A worker claims ready runs, and
// may crash before it has moved the inbox into the log. A client may cancel a run.

const (
	starts      = 3
	cancelStart = starts + 1 // item number of a cancel item, after those of the starts
)

// collector is a run of the model. Its id is the id of the start that has created it.
type collector struct {
	there, collect, begun bool
	place                 store.QueueState
	epoch                 uint8
	items, input          [cancelStart]uint8 // numbers of the starts in the inbox and in the log
	created, due          uint8              // time in ticks, plus 1; 0 if there is none
	last                  uint8              // the start that was accepted last; ghost variable
	canceled              bool               // ghost variable
}

type collecting struct {
	runs   [starts]collector
	joined [starts]uint8 // the run that each start has joined
	in     [starts]uint8 // set of the runs that have accepted the start, as bits; ghost variable
	sent   [starts]uint8
	late   [starts]bool  // a copy of the request is in flight
	saw    [starts]uint8 // only with the bug look: 1 + the run that collected when the start checked
	now    uint8

	resend, crash, cancel uint8
}

// States of a start from the view of its client.
const (
	startUnsent uint8 = iota
	startUnanswered
	startAnswered
)

// collectConfig is a configuration of the model of starts that share a run.
type collectConfig struct {
	name                  string
	collect               store.Collect
	resend, crash, cancel uint8
}

// A collectBug is a bug in the model of starts that share a run.
type collectBug struct {
	tx   func(*collectTx) protocol.Tx[uint8, uint8]
	look bool // a start checks which run collects in one action, and joins that run in another action
}

// collectors is the model of starts that share a run.
type collectors struct {
	collectConfig
	bug collectBug
	tx  collectTx
	op  kernel
}

func (c collectConfig) model(b collectBug) model[collecting] {
	m := &collectors{collectConfig: c, bug: b}
	m.collect.Key = "key"
	m.op.Tx = &m.tx
	if b.tx != nil {
		m.op.Tx = b.tx(&m.tx)
	}
	return model[collecting]{
		init: collecting{resend: c.resend, crash: c.crash, cancel: c.cancel},
		next: m.next, check: m.check, goal: m.done,
	}
}

// do carries out an operation of the kernel on state n.
func (m *collectors) do(n *collecting, f func() error) {
	m.tx.n = n
	if err := f(); err != nil {
		panic(fmt.Sprintf("check: %v", err)) // no operation of this model is refused
	}
	m.op.Changes.Reset()
}

// start sends the request of start i to the kernel.
func (m *collectors) start(n *collecting, i int) {
	m.tx.starts = i
	m.do(n, func() error {
		answer, err := m.op.Create(&store.Create{
			Run: runIDs[i+1], Collect: &m.collect, Items: []store.Item{{ID: startItem(uint8(i + 1))}}, CommitID: event.CommitID{1}, Seq: 1,
		})
		if err != nil || answer.Err != nil {
			return fmt.Errorf("%w%w", err, answer.Err)
		}
		r := number(answer.Run)
		if n.in[i]&(1<<r) == 0 {
			n.in[i] |= 1 << r
			n.runs[r-1].last = uint8(i + 1)
		}
		return nil
	})
}

func startItem(start uint8) event.ItemID { return event.ItemID('0' + rune(start)) }

func (m *collectors) next(s collecting, e emit[collecting]) {
	try := func(l label, fault bool, f func(n *collecting)) {
		n := s
		f(&n)
		e(l, fault, n, "")
	}
	for i := range starts {
		m.sends(s, i, try)
	}
	waits := false
	for i, r := range s.runs {
		waits = waits || r.place == store.StateParked && r.due <= s.now+1
		m.executes(s, uint8(i+1), r, try)
	}
	if waits {
		return // a timer fires before more time passes
	}
	for _, r := range s.runs {
		if r.place == store.StateParked {
			try(say("time passes"), false, func(n *collecting) { n.now++ })
			return
		}
	}
}

// sends tries the steps of a client.
func (m *collectors) sends(s collecting, i int, try func(label, bool, func(*collecting))) {
	k := uint8(i + 1)
	switch {
	case s.sent[i] == startAnswered && s.late[i]:
		try(say("start %d is executed late, once more", k), true, func(n *collecting) { n.late[i] = false; m.start(n, i) })
		return
	case s.sent[i] == startAnswered:
		return
	case m.bug.look && s.saw[i] == 0:
		try(say("start %d looks who gathers", k), false, func(n *collecting) {
			m.tx.n = n
			r, _ := m.tx.Collecting(m.collect.Key)
			n.saw[i] = r + 1
		})
		return
	}
	try(say("start %d is answered", k), false, func(n *collecting) { m.start(n, i); n.sent[i] = startAnswered })
	if s.resend > 0 {
		try(say("start %d is executed, and the answer is lost", k), true, func(n *collecting) { n.resend--; m.start(n, i); n.sent[i] = startUnanswered })
		if !s.late[i] {
			try(say("start %d is late, and sent again", k), true, func(n *collecting) { n.resend--; n.late[i] = true })
		}
	}
}

// executes tries the steps of a run.
func (m *collectors) executes(s collecting, r uint8, x collector, try func(label, bool, func(*collecting))) {
	if s.cancel > 0 && x.there && !x.begun && x.place != store.StateOwned {
		try(say("somebody asks run %d to end", r), true, func(n *collecting) {
			n.cancel--
			m.do(n, func() error {
				_, err := m.op.Deliver(&store.Deliver{Run: runIDs[r], Item: store.Item{ID: startItem(cancelStart)}, Urgent: true})
				return err
			})
			n.runs[r-1].canceled = true
		})
	}
	switch {
	case x.place == store.StateParked && x.due <= s.now+1:
		try(say("run %d is due", r), false, func(n *collecting) { m.do(n, func() error { return m.op.MakeReady(r) }) })
	case x.place == store.StateReady:
		try(say("run %d is claimed", r), false, func(n *collecting) {
			m.do(n, func() error { _, err := m.op.Take(r, 1, &store.Claim{Token: event.Token{1}}, nil); return err })
		})
	case x.place == store.StateOwned && !x.begun:
		try(say("run %d begins with what it has", r), false, func(n *collecting) {
			m.do(n, func() error { return m.begin(n, r) })
		})
		if s.crash > 0 {
			try(say("run %d loses its worker, and is recovered", r), true, func(n *collecting) {
				n.crash--
				m.do(n, func() error { return m.op.Recover(r) })
			})
		}
	}
}

// begin moves the inbox into the log.
func (m *collectors) begin(n *collecting, r uint8) error {
	x := &n.runs[r-1]
	held := x.items
	k := size(held)
	answer, err := m.op.Commit(&store.Commit{
		Run: runIDs[r], Fence: fence(x.epoch, 1), Prev: event.CommitID{1}, Consume: k, ConsumeLast: startItem(held[k-1]),
	})
	if err == nil {
		err = answer.Err
	}
	x.input, x.begun = held, true
	return err
}

func size(items [cancelStart]uint8) (n int) {
	for _, i := range items {
		if i != 0 {
			n++
		}
	}
	return n
}

func count(items [cancelStart]uint8, start uint8) (n int) {
	for _, i := range items {
		if i == start {
			n++
		}
	}
	return n
}

// check returns a description of the first broken invariant, or "".
func (m *collectors) check(s collecting) string {
	for i := range starts {
		k, in := uint8(i+1), 0
		for r, x := range s.runs {
			if s.in[i]&(1<<(r+1)) == 0 {
				continue
			}
			in++
			has := count(x.items, k) + count(x.input, k)
			switch {
			case x.begun && count(x.items, k) > 0:
				return "L12: a start has joined a run that had begun: it is lost"
			case m.collect.Keep && has != 1:
				return "L12: a run does not have each start once"
			case !m.collect.Keep && x.last == k && has != 1:
				return "L12: the last start does not count"
			case !m.collect.Keep && x.last != k && has != 0:
				return "L12: another start counts than the last one"
			}
		}
		if in > 1 {
			return "L12: a start is in two runs"
		}
		if in == 0 && s.sent[i] != startUnsent {
			return "L12: a start that was executed is in no run"
		}
	}
	for _, x := range s.runs {
		waited := time.Duration(s.now+1-x.created) * time.Second
		switch {
		case x.place == store.StateParked && m.collect.Most > 0 && waited > m.collect.Most:
			return "L12: a run waits longer than its maximum"
		case m.collect.Full > 0 && size(x.items) > m.collect.Full && !x.canceled:
			return "L12: more starts than fill a run"
		case x.collect && x.canceled:
			return "L12: a run that is asked to end gathers"
		}
	}
	return ""
}

// done reports whether all starts are answered and all runs have begun.
func (m *collectors) done(s collecting) bool {
	for i, x := range s.runs {
		if s.sent[i] != startAnswered || x.there && !x.begun {
			return false
		}
	}
	return true
}

// collectTx is the Tx of the model. The kernel never calls the methods that it does not define.
type collectTx struct {
	protocol.Tx[uint8, uint8]
	n      *collecting
	starts int // number of the start in progress
}

func (t *collectTx) run(r uint8) *collector { return &t.n.runs[r-1] }

func collectMillis(tick uint8) int64 {
	if tick == 0 {
		return 0
	}
	return int64(tick) * time.Second.Milliseconds()
}

func (t *collectTx) Now() time.Time { return protocol.Time(collectMillis(t.n.now + 1)) }

func (t *collectTx) Run(id event.RunID) (uint8, error) {
	if r := number(id); t.run(r).there {
		return r, nil
	}
	return 0, nil
}

func (t *collectTx) State(r uint8) protocol.Run[uint8] {
	x := t.run(r)
	s := protocol.Run[uint8]{
		ID: runIDs[r], Chain: runIDs[r], QueueState: x.place, N: 1, Seq: 1, Last: event.CommitID{1}, Unread: size(x.items),
		Created: collectMillis(x.created), Due: collectMillis(x.due), Fence: store.Fence{Epoch: uint64(x.epoch)},
	}
	if x.collect {
		s.Collect = "key"
	}
	if x.place == store.StateOwned {
		s.Owner, s.Fence.Token = 1, event.Token{1}
	}
	return s
}

func (t *collectTx) Save(r uint8, s protocol.Run[uint8]) error {
	x := t.run(r)
	x.place, x.epoch, x.collect = s.QueueState, uint8(s.Fence.Epoch), s.Collect != ""
	x.due = uint8(s.Due / time.Second.Milliseconds())
	return nil
}

func (t *collectTx) Insert(c *store.Create, _ event.RunID, _ event.ItemID) (uint8, error) {
	r := number(c.Run)
	*t.run(r) = collector{there: true, created: t.n.now + 1}
	return r, nil
}

func (t *collectTx) NextDue() (int64, error) { return 1, nil } // the model has no notifications

func (t *collectTx) Item(r uint8, n int) (event.ItemID, error) {
	return startItem(t.run(r).items[n]), nil
}

func (t *collectTx) AddItem(r uint8, i store.Item) error {
	x := t.run(r)
	x.items[size(x.items)] = i.ID[0] - '0'
	return nil
}

func (t *collectTx) ReplaceItem(r uint8, i store.Item) error {
	t.run(r).items[0] = i.ID[0] - '0'
	return nil
}

func (t *collectTx) DropItems(r uint8, n int) error {
	x := t.run(r)
	var rest [cancelStart]uint8
	copy(rest[:], x.items[n:])
	x.items = rest
	return nil
}

func (t *collectTx) Seen(event.RunID, event.ItemID) (bool, error) { return false, nil }

func (t *collectTx) Remember(event.RunID, event.ItemID, int64, bool) error { return nil }

func (t *collectTx) ForgetSeen(uint8, int64) error { return nil }

func (t *collectTx) Blockers(uint8) ([]uint8, error) { return nil, nil }

func (t *collectTx) Collecting(string) (uint8, error) {
	for i, x := range t.n.runs {
		if x.collect {
			return uint8(i + 1), nil
		}
	}
	return 0, nil
}

func (t *collectTx) Joined(start event.RunID) (event.RunID, error) {
	return runIDs[t.n.joined[number(start)-1]], nil
}

func (t *collectTx) Join(start event.RunID, r uint8, _ int64) error {
	t.n.joined[number(start)-1] = r
	return nil
}

var collectConfigs = []collectConfig{
	{name: "debounce", collect: store.Collect{Quiet: 2 * time.Second, Most: 3 * time.Second}, resend: 2, crash: 1, cancel: 1},
	{name: "batch", collect: store.Collect{Keep: true, Most: 2 * time.Second, Full: 2}, resend: 2, crash: 1, cancel: 1},
	{name: "batch without a number", collect: store.Collect{Keep: true, Quiet: time.Second, Most: 2 * time.Second}, resend: 2, crash: 1},
}
