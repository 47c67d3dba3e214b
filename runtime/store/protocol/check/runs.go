package check

import (
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// config determines which events may happen in the model of runs, and how often.
type config struct {
	name       string
	short      int  // short bound in states; 0 means the default
	messages   int  // number of messages for the chain of R0
	hook       bool // R0 is sent an item that is for R0 alone
	continues  bool // R0 continues as R1
	starter    bool // another client starts R2 with the workflow id of R0 and cancels R0
	codes      bool // the code of worker A cannot replay R0
	crash      uint8
	expire     uint8 // number of leases of live workers that expire
	delay      uint8 // number of requests or answers that are late
	failover   uint8
	localstart uint8
	ticks      uint8 // number of horizons that pass
	tool       uint8 // number of claims of a named run
}

// state is a state of the model of runs. It contains the store, the snapshot that a failover
// restores, and the users of the store.
type state struct {
	now, snap partition
	hasSnap   bool
	failed    bool // a failover has happened
	workers   [2]worker
	net       [2]request
	senders   [queue + 1]told // by number of the item
	starter   told
	left      budget
	died      uint8 // set of the sessions that crashed or expired
}

type budget struct{ crash, expire, delay, failover, localstart, ticks, tool uint8 }

// told is the state of a request from the view of its sender.
type told uint8

const (
	idle     told = 0
	unknown  told = 1 // the request was sent, and no answer has arrived
	accepted told = 2
	refused  told = 3
)

// worker is a worker that executes at most one run.
type worker struct {
	session           uint8
	holds, loaded     bool
	run, token, epoch uint8
	view              uint16 // log as the worker has read it
	next              uint8  // first item of the inbox as the worker has read it
	pending           pend
}

// pend is a commit whose answer the worker has not received.
type pend struct {
	on                bool
	run, token, epoch uint8
	base, log         uint16 // log is 0 if the commit has no record
	item              uint8
	effect            store.Effect
	due               bool
}

// request is a request in flight to the store.
type request struct {
	kind       requestKind
	commit     pend
	session    uint8
	run, token uint8
	epoch      uint8
	item       uint8
}

type requestKind uint8

const (
	noRequest requestKind = iota
	lateCommit
	lateClaim
	lateDeliver
	lateCreate
	lateRelease
)

// runs is the model of a chain of runs and of a second chain with the same workflow id.
type runs struct {
	config
	bug bug
	tx  tx
	op  protocol.Op[uint8, uint8]
}

func newRuns(c config, b bug) *runs {
	m := &runs{config: c, bug: b, tx: tx{logs: newLogs()}}
	m.op.Tx = &m.tx
	if b.tx != nil {
		m.op.Tx = b.tx(&m.tx)
	}
	return m
}

func (c config) model(b bug) model[state] {
	m := newRuns(c, b)
	s := state{left: budget{c.crash, c.expire, c.delay, c.failover, c.localstart, c.ticks, c.tool}}
	m.tx.p = &s.now
	for i := range s.workers {
		m.open(&s, i, uint8(i+1))
	}
	m.create(&s.now, store.Create{Run: runIDs[1], WorkflowID: workflowID}, node{kind: runCreated, gen: m.firstGen()})
	m.normalize(&s)
	return model[state]{init: s, next: m.next, check: m.check, goal: m.goal}
}

func (m *runs) firstGen() uint8 {
	if m.continues {
		return 0
	}
	return 1
}

// do carries out one operation on p. It returns a description of the rule that the operation broke,
// or "". A refused operation must not have written anything.
func (m *runs) do(p *partition, what operation, carryOut func() error) (wrong string) {
	before := *p
	m.tx.p, m.tx.doing = p, what
	err := carryOut()
	if m.bug.after != nil {
		m.bug.after(&m.op.Changes)
	}
	if err != nil && *p != before {
		wrong = "an operation was refused and has written something: " + err.Error()
	} else {
		wrong = m.changed(&before, p)
	}
	m.op.Changes.Reset()
	return wrong
}

var route = store.Route{Queue: "q", Workflow: "w"}

func (m *runs) create(p *partition, c store.Create, first node) (answer store.Created, wrong string) {
	log := m.tx.number(first)
	c.Route, c.Frame, c.CommitID, c.Seq, c.Status = route, m.tx.frames[log], cid(log), 1, event.StatusRunning
	wrong = m.do(p, creating, func() (err error) {
		answer, err = m.op.Create(&c)
		return firstError(err, answer.Err)
	})
	return answer, wrong
}

// answer is an answer to a commit.
type answer uint8

const (
	answerDone answer = iota
	answerAgain
	answerFenced
	answerConflict
	answerMail
)

var answers = [...]string{"done", "already applied", "fenced", "conflict", "unread items"}

func (m *runs) commit(p *partition, q pend) (a answer, wrong string) {
	before := *p
	c := m.request(q)
	m.tx.commit = c
	var got store.Committed
	wrong = m.do(p, committing, func() error {
		got, _ = m.doCommit(c)
		return got.Err
	})
	m.tx.commit = nil
	var conflict *store.ConflictError
	switch {
	case got.Err == nil && *p == before:
		if wrong == "" && p.runs[q.run].log != q.log {
			wrong = "a commit was answered as applied, but another record is there"
		}
		return answerAgain, wrong
	case got.Err == nil:
		return answerDone, firstOf(wrong, m.committed(&before, p, q))
	case errors.Is(got.Err, store.ErrFenced):
		return answerFenced, wrong
	case errors.Is(got.Err, store.ErrUnread):
		return answerMail, wrong
	case errors.As(got.Err, &conflict):
		return answerConflict, wrong
	}
	return answerConflict, "a commit was refused: " + got.Err.Error()
}

func firstError(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func firstOf(all ...string) string {
	for _, s := range all {
		if s != "" {
			return s
		}
	}
	return ""
}

// request returns the commit that a worker sends.
func (m *runs) request(q pend) *store.Commit {
	n := uint64(m.tx.outcomes[q.base].n)
	c := &store.Commit{
		Run: runIDs[q.run+1], WorkflowID: workflowID, Fence: fence(q.epoch, q.token), Prev: cid(q.base), Effect: q.effect,
	}
	if q.log != 0 {
		c.Frame, c.CommitID, c.First, c.Last = m.tx.frames[q.log], cid(q.log), n+1, n+1
		c.Progress = m.tx.nodes[q.log].kind == stepCompleted
	}
	if q.item != 0 {
		c.Consume, c.ConsumeLast = 1, itemIDs[q.item]
	}
	if q.due {
		c.Due = protocol.Time(dueMillis)
	}
	switch {
	case q.effect == store.EffectContinue:
		c.Status = event.StatusContinued
		next := node{kind: runCreated, gen: 1}
		if got := m.tx.outcomes[q.base].received; len(got) > 0 {
			copy(next.carry[:], got[1:])
		}
		log := m.tx.number(next)
		c.Continue = &store.Create{Run: runIDs[2], WorkflowID: workflowID, Route: route, Frame: m.tx.frames[log], CommitID: cid(log), Seq: 1}
	case q.effect == store.EffectFinish && m.tx.nodes[q.log].kind == runCanceled:
		c.Status = event.StatusCanceled
	case q.effect == store.EffectFinish:
		c.Status = event.StatusCompleted
	}
	return c
}

// committed checks a commit that was applied. It stores the epoch and the token of the commit, which
// those of the next commit of the run are compared with.
func (m *runs) committed(before, p *partition, q pend) string {
	old, x := &before.runs[q.run], &p.runs[q.run]
	if q.effect == store.EffectBlock {
		x.failed |= 1 << old.owner
	}
	if q.log == 0 {
		return ""
	}
	if x.came && m.tx.nodes[q.log].kind == timerFired {
		x.came = false
	}
	lastEpoch, lastToken := x.lastEpoch, x.lastToken
	x.lastEpoch, x.lastToken = q.epoch, q.token
	switch {
	case old.log != q.base:
		return "a writer appended to a log other than the one that it had read [F3]"
	case q.item != 0 && old.inbox[0] != q.item:
		return "a commit recorded one item and removed another [M3]"
	case q.epoch < lastEpoch:
		return "epochs go backwards in a log [F1]"
	case q.epoch == lastEpoch && q.token != lastToken:
		return "two writers in one epoch [F1]"
	}
	return ""
}

// deliver sends an item to R0, and returns the answer that its sender receives.
func (m *runs) deliver(p *partition, i uint8) (t told, wrong string) {
	d := &store.Deliver{Run: runIDs[1], Item: store.Item{ID: itemIDs[i], Scope: scope(i)}}
	wrong = m.do(p, delivering, func() error {
		_, err := m.doDeliver(d)
		t = accepted
		if err != nil {
			t = refused
		}
		return err
	})
	return t, wrong
}

// start carries out the start of R2.
func (m *runs) start(p *partition) string {
	_, wrong := m.create(p, store.Create{
		Run: runIDs[3], WorkflowID: workflowID, Active: store.ActiveCancel, Cancel: store.Item{ID: itemIDs[cancel]},
		Items: []store.Item{{ID: itemIDs[given]}},
	}, node{kind: runCreated, gen: 1})
	return wrong
}

// claim gives a ready run to a session, as a store does.
func (m *runs) claim(p *partition, r, session, token uint8) (granted bool, wrong string) {
	x := &p.runs[r]
	if p.leases[session] != leaseLive || x.queueState != store.StateReady {
		return false, ""
	}
	wrong = m.do(p, otherwise, func() (err error) {
		granted, err = m.op.Take(r+1, session, &store.Claim{Session: sessionIDs[session], Token: event.Token{token}}, nil)
		return err
	})
	if granted && m.codes && m.cannot(p, r, session) {
		wrong = "a claim gave a run to a session with the code of a blocker [B2]"
	}
	return granted, wrong
}

func (m *runs) claimNamed(p *partition, r, session, token uint8) (granted bool, wrong string) {
	owner := p.runs[r].owner
	wrong = m.do(p, claiming, func() error {
		_, err := m.op.ClaimRun(sessionIDs[session], event.Token{token}, runIDs[r+1])
		granted = err == nil
		return err
	})
	if granted && owner != 0 {
		wrong = "a run was taken from its owner [F2]"
	}
	return granted, wrong
}

func (m *runs) release(p *partition, r, epoch, token uint8) string {
	return m.do(p, otherwise, func() error { return m.op.Release(runIDs[r+1], fence(epoch, token)) })
}

// open opens a session for worker i, and makes the blocked runs ready that the session may try.
func (m *runs) open(s *state, i int, session uint8) (wrong string) {
	p := &s.now
	s.workers[i] = worker{session: session}
	p.leases[session], p.codes[session] = leaseLive, 2
	if m.config.codes && i == 0 {
		p.codes[session] = 1
	}
	return m.unblock(p, session)
}

// unblock makes the blocked runs ready that the session may try.
func (m *runs) unblock(p *partition, session uint8) (wrong string) {
	for r := range p.runs {
		if p.runs[r].queueState != store.StateBlocked {
			continue
		}
		wrong = firstOf(wrong, m.do(p, otherwise, func() error {
			may, err := m.op.MayTry(uint8(r+1), session)
			if err == nil && may {
				err = m.op.MakeReady(uint8(r + 1))
			}
			return err
		}))
	}
	return wrong
}

// cannot reports whether a live session with the same code has blocked the run.
func (m *runs) cannot(p *partition, r, session uint8) bool {
	for s := uint8(1); s < sessions; s++ {
		if p.runs[r].failed>>s&1 == 1 && p.leases[s] == leaseLive && p.codes[s] == p.codes[session] {
			return true
		}
	}
	return false
}

// purge removes the run with the earliest purge time.
func (m *runs) purge(p *partition) (wrong string, purged bool) {
	before := *p
	wrong = m.do(p, otherwise, func() error {
		n, err := m.op.Purge(1, nil)
		purged = n == 1
		return err
	})
	for r := range before.runs {
		if x := before.runs[r]; x.there && !p.runs[r].there {
			wrong = firstOf(wrong, m.gone(&before, uint8(r)))
			if r != 2 {
				p.taken |= m.took(x.log)
			}
		}
	}
	return wrong, purged
}

// gone checks that a run was purged only if no sender could send an item again that the run had
// accepted.
func (m *runs) gone(before *partition, r uint8) string {
	x := before.runs[r]
	switch {
	case x.queueState != store.StateEnded:
		return "a run was purged that has not ended [P1]"
	case before.now+1 < x.ended+1 || before.now+1 < x.created+1:
		return "a run was purged that somebody may still send to [P1]"
	case x.createdBy != 0:
		return "a run was purged that its creator may send again [P1]"
	}
	return ""
}
