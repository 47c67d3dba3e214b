package check

import (
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// This file models the outbox. Run R0 of one partition starts R1 in another partition and sends it
// a message. Two relays deliver the records. Each relay may pause for any time between two steps.

type exchange struct {
	sender, senderSnap     partition
	receiver, receiverSnap partition
	senderHas, receiverHas bool // a snapshot exists because the replica has stopped following
	senderLost             bool
	relays                 [2]relay
	crash, senderFails     uint8
	receiverFails          uint8
}

// relay is a relay that handles at most one record.
type relay struct {
	id      uint8
	phase   store.Phase // phase of the record when the relay read it
	at      uint8       // time at which the relay read the record, in horizons
	sent    bool
	unknown bool // the receiver does not exist
	refused bool
}

// trade is a configuration of the model of the outbox.
type trade struct {
	name  string
	short int
	crash uint8 // number of crashes of relays
	fails bool  // each partition may have one failover
	alone bool  // R0 sends no message, and R1 ends without one
}

// order returns a number that determines the order of two relays.
func (r relay) order() int {
	n := int(r.id)<<16 | int(r.phase)<<12 | int(r.at)<<4
	for i, set := range [...]bool{r.sent, r.unknown, r.refused} {
		if set {
			n |= 1 << i
		}
	}
	return n
}

// deadline returns the deadline of the record, computed from the time at which the relay read it.
func (r relay) deadline() time.Time { return protocol.Time(millis(r.at + 1)).Add(store.Horizon / 2) }

// exchanges is the model of the outbox.
type exchanges struct {
	runs
	trade
}

func (c trade) model(b bug) model[exchange] {
	m := &exchanges{runs: *newRuns(config{}, bug{}), trade: c}
	m.bug = b
	m.op.Tx = &m.tx
	if b.tx != nil {
		m.op.Tx = b.tx(&m.tx)
	}
	var s exchange
	s.crash = c.crash
	if c.fails {
		s.senderFails, s.receiverFails = 1, 1
	}
	for _, p := range []*partition{&s.sender, &s.receiver} {
		p.leases[1], p.codes[1] = leaseLive, 1
	}
	m.runs.create(&s.sender, store.Create{
		Run: runIDs[1], Owner: &store.Owner{Session: sessionIDs[1], Token: event.Token{1}},
	}, node{kind: runCreated, gen: 1})
	return model[exchange]{init: s, next: m.next, check: m.check, goal: m.goal}
}

func (m *exchanges) next(s exchange, e emit[exchange]) {
	try := func(l label, fault bool, f func(n *exchange) string) {
		n := s
		wrong := f(&n)
		if wrong == skip {
			return
		}
		n.normalize()
		e(l, fault, n, wrong)
	}
	m.executes(s, try)
	if !s.senderHas && !s.receiverHas { // a failover loses less than a horizon
		try(say("time: a horizon passes"), false, func(n *exchange) string {
			n.sender.now++
			n.receiver.now++
			for i := range n.sender.outbox {
				n.sender.outbox[i].old = n.sender.outbox[i].phase != 0
			}
			return ""
		})
	}
	for i, r := range s.relays {
		m.relays(s, i, r, try)
	}
	m.replication(s, try)
	m.repair(s, try)
}

// repair tries a step of fsck for a Confirm that was lost by a failover of the receiver. The step
// removes remembered items without a record at the sender.
func (m *exchanges) repair(s exchange, try tryExchange) {
	x := &s.sender.runs[0]
	if !m.fails || s.senderHas || s.receiverHas || s.relays != [2]relay{} {
		return
	}
	for _, id := range [...]uint8{start, message} {
		remembered := s.receiver.runs[1].createdBy == id || s.receiver.kept[1]>>id&1 == 1
		if !remembered || x.there && x.n <= id-start+1 || s.sender.outbox[0].id == id || s.sender.outbox[1].id == id {
			continue
		}
		try(say("fsck: item %d has no record, is confirmed", id), false, func(n *exchange) string {
			return m.do(&n.receiver, confirming, func() error { return m.op.Confirm(runIDs[2], itemIDs[id]) })
		})
	}
}

type tryExchange func(l label, fault bool, f func(n *exchange) string)

// executes tries the steps of the owners of both runs, and the purges.
func (m *exchanges) executes(s exchange, try tryExchange) {
	if x := &s.sender.runs[0]; x.there && x.queueState == store.StateOwned {
		l := [...]label{1: say("R0: commits that it starts R1"), 2: say("R0: commits that it sends R1 a message"), 3: say("R0: ends")}[x.n]
		if m.alone && x.n == 2 {
			l = say("R0: ends")
		}
		try(l, false, func(n *exchange) string { return m.executeSender(&n.sender) })
	}
	if x := &s.receiver.runs[1]; x.queueState == store.StateReady {
		try(say("R1: is claimed, takes what is in its inbox, ends or parks"), false, func(n *exchange) string {
			return m.executeReceiver(&n.receiver)
		})
	}
	for _, side := range [...]struct {
		name string
		p    func(*exchange) *partition
	}{
		{"the sender's", func(n *exchange) *partition { return &n.sender }},
		{"the receiver's", func(n *exchange) *partition { return &n.receiver }},
	} {
		l := say("purge")
		l.note = side.name
		try(l, false, func(n *exchange) string {
			before := *side.p(n)
			wrong, purged := m.purge(side.p(n))
			if wrong == "" && !purged {
				return skip
			}
			if !n.receiver.runs[1].there && s.receiver.runs[1].there && s.sender.outbox[0].id == start && s.sender.outbox[0].phase != store.PhaseSettled {
				wrong = firstOf(wrong, "a run was purged that its creator may send again [P1]")
			}
			if before.runs[0].there && before.outbox != [records]record{} {
				wrong = "a run was purged that has records in its outbox [P1]"
			}
			return wrong
		})
	}
}

// commits appends a record as the present owner.
func (m *exchanges) commits(p *partition, c store.Commit, k kind) string {
	x := &p.runs[number(c.Run)-1]
	log := m.tx.number(node{prev: x.log, kind: k, item: x.n * uint8(len(c.Send))})
	c.Fence, c.Prev, c.Frame, c.CommitID = fence(x.epoch, x.token), cid(x.log), m.tx.frames[log], cid(log)
	c.First, c.Last = uint64(x.n)+1, uint64(x.n)+1
	m.tx.commit = &c
	wrong := m.do(p, committing, func() error {
		got, err := m.op.Commit(&c)
		return firstError(err, got.Err)
	})
	m.tx.commit = nil
	return wrong
}

func (m *exchanges) executeSender(p *partition) string {
	c := store.Commit{Run: runIDs[1]}
	switch n := p.runs[0].n; {
	case n == 1:
		c.Send = []store.Send{{ID: itemIDs[start], To: runIDs[2]}}
	case n == 2 && !m.alone:
		c.Send = []store.Send{{ID: itemIDs[message], To: runIDs[2]}}
	default:
		if p.runs[0].unread > 0 {
			return "a record was refused, and its receiver would have had it [O1]"
		}
		c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
		return m.commits(p, c, runCompleted)
	}
	return m.commits(p, c, waitBegan)
}

func (m *exchanges) executeReceiver(p *partition) string {
	x := &p.runs[1]
	_, wrong := m.claim(p, 1, 1, 1)
	if m.alone {
		return firstOf(wrong, m.commits(p, store.Commit{Run: runIDs[2], Effect: store.EffectFinish, Status: event.StatusCompleted}, runCompleted))
	}
	if x.unread == 0 {
		return firstOf(wrong, m.commits(p, store.Commit{Run: runIDs[2], Effect: store.EffectPark}, waitBegan))
	}
	p.taken |= 1 << x.inbox[0]
	return firstOf(wrong, m.commits(p, store.Commit{
		Run: runIDs[2], Effect: store.EffectFinish, Status: event.StatusCompleted, Consume: 1, ConsumeLast: itemIDs[x.inbox[0]],
	}, runCompleted))
}

// relays tries the steps of one relay.
func (m *exchanges) relays(s exchange, i int, r relay, try tryExchange) {
	if i == 1 && r == s.relays[0] {
		return
	}
	if r.phase != 0 && s.crash > 0 {
		try(say("relay: CRASH"), true, func(n *exchange) string {
			n.crash--
			n.relays[i] = relay{}
			return ""
		})
	}
	switch {
	case r.phase == 0:
		for k := range s.sender.outbox {
			if o := s.sender.outbox[k]; due(&s.sender, k) {
				l := say("relay: reads item %d", o.id)
				l.note = o.phase.String()
				try(l, false, func(n *exchange) string {
					n.relays[i] = relay{id: o.id, phase: o.phase, at: n.sender.now}
					return ""
				})
			}
		}
	case !r.sent:
		try(say("relay: delivers item %d", r.id), false, func(n *exchange) string { return m.carry(n, i) })
	default:
		try(say("relay: marks item %d", r.id), false, func(n *exchange) string { return m.mark(n, i) })
	}
}

// mark reports the answer of the receiver to the kernel, which marks the record.
func (m *exchanges) mark(n *exchange, i int) string {
	r := n.relays[i]
	n.relays[i] = relay{}
	k := &store.Mark{From: runIDs[1], ID: itemIDs[r.id], Phase: r.phase, Unknown: r.unknown, Deadline: r.deadline()}
	if r.refused {
		k.Refusal = &store.Item{ID: itemIDs[refusal], Scope: store.ScopeRun}
	}
	return m.do(&n.sender, otherwise, func() error { return m.op.Mark(k) })
}

// due reports whether a store would return record k when it lists its outbox.
func due(p *partition, k int) bool {
	o := p.outbox[k]
	if o.phase == 0 || o.phase != store.PhaseFresh && !o.old {
		return false
	}
	for _, before := range p.outbox[:k] {
		if o.phase == store.PhaseFresh && before.phase == store.PhaseFresh || o.phase == store.PhaseAnswered && before.phase != store.PhaseSettled {
			return false
		}
	}
	return true
}

// carry delivers the record of relay i to the receiver.
func (m *exchanges) carry(n *exchange, i int) (wrong string) {
	r, p := &n.relays[i], &n.receiver
	deadline := r.deadline()
	r.sent = true
	var err error
	switch {
	case r.phase == store.PhaseSettled:
		wrong = m.do(p, confirming, func() error { return m.op.Confirm(runIDs[2], itemIDs[r.id]) })
		if x := &p.runs[1]; x.there && x.createdBy == r.id || p.kept[1]>>r.id&1 == 1 {
			wrong = firstOf(wrong, "what was confirmed is still remembered [O2]")
		}
		return wrong
	case r.id == start:
		var answer store.Created
		answer, wrong = m.create(p, store.Create{Run: runIDs[2], CreatedBy: itemIDs[start], Deadline: deadline}, node{kind: runCreated, gen: 1})
		err = answer.Err
	default:
		d := &store.Deliver{Run: runIDs[2], Item: store.Item{ID: itemIDs[message]}, Deadline: deadline, Keep: true}
		wrong = m.do(p, delivering, func() error {
			_, err = m.op.Deliver(d)
			return err
		})
	}
	switch {
	case errors.Is(err, store.ErrStale):
		*r = relay{}
	case errors.Is(err, store.ErrRunNotFound):
		r.unknown, r.refused = true, true
	case err != nil:
		r.refused = true
	}
	return wrong
}

func (m *exchanges) replication(s exchange, try tryExchange) {
	if s.senderFails > 0 && !s.senderHas {
		try(say("sender: replication stops here"), true, func(n *exchange) string {
			n.senderFails--
			n.senderHas, n.senderSnap = true, n.sender
			return ""
		})
	}
	if s.senderHas {
		try(say("sender: FAILOVER"), true, func(n *exchange) string {
			n.sender, n.senderSnap, n.senderHas, n.senderLost = n.senderSnap, partition{}, false, true
			return ""
		})
		try(say("sender: replication catches up"), false, func(n *exchange) string {
			n.senderSnap, n.senderHas = partition{}, false
			return ""
		})
	}
	if s.receiverFails > 0 && !s.receiverHas {
		try(say("receiver: replication stops here"), true, func(n *exchange) string {
			n.receiverFails--
			n.receiverHas, n.receiverSnap = true, n.receiver
			return ""
		})
	}
	if s.receiverHas {
		try(say("receiver: FAILOVER"), true, func(n *exchange) string {
			n.receiver, n.receiverSnap, n.receiverHas = n.receiverSnap, partition{}, false
			for i := range n.relays {
				if n.relays[i].sent && n.relays[i].phase == store.PhaseAnswered { // the connection breaks, so the relay delivers the record again
					n.relays[i] = relay{}
				}
			}
			return ""
		})
		try(say("receiver: replication catches up"), false, func(n *exchange) string {
			n.receiverSnap, n.receiverHas = partition{}, false
			return ""
		})
	}
}

func (m *exchanges) check(s exchange) string {
	p := &s.receiver
	sent := m.holds(&p.runs[1], message) + int(p.taken>>message&1)
	switch {
	case p.created[1] > 1:
		return "R1 was created twice [O1]"
	case sent > 1:
		return "the message took effect twice [O1]"
	case s.receiverHas:
		return ""
	}
	for _, o := range s.sender.outbox {
		if o.phase == store.PhaseSettled && (o.id == start && p.created[1] == 0 || o.id == message && sent == 0) {
			return "a record was settled, and its effect is nowhere [O2]"
		}
	}
	if x := &s.sender.runs[0]; !x.there && (p.created[1] == 0 || sent == 0 && !m.alone) {
		return "the sender was purged, and an effect of it is nowhere [P1]"
	}
	return ""
}

func (m *exchanges) goal(s exchange) bool {
	return !s.sender.runs[0].there && !s.receiver.runs[1].there && s.receiver.created[1] == 1 && (m.alone || s.receiver.taken>>message&1 == 1)
}

// normalize makes times relative to the present. All times more than two horizons ago become equal.
func (s *exchange) normalize() {
	const present = 1
	if s.relays[0].order() < s.relays[1].order() { // the relays are interchangeable
		s.relays[0], s.relays[1] = s.relays[1], s.relays[0]
	}
	by := int(s.sender.now) - present
	if by <= 0 {
		return
	}
	shift := func(t *uint8, lowest int) {
		if *t != 0 {
			*t = uint8(max(lowest, int(*t)-by))
		}
	}
	for _, p := range [...]*partition{&s.sender, &s.senderSnap, &s.receiver, &s.receiverSnap} {
		shift(&p.now, 0)
		for r := range p.runs {
			x := &p.runs[r]
			shift(&x.created, 1)
			shift(&x.ended, 1)
			shift(&x.purge, 1)
		}
	}
	for i := range s.relays {
		shift(&s.relays[i].at, 0)
	}
}
