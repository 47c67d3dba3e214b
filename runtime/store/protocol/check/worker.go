package check

import "github.com/flowgen/flowgen/runtime/store"

// workerName returns the letter of worker i, for the verb %c.
func workerName(i int) uint8 { return uint8('A' + i) }

// drop makes the worker give up its run and keep its session.
func (w *worker) drop() { *w = worker{session: w.session} }

// answered handles the answer to a commit.
func (w *worker) answered(q pend, a answer) {
	w.pending = pend{}
	switch a {
	case answerDone, answerAgain:
		if q.effect != store.EffectNone {
			w.drop()
			return
		}
		w.view = q.log
		if q.item != 0 {
			w.next = 0
		}
	case answerFenced:
		w.drop()
	case answerConflict:
		w.loaded, w.view, w.next = false, 0, 0
	case answerMail:
		w.next = 0
	}
}

// worker tries the steps of worker i.
func (t *stepper) worker(i int) {
	w, me := t.s.workers[i], workerName(i)
	if w.session == 0 {
		if session := t.s.freshSession(); session != 0 {
			t.try(say("%c: opens session %d", me, session), false, func(n *state) string { return t.open(n, i, session) })
		}
		return
	}
	if t.s.left.crash > 0 {
		t.try(say("%c: CRASH", me), true, func(n *state) string {
			n.left.crash--
			n.died++
			n.workers[i] = worker{}
			return ""
		})
	}
	t.try(say("%c: heartbeat, compares its runs", me), false, func(n *state) string { return t.heartbeat(n, i) })
	switch {
	case !w.holds:
		t.claims(i)
	case !w.loaded:
		t.try(say("%c: loads R%d", me, w.run), false, func(n *state) string {
			n.workers[i].load(&n.now)
			return ""
		})
	case w.pending.on:
		t.sendCommit(i, w.pending, say("%c: sends the same commit on R%d again", me, w.run), false)
	default:
		t.works(i)
	}
}

func (w *worker) load(p *partition) {
	x := &p.runs[w.run]
	if !x.there {
		w.drop()
		return
	}
	w.loaded, w.view, w.next = true, x.log, x.inbox[0]
}

// heartbeat compares the runs that the worker owns in the store with the run that it executes. [W2]
func (t *stepper) heartbeat(n *state, i int) (wrong string) {
	w := &n.workers[i]
	if n.now.leases[w.session] != leaseLive { // a heartbeat creates no lease [W1]
		*w = worker{}
		return ""
	}
	if t.bug.forgets {
		return skip
	}
	changed := false
	if w.holds && (n.now.runs[w.run].token != w.token || n.now.runs[w.run].owner != w.session) && !w.pending.on {
		w.drop()
		changed = true
	}
	for r := range n.now.runs {
		if x := n.now.runs[r]; x.there && x.owner == w.session && (!w.holds || w.run != uint8(r) || w.token != x.token) {
			wrong = firstOf(wrong, t.release(&n.now, uint8(r), x.epoch, x.token))
			changed = true
		}
	}
	if !changed {
		return skip
	}
	return wrong
}

// claims tries the steps of a worker without a run.
func (t *stepper) claims(i int) {
	w, me := t.s.workers[i], workerName(i)
	token := t.s.freshToken()
	grant := func(n *state, r uint8) {
		w := &n.workers[i]
		w.holds, w.run, w.token, w.epoch = true, r, token, n.now.runs[r].epoch
	}
	if t.config.codes {
		t.try(say("%c: makes blocked runs ready that it may try", me), false, func(n *state) string {
			if n.now.leases[w.session] != leaseLive {
				return skip
			}
			return t.unblock(&n.now, w.session)
		})
	}
	for j := range t.s.now.runs {
		r, x := uint8(j), &t.s.now.runs[j]
		if x.queueState == store.StateReady {
			l := say("%c: claims R%d", me, r)
			t.try(l, false, func(n *state) string {
				granted, wrong := t.claim(&n.now, r, w.session, token)
				if granted {
					grant(n, r)
				}
				return wrong
			})
			t.late(l, request{kind: lateClaim, run: r, session: w.session, token: token}, func(*state) {})
		}
		if x.there && t.s.left.tool > 0 {
			t.try(say("%c: claims R%d by its name", me, r), true, func(n *state) string {
				n.left.tool--
				granted, wrong := t.claimNamed(&n.now, r, w.session, token)
				if granted {
					grant(n, r)
				}
				return wrong
			})
		}
	}
}

