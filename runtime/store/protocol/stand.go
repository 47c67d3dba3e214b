package protocol

import (
	"github.com/flowgen/flowgen/runtime/store"
)

// A limiter queue that is closed or admitted holds back the queues after it at the limits at which
// it counts, and only there. A closed queue counts at the first of its limits in the standing
// order, and at the next one while all limits before admit it: they are not paused, have free
// capacity for its first run, and no earlier queue counts there. So a queue that waits for a limit
// leaves the limits that come later in the order to others: a key that is full or paused stops its
// key only.
//
// A fixed order lets each queue make progress: eventually no earlier queue counts at its first
// limit, where no later run takes what it waits for; once it has free capacity there it counts at
// the second, and so on. A queue whose limit is paused counts at that limit only, wherever it is in
// the order, because nothing that it holds back elsewhere would let it go on.
//
// Only the first closed or admitted queue of a limit can count at a limit beyond it. So an event at
// a limit moves a few queues, without a scan; see look.

// lookMost bounds how many rechecks one event takes. Each recheck that changes a queue leads to a
// later limit of the order, so there are few. The bound keeps a mistake in that argument from
// stopping the store: the next event at the limit continues.
const lookMost = 1000

// everywhere returns the bits of all uses at which a queue can count.
func everywhere(uses []store.Use) (at uint16) {
	for i, u := range uses {
		if !u.Local {
			at |= 1 << i
		}
	}
	return at
}

// changedAt returns the limits of the uses whose bits differ.
func changedAt(uses []store.Use, was, is uint16) (changed []store.LimitID) {
	for i, u := range uses {
		if (was^is)>>i&1 == 1 {
			changed = append(changed, u.LimitID)
		}
	}
	return changed
}

// standing is the state of the first run of a queue at its limits.
type standing struct {
	lack
	at    uint16 // the uses at which the queue counts while it is closed
	may   bool   // the run may have all its permits
	heavy bool   // it can never have them
}

// stand returns the standing of the first run of a queue. [L2, L5]
func (o *Op[R, S]) stand(line *LimiterQueue, uses []store.Use) (s standing, err error) {
	limits, err := o.limitsOf(uses)
	if err != nil {
		return s, err
	}
	s.lack = lackOf(o.Tx.Now(), uses, limits)
	for i, u := range uses {
		s.heavy = s.heavy || limits[i].tooHeavy(u.Weight)
	}
	s.at, err = o.countsAt(line, uses, limits, &s.may)
	if s.may = s.may && s.limits == 0; !s.may {
		s.until = o.recheck(uses, s.until)
	}
	return s, err
}

// countsAt returns the uses at which a closed queue counts. It sets admitted if all limits admit
// it.
func (o *Op[R, S]) countsAt(line *LimiterQueue, uses []store.Use, limits []Limit, admitted *bool) (at uint16, err error) {
	order := store.StandingOrder(uses)
	for _, i := range order {
		if limits[i].Paused {
			return 1 << i, nil
		}
	}
	for _, i := range order {
		at |= 1 << i
		if free, _ := limits[i].free(o.Tx.Now(), uses[i].Weight); !free && !line.Owed {
			return at, nil
		}
		if back, err := o.heldBack(line, uses[i]); err != nil || back {
			return at, err
		}
	}
	*admitted = true
	return at, nil
}

// heldBack reports whether an earlier queue that counts at a limit holds back a queue there.
func (o *Op[R, S]) heldBack(line *LimiterQueue, u store.Use) (bool, error) {
	kept, err := o.Tx.Limits().FirstKept(u.LimitID)
	if err != nil || kept.First == "" || kept.ID == line.ID || !kept.before(line) {
		return false, err
	}
	if u.Nested {
		return o.keptBack(line, u.LimitID)
	}
	return true, nil
}

// owe marks the queues that a nested run skips when it takes its permits, and that count at a limit
// after the one where it skips them. Such a queue keeps counting there although it lacks capacity
// now, until it is admitted or another run becomes its first. Otherwise nested runs could take the
// earlier limit repeatedly, each time while the later one is free for the skipped queue. [L5]
func (o *Op[R, S]) owe(line *LimiterQueue, uses []store.Use) error {
	for _, u := range uses {
		if u.Local {
			continue
		}
		kept, err := o.Tx.Limits().KeptQueues(u.LimitID, VainTries)
		if err != nil {
			return err
		}
		for _, passed := range kept {
			if passed.ID == line.ID || !passed.before(line) {
				break
			}
			if passed.Mode != QueueClosed || passed.Owed {
				continue
			}
			_, its, err := o.first(&passed)
			if err != nil {
				return err
			}
			if !countsAfter(&passed, its, u.LimitID) {
				continue
			}
			passed.Owed = true
			if err := o.Tx.Limits().SaveQueue(passed); err != nil {
				return err
			}
		}
	}
	return nil
}

// countsAfter reports whether a queue counts at a limit that comes after id in its order.
func countsAfter(line *LimiterQueue, uses []store.Use, id store.LimitID) bool {
	past := false
	for _, i := range store.StandingOrder(uses) {
		if past && line.Stands>>i&1 == 1 {
			return true
		}
		past = past || uses[i].LimitID == id
	}
	return false
}

