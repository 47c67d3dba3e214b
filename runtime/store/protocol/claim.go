package protocol

import (
	"cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// live returns the session with the id. It refuses a session that does not exist or whose recovery
// has begun.
func (o *Op[R, S]) live(id store.SessionID) (S, error) {
	var none S
	found, err := o.Tx.FindSession(id)
	if err != nil {
		return none, err
	}
	if found == none {
		return none, refuse(store.ErrExpired)
	}
	l, err := o.Tx.Session(found)
	if err != nil {
		return none, err
	}
	if l.Over {
		return none, refuse(store.ErrExpired)
	}
	return found, nil
}

// grant gives a run to a session under a new fence. If exempt is not 0, a run with at least that
// many recoveries becomes exempt. [F1, F2]
func (o *Op[R, S]) grant(r R, s *Run[S], to S, token event.Token, exempt int) error {
	if err := o.leave(r, s, true); err != nil {
		return err
	}
	s.QueueState, s.Owner, s.Closing, s.Collect = store.StateOwned, to, false, "" // a claimed run collects no starts [L12]
	s.Fence = store.Fence{Epoch: s.Fence.Epoch + 1, Token: token}
	s.Exempt = exempt > 0 && s.Recoveries >= exempt
	return o.Tx.Save(r, *s)
}

// Take gives a ready run to a session that may try it, and blocks the run if the session may not.
// It reports whether the session received the run. If the worker lacks free local capacity, Take
// skips the run, and free.HasSkipped(run) reports true afterwards. [B2, K1]
func (o *Op[R, S]) Take(r R, to S, c *store.Claim, free *FreeCapacity) (bool, error) {
	s := o.Tx.State(r)
	may, err := o.MayTry(r, to)
	if err != nil {
		return false, err
	}
	if !may {
		s.Status = event.StatusBlocked
		return false, o.block(r, &s)
	}
	give := func() error { return o.grant(r, &s, to, c.Token, c.Exempt) }
	if free != nil && s.Limited {
		return o.takeLocal(r, &s, free, give)
	}
	return o.take(r, &s, give)
}

func (o *Op[R, S]) take(r R, s *Run[S], give func() error) (bool, error) {
	if s.Waits() {
		return o.grantWaiting(r, s, give)
	}
	return true, give()
}

// takeLocal does the same as take for a worker with local limits.
func (o *Op[R, S]) takeLocal(r R, s *Run[S], free *FreeCapacity, give func() error) (bool, error) {
	uses, err := o.Tx.Limits().Uses(r)
	if err != nil {
		return false, err
	}
	heavy, err := o.tooHeavy(uses)
	if err != nil {
		return false, err
	}
	if heavy || s.LeftQueue || free.fits(uses) {
		taken, err := o.take(r, s, give)
		if taken && err == nil {
			free.spend(uses)
		}
		return taken, err
	}
	free.pass(s.ID, uses)
	if s.WaitsSince != 0 || !s.Waits() {
		return false, nil
	}
	s.WaitsSince = o.Tx.Now().UnixMilli()
	return false, o.Tx.Save(r, *s)
}

// MayTry reports whether the session may try the run. It may not if a live session with the same
// code has blocked the run. [B2]
func (o *Op[R, S]) MayTry(r R, by S) (bool, error) {
	blockers, err := o.Tx.Blockers(r)
	if err != nil || len(blockers) == 0 {
		return err == nil, err
	}
	session, err := o.Tx.Session(by)
	if err != nil {
		return false, err
	}
	for _, b := range blockers {
		other, err := o.Tx.Session(b)
		if err != nil {
			return false, err
		}
		if !other.Over && other.Code == session.Code {
			return false, nil
		}
	}
	return true, nil
}

// ClaimRun gives the named run to the session, and returns the run.
func (o *Op[R, S]) ClaimRun(session store.SessionID, token event.Token, run event.RunID) (R, error) {
	var none R
	to, err := o.live(session)
	if err != nil {
		return none, err
	}
	r, s, err := o.find(run)
	switch {
	case err != nil:
		return none, err
	case r == none:
		return none, refuse(store.ErrRunNotFound)
	case s.QueueState == store.StateEnded:
		return none, refuse(&store.TerminalError{Run: run, Status: s.Status})
	case s.QueueState == store.StateOwned:
		return none, refuse(store.ErrOwned)
	case s.QueueState == store.StateQueued:
		return none, refuse(store.ErrNotClaimable)
	}
	give := func() error { return o.grant(r, &s, to, token, 0) }
	if !s.Limited || s.Permits || s.LeftQueue {
		return r, give()
	}
	return r, o.claimLimited(r, &s, give)
}

// claimLimited gives a named run that needs permits to a session if the run is the first of its
// limiter queue and may have its permits. After the grant the queue is open, and another claim may
// examine its next run. [L8]
func (o *Op[R, S]) claimLimited(r R, s *Run[S], give func() error) error {
	uses, err := o.Tx.Limits().Uses(r)
	if err != nil {
		return err
	}
	if !s.Waits() {
		return o.claimOutside(s, uses, give)
	}
	line, err := o.Tx.Limits().QueueOf(r)
	if err != nil {
		return err
	}
	if now, err := o.stand(&line, uses); err != nil || !now.may && !now.heavy || line.First != s.ID {
		return cmp.Or(err, refuse(store.ErrNotClaimable))
	}
	if _, err := o.grantWaiting(r, s, give); err != nil {
		return err
	}
	if line, err = o.Tx.Limits().LimiterQueue(line.ID); err != nil || line.First == "" {
		return err
	}
	next, err := o.Tx.Run(line.First)
	o.Changes.Ready = append(o.Changes.Ready, next)
	return err
}

// claimOutside gives a parked or blocked run that needs permits to a session. Such a run is in no
// limiter queue, so it gets permits only while no other run waits for them. A run that is too heavy
// gets an owner without permits. [L2, L5, L9]
func (o *Op[R, S]) claimOutside(s *Run[S], uses []store.Use, give func() error) error {
	limits, err := o.limitsOf(uses)
	if err != nil {
		return err
	}
	for i := range limits {
		s.LeftQueue = s.LeftQueue || limits[i].tooHeavy(uses[i].Weight)
	}
	if s.LeftQueue {
		return give()
	}
	for i := range limits {
		if ok, _ := limits[i].free(o.Tx.Now(), uses[i].Weight); !ok || !uses[i].Local && limits[i].inFront() > 0 {
			return refuse(store.ErrNotClaimable)
		}
	}
	s.Permits = true
	if err := o.count(uses, 1, 0); err != nil {
		return err
	}
	return give()
}

// Release makes an owned run ready under a new fence. It counts no recovery. [F2]
func (o *Op[R, S]) Release(run event.RunID, fence store.Fence) error {
	var none R
	r, s, err := o.find(run)
	if err != nil {
		return err
	}
	if r == none || !s.Holds(fence) { // the fence must match [F1]
		return refuse(store.ErrFenced)
	}
	s.Fence.Epoch++
	return o.makeReady(r, &s)
}

// Recover takes a run from an owner whose session is over. It changes the fence at once, not at the
// next claim. [F2]
func (o *Op[R, S]) Recover(r R) error {
	s := o.Tx.State(r)
	s.Fence.Epoch++
	if !s.Exempt {
		s.Recoveries++
	}
	return o.makeReady(r, &s)
}

// MakeReady makes a run ready because it is due or because a session may try it again.
func (o *Op[R, S]) MakeReady(r R) error {
	s := o.Tx.State(r)
	return o.makeReady(r, &s)
}