// sendCommit tries to send a commit. first is false if the commit is sent again.
func (t *stepper) sendCommit(i int, q pend, l label, first bool) {
	t.noted(l, false, func(n *state) (string, string) {
		a, wrong := t.commit(&n.now, q)
		n.workers[i].answered(q, a)
		return answers[a], wrong
	})
	if first {
		t.late(l, request{kind: lateCommit, commit: q, session: q.session(t.s)}, func(n *state) { n.workers[i].pending = q })
	}
}

func (q pend) session(s state) uint8 {
	for _, w := range s.workers {
		if w.holds && w.run == q.run && w.token == q.token {
			return w.session
		}
	}
	return 0
}

// works tries the steps of a worker that has loaded a run. Its code starts a step, waits for a
// message or a timer, and ends.
func (t *stepper) works(i int) {
	w, me := t.s.workers[i], workerName(i)
	commit := func(what string, q pend) {
		q.on, q.run, q.token, q.epoch, q.base = true, w.run, w.token, w.epoch, w.view
		t.sendCommit(i, q, say("%c: commits on R%d "+what, me, w.run), true)
	}
	log := func(k kind, item uint8) uint16 { return t.tx.number(node{prev: w.view, kind: k, item: item}) }
	if t.config.codes && i == 0 && w.run == 0 {
		commit("that its code cannot replay it", pend{effect: store.EffectBlock})
		return
	}
	x := &t.s.now.runs[w.run]
	if x.there && x.inbox[0] != 0 && x.inbox[0] != w.next && x.token == w.token {
		t.try(say("%c: reads the inbox of R%d", me, w.run), false, func(n *state) string {
			n.workers[i].next = x.inbox[0]
			return ""
		})
	}
	f := &t.tx.outcomes[w.view]
	if w.next != 0 {
		commit("an item", pend{log: log(itemReceived, w.next), item: w.next})
	}
	got := len(f.received) > 0 || f.fired
	switch {
	case f.started && !f.done:
		commit("that the step completed", pend{log: log(stepCompleted, 0)})
	case f.canceled:
		commit("that it was canceled", pend{log: log(runCanceled, 0), effect: store.EffectFinish})
	case !f.started:
		commit("that a step started", pend{log: log(stepStarted, 0)})
	case got && f.gen == 0:
		commit("that it continues", pend{log: log(runContinued, 0), effect: store.EffectContinue})
	case got:
		commit("that it completed", pend{log: log(runCompleted, 0), effect: store.EffectFinish})
	default:
		if f.waits {
			commit("that its timer fired", pend{log: log(timerFired, 0)})
		}
		if w.next != 0 || x.came {
			break
		}
		if f.waits {
			commit("that it parks", pend{effect: store.EffectPark, due: true})
		} else {
			commit("that it waits, and parks", pend{log: log(waitBegan, 0), effect: store.EffectPark, due: true})
		}
	}
	if t.s.left.localstart > 0 {
		t.handsOver(i)
	}
}

func (t *stepper) handsOver(i int) {
	w := t.s.workers[i]
	l := say("%c: hands R%d over", workerName(i), w.run)
	t.try(l, true, func(n *state) string {
		n.left.localstart--
		n.workers[i].drop()
		return t.release(&n.now, w.run, w.epoch, w.token)
	})
	t.late(l, request{kind: lateRelease, run: w.run, epoch: w.epoch, token: w.token}, func(n *state) {
		n.left.localstart--
		n.workers[i].drop()
	})
}