// call rechecks the limits of uses, because something has changed there. [L5, L6, L7, L8]
func (o *Op[R, S]) call(uses []store.Use) error {
	ids := make([]store.LimitID, len(uses))
	for i, u := range uses {
		ids[i] = u.LimitID
	}
	return o.look(ids)
}

// look rechecks limits at which something has changed, and each limit at which a queue begins or
// ceases to count because of that.
func (o *Op[R, S]) look(ids []store.LimitID) error {
	for n := 0; len(ids) > 0 && n < lookMost; n++ {
		changed, err := o.lookAt(ids[0])
		if err != nil {
			return err
		}
		if len(changed) == 0 {
			ids = ids[1:]
		} else {
			ids = append(changed, ids...)
		}
	}
	return nil
}

// lookAt rechecks the first two closed queues that count at a limit: the first may be admitted now,
// or no longer; the second may have been the first before, and count further than it may now. If
// the first one waits for another limit as well, nested queues are rechecked. lookAt returns after
// the first queue that changes, with the limits that this affects.
func (o *Op[R, S]) lookAt(id store.LimitID) (changed []store.LimitID, err error) {
	closed, err := o.firstClosed(id)
	if err != nil || len(closed) == 0 {
		return nil, err
	}
	done := false
	for i, line := range closed {
		over, changed, err := o.callAt(line, id)
		if err != nil || len(changed) > 0 {
			return changed, err
		}
		done = done || i == 0 && over
	}
	if done {
		return nil, nil
	}
	nested, err := o.Tx.Limits().NestedClosed(id)
	for i := 0; i < len(nested) && err == nil && len(changed) == 0 && !done; i++ {
		done, changed, err = o.callAt(nested[i], id)
	}
	return changed, err
}

// firstClosed returns the first two closed queues that count at a limit, and those with the same
// position as the second: queues of different routes may have the same position, and none of these
// holds back the others.
func (o *Op[R, S]) firstClosed(id store.LimitID) ([]LimiterQueue, error) {
	for n := 3; ; n *= 2 {
		lines, err := o.Tx.Limits().ClosedQueues(id, n)
		if err != nil || len(lines) < 3 {
			return lines, err
		}
		for i := 2; i < len(lines); i++ {
			if lines[1].before(&lines[i]) {
				return lines[:i], nil
			}
		}
		if len(lines) < n {
			return lines, nil
		}
	}
}

// callAt is admitQueue of a queue at a limit. It reports whether no queue after it may be admitted.
func (o *Op[R, S]) callAt(line LimiterQueue, id store.LimitID) (over bool, changed []store.LimitID, err error) {
	first, uses, err := o.first(&line)
	if err != nil {
		return false, nil, err
	}
	s, changed, err := o.admitQueue(line, first, uses)
	return s.may || s.heavy || s.only(id), changed, err
}

// admitQueue admits a queue that is closed, or admitted already, if its first run may have its
// permits or never can (it is too heavy, and goes on without them): claims examine the queue, and
// no queue skips it for AdmitTime. Otherwise admitQueue closes the queue, which then counts where it
// may. It returns the limits at which the queue begins or ceases to count.
func (o *Op[R, S]) admitQueue(line LimiterQueue, first R, uses []store.Use) (standing, []store.LimitID, error) {
	s, err := o.stand(&line, uses)
	if err != nil {
		return s, nil, err
	}
	was := line
	if s.may || s.heavy {
		line.Mode, line.Until = QueueAdmitted, o.Tx.Now().Add(AdmitTime).UnixMilli()
		line.Stands, line.Owed = everywhere(uses), false
		o.Changes.Ready = append(o.Changes.Ready, first)
	} else {
		early := line.Mode == QueueClosed && line.Until > o.Tx.Now().UnixMilli() && (s.limits == 0 || line.Until < s.until && uses[0].Nested)
		if line.Mode, line.Stands = QueueClosed, s.at; !early { // otherwise its time comes early enough
			line.Until = s.until
		}
		if line == was {
			return s, nil, nil
		}
	}
	return s, changedAt(uses, was.Stands, line.Stands), o.saveTurn(line, first)
}

// restand admits or closes a queue as the present configuration and state of its limits require. An
// open queue stays open. An admitted queue whose first run lacks capacity now is closed, or it
// would hold back others for the rest of AdmitTime. [L6]
func (o *Op[R, S]) restand(id string) error {
	line, err := o.Tx.Limits().LimiterQueue(id)
	if err != nil || line.First == "" || line.Mode == QueueOpen {
		return err
	}
	first, uses, err := o.first(&line)
	if err != nil {
		return err
	}
	if line.Mode == QueueAdmitted {
		if s, err := o.stand(&line, uses); err != nil || s.limits == 0 || s.heavy {
			return err
		}
	}
	_, changed, err := o.admitQueue(line, first, uses)
	if err != nil {
		return err
	}
	return o.look(changed)
}
