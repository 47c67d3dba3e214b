package check

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// moved checks the effects of one operation, and updates the ghost variables.
func (m *homes) moved(before, n *home, what operation) (wrong string) {
	c := &m.homeConfig
	for i := range n.p.runs {
		r, had, has := uint8(i+1), before.x.flags[i].has, n.x.flags[i].has
		switch {
		case had && !has && what == turning:
			wrong = firstOf(wrong, "time took a permit from a run [L3]")
		case !had && has && !before.x.flags[0].has, !had && has && !m.continues:
			wrong = firstOf(wrong, m.granted(before, n, r))
		}
		opened := before.x.lines[c.line(r)].mode == protocol.QueueAdmitted && n.x.lines[c.line(r)].mode == protocol.QueueOpen
		if !n.waits(c, r) || what == turning && opened {
			n.asked &^= 1 << r
		}
		if x := &n.p.runs[i]; x.queueState != store.StateOwned || x.epoch != before.p.runs[i].epoch {
			n.seized &^= 1 << r
		}
	}
	return wrong
}

// granted checks that a run was allowed to get its permits.
func (m *homes) granted(before, n *home, r uint8) string {
	c := &m.homeConfig
	for l, x := range n.x.limits {
		switch weight := m.need[r-1][l]; {
		case weight == 0:
			continue
		case x.paused, x.atOnce > 0 && x.held > int8(x.atOnce):
			return "a limit is above its capacity after a grant [L4]"
		case x.rate && n.age[l] < rateTicks:
			return "more begin than the rate allows [rate]"
		}
		n.age[l] = 0
	}
	for i := range n.p.runs { // the next claim examines the remaining runs of the queue again
		if y := uint8(i + 1); before.waits(c, r) && c.line(y) == c.line(r) {
			n.asked &^= 1 << y
		}
	}
	for i := range before.p.runs {
		y := uint8(i + 1)
		if y == r || !before.waits(c, y) || !before.keepsBack(c, y, r) || before.waits(c, r) && !before.x.before(c, y, r) {
			continue
		}
		called := before.x.lines[c.line(y)].mode == protocol.QueueAdmitted
		switch {
		case called && slices.Contains(before.x.firsts(c), y):
			return "a called line has lost its turn [L7]"
		case before.asked>>y&1 == 1:
			return "a run that was asked for in vain was passed [L5]"
		}
	}
	return ""
}

// check checks the invariants that hold in every state.
func (m *homes) check(s home) string {
	return firstOf(m.checkFlags(&s), m.checkQueues(&s), m.checkCounts(&s), m.checkStands(&s), m.checkTurns(&s), m.checkWakes(&s))
}

func (m *homes) checkFlags(s *home) string {
	for i := range s.p.runs {
		x, f := &s.p.runs[i], &s.x.flags[i]
		owned := x.there && x.queueState == store.StateOwned
		switch {
		case f.has && !owned && (!m.whole[i] || !x.there || x.queueState == store.StateEnded):
			return "a run has permits, and nobody owns it [L2]"
		case owned && f.has && s.seized>>(i+1)&1 == 1 && !m.whole[i]:
			return "a run was seized, and has permits [L2]"
		case owned && !f.has && !f.off && len(m.uses(uint8(i+1))) > 0 && s.seized>>(i+1)&1 == 0:
			return "a run is owned without its permits [L2]"
		case owned && f.has && f.off:
			return "a run was called off, and has permits [L9]"
		}
	}
	return ""
}

func (m *homes) checkCounts(s *home) string {
	for l, x := range s.x.limits {
		held, waits := int8(0), int8(0)
		for i := range s.p.runs {
			if n := int8(m.need[i][l]); s.x.flags[i].has {
				held += n
			} else if s.waits(&m.homeConfig, uint8(i+1)) {
				waits += n
			}
		}
		if held != x.held || waits != x.waits {
			return "what is counted is not what the runs say [L1]"
		}
	}
	return ""
}

func (m *homes) checkQueues(s *home) string {
	var in [slots + 1]int
	for _, r := range s.x.order {
		in[r]++
	}
	for r := uint8(1); r <= slots; r++ {
		switch waits := s.waits(&m.homeConfig, r); {
		case waits && in[r] != 1:
			return "a run waits, and is in line never or twice [L9]"
		case !waits && in[r] != 0:
			return "a run has left its line, and is still there [L9]"
		}
	}
	return ""
}

// free reports whether a run may have its permits now, and whether it can never have them.
func (m *homes) free(s *home, r uint8) (may, never bool) {
	may = true
	for l, x := range s.x.limits {
		n := m.need[r-1][l]
		if n == 0 {
			continue
		}
		never = never || x.atOnce > 0 && n > x.atOnce
		may = may && !x.paused && (x.atOnce == 0 || x.held+int8(n) <= int8(x.atOnce)) && !(x.rate && x.tat > 0)
	}
	for _, y := range s.x.firsts(&m.homeConfig) {
		if y == r {
			break
		}
		for l := range kinds {
			if s.x.lines[m.line(y)].mode != protocol.QueueOpen && s.x.lines[m.line(y)].at>>l&1 == 1 && m.need[r-1][l] > 0 {
				may = false
			}
		}
	}
	return may, never
}

