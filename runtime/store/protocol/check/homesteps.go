package check

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// do carries out one operation, and notifies the waiting workers. It returns a description of the
// rule that the operation broke, or "".
func (m *homes) do(n *home, what operation, carryOut func() error) (wrong string) {
	before := *n
	m.tx.p, m.tx.x, m.tx.doing = &n.p, &n.x, what
	err := carryOut()
	if m.bug.after != nil {
		m.bug.after(what, &m.op.Changes)
	}
	for _, r := range m.op.Changes.Ready {
		n.wakes[m.class[r-1]] = true
	}
	for _, turn := range m.op.Changes.Turns {
		n.wakes[m.class[turn.First-1]] = true
		at := 1 + ticks(turn.At-m.tx.Now().UnixMilli(), clockTick.Milliseconds())
		for i := range n.w {
			if w := &n.w[i]; w.phase == asleep && (w.next == 0 || at < w.next) {
				w.next = at
			}
		}
	}
	m.op.Changes.Reset()
	switch {
	case err == nil:
		wrong = m.moved(&before, n, what)
	case n.p != before.p || n.x != before.x:
		wrong = "an operation was refused and has written something: " + err.Error()
	}
	return wrong
}

// claim gives a session the first run of its classes that may begin. As in a store, the claim first
// rechecks the queues whose time has come, and leaves a wake if other runs remain.
func (m *homes) claim(n *home, i int, session uint8) (got uint8, wrong string) {
	if n.p.leases[session] != leaseLive {
		return 0, ""
	}
	m.tx.p, m.tx.x = &n.p, &n.x
	wrong = m.turns(n)
	for wrong == "" && got == 0 {
		r := m.head(n, i)
		if r == 0 {
			break
		}
		wrong = m.do(n, claiming, func() error {
			granted, err := m.op.Take(r, session, &store.Claim{Session: sessionIDs[session], Token: event.Token{session}}, nil)
			if granted {
				got = r
			}
			return err
		})
		if got == 0 && n.waits(&m.homeConfig, r) {
			n.asked |= 1 << r
		}
	}
	for class := range n.wakes {
		if m.serves[i][class] && !m.bug.noWake {
			n.wakes[class] = n.wakes[class] || m.headOf(n, uint8(class)) != 0
		}
	}
	return got, wrong
}

// turns rechecks the queues whose time has come.
func (m *homes) turns(n *home) (wrong string) {
	for l := range n.x.lines {
		if s := n.x.lines[l]; s.timed && s.until == 0 && wrong == "" {
			wrong = m.do(n, turning, func() error { return m.op.Turn(string('0' + rune(l))) })
			if s.mode == protocol.QueueAdmitted && n.x.lines[l].mode == protocol.QueueAdmitted {
				wrong = firstOf(wrong, "a call is over, and keeps its turn [L7]")
			}
		}
	}
	return wrong
}

// head returns the run that a claim examines first. Runs that need no permits come first, then the
// first run of the queue with the first position. It returns 0 if there is none.
func (m *homes) head(n *home, i int) uint8 {
	var best uint8
	for class, serves := range m.serves[i] {
		if r := m.headOf(n, uint8(class)); serves && r != 0 {
			if best == 0 || !n.waits(&m.homeConfig, r) || n.waits(&m.homeConfig, best) && n.x.before(&m.homeConfig, r, best) {
				best = r
			}
		}
	}
	return best
}

func (m *homes) headOf(n *home, class uint8) uint8 {
	for i := range n.p.runs {
		r := uint8(i + 1)
		if x := &n.p.runs[i]; x.there && x.queueState == store.StateReady && m.class[i] == class && !n.waits(&m.homeConfig, r) {
			return r
		}
	}
	for _, r := range n.x.firsts(&m.homeConfig) {
		if m.class[r-1] == class && n.x.lines[m.line(r)].mode != protocol.QueueClosed {
			return r
		}
	}
	return 0
}

