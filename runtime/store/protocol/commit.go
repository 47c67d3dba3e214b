package protocol

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// CheckCommit returns an error if a commit is invalid whatever the store contains. The whole call
// then fails.
func CheckCommit(c *store.Commit) error {
	if err := c.CheckPublish(); err != nil {
		return err
	}
	switch {
	case c.Effect != store.EffectContinue:
		return nil
	case c.Continue == nil:
		return fmt.Errorf("continue run %s: there is no new run", c.Run)
	case c.WorkflowID != c.Continue.WorkflowID:
		return fmt.Errorf("continue run %s as run %s: workflow id %q becomes %q", c.Run, c.Continue.Run, c.WorkflowID, c.Continue.WorkflowID)
	}
	return nil
}

// Commit appends a frame and carries out an effect. Refusals are in the answer; the error is a
// failure of the Tx.
func (o *Op[R, S]) Commit(c *store.Commit) (store.Committed, error) {
	var none R
	r, s, err := o.find(c.Run)
	if err != nil {
		return store.Committed{}, err
	}
	if r == none {
		return store.Committed{Err: store.ErrFenced}, nil
	}
	if c.Frame != nil && s.Last == c.CommitID { // an earlier attempt of this commit was applied [W3]
		return store.Committed{N: s.N, Unread: s.Holds(c.Fence) && s.Unread > 0}, nil
	}
	if err := o.guardCommit(r, &s, c); err != nil {
		refused, failed := Answer(err)
		return store.Committed{Err: refused}, failed
	}
	sent, err := o.send(r, c.Send)
	if err == nil {
		err = o.applyCommit(r, &s, c)
	}
	if err != nil {
		return store.Committed{}, err
	}
	return store.Committed{N: s.N, Unread: s.QueueState == store.StateOwned && s.Unread > 0, Sent: sent}, nil
}

// guardCommit checks the guards of a commit, in the order given in the package documentation.
func (o *Op[R, S]) guardCommit(r R, s *Run[S], c *store.Commit) error {
	switch {
	case !s.Holds(c.Fence): // the fence must match [F1]
		return refuse(store.ErrFenced)
	case c.WorkflowID != s.WorkflowID:
		return refuse(&store.WorkflowIDMismatchError{Run: s.ID, Got: c.WorkflowID, Want: s.WorkflowID})
	case c.Prev != s.Last: // the commit must continue the last frame [F3]
		return s.conflict(c, "it continues another frame")
	case c.Frame != nil && c.First != s.Seq+1:
		return s.conflict(c, "it does not continue the sequence")
	case c.Consume > s.Unread:
		return s.conflict(c, notHeld)
	}
	if c.Consume > 0 {
		last, err := o.Tx.Item(r, c.Consume-1)
		if err != nil {
			return err
		}
		if last != c.ConsumeLast { // the last consumed item must be the named one [M3]
			return s.conflict(c, notHeld)
		}
	}
	if s.Unread == max(c.Consume, 0) {
		if c.Effect == store.EffectContinue {
			return o.guardContinue(r, s, c)
		}
		return nil
	}
	switch c.Effect { // these effects need an empty inbox [M4]
	case store.EffectPark, store.EffectFinish:
		return refuse(store.ErrUnread)
	case store.EffectContinue:
		bound, err := o.Tx.HasRunItem(r, max(c.Consume, 0))
		if err != nil {
			return err
		}
		if bound {
			return refuse(store.ErrUnread)
		}
		return o.guardContinue(r, s, c)
	}
	return nil
}

const notHeld = "it consumes items that the inbox does not hold"

// guardContinue checks the additional guards of a commit that continues its run.
func (o *Op[R, S]) guardContinue(r R, s *Run[S], c *store.Commit) error {
	if s.WorkflowID != "" {
		active, err := o.Tx.IsActive(r)
		if err != nil {
			return err
		}
		if !active {
			return s.conflict(c, "it is not the active run of its workflow id")
		}
	}
	var none R
	known, err := o.Tx.Run(c.Continue.Run)
	if err != nil {
		return err
	}
	if known != none {
		return s.conflict(c, "the run that it continues as exists")
	}
	return nil
}

func (s *Run[S]) conflict(c *store.Commit, reason string) error {
	return refuse(&store.ConflictError{Run: s.ID, Seq: c.First, StoredSeq: s.Seq, Prev: c.Prev, Stored: s.Last, Reason: reason})
}

