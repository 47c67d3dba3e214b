package check

// stepper tries the steps from state s.
type stepper struct {
	*runs
	s    state
	emit emit[state]
}

// skip is returned by a step that is not possible in the state.
const skip = "skip"

func (t *stepper) try(l label, fault bool, f func(n *state) string) {
	n := t.s
	wrong := f(&n)
	if wrong == skip {
		return
	}
	t.normalize(&n)
	t.emit(l, fault, n, wrong)
}

// noted is like try for a step that also returns an answer to print.
func (t *stepper) noted(l label, fault bool, f func(n *state) (string, string)) {
	n := t.s
	note, wrong := f(&n)
	l.note = note
	t.normalize(&n)
	t.emit(l, fault, n, wrong)
}

// late sends a request that is carried out later or never.
func (t *stepper) late(l label, q request, f func(n *state)) {
	if t.s.left.delay == 0 {
		return
	}
	l.note = "the request is late"
	t.try(l, true, func(n *state) string {
		n.left.delay--
		for i := range n.net {
			if n.net[i].kind == noRequest {
				n.net[i] = q
				f(n)
				return ""
			}
		}
		return skip
	})
}

func (m *runs) next(s state, e emit[state]) {
	t := &stepper{m, s, e}
	t.clock()
	t.sending()
	t.network()
	t.replication()
	t.recovery()
	for i := range s.workers {
		t.worker(i)
	}
}

// clock tries the steps of time: a timer becomes due, or a horizon passes.
func (t *stepper) clock() {
	for r := range t.s.now.runs {
		if !t.s.now.runs[r].due {
			continue
		}
		t.try(say("time: the timer of R%d is due", uint8(r)), false, func(n *state) string {
			n.now.runs[r].came = true
			return t.do(&n.now, otherwise, func() error { return t.op.MakeReady(uint8(r + 1)) })
		})
	}
	if t.s.left.ticks > 0 && !t.waiting() {
		t.try(say("time: a horizon passes"), true, func(n *state) string {
			n.left.ticks--
			n.now.now++
			return ""
		})
	}
	if t.config.ticks > 0 {
		t.try(say("purge"), true, func(n *state) string {
			wrong, purged := t.purge(&n.now)
			if wrong == "" && !purged {
				return skip
			}
			return wrong
		})
	}
}

// waiting reports whether a request may still arrive. No request is late by a horizon, and no
// sender repeats a request after a horizon.
func (t *stepper) waiting() bool {
	for _, told := range t.s.senders {
		if told == unknown {
			return true
		}
	}
	return t.s.starter == unknown || t.s.net != [2]request{} || t.s.hasSnap
}

// sending tries the steps of the senders and of the client that starts R2.
func (t *stepper) sending() {
	for i := uint8(1); i <= hook; i++ {
		if !t.sends(i) || t.s.senders[i] >= accepted {
			continue
		}
		l := say("sender: delivers item %d", i)
		t.noted(l, false, func(n *state) (string, string) {
			told, wrong := t.deliver(&n.now, i)
			n.senders[i] = told
			return [...]string{accepted: "accepted", refused: "refused"}[told], wrong
		})
		t.late(l, request{kind: lateDeliver, item: i}, func(n *state) { n.senders[i] = unknown })
	}
	if t.config.starter && t.s.starter < accepted {
		l := say("starter: creates R2, cancels R0")
		t.try(l, false, func(n *state) string {
			n.starter = accepted
			return t.start(&n.now)
		})
		t.late(l, request{kind: lateCreate}, func(n *state) { n.starter = unknown })
	}
}

// network tries to deliver late requests.
func (t *stepper) network() {
	for i, q := range t.s.net {
		if q.kind == noRequest || i == 1 && t.s.net[0] == q {
			continue
		}
		if t.config.ticks > 0 {
			t.try(say("network: a late request is dropped"), false, func(n *state) string {
				n.net[i] = request{}
				return ""
			})
		}
		l, f := t.arrive(q)
		t.try(l, true, func(n *state) string {
			n.net[i] = request{}
			return f(n)
		})
	}
}

func (t *stepper) arrive(q request) (label, func(*state) string) {
	switch q.kind {
	case lateCommit:
		return say("network: the late commit on R%d arrives", q.commit.run), func(n *state) string {
			_, wrong := t.commit(&n.now, q.commit)
			return wrong
		}
	case lateClaim:
		return say("network: the late claim of R%d arrives", q.run), func(n *state) string {
			_, wrong := t.claim(&n.now, q.run, q.session, q.token)
			return wrong
		}
	case lateDeliver:
		return say("network: the late delivery of item %d arrives", q.item), func(n *state) string {
			_, wrong := t.deliver(&n.now, q.item)
			return wrong
		}
	case lateCreate:
		return say("network: the late creation of R2 arrives"), func(n *state) string { return t.start(&n.now) }
	case lateRelease:
		return say("network: the late release of R%d arrives", q.run), func(n *state) string {
			return t.release(&n.now, q.run, q.epoch, q.token)
		}
	case noRequest:
	}
	panic("check: no request")
}

// replication tries the steps of a replica: it stops following, and is promoted later.
func (t *stepper) replication() {
	if t.s.left.failover > 0 && !t.s.hasSnap {
		t.try(say("replication stops here"), true, func(n *state) string {
			n.left.failover--
			n.hasSnap, n.snap = true, n.now
			return ""
		})
	}
	if t.s.hasSnap {
		t.try(say("FAILOVER: the store is as it was when replication stopped"), true, func(n *state) string {
			n.now, n.snap, n.hasSnap, n.failed = n.snap, partition{}, false, true
			return ""
		})
		t.try(say("replication catches up"), false, func(n *state) string {
			n.snap, n.hasSnap = partition{}, false
			return ""
		})
	}
}

// recovery tries the steps that end leases and recover the runs of ended sessions.
func (t *stepper) recovery() {
	for l := uint8(1); l < sessions; l++ {
		switch t.s.now.leases[l] {
		case leaseLive:
			if t.s.workers[0].session != l && t.s.workers[1].session != l {
				t.try(say("the lease of dead session %d expires", l), false, func(n *state) string {
					n.now.leases[l] = leaseOver
					return ""
				})
			} else if t.s.left.expire > 0 {
				t.try(say("the lease of session %d expires, its worker is slow", l), true, func(n *state) string {
					n.now.leases[l] = leaseOver
					n.left.expire--
					n.died++
					return ""
				})
			}
		case leaseOver:
			t.recover(l)
		}
	}
}

func (t *stepper) recover(l uint8) {
	left := false
	for r := range t.s.now.runs {
		if t.s.now.runs[r].owner != l {
			continue
		}
		left = true
		t.try(say("R%d is recovered from session %d", uint8(r), l), false, func(n *state) string {
			return t.do(&n.now, otherwise, func() error { return t.op.Recover(uint8(r + 1)) })
		})
	}
	if !left {
		t.try(say("session %d is removed", l), false, func(n *state) string {
			n.now.leases[l], n.now.codes[l] = leaseNone, 0
			for r := range n.now.runs {
				n.now.runs[r].blockers &^= 1 << l
				n.now.runs[r].failed &^= 1 << l
			}
			return ""
		})
	}
}