// commit sends a commit for run r with the fence of an epoch and a session.
func (m *homes) commit(n *home, r, epoch, session uint8, effect store.Effect) (wrong string) {
	return m.commitUnused(n, r, epoch, session, effect, store.UnusedNone)
}

// commitUnused is like commit, but also names the treatment of unused permits.
func (m *homes) commitUnused(n *home, r, epoch, session uint8, effect store.Effect, unused store.Unused) (wrong string) {
	x := &n.p.runs[r-1]
	c := &store.Commit{Run: runIDs[r], Fence: fence(epoch, session), Prev: cid(m.log), Effect: effect, Unused: unused}
	if l := x.length(); l > 0 {
		c.Consume, c.ConsumeLast = int(l), itemIDs[x.inbox[l-1]]
	}
	switch effect {
	case store.EffectFinish:
		c.Status = event.StatusCompleted
	case store.EffectPark:
		c.Due = protocol.Time(dueMillis)
	case store.EffectContinue:
		next := m.create(2)
		c.Status, c.Continue = event.StatusContinued, &next
	}
	before, held := *n, m.holds(n, r, epoch, session)
	m.tx.commit = c
	wrong = m.do(n, committing, func() error {
		got, err := m.op.Commit(c)
		return firstError(err, got.Err)
	})
	if !held && *n != before {
		wrong = "who has lost a run has given back its permits [L2]"
	}
	return wrong
}

// holds reports whether the epoch and the session are the fence of the present owner.
func (m *homes) holds(n *home, r, epoch, session uint8) bool {
	x := &n.p.runs[r-1]
	return x.there && x.queueState == store.StateOwned && x.epoch == epoch && x.token == session
}

// homeStepper tries the steps from state s.
type homeStepper struct {
	*homes
	s    home
	emit emit[home]
}

func (t *homeStepper) try(l label, fault bool, f func(n *home) string) {
	n := t.s
	wrong := f(&n)
	if wrong == skip {
		return
	}
	t.normalize(&n)
	t.emit(l, fault, n, wrong)
}

// may tries a step if its budget is not used up.
func (t *homeStepper) may(left func(*home) *uint8, l label, f func(n *home) string) {
	if *left(&t.s) > 0 {
		t.try(l, true, func(n *home) string {
			*left(n)--
			return f(n)
		})
	}
}

func (m *homes) next(s home, e emit[home]) {
	t := &homeStepper{m, s, e}
	for i := range slots {
		t.run(uint8(i + 1))
	}
	t.time()
	if k := len(m.sets) - int(s.left.set); s.left.set > 0 {
		set := m.sets[k]
		t.try(say("limit %d is set to %d at once", set.limit, set.atOnce), false, func(n *home) string {
			n.left.set--
			c := store.SetLimit{LimitID: limitIDs[set.limit], Config: store.LimitConfig{AtOnce: int(set.atOnce)}}
			if set.atOnce == paused {
				c.Config = store.LimitConfig{Paused: true}
			}
			return t.do(n, configuring, func() error { return t.op.SetLimit(&c) })
		})
	}
	for i := range s.w {
		t.worker(i)
	}
	t.network()
	t.leases()
}

