package protocol

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Dedupe is the minimum time for which an accepted item is remembered.
const Dedupe = 24 * time.Hour

// Deliver puts an item into the inbox of a run, or of the latest run of its chain, and
// returns the run that has accepted it.
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
	case seen: // before "ended": what was accepted stays accepted [M2]
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

// hold keeps a later run of a chain from its purge until Confirm. The sender names that run if it
// sends the item again, and would be refused if the run were gone. The first run is held by the
// items that the chain remembers. [P1]
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

// late reports whether a request arrives after its deadline.
func (o *Op[R, S]) late(deadline time.Time) bool {
	return !deadline.IsZero() && o.Tx.Now().After(deadline)
}

// receiver returns the run that an item is for: the named one, or the latest of its chain. If the
// latest is gone, the named run answers for the chain. A hidden run only answers whether an item
// was accepted.
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

// accept puts an item into the inbox and remembers it, in one action. The caller must save the run.
// [M1]
func (o *Op[R, S]) accept(r R, s *Run[S], item store.Item, keep bool) error {
	if err := o.Tx.Remember(s.Chain, item.ID, o.Tx.Now().UnixMilli(), keep); err != nil {
		return err
	}
	s.Unread++
	return o.Tx.AddItem(r, item)
}

// push accepts an item, and notifies the reader of the inbox. If the item is urgent, a run without
// permits continues without them: at once if it waits for them, and if it is parked, blocked or
// queued, it does not wait for them once it is ready. [L9]
func (o *Op[R, S]) push(r R, s *Run[S], item store.Item, keep, urgent bool) error {
	if err := o.Tx.ForgetSeen(r, o.Tx.Now().Add(-Dedupe).UnixMilli()); err != nil {
		return err
	}
	if err := o.accept(r, s, item, keep); err != nil {
		return err
	}
	if urgent {
		s.Collect = "" // a start that joined a run which only ends would be lost [L12]
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

// Tell pushes an item that its sender cannot send again, so a run that is closing receives it as
// well. A run does not receive again what its chain has accepted before.
func (o *Op[R, S]) Tell(r R, s *Run[S], item store.Item, urgent bool) error {
	seen, err := o.Tx.Seen(s.Chain, item.ID)
	if err != nil || seen {
		return err
	}
	return o.push(r, s, item, false, urgent)
}