// checkStands checks that a closed queue counts at the limits that admit it, and at the first limit
// that does not. It skips configurations with rates or nested runs, because their queues may be one
// recheck late.
func (m *homes) checkStands(s *home) string {
	if m.rate != [kinds]bool{} || m.within != [slots]uint8{} {
		return ""
	}
	var counts [kinds]bool // limits at which an earlier queue counts
	for _, r := range s.x.firsts(&m.homeConfig) {
		l := s.x.lines[m.line(r)]
		if l.mode == protocol.QueueOpen {
			continue
		}
		at, paused := uint8(0), false
		for k, x := range s.x.limits {
			if m.need[r-1][k] > 0 && x.paused && !paused {
				at, paused = 1<<k, true
			}
		}
		for k := 0; k < kinds && !paused; k++ {
			n := m.need[r-1][k]
			if n == 0 {
				continue
			}
			at |= 1 << k
			if x := s.x.limits[k]; l.mode == protocol.QueueClosed && (counts[k] || x.atOnce > 0 && x.held+int8(n) > int8(x.atOnce)) {
				break
			}
		}
		if l.mode == protocol.QueueAdmitted && paused {
			return "a line that uses a paused limit is called [L6]"
		}
		if l.mode == protocol.QueueClosed && l.at != at {
			return "a shut line counts where it must not, or not where it must [L5]"
		}
		for k := range kinds {
			counts[k] = counts[k] || l.at>>k&1 == 1
		}
	}
	return ""
}

// checkTurns checks that claims examine every queue whose first run may have its permits.
func (m *homes) checkTurns(s *home) string {
	for _, r := range s.x.firsts(&m.homeConfig) {
		l := s.x.lines[m.line(r)]
		if l.mode != protocol.QueueClosed || l.timed && l.until == 0 {
			continue
		}
		switch may, never := m.free(s, r); {
		case never:
			return "a run can never have its permits, and is left out by claims [L9]"
		case may:
			return "the turn of a line has come, and nobody calls it [L6]"
		}
	}
	return ""
}

// checkWakes checks that no worker sleeps while there is a run to claim, unless a wake or a time is
// set.
func (m *homes) checkWakes(s *home) string {
	if m.cover {
		return ""
	}
	for class := range uint8(2) {
		r := m.headOf(s, class)
		if r == 0 || s.wakes[class] {
			continue
		}
		may, never := m.free(s, r)
		if s.waits(&m.homeConfig, r) && !may && !never {
			continue
		}
		if idle, busy := m.attention(s, class); idle && !busy {
			return "a run may go, a worker sleeps, and nothing wakes it [L8]"
		}
	}
	for _, l := range s.x.lines {
		if l.timed && !m.looks(s, l.until) {
			return "the time of a line comes, and nobody will look [K3]"
		}
	}
	return ""
}

// attention reports whether a worker of the class sleeps, and whether another one is going to
// check.
func (m *homes) attention(s *home, class uint8) (idle, busy bool) {
	for i, w := range s.w {
		if m.serves[i][class] {
			idle = idle || w.phase == asleep && w.next != 1
			busy = busy || w.phase == awake || w.phase == asleep && w.next == 1 || s.p.leases[w.session] == leaseOver
		}
	}
	return idle, busy
}

// looks reports whether a worker will check by the given time. It returns true if no worker sleeps.
func (m *homes) looks(s *home, until uint8) bool {
	sleeps := false
	for i, w := range s.w {
		switch w.phase {
		case down:
		case asleep:
			sleeps = true
			if w.next != 0 && w.next <= until+1 || s.wakes[0] && m.serves[i][0] || s.wakes[1] && m.serves[i][1] {
				return true
			}
		default:
			return true
		}
	}
	return !sleeps
}

// normalize gives equivalent states the same form. Of places only the order matters, and of epochs
// only whether they are equal.
func (m *homes) normalize(n *home) {
	var places []*uint8
	for i := range n.x.flags {
		places = append(places, &n.x.flags[i].place)
	}
	rank(places)
	for i := range n.p.runs {
		x := &n.p.runs[i]
		x.recoveries, x.lastEpoch = 0, 0
		epochs := []*uint8{&x.epoch}
		for k := range n.w {
			if n.w[k].run == uint8(i+1) {
				epochs = append(epochs, &n.w[k].epoch)
			}
		}
		if n.net.run == uint8(i+1) {
			epochs = append(epochs, &n.net.epoch)
		}
		rank(epochs)
	}
}

// rank replaces each value that is not 0 by its rank, counted from 1.
func rank(all []*uint8) {
	values := []uint8{}
	for _, v := range all {
		values = append(values, *v)
	}
	slices.Sort(values)
	values = slices.Compact(slices.DeleteFunc(values, func(v uint8) bool { return v == 0 }))
	for _, v := range all {
		if *v != 0 {
			*v = uint8(slices.Index(values, *v) + 1)
		}
	}
}
