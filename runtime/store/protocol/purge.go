package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// schedule sets when a run may be purged. A run is kept until its purge time, while a sender may
// send an item again that the run has recorded, and while its chain needs it. [P1]
func (o *Op[R, S]) schedule(r R, s *Run[S]) error {
	s.Purge = 0
	if s.QueueState != store.StateEnded || s.CreatedBy != "" {
		return nil
	}
	held, err := o.Tx.Held(r)
	if err != nil || held.Records || held.Later || held.Kept {
		return err
	}
	s.Purge = s.PurgeTime()
	return nil
}

// PurgeTime returns when an ended run may be purged if no reason holds it back.
func (s *Run[S]) PurgeTime() int64 {
	keep := s.Retention
	if s.Hidden {
		keep = 0
	}
	return Millis(store.PurgeTime(Time(s.Created), Time(s.Ended), keep))
}

// Reschedule updates the time at which a run may be purged, after a reason that holds it back has
// changed.
func (o *Op[R, S]) Reschedule(r R) error {
	s := o.Tx.State(r)
	before := s.Purge
	if err := o.schedule(r, &s); err != nil || s.Purge == before {
		return err
	}
	return o.Tx.Save(r, s)
}

// Purge removes up to limit due runs, the longest due first, and returns how many. One purge may
// release another run. If fits is not nil, Purge stops before a run that does not fit, unless it is
// the first.
func (o *Op[R, S]) Purge(limit int, fits func(r R) (bool, error)) (int, error) {
	var none R
	for n := range limit {
		r, err := o.Tx.NextPurge(o.Tx.Now().UnixMilli())
		if err != nil || r == none {
			return n, err
		}
		if fits != nil {
			if ok, err := fits(r); err != nil || !ok && n > 0 {
				return n, err
			}
		}
		if err := o.PurgeRun(r); err != nil {
			return n, err
		}
	}
	return max(limit, 0), nil
}

// PurgeRun removes all data of a run. The first run of a chain is removed last, together with the
// ids of the items that the chain has accepted.
func (o *Op[R, S]) PurgeRun(r R) error {
	var none R
	s := o.Tx.State(r)
	o.Changes.Frames = append(o.Changes.Frames, r)
	o.Changes.Streams = append(o.Changes.Streams, StreamChange{Chain: s.Chain})
	if s.WorkflowID != "" {
		if err := o.Tx.ForgetEnded(r); err != nil {
			return err
		}
	}
	if err := o.Tx.Remove(r); err != nil {
		return err
	}
	if s.Chain == s.ID {
		return o.Tx.ForgetChain(s.Chain)
	}
	first, err := o.Tx.Run(s.Chain)
	if err != nil || first == none {
		return err
	}
	return o.Reschedule(first)
}

// Delete hides a run that has ended until it is purged.
func (o *Op[R, S]) Delete(run event.RunID) error {
	var none R
	r, err := o.Tx.Run(run)
	if err != nil {
		return err
	}
	if r == none {
		return refuse(store.ErrRunNotFound)
	}
	s := o.Tx.State(r)
	switch {
	case s.QueueState != store.StateEnded:
		return refuse(&store.NotEndedError{Run: run, Status: s.Status})
	case s.Hidden:
		return nil
	}
	s.Hidden, s.Group = true, "" // a deleted run leaves its failure group [T1]
	if err := o.schedule(r, &s); err != nil {
		return err
	}
	if err := o.Tx.Save(r, s); err != nil {
		return err
	}
	o.Changes.Frames = append(o.Changes.Frames, r)
	o.Changes.Streams = append(o.Changes.Streams, StreamChange{Chain: s.Chain})
	if s.WorkflowID == "" {
		return nil
	}
	return o.Tx.ForgetEnded(r)
}
