package check

// Tokens are random and epochs are only compared. So states that differ only in the values of
// tokens and epochs are equivalent, and are given the same values.

// freshToken returns a token that does not occur in the state.
func (s *state) freshToken() uint8 {
	var used [64]bool
	s.tokens(func(t *uint8) { used[*t] = true })
	for t := uint8(1); ; t++ {
		if !used[t] {
			return t
		}
	}
}

func (s *state) tokens(f func(*uint8)) {
	for _, p := range [...]*partition{&s.now, &s.snap} {
		for i := range p.runs {
			f(&p.runs[i].token)
			f(&p.runs[i].lastToken)
		}
	}
	for i := range s.workers {
		f(&s.workers[i].token)
		f(&s.workers[i].pending.token)
	}
	for i := range s.net {
		f(&s.net[i].token)
		f(&s.net[i].commit.token)
	}
}

// freshSession returns a session that does not occur in the state, or 0 if there is none.
func (s *state) freshSession() uint8 {
	var used [sessions]bool
	for _, p := range [...]*partition{&s.now, &s.snap} {
		for i, l := range p.leases {
			used[i] = used[i] || l != leaseNone
		}
		for i := range p.runs {
			used[p.runs[i].owner] = true
			for l := range used {
				used[l] = used[l] || p.runs[i].blockers>>l&1 == 1
			}
		}
	}
	for i := range s.workers {
		used[s.workers[i].session], used[s.net[i].session] = true, true
	}
	for l := uint8(1); l < sessions; l++ {
		if !used[l] {
			return l
		}
	}
	return 0
}

func (m *runs) normalize(s *state) {
	var names [64]uint8
	next := uint8(1)
	s.tokens(func(t *uint8) {
		if *t == 0 {
			return
		}
		if names[*t] == 0 {
			names[*t] = next
			next++
		}
		*t = names[*t]
	})
	for r := range s.now.runs {
		s.lowerEpochs(uint8(r))
	}
}

// lowerEpochs shifts the epochs of run r so that the lowest epoch in use is 1.
func (s *state) lowerEpochs(r uint8) {
	var all [14]*uint8
	n := 0
	add := func(e *uint8, on bool) {
		if on {
			all[n] = e
			n++
		}
	}
	stores := [...]*partition{&s.now, &s.snap}
	for _, p := range stores {
		add(&p.runs[r].epoch, p.runs[r].there)
	}
	for i := range s.workers {
		w, q := &s.workers[i], &s.net[i]
		add(&w.epoch, w.holds && w.run == r)
		add(&w.pending.epoch, w.pending.on && w.pending.run == r)
		add(&q.commit.epoch, q.kind == lateCommit && q.commit.run == r)
		add(&q.epoch, q.kind == lateRelease && q.run == r)
	}
	low := uint8(255)
	for _, e := range all[:n] {
		low = min(low, *e)
	}
	if low == 255 || low < 1 {
		return
	}
	for _, p := range stores {
		if x := &p.runs[r]; x.there {
			x.lastEpoch = max(x.lastEpoch, low-1)
			add(&x.lastEpoch, true)
		}
	}
	for _, e := range all[:n] {
		*e -= low - 1
	}
}