// run tries the steps of the clients that start and cancel run r.
func (t *homeStepper) run(r uint8) {
	x := &t.s.p.runs[r-1]
	start := func(n *home) string {
		c := t.create(r)
		return t.do(n, creating, func() error {
			got, err := t.op.Create(&c)
			return firstError(err, got.Err)
		})
	}
	switch {
	case !t.exists(r):
	case !x.there && t.within[r-1] != 0 && !t.s.x.flags[t.within[r-1]-1].has: // the run above, which starts it, holds no permits
	case !x.there:
		t.try(say("R%d is created", r-1), false, start)
	default:
		t.may(func(n *home) *uint8 { return &n.left.resend }, say("R%d: its creation arrives again", r-1), func(n *home) string {
			before := n.p.runs[r-1]
			wrong := start(n)
			if wrong == "" && n.p.runs[r-1] != before {
				wrong = "a run was created twice [C1]"
			}
			return wrong
		})
	}
	if t.s.waits(&t.homeConfig, r) {
		t.may(func(n *home) *uint8 { return &n.left.cancel }, say("R%d is canceled in its line", r-1), func(n *home) string {
			d := &store.Deliver{Run: runIDs[r], Item: store.Item{ID: itemIDs[cancel]}, Urgent: true}
			wrong := t.do(n, delivering, func() error {
				_, err := t.op.Deliver(d)
				return err
			})
			if n.waits(&t.homeConfig, r) {
				wrong = firstOf(wrong, "a canceled run still waits [L9]")
			}
			return wrong
		})
	}
	if x.due {
		t.try(say("time: the timer of R%d is due", r-1), false, func(n *home) string {
			return t.do(n, otherwise, func() error { return t.op.MakeReady(r) })
		})
	}
	if x.there && x.queueState == store.StateEnded && t.again[r-1] && !t.known(r) {
		t.may(func(n *home) *uint8 { return &n.left.again }, say("R%d is purged: another one like it comes", r-1), func(n *home) string {
			n.p.runs[r-1], n.p.seen[r-1], n.p.created[r-1] = run{}, 0, 0
			return start(n)
		})
	}
}

// known reports whether a late request or a worker may still name run r.
func (t *homeStepper) known(r uint8) bool {
	return t.s.net.run == r || t.s.w[0].run == r || t.s.w[1].run == r
}

// time tries the steps of the clock.
func (t *homeStepper) time() {
	s, some := &t.s, false
	for l := range s.x.lines {
		some = some || s.x.lines[l].timed && s.x.lines[l].until > 0
	}
	for l := range s.x.limits {
		some = some || s.x.limits[l].tat > 0 || t.rate[l] && s.age[l] < rateTicks
	}
	for i := range s.w {
		some = some || s.w[i].next > 1
	}
	if some {
		t.try(say("time: passes"), false, func(n *home) string {
			before := n.x.flags
			t.tick(n)
			if n.x.flags != before {
				return "time took a permit from a run [L3]"
			}
			return ""
		})
	}
}

func (t *homeStepper) tick(n *home) {
	if t.bug.tick != nil {
		t.bug.tick(n)
	}
	for l := range n.x.lines {
		n.x.lines[l].until -= min(n.x.lines[l].until, 1)
	}
	for l := range n.x.limits {
		n.x.limits[l].tat -= min(n.x.limits[l].tat, 1)
		n.age[l] = min(n.age[l]+1, rateTicks)
	}
	for i := range n.w {
		if n.w[i].next > 1 {
			n.w[i].next--
		}
	}
}

// worker tries the steps of worker i.
func (t *homeStepper) worker(i int) {
	w, me := t.s.w[i], workerName(i)
	if w.phase == down {
		return
	}
	t.may(func(n *home) *uint8 { return &n.left.crash }, say("%c: CRASH", me), func(n *home) string {
		t.open(n, i)
		return ""
	})
	if t.s.p.leases[w.session] != leaseLive {
		t.try(say("%c: its session is gone, it opens another", me), false, func(n *home) string {
			t.open(n, i)
			return ""
		})
	} else {
		t.heartbeat(i)
	}
	switch w.phase {
	case awake:
		t.claims(i)
	case asleep:
		t.seizes(i)
		for class, set := range t.s.wakes {
			if set && t.serves[i][class] {
				t.try(say("%c: takes a wake", me), false, func(n *home) string {
					n.wakes[class], n.w[i].phase, n.w[i].next = false, awake, 0
					return ""
				})
			}
		}
		look := func(n *home) string {
			n.w[i].phase, n.w[i].next = awake, 0
			return ""
		}
		if w.next == 1 {
			t.try(say("%c: its time has come", me), false, look)
		} else if t.cover {
			t.try(say("%c: looks now and then", me), false, look)
		}
	case working:
		t.works(i)
	case ending:
		t.ends(i, say("%c: sends the end of R%d again", me, w.run-1))
	case down:
	}
}