// applyCommit carries out the writes of a commit.
func (o *Op[R, S]) applyCommit(r R, s *Run[S], c *store.Commit) error {
	if c.Frame != nil {
		s.N, s.Seq, s.Last = s.N+1, c.Last, c.CommitID
		if err := o.Tx.AppendFrame(r, s.N, c.Frame); err != nil {
			return err
		}
		o.Changes.Frames = append(o.Changes.Frames, r)
	}
	if c.Consume > 0 {
		s.Unread -= c.Consume
		if err := o.Tx.DropItems(r, c.Consume); err != nil {
			return err
		}
	}
	for i := range c.Publish {
		if err := o.publish(s.Chain, &c.Publish[i]); err != nil {
			return err
		}
	}
	if c.Progress {
		s.Recoveries = 0
	}
	if c.Status != "" {
		s.Status = c.Status
	}
	if err := o.label(s, c); err != nil {
		return err
	}
	s.Closing = c.Closing && c.Effect == store.EffectNone
	s.Exempt = c.Exempt.After(s.Exempt, c.Progress)
	if d := c.Held(); d > 0 && s.Limited { // before the effect, because the effect may admit waiting runs
		if err := o.holdBack(r, d); err != nil {
			return err
		}
	}
	if c.Effect == store.EffectPark && c.Unused != store.UnusedNone && s.Permits {
		if err := o.refund(r); err != nil {
			return err
		}
	}
	return o.effect(r, s, c)
}

// send writes outbox records. It returns the records without an earlier record for the same
// receiver: they may be delivered at once. [O1]
func (o *Op[R, S]) send(r R, all []store.Send) (sent []store.Outgoing, err error) {
	now := o.Tx.Now()
	for i := range all {
		rec, err := o.Tx.AddRecord(r, &all[i], now.UnixMilli())
		if err != nil {
			return nil, err
		}
		if rec.Phase == 0 {
			continue
		}
		before := false
		if !all[i].First {
			before, err = o.Tx.HasBefore(r, rec)
		}
		if err != nil {
			return nil, err
		}
		if !before {
			sent = append(sent, all[i].Outgoing(o.Tx.State(r).ID, now))
		}
	}
	return sent, nil
}

func (o *Op[R, S]) effect(r R, s *Run[S], c *store.Commit) error {
	switch c.Effect {
	case store.EffectPark:
		return o.park(r, s, Millis(c.Due), c.Unused)
	case store.EffectYield:
		s.Place, s.WaitsSince = 0, 0
		return o.makeReady(r, s)
	case store.EffectBlock:
		if err := o.addBlocker(r, s); err != nil {
			return err
		}
		return o.block(r, s)
	case store.EffectFinish:
		return o.end(r, s)
	case store.EffectContinue:
		return o.continueAs(r, s, c.Continue)
	}
	return o.Tx.Save(r, *s)
}

// continueAs ends a run and replaces it by a new one. The new run takes over the workflow id, the
// unread items and the chain. It is created in this action, not by a relay. [M4]
func (o *Op[R, S]) continueAs(r R, s *Run[S], c *store.Create) error {
	next, err := o.Tx.Insert(c, s.Chain, event.ItemID(""))
	if err != nil {
		return err
	}
	following := o.Tx.State(next)
	if s.Unread > 0 {
		if err := o.Tx.MoveItems(r, next); err != nil {
			return err
		}
		following.Unread = s.Unread
	}
	if err := o.Tx.SetNext(r, next); err != nil {
		return err
	}
	if err := o.handOn(r, next, s, &following); err != nil {
		return err
	}
	if err := o.retire(r, s); err != nil {
		return err
	}
	if s.WorkflowID != "" {
		if err := o.Tx.SetActive(r, next, false); err != nil {
			return err
		}
	}
	return o.makeReady(next, &following)
}

// label puts a run into the failure group that the commit names, and removes it from its previous
// group. The run counts as having entered the group only if it was not in it. [T1] [T2]
func (o *Op[R, S]) label(s *Run[S], c *store.Commit) error {
	t, set := c.Label()
	if !set || t.Group == s.Group {
		return nil
	}
	s.Group = t.Group
	if s.Group == "" {
		return nil
	}
	return o.enterFailureGroup(t, o.Tx.Now().UnixMilli())
}

// enterFailureGroup records that a run enters a failure group at the given time. If the group is
// new, enterFailureGroup also removes some unused old groups.
func (o *Op[R, S]) enterFailureGroup(t store.FailureGroup, at int64) error {
	fresh, err := o.Tx.EnterFailureGroup(t, at)
	if err != nil || !fresh {
		return err
	}
	return o.Tx.ForgetFailureGroups(o.Tx.Now().Add(-store.FailureGroupKept).UnixMilli(), forgottenAtOnce) // remove groups without runs that none has entered for a while [T3]
}

// forgottenAtOnce is the number of old groups to remove for each new one. It exceeds 1, so that the
// number of unused groups decreases.
const forgottenAtOnce = 2
