package check

import (
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// changed checks one operation: Changes must contain its effects, and no epoch decreases.
func (m *runs) changed(before, p *partition) string {
	c := &m.op.Changes
	hadDue := false
	for r := range before.runs {
		hadDue = hadDue || before.runs[r].due
	}
	for i := range p.runs {
		r, old, x := uint8(i+1), &before.runs[i], &p.runs[i]
		switch {
		case old.there && x.there && x.epoch < old.epoch:
			return "the epoch of a run fell [F1]"
		case old.owner != 0 && x.owner != old.owner && x.there && x.queueState == store.StateOwned:
			return "a run was taken from its owner [F2]"
		case old.owner != 0 && x.owner == 0 && x.queueState == store.StateReady && x.epoch == old.epoch && !m.own(old, x):
			return "a run was taken from its owner, and its fence did not change [F2]"
		case x.owner != 0 && x.owner != old.owner && x.epoch <= old.epoch:
			return "a run was granted without a new epoch [F1]"
		case old.queueState != store.StateReady && x.queueState == store.StateReady && !slices.Contains(c.Ready, r):
			return "a run became ready, and nobody wakes [K2]"
		case !old.due && x.due && !hadDue && !slices.Contains(c.Due, r):
			return "a run has the earliest due time, and nobody wakes [K3]"
		case old.queueState != store.StateBlocked && x.queueState == store.StateBlocked && !slices.Contains(c.Blocked, r):
			return "a run was blocked, and nobody is told [B3]"
		case x.queueState == store.StateOwned && old.queueState == store.StateOwned && x.unread > old.unread && !slices.Contains(c.Unread, r):
			return "an owned run has a new item, and its owner is not told"
		case old.there && x.log != old.log && !slices.Contains(c.Frames, r):
			return "a log grew or went, and nobody is told"
		}
	}
	return ""
}

// own reports whether the owner gave the run back by a commit.
func (m *runs) own(*run, *run) bool { return m.tx.commit != nil }

// took returns the set of messages that the code of a run has taken. A run that continued has taken
// only the first, and passes on the others.
func (m *runs) took(log uint16) (set uint16) {
	f := m.tx.outcomes[log]
	for i, item := range f.received {
		if f.terminal != runContinued || i == 0 {
			set |= 1 << item
		}
	}
	return set
}

func (m *runs) check(s state) string {
	active := 0
	for r := range s.now.runs {
		x := &s.now.runs[r]
		if wrong := m.checkRun(&s, uint8(r), x); wrong != "" {
			return fmt.Sprintf("R%d %s", r, wrong)
		}
		if x.there && x.named && x.queueState != store.StateEnded && x.queueState != store.StateQueued {
			active++
			if s.now.active != uint8(r+1) {
				return fmt.Sprintf("R%d is not the active run of its workflow id, has not ended, and is not in line [C1]", r)
			}
		}
	}
	if active > 1 {
		return "two runs of one workflow id are active [C1]"
	}
	if a := s.now.active; a != 0 && (!s.now.runs[a-1].there || s.now.runs[a-1].queueState == store.StateEnded) {
		return "the active run of the workflow id has ended"
	}
	if a := s.now.active; a != 0 && s.now.runs[a-1].queueState == store.StateQueued {
		return "the active run of the workflow id is in line [C1]"
	}
	for r := range s.now.runs {
		if !s.now.runs[r].there && (s.now.seen[r] != 0 || s.now.kept[r] != 0) {
			return "a chain is gone, and what it has accepted is kept [P1]"
		}
	}
	if s.now.active == 0 && s.now.line[0] != 0 {
		return "a run is in line, and no run is before it"
	}
	for _, i := range s.now.runs[1].inbox {
		if i == hook {
			return "an item for R0 alone is in the inbox of R1 [M4]"
		}
	}
	if n := m.holds(&s.now.runs[2], given); s.now.runs[2].there && n != 1 {
		return fmt.Sprintf("R2 has %d times the item that it was created with [C2]", n)
	}
	for i := 1; i <= m.messages; i++ {
		if wrong := m.checkMessage(&s, uint8(i)); wrong != "" {
			return fmt.Sprintf("m%d %s", i, wrong)
		}
	}
	return ""
}

// checkRun returns a description of the first broken invariant of run r, or "".
func (m *runs) checkRun(s *state, r uint8, x *run) string {
	if !x.there {
		return ""
	}
	f := &m.tx.outcomes[x.log]
	switch {
	case f.wrong != "":
		return "has a log in which " + f.wrong
	case x.log != x.last || x.n != f.n:
		return "has a last record that is not that of its log [F3]"
	case x.unread != x.length():
		return "counts other items than there are in its inbox"
	case s.now.created[r] > 1:
		return "was created twice [C1]"
	case x.chain != r+1 && !s.now.runs[x.chain-1].there:
		return "is kept, and the first run of its chain is gone [P1]"
	case (f.terminal != 0) != (x.queueState == store.StateEnded):
		return "has ended by its log or by its queue state, not by both"
	case (x.queueState == store.StateOwned) != (x.owner != 0) || (x.owner != 0) != (x.token != 0):
		return "is owned, or has an owner, or has a token, but not all of these"
	case x.due && x.queueState != store.StateParked:
		return "has a due time and is not parked"
	case x.recoveries > s.died:
		return "has more recoveries than sessions died"
	case x.owner != 0 && s.now.leases[x.owner] == leaseNone:
		return "is owned by a session that nobody will recover [W1]"
	}
	switch x.queueState {
	case store.StateEnded:
		if x.unread != 0 || x.blockers != 0 || x.closing {
			return "has ended and still holds something"
		}
		if x.ended == 0 {
			return "has ended at no time"
		}
	case store.StateParked:
		if x.unread > 0 {
			return "is parked with unread items [M4]"
		}
		if f.waits && !f.fired && !x.due {
			return "is parked without the due time of its timer"
		}
	case store.StateQueued:
		if s.now.line[0] != r+1 && s.now.line[1] != r+1 {
			return "is in line by its queue state, but not in the line"
		}
	case store.StateReady, store.StateOwned, store.StateBlocked:
	default:
		return "has no queue state"
	}
	return ""
}

// checkMessage checks that an accepted message is in exactly one inbox, or was taken by code
// exactly once.
func (m *runs) checkMessage(s *state, i uint8) string {
	n := int(s.now.taken >> i & 1)
	for r := range uint8(2) {
		x := &s.now.runs[r]
		if !x.there {
			continue
		}
		n += m.holds(x, i)
	}
	switch {
	case n > 1:
		return "is there twice [M1]"
	case n == 0 && s.now.seen[0]>>i&1 == 1:
		return "was accepted and is nowhere [M1]"
	case n > 0 && s.senders[i] == refused && !s.failed:
		return "was refused to its sender, and the run has it [M2]"
	case n == 0 && s.senders[i] == accepted && !s.failed:
		return "was accepted to its sender and is nowhere [M1]"
	}
	return ""
}

// holds returns how many times the item is in the inbox of x or was taken by its code.
func (m *runs) holds(x *run, i uint8) (n int) {
	for _, unread := range x.inbox {
		if unread == i {
			n++
		}
	}
	f := &m.tx.outcomes[x.log]
	for k, got := range f.received {
		if got == i && (f.terminal != runContinued || k == 0) {
			n++
		}
	}
	return n
}

func (m *runs) goal(s state) bool {
	for i := uint8(1); i <= hook; i++ {
		if m.sends(i) && s.senders[i] < accepted {
			return false
		}
	}
	if m.starter && s.starter < accepted {
		return false
	}
	for _, x := range s.now.runs {
		if x.there && x.queueState != store.StateEnded {
			return false
		}
	}
	return !s.hasSnap
}

// sends reports whether the configuration includes the item.
func (m *runs) sends(i uint8) bool {
	return int(i) <= m.messages || i == hook && m.hook
}