// heartbeat tries to release the runs that the worker owns but does not execute. [W2]
func (t *homeStepper) heartbeat(i int) {
	w := t.s.w[i]
	for r := range t.s.p.runs {
		x := &t.s.p.runs[r]
		if !x.there || x.owner != w.session || w.run == uint8(r+1) && w.epoch == x.epoch || t.bug.forgets {
			continue
		}
		t.try(say("%c: gives back R%d, of which it knew nothing", workerName(i), uint8(r)), false, func(n *home) string {
			return t.do(n, otherwise, func() error { return t.op.Release(runIDs[r+1], fence(x.epoch, x.token)) })
		})
	}
}

func (t *homeStepper) claims(i int) {
	w, me := t.s.w[i], workerName(i)
	if t.s.p.leases[w.session] != leaseLive {
		return
	}
	has := func(n *home, r uint8) {
		n.w[i].phase, n.w[i].run, n.w[i].epoch = working, r, n.p.runs[r-1].epoch
	}
	t.try(say("%c: claims", me), false, func(n *home) string {
		got, wrong := t.claim(n, i, w.session)
		if got != 0 {
			has(n, got)
			return wrong
		}
		n.w[i].phase = asleep
		if at := t.tx.nextTurn(); at != 0 {
			n.w[i].next = 1 + ticks(at-t.tx.Now().UnixMilli(), clockTick.Milliseconds())
		}
		return wrong
	})
	t.may(func(n *home) *uint8 { return &n.left.lose }, say("%c: claims, the answer is LOST", me), func(n *home) string {
		_, wrong := t.claim(n, i, w.session)
		return wrong
	})
	if t.s.net.kind == noRequest {
		t.may(func(n *home) *uint8 { return &n.left.late }, say("%c: claims, the request is LATE", me), func(n *home) string {
			n.net = homeRequest{kind: lateClaim, session: w.session}
			return ""
		})
	}
	for j := range t.s.p.runs {
		r, x := uint8(j+1), &t.s.p.runs[j]
		if x.there {
			t.may(func(n *home) *uint8 { return &n.left.tool }, say("%c: claims R%d by its name", me, uint8(j)), func(n *home) string {
				wrong := t.do(n, claiming, func() error {
					_, err := t.op.ClaimRun(sessionIDs[w.session], event.Token{w.session}, runIDs[r])
					return err
				})
				if x := &n.p.runs[j]; x.owner == w.session && x.epoch != t.s.p.runs[j].epoch {
					has(n, r)
				}
				return wrong
			})
		} else if t.owned && t.exists(r) {
			t.try(say("%c: starts R%d as its owner", me, uint8(j)), false, func(n *home) string {
				c := t.create(r)
				c.Owner = &store.Owner{Session: sessionIDs[w.session], Token: event.Token{w.session}}
				wrong := t.do(n, creating, func() error {
					got, err := t.op.Create(&c)
					return firstError(err, got.Err)
				})
				if !n.p.runs[j].there && wrong == "" {
					return skip
				}
				has(n, r)
				return wrong
			})
		}
	}
}

// works tries the steps of a worker that executes a run.
func (t *homeStepper) works(i int) {
	w, me := t.s.w[i], workerName(i)
	drop := func(n *home) {
		n.w[i].phase, n.w[i].run, n.w[i].epoch = awake, 0, 0
	}
	if t.continues && w.run == 1 && !t.s.x.flags[0].off {
		t.try(say("%c: R0 continues as R1", me), false, func(n *home) string {
			drop(n)
			return t.commit(n, 1, w.epoch, w.session, store.EffectContinue)
		})
		return
	}
	if t.s.awaits(&t.homeConfig, w.run) {
		t.lets(i)
		return
	}
	t.ends(i, say("%c: ends R%d", me, w.run-1))
	t.may(func(n *home) *uint8 { return &n.left.lose }, say("%c: ends R%d, the answer is LOST", me, w.run-1), func(n *home) string {
		wrong := t.commit(n, w.run, w.epoch, w.session, store.EffectFinish)
		n.w[i].phase = ending
		return wrong
	})
	if t.s.net.kind == noRequest {
		t.may(func(n *home) *uint8 { return &n.left.late }, say("%c: ends R%d, the request is LATE", me, w.run-1), func(n *home) string {
			n.net = homeRequest{lateCommit, w.session, w.run, w.epoch}
			n.w[i].phase = ending
			return ""
		})
	}
	t.lets(i)
}

