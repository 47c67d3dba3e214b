package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Mark moves a record of the outbox to its next phase. It does nothing if the record does not exist
// or has left the phase m.Phase.
func (o *Op[R, S]) Mark(m *store.Mark) error {
	var none R
	from, err := o.Tx.Run(m.From)
	if err != nil || from == none {
		return err
	}
	rec, err := o.Tx.Record(from, m.ID)
	if err != nil || rec.Phase == 0 || rec.Phase != m.Phase {
		return err
	}
	if (m.Refusal != nil || m.Unknown) && o.late(m.Deadline) {
		return nil // the record is sent again
	}
	if m.Unknown {
		if taken, err := o.takeBack(from, rec); err != nil || taken {
			return err
		}
	}
	if s := o.Tx.State(from); m.Refusal != nil && s.QueueState != store.StateEnded {
		if err := o.Tell(from, &s, *m.Refusal, false); err != nil {
			return err
		}
	}
	now := o.Tx.Now().UnixMilli()
	switch rec.Phase { // a settled record is removed, the others move on [O2]
	case store.PhaseFresh:
		return o.Tx.SetPhase(from, rec, store.PhaseAnswered, now)
	case store.PhaseAnswered:
		return o.Tx.SetPhase(from, rec, store.PhaseSettled, now)
	}
	if err := o.Tx.RemoveRecord(from, rec); err != nil {
		return err
	}
	return o.Reschedule(from)
}

// takeBack handles a record whose receiver does not exist. If there is an earlier record of the
// same sender and receiver, a failover has lost the receiver. takeBack then makes the record and
// the answered records before it fresh again, so that the record which created the receiver is sent
// first. It reports whether it did so.
//
// An earlier settled record also counts. The items that it left protect the receiver from the purge
// until Confirm, so the answer is older than the settling. The record is then sent again before the
// sender is notified. A settled record is kept for a horizon, which is longer than a mark may take.
// [O1]
func (o *Op[R, S]) takeBack(from R, rec Record) (bool, error) {
	if rec.Phase == store.PhaseSettled {
		return false, nil
	}
	before, err := o.Tx.HasBefore(from, rec)
	if err != nil || !before {
		return false, err
	}
	now := o.Tx.Now().UnixMilli()
	if err := o.Tx.Refresh(from, rec, now); err != nil {
		return false, err
	}
	if rec.Phase == store.PhaseAnswered {
		err = o.Tx.SetPhase(from, rec, store.PhaseFresh, now)
	}
	return true, err
}

// Confirm removes the marks that a record has left at a run and its chain. The record will not be
// sent again. The run may be hidden.
func (o *Op[R, S]) Confirm(run event.RunID, id event.ItemID) error {
	var none R
	r, err := o.Tx.Run(run)
	if err != nil || r == none {
		return err
	}
	s := o.Tx.State(r)
	if err := o.Tx.Unkeep(s.Chain, id); err != nil {
		return err
	}
	if run == s.Chain {
		return o.confirm(r, id)
	}
	if err := o.Tx.Unkeep(run, id); err != nil {
		return err
	}
	if err := o.confirm(r, id); err != nil {
		return err
	}
	first, err := o.Tx.Run(s.Chain)
	if err != nil || first == none {
		return err
	}
	return o.Reschedule(first)
}

// confirm removes the mark of the record that has created a run. The run may then be purged if no
// other reason holds it back.
func (o *Op[R, S]) confirm(r R, id event.ItemID) error {
	s := o.Tx.State(r)
	if s.CreatedBy == "" || s.CreatedBy != id {
		return o.Reschedule(r)
	}
	s.CreatedBy = ""
	if err := o.schedule(r, &s); err != nil {
		return err
	}
	return o.Tx.Save(r, s)
}
