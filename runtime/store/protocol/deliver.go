package protocol

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Dedupe is the minimum time for which the id of an accepted item is kept to detect duplicates.
const Dedupe = 24 * time.Hour

// Deliver puts an item into the inbox of a run, or of the latest run of its chain. It returns the
// run that has accepted the item.
func (o *Op[R, S]) Deliver(d *store.Deliver) (event.RunID, error) {
	if o.late(d.Deadline) {
		return "", refuse(store.ErrStale)
	}
	r, s, err := o.receiver(d)
	if err != nil {
		return "", err
	}
	seen, err := o.Tx.Seen(s.Chain, d.Item.ID)
	if err != nil {
		return "", err
	}
	switch {
	case seen: // check before the other cases: an accepted item stays accepted [M2]
		return s.ID, nil
	case s.Hidden:
		return "", refuse(store.ErrRunNotFound)
	case s.QueueState == store.StateEnded:
		return "", refuse(&store.TerminalError{Run: s.ID, Status: s.Status})
	case s.Closing:
		return "", refuse(store.ErrLater)
	}
	if err := o.push(r, &s, d.Item, d.Keep, d.Urgent); err != nil || !d.Keep || d.Run == s.Chain {
		return s.ID, err
	}
	return s.ID, o.hold(d.Run, d.Item.ID)
}

// hold protects a later run of a chain from the purge until Confirm. If the sender sends the item
// again, it names the same run, and a purged run would refuse the item. The first run of a chain
// needs no such record, because the items that the chain remembers protect it. [P1]
func (o *Op[R, S]) hold(run event.RunID, id event.ItemID) error {
	r, err := o.Tx.Run(run)
	if err != nil {
		return err
	}
	if err := o.Tx.Remember(run, id, o.Tx.Now().UnixMilli(), true); err != nil {
		return err
	}
	return o.Reschedule(r)
}

// late reports whether the deadline of a request has passed. A zero deadline never passes.
func (o *Op[R, S]) late(deadline time.Time) bool {
	return !deadline.IsZero() && o.Tx.Now().After(deadline)
}

// receiver returns the run to which an item is delivered: the named run, or the latest run of its
// chain. If the latest run is gone, receiver returns the named run. A hidden run is returned so
// that the caller can check whether the item was accepted before.
func (o *Op[R, S]) receiver(d *store.Deliver) (R, Run[S], error) {
	var none R
	r, err := o.Tx.Run(d.Run)
	if err != nil {
		return none, Run[S]{}, err
	}
	if r == none {
		return none, Run[S]{}, refuse(store.ErrRunNotFound)
	}
	s := o.Tx.State(r)
	if d.Item.Scope == store.ScopeRun || s.Hidden || s.QueueState != store.StateEnded {
		return r, s, nil // a run that has not ended is the latest of its chain
	}
	latest, err := o.Tx.Latest(r)
	if err != nil || latest == none || latest == r {
		return r, s, err
	}
	if l := o.Tx.State(latest); !l.Hidden {
		return latest, l, nil
	}
	return r, s, nil
}

// accept puts an item into the inbox and records its id, in one action. The caller must save the
// run. [M1]
func (o *Op[R, S]) accept(r R, s *Run[S], item store.Item, keep bool) error {
	if err := o.Tx.Remember(s.Chain, item.ID, o.Tx.Now().UnixMilli(), keep); err != nil {
		return err
	}
	s.Unread++
	return o.Tx.AddItem(r, item)
}

// push accepts an item, and notifies the reader of the inbox. An urgent item lets a run without
// permits continue without them. If the run waits for permits, it continues at once. If it is
// parked, blocked or queued, it does not wait for permits when it becomes ready. [L9]
func (o *Op[R, S]) push(r R, s *Run[S], item store.Item, keep, urgent bool) error {
	if err := o.Tx.ForgetSeen(r, o.Tx.Now().Add(-Dedupe).UnixMilli()); err != nil {
		return err
	}
	if err := o.accept(r, s, item, keep); err != nil {
		return err
	}
	if urgent {
		s.Collect = "" // the run will only end, so a start that joined it would be lost [L12]
		s.LeftQueue = s.LeftQueue || s.mayWait()
	}
	switch {
	case urgent && s.Waits():
		return o.callOff(r, s)
	case s.QueueState == store.StateParked && s.Collect == "":
		return o.makeReady(r, s)
	case s.QueueState == store.StateOwned:
		o.Changes.Unread = append(o.Changes.Unread, r)
	}
	return o.Tx.Save(r, *s)
}

// Tell pushes an item that its sender cannot send again. Unlike Deliver it accepts the item for a
// closing run. It ignores an item that the chain of the run has accepted before.
func (o *Op[R, S]) Tell(r R, s *Run[S], item store.Item, urgent bool) error {
	seen, err := o.Tx.Seen(s.Chain, item.ID)
	if err != nil || seen {
		return err
	}
	return o.push(r, s, item, false, urgent)
}
