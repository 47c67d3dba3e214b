package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Create stores a new run, or returns the reason that prevents it. Refusals are in the answer; the
// error is a failure of the Tx.
func (o *Op[R, S]) Create(c *store.Create) (store.Created, error) {
	answer, err := o.create(c)
	if err == nil {
		return answer, nil
	}
	refused, failed := Answer(err)
	return store.Created{Err: refused}, failed
}

func (o *Op[R, S]) create(c *store.Create) (store.Created, error) {
	if err := c.Check(); err != nil {
		return store.Created{}, refuse(err)
	}
	if o.late(c.Deadline) {
		return store.Created{}, refuse(store.ErrStale)
	}
	var none R
	r, err := o.Tx.Run(c.Run)
	if err != nil {
		return store.Created{}, err
	}
	if r != none { // an earlier attempt succeeded; check this before the policies [C1]
		s := o.Tx.State(r)
		return s.created(c), o.retried(c)
	}
	if c.Collect != nil {
		return o.collect(c)
	}
	if c.WorkflowID != "" {
		active, err := o.Tx.Active(c.WorkflowID)
		if err != nil {
			return store.Created{}, err
		}
		if active != none {
			return o.createBehind(active, c)
		}
		if err := o.guardFinished(c); err != nil {
			return store.Created{}, err
		}
	}
	return o.createActive(c)
}

// created returns the answer for a request whose run exists, whether this call or an earlier
// attempt has created the run.
func (s *Run[S]) created(c *store.Create) store.Created {
	answer := store.Created{Run: s.ID, New: true}
	if c.Owner != nil && s.Holds(c.Owner.Fence()) {
		answer.Fence = s.Fence
	}
	if s.Waits() {
		answer.Waits = Time(s.WaitsSince)
	}
	return answer
}

// guardFinished returns an error if the policy of the start does not allow a new run after the
// outcome of the workflow id's last run.
func (o *Op[R, S]) guardFinished(c *store.Create) error {
	if c.Finished == store.FinishedAllow {
		return nil
	}
	var none R
	last, err := o.Tx.LastEnded(c.WorkflowID)
	if err != nil || last == none {
		return err
	}
	s := o.Tx.State(last)
	if c.Finished == store.FinishedAllowFailure && s.Status != event.StatusCompleted {
		return nil
	}
	return refuse(&store.FinishedError{WorkflowID: c.WorkflowID, Run: s.ID, Status: s.Status})
}

// createActive creates a run. If the run has a workflow id, it becomes the active run of that id.
// If the request names an owner, the run is granted to the owner.
func (o *Op[R, S]) createActive(c *store.Create) (store.Created, error) {
	due := o.startTime(c)
	var owner S
	if c.Owner != nil {
		if due != 0 {
			return store.Created{}, refuse(store.ErrNotClaimable)
		}
		var err error
		if owner, err = o.live(c.Owner.Session); err != nil {
			return store.Created{}, err
		}
	}
	if len(c.Uses) > 0 {
		if err := o.guardUses(c, due == 0); err != nil {
			return store.Created{}, err
		}
	}
	if c.Fair != "" {
		if err := o.guardShare(c); err != nil {
			return store.Created{}, err
		}
	}
	r, s, err := o.insert(c)
	if err != nil {
		return store.Created{}, err
	}
	if s.WorkflowID != "" {
		if err := o.Tx.SetActive(r, r, false); err != nil {
			return store.Created{}, err
		}
	}
	switch {
	case c.Owner != nil:
		err = o.grantNew(r, &s, owner, c)
	case due != 0:
		err = o.park(r, &s, due, store.UnusedNone)
	default:
		err = o.makeReady(r, &s)
	}
	return s.created(c), err
}

// grantNew gives a new run and its permits to its owner. guardUses has checked that the run may
// have the permits.
func (o *Op[R, S]) grantNew(r R, s *Run[S], to S, c *store.Create) error {
	if len(c.Uses) > 0 {
		s.Permits = true
		if err := o.count(c.Uses, 1, 0); err != nil {
			return err
		}
	}
	return o.grant(r, s, to, c.Owner.Token, 0)
}

// startTime returns when a new run may start; 0 means now.
func (o *Op[R, S]) startTime(c *store.Create) int64 {
	now, due := o.Tx.Now(), c.At
	if c.Delay > 0 {
		if after := now.Add(c.Delay); after.After(due) {
			due = after
		}
	}
	if ms := Millis(due); ms > now.UnixMilli() {
		return ms
	}
	return 0
}

// createBehind handles a start whose workflow id has an active run. If the policy of the start is
// to wait, createBehind stores the new run in the queue of the workflow id. It then delivers
// c.Cancel to the earlier runs that the policy cancels.
func (o *Op[R, S]) createBehind(active R, c *store.Create) (store.Created, error) {
	s := o.Tx.State(active)
	switch {
	case c.Active == store.ActiveFail:
		return store.Created{}, refuse(&store.ActiveError{WorkflowID: c.WorkflowID, Run: s.ID})
	case !c.Active.Lines():
		return store.Created{Run: s.ID}, nil
	case c.Owner != nil:
		return store.Created{}, refuse(store.ErrNotClaimable)
	}
	if len(c.Uses) > 0 {
		if err := o.guardUses(c, false); err != nil {
			return store.Created{}, err
		}
	}
	if c.Fair != "" && o.Tx.Limits() == nil {
		return store.Created{}, refuse(store.ErrNoLimits)
	}
	line, err := o.Tx.Line(c.WorkflowID)
	if err != nil {
		return store.Created{}, err
	}
	r, fresh, err := o.insert(c)
	if err != nil {
		return store.Created{}, err
	}
	fresh.QueueState = store.StateQueued
	if err := o.Tx.Save(r, fresh); err != nil {
		return store.Created{}, err
	}
	if c.Active == store.ActiveCancel {
		if err := o.Tell(active, &s, c.Cancel, true); err != nil {
			return store.Created{}, err
		}
	}
	if c.Active == store.ActiveQueue {
		line = nil
	}
	for _, before := range line {
		b := o.Tx.State(before)
		if err := o.Tell(before, &b, c.Cancel, true); err != nil {
			return store.Created{}, err
		}
	}
	return fresh.created(c), nil
}

// retried records in an ended run that the new run is its rerun. The ended run leaves its failure
// group, because an operator need not handle it. [T4]
func (o *Op[R, S]) retried(c *store.Create) error {
	if c.RerunOf == "" {
		return nil
	}
	var none R
	r, s, err := o.find(c.RerunOf)
	if err != nil || r == none || s.QueueState != store.StateEnded {
		return err
	}
	if s.Group != "" {
		s.Group = ""
		if err := o.Tx.Save(r, s); err != nil {
			return err
		}
	}
	return o.Tx.SetRerun(r, c.Run)
}

// insert stores a new run without a queue state, and puts its first items into its inbox. [C2]
func (o *Op[R, S]) insert(c *store.Create) (r R, s Run[S], err error) {
	if r, err = o.Tx.Insert(c, c.Run, c.CreatedBy); err != nil {
		return r, s, err
	}
	s = o.Tx.State(r)
	for _, item := range c.Items {
		if err := o.accept(r, &s, item, false); err != nil {
			return r, s, err
		}
	}
	return r, s, o.retried(c)
}
