package protocol

import (
	"github.com/flowgen/flowgen/runtime/store"
)

// A limiter queue that is closed or admitted holds back the queues after it, but only at the limits
// at which it counts. A closed queue counts at the first of its limits in the standing order. It
// counts at the next limit as well while all limits before that one admit it: they are not paused,
// have free capacity for its first run, and no earlier queue counts there. So a queue that waits
// for one limit does not occupy the limits that follow in the order. A key that is full or paused
// holds back only the runs of that key.
//
// A fixed order lets each queue make progress. Eventually no earlier queue counts at the first
// limit of a queue, and no later run takes the capacity there. Once the queue has free capacity
// there, it counts at the second limit, and so on. A queue with a paused limit counts at that limit
// only, wherever the limit is in the order. It could not continue even if it held back others
// elsewhere.
//
// Only the first closed or admitted queue of a limit can count at a later limit of the order. So an
// event at a limit changes a few queues, and needs no scan; see look.

// lookMost bounds the number of rechecks that one event causes. Each recheck that changes a queue
// leads to a later limit of the order, so there should be few. If that argument is wrong, the bound
// keeps the store from looping, and the next event at the limit continues.
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
	at    uint16 // uses at which the queue counts while it is closed
	may   bool   // the first run may have all its permits
	heavy bool   // the first run can never have its permits
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

// countsAt returns the uses at which a closed queue counts. It sets admitted to true if all limits
// admit the queue.
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

// heldBack reports whether an earlier queue holds back this queue at the limit of the use.
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

// owe sets Owed for each queue that a nested run skips at a limit when it takes its permits, if
// that queue also counts at a later limit. Such a queue counts there, although it lacks capacity
// now, until it is admitted or gets another first run. Otherwise nested runs could repeatedly take
// the earlier limit whenever the later one is free for the skipped queue. [L5]
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

// countsAfter reports whether a queue counts at a limit that follows id in the standing order of
// its uses.
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

// call rechecks the queues at the limits of the uses, because the state of the limits has changed.
// [L5, L6, L7, L8]
func (o *Op[R, S]) call(uses []store.Use) error {
	ids := make([]store.LimitID, len(uses))
	for i, u := range uses {
		ids[i] = u.LimitID
	}
	return o.look(ids)
}

// look rechecks the queues at the given limits, and at each limit at which a queue begins or ceases
// to count because of that.
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

// lookAt rechecks the first two closed queues that count at a limit, and returns the limits that a
// change affects. The first queue may now be admitted, or may have lost its admission. The second
// queue may have lost the first position, so that it may count at more limits than it should. If
// the first queue waits for another limit as well, lookAt also rechecks nested queues. It stops at
// the first queue that changes.
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

// firstClosed returns the first two closed queues that count at a limit, and all others with the
// same position as the second. Queues of different routes may have the same position, and do not
// hold back each other.
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

// callAt calls admitQueue for a queue. over reports whether no later queue at the limit may be
// admitted.
func (o *Op[R, S]) callAt(line LimiterQueue, id store.LimitID) (over bool, changed []store.LimitID, err error) {
	first, uses, err := o.first(&line)
	if err != nil {
		return false, nil, err
	}
	s, changed, err := o.admitQueue(line, first, uses)
	return s.may || s.heavy || s.only(id), changed, err
}

// admitQueue admits a closed or admitted queue if its first run may have its permits, or if it is
// too heavy and continues without them. Claims then examine the queue, and no queue skips it for
// AdmitTime. Otherwise admitQueue closes the queue, and sets where it counts. It returns the limits
// at which the queue begins or ceases to count.
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
		if line.Mode, line.Stands = QueueClosed, s.at; !early { // an early recheck keeps its time
			line.Until = s.until
		}
		if line == was {
			return s, nil, nil
		}
	}
	return s, changedAt(uses, was.Stands, line.Stands), o.saveTurn(line, first)
}

// restand admits or closes a queue according to the configuration and the state of its limits. An
// open queue stays open. restand closes an admitted queue whose first run lacks capacity; otherwise
// the queue would hold back others for the rest of AdmitTime. [L6]
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