// lets tries the steps of a worker that gives back its run before the end of the run.
func (t *homeStepper) lets(i int) {
	w, me := t.s.w[i], workerName(i)
	drop := func(n *home) {
		n.w[i].phase, n.w[i].run, n.w[i].epoch = awake, 0, 0
	}
	if !t.holds(&t.s, w.run, w.epoch, w.session) || t.s.x.flags[w.run-1].off || t.s.p.runs[w.run-1].unread > 0 {
		return
	}
	t.may(func(n *home) *uint8 { return &n.left.yield }, say("%c: yields R%d", me, w.run-1), func(n *home) string {
		drop(n)
		return t.commit(n, w.run, w.epoch, w.session, store.EffectYield)
	})
	t.may(func(n *home) *uint8 { return &n.left.park }, say("%c: parks R%d", me, w.run-1), func(n *home) string {
		drop(n)
		return t.commit(n, w.run, w.epoch, w.session, store.EffectPark)
	})
	t.may(func(n *home) *uint8 { return &n.left.localstart }, say("%c: hands R%d over", me, w.run-1), func(n *home) string {
		drop(n)
		return t.do(n, otherwise, func() error { return t.op.Release(runIDs[w.run], fence(w.epoch, w.session)) })
	})
	t.parksUnused(i)
}

// ends tries to send the end of the run of worker i.
func (t *homeStepper) ends(i int, l label) {
	w := t.s.w[i]
	t.try(l, false, func(n *home) string {
		n.w[i].phase, n.w[i].run, n.w[i].epoch = awake, 0, 0
		return t.commit(n, w.run, w.epoch, w.session, store.EffectFinish)
	})
}

// network tries to deliver the late request.
func (t *homeStepper) network() {
	q := t.s.net
	switch q.kind {
	case lateClaim:
		t.try(say("network: the late claim arrives"), false, func(n *home) string {
			n.net = homeRequest{}
			_, wrong := t.claim(n, int(q.session-1)/2, q.session)
			return wrong
		})
	case lateCommit:
		t.try(say("network: the late end of R%d arrives", q.run-1), false, func(n *home) string {
			n.net = homeRequest{}
			return t.commit(n, q.run, q.epoch, q.session, store.EffectFinish)
		})
	case noRequest, lateDeliver, lateCreate, lateRelease:
	}
}

// leases tries the steps that end sessions and recover their runs.
func (t *homeStepper) leases() {
	for l := uint8(1); l < sessions; l++ {
		switch {
		case t.s.p.leases[l] == leaseLive && t.s.w[0].session != l && t.s.w[1].session != l:
			t.try(say("the lease of dead session %d expires", l), false, func(n *home) string {
				n.p.leases[l] = leaseOver
				return ""
			})
		case t.s.p.leases[l] == leaseLive:
			t.may(func(n *home) *uint8 { return &n.left.expire }, say("the lease of session %d expires, its worker is slow", l), func(n *home) string {
				n.p.leases[l] = leaseOver
				return ""
			})
		}
	}
	for i := range t.s.p.runs {
		if x := &t.s.p.runs[i]; x.there && x.owner != 0 && t.s.p.leases[x.owner] == leaseOver {
			t.try(say("R%d is recovered", uint8(i)), false, func(n *home) string {
				before := *n
				wrong := t.do(n, recovering, func() error { return t.op.Recover(uint8(i + 1)) })
				if place := before.x.flags[i].place; before.seized>>(i+1)&1 == 1 && place != 0 && n.x.flags[i].place != place {
					wrong = firstOf(wrong, "a seized run has lost its place [L9]")
				}
				return wrong
			})
		}
	}
}
