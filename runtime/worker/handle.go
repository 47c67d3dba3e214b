package worker

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/store"
)

// execute handles posted inputs until none are left.
func (t *runLoop) execute(e *executor) {
	t.exec = e
	if t.run != nil {
		t.run.SetPool(&e.pool) // another executor may have handled the run before
	}
	var in []input
	for {
		in = t.take(in, t.state == stateAway)
		if len(in) == 0 {
			return
		}
		if t.killed.Load() {
			t.forget() // the worker has stopped, so the inputs have no effect
			continue
		}
		for i := range in {
			t.handle(&in[i])
			t.takeNext()
		}
		t.advance()
		for t.takeNext() {
			t.advance()
		}
		t.steps.slots.offer()
	}
}

// takeNext handles a claim that arrived while a commit was in flight. It does so once the commit
// has given the run back, and reports whether there was a claim.
func (t *runLoop) takeNext() bool {
	if t.next == nil || t.state != stateAway || t.inflight != nil {
		return false
	}
	c := t.next
	t.next = nil
	t.onClaimed(c)
	return true
}

func (t *runLoop) handle(in *input) {
	switch in.kind {
	case inputClaimed:
		t.onClaimed(in.claimed)
	case inputStart:
		t.onStart(in.start)
	case inputLoaded:
		t.onLoaded(in.loaded)
	case inputUnread:
		t.inbox.wanted = t.state != stateAway // set even while the log is being read, because the read may have preceded the item
	case inputStep:
		t.onStep(in.attempt)
	case inputHook:
		if t.state == stateLive {
			t.stepping.open(in.opening)
		}
	case inputCommitted:
		t.onCommitted(in.commit)
	case inputLost:
		t.lose(nil)
	case inputOwned:
		fence, ok := in.owned.fences[t.id]
		if t.state != stateAway && t.claimSeq <= in.owned.claimSeq && (!ok || fence != t.fence) && t.inflight == nil {
			t.lose(nil)
		}
	case inputStop:
		t.onStop()
	case inputEvict:
		if t.state == stateAway {
			t.forget()
		}
	case inputGiveWay:
		t.onGiveWay()
	case inputTurnOver:
		if t.state != stateAway {
			t.suspicion.over(in.turn)
		}
	case inputTick:
		t.alarm.at = time.Time{}
	}
}

// onStart runs the code of a run that does not exist in the store up to its first wait.
func (t *runLoop) onStart(s *localStart) {
	c := &s.Create
	t.start = s
	t.heldClaim = heldClaim{
		route: c.Route, workflowID: c.WorkflowID, partition: s.partition, lease: t.leases[s.partition], session: s.session,
		fence: store.Fence{Epoch: 1, Token: event.NewToken()}, since: t.clock.Now(),
	}
	t.draft.unsaved = append(make([]event.Event, 0, usualStart), s.Event)
	t.goLive(t.draft.unsaved, nil)
}

// usualStart is the usual number of first events of a run: run_created, run_started, step_created
// and step_started.
const usualStart = 4

// onClaimed begins to execute a claimed run. It resumes the run from memory if the log has not
// changed, and otherwise reads the log.
func (t *runLoop) onClaimed(c *claimed) {
	if t.inflight != nil {
		t.next = c
		return
	}
	if !t.runs.own(&t.inputs) {
		t.forget() // another run loop owns the run under another claim, so this claim is over
		return
	}
	usable := t.state == stateAway && t.run != nil && t.blocked == nil && len(t.draft.unsaved) == 0 && t.last == c.Last && t.n == c.N &&
		c.Recoveries < t.quarantineAfter() // a quarantined run must not be resumed before its turn
	t.heldClaim = heldClaim{
		route: c.Route, workflowID: c.WorkflowID, partition: c.partition, lease: t.leases[c.partition], session: c.session,
		fence: c.Fence, recoveries: c.Recoveries, group: c.Group, leftQueue: c.LeftQueue, waited: c.Waited, since: t.clock.Now(), claimSeq: c.seq,
	}
	t.inbox.refused, t.inbox.rereads, t.inbox.caughtUp = 0, 0, false
	t.suspicion.reset()
	t.setName(c.Route.Workflow)
	if t.stopping.Load() || t.runs.closedTo(&t.inputs) && c.Recoveries < t.quarantineAfter() {
		t.state = stateNew
		t.lose(&t.fence) // the worker accepts no claims at present
		return
	}
	if usable {
		t.state = stateLive
		t.wake(t.left, t.since)
		// A read of the inbox that was in flight when the run left is never answered. Items may
		// have been announced while this claim waited for the commit.
		t.inbox.wanted, t.inbox.loading = t.inbox.wanted || c.Unread, false
		return
	}
	t.forget()
	t.n, t.seq, t.last, t.bytes = c.N, c.Seq, c.Last, c.Bytes
	if t.quarantined(c.Recoveries) {
		t.state = stateWaiting
		t.runs.lineUp(&t.inputs, t.suspicion.turnTime())
		return
	}
	t.read(c.Loaded)
}

func (t *runLoop) onLoaded(l *load) {
	if l.fence != t.fence || t.state == stateAway {
		return // the answer belongs to an earlier claim
	}
	switch {
	case errors.Is(l.got.Err, store.ErrRunNotFound):
		t.lose(nil) // the run was deleted
	case errors.Is(l.got.Err, store.ErrClosed), l.got.Err != nil && store.Unknown(l.got.Err):
		t.lose(&t.fence)
	case l.got.Err != nil: // another read would fail as well
		t.forget()
		t.state, t.inflight = stateLive, nil // a commit in flight belongs to the discarded state
		t.block(l.got.Err)
	case l.inbox:
		t.inbox.loading = false
		if t.state == stateLive {
			t.block(t.inbox.takeItems(l.got.Inbox))
		}
	case t.state == stateLoading:
		t.replay(&l.got)
	}
}

// onStep records the outcome of an attempt, unless the run was lost.
func (t *runLoop) onStep(a *attempt) {
	if t.state == stateLive {
		t.block(t.stepping.record(a, &a.outcome))
	}
}

// onStop handles the stop of the worker. A run that is not being executed leaves at once. A live
// run ends its attempts first.
func (t *runLoop) onStop() {
	switch t.state {
	case stateNew, stateLoading, stateWaiting:
		t.lose(&t.fence)
	case stateLive:
		t.stepping.end()
	}
}

// onGiveWay gives the run back so that a quarantined run can be executed alone. A run that is being
// executed begins nothing new and leaves with its next commit.
func (t *runLoop) onGiveWay() {
	if t.runs.closedTo(&t.inputs) && (t.state == stateNew || t.state == stateLoading) && t.recoveries < t.cfg.Recoveries {
		t.lose(&t.fence)
	}
}

// advance does all work that is possible at this time: it fires timers, starts steps, and commits
// new events.
func (t *runLoop) advance() {
	looked := t.clock.Now()
	if t.state == stateWaiting {
		t.takeTurn()
	}
	if t.state != stateLive {
		return
	}
	if !t.leaving() {
		t.proceed()
	}
	// Without a live lease the run commits nothing new. A run that must leave may commit, because
	// the fence rejects the commit if the claim is lost.
	if t.inflight == nil && (t.alive() || t.stopping.Load()) {
		t.commitNext()
	}
	if t.state == stateLive {
		t.setAlarm(looked)
	}
}

// takeTurn begins the code of a quarantined run after the store has recorded whether a death of the
// worker counts for the run.
func (t *runLoop) takeTurn() {
	if t.inflight != nil || !t.alive() {
		return
	}
	switch mine, begins := t.suspicion.takeTurn(); {
	case begins:
		t.read(nil)
	case mine:
		c := t.draft.newCommit(0)
		c.req.Exempt = store.ExemptOff
		t.send(c)
	}
}

// proceed does the work that does not require a commit.
func (t *runLoop) proceed() {
	t.stepping.resume()
	if len(t.inbox.pending) > 0 {
		t.block(t.inbox.applyPending())
	}
	if t.run != nil {
		t.move()
	}
	if t.inbox.wanted && !t.inbox.loading && len(t.inbox.pending) == 0 && t.blocked == nil {
		t.inbox.reread()
		t.loader.load(&load{by: &t.inputs, run: t.id, fence: t.fence, inbox: true, partition: t.partition})
	}
}

// move fires timers, starts steps, and adds the new events to the draft.
func (t *runLoop) move() {
	if t.goesOn() {
		t.limitLog(t.size)
	}
	taken, begun := t.inbox.caughtUp || !t.inbox.hasUnread(), len(t.stepping.starts)
	if t.goesOn() && t.leftQueue && taken {
		t.endLeftQueue()
	}
	if t.goesOn() {
		t.noteWait(taken)
		t.begin(taken)
		t.fireDue()
		t.timeOut()
		if taken || !t.leftQueue && t.inbox.lets() { // An unread item that was accepted before the claim may pause or cancel the run.
			t.block(t.stepping.start())
		}
	}
	for cancels := t.run.Cancels(); len(cancels) > 0; cancels = t.run.Cancels() { // applying a cancel may cause further cancels
		for _, op := range cancels {
			t.stepping.cancel(op)
		}
	}
	if err := t.run.Err(); err != nil {
		t.inbox.giveBack()
		t.stepping.unstart(begun)
		t.block(err)
		return
	}
	t.draft.add(t.run.Take())
	t.inbox.keep()
	if t.run.Ended() {
		t.blocked = nil // an operation in flight has ended the run
	}
}

// timeOut times out attempts that are finished by outside callers. An item accepted before the
// timeout must take precedence, so the inbox is read again first.
func (t *runLoop) timeOut() {
	due := t.stepping.overdue()
	switch {
	case due.IsZero() || t.inbox.hasUnread():
	case t.inbox.seen.Before(due):
		t.inbox.wanted = true
	default:
		t.stepping.timeOut(t.inbox.seen)
	}
}

// noteWait records in the log that the run has waited for permits. If the run keeps its permits
// until its end, its only wait was before it began.
func (t *runLoop) noteWait(taken bool) {
	if t.waited.IsZero() || !taken {
		return
	}
	if f := t.run.State(); f.Run == event.StatePending || !f.Spec.Whole {
		t.apply(event.Event{Type: event.ResourceWait, Uses: f.Spec.Uses, From: t.waited})
	}
	t.waited = time.Time{}
}

// commitNext sends the next commit. It creates the run if it does not exist, and gives the run back
// if the run has nothing to do on this worker.
func (t *runLoop) commitNext() {
	var c *commit
	var err error
	if t.start != nil {
		c, err = t.draft.creation(t.start)
	} else {
		c, err = t.draft.next(t.suspicion.exempt)
	}
	switch {
	case err == nil && c != nil:
		t.send(c)
	case err == nil:
	case t.start != nil:
		t.log.Error("encode first frame failed", "run", t.id, "error", err)
		t.lose(nil)
	default:
		// An event of the engine cannot be encoded. This is a defect of the engine and not a state
		// of the run. Nothing was written.
		t.log.Error("encode commit failed", "run", t.id, "error", err)
		t.lose(&t.fence)
	}
}

// setAlarm schedules a tick of the run loop for the next due time of the run. The loop has handled
// everything that was due at the time looked.
func (t *runLoop) setAlarm(looked time.Time) {
	switch {
	case t.run == nil:
	case t.leaving():
		t.alarm.clear() // the store wakes the run
	case t.run.Ended():
		t.alarm.set(time.Time{}, looked)
	default:
		due := t.run.State().Due()
		if leaves := t.releaseDelayed.until; !leaves.IsZero() && (due.IsZero() || leaves.Before(due)) {
			due = leaves
		}
		t.alarm.set(due, looked)
	}
}

func (t *runLoop) onCommitted(c *commit) {
	answer := &c.answer
	if t.inflight != c {
		return // the claim was lost before the answer arrived
	}
	t.inflight = nil
	defer func() {
		if t.state == stateLive {
			t.draft.recycle(c)
		}
	}()
	conflict, isConflict := errors.AsType[*store.ConflictError](answer.Err)
	permanent, isPermanent := errors.AsType[store.PermanentError](answer.Err)
	switch {
	case c.start != nil:
		t.onCreated(c)
	case answer.Err == nil:
		t.onDurable(c, answer)
	case errors.Is(answer.Err, store.ErrUnread):
		// The run may not leave before it has read all accepted items. The store has not applied
		// this commit, so the next one has a new CommitID.
		t.inbox.refused++
		t.inbox.wanted = true
		t.stepping.starts, t.stepping.cancels = append(c.starts, t.stepping.starts...), append(c.cancels, t.stepping.cancels...)
		t.stepping.opened = append(c.opened, t.stepping.opened...)
	case errors.Is(answer.Err, store.ErrFenced):
		t.log.Warn("lost a run: its claim has ended", "run", t.id)
		t.lose(nil)
	case isConflict:
		t.log.Warn("lost a race for a run: reading it again", "run", t.id, "error", conflict)
		t.lose(&t.fence)
	case isPermanent && permanent.Permanent():
		t.unwritable(c, answer.Err)
	default:
		t.log.Error("commit refused", "run", t.id, "error", answer.Err)
		t.lose(&t.fence)
	}
}

// unwritable ends the work on a run whose commit the store rejects permanently. The state in memory
// cannot be stored, so the worker drops it and blocks the run with the reason. If the store rejects
// the commit that blocks the run, the worker sets the run aside. In both cases the worker continues
// with other runs.
func (t *runLoop) unwritable(c *commit, err error) {
	if c.req.Effect == store.EffectBlock && c.req.Frame == nil {
		t.runs.setAside(t.id, t.route.Workflow, err)
		t.lose(nil)
		return
	}
	if large, ok := errors.AsType[*store.TooLargeError](err); ok {
		err = fmt.Errorf("%w: %s", large, largest(t.draft.unsaved[:c.events]))
	}
	t.forget()
	t.block(err)
}

// largest describes the largest event.
func largest(events []event.Event) string {
	var found *event.Event
	for i := range events {
		if e := &events[i]; found == nil || e.Size() > found.Size() {
			found = e
		}
	}
	if found == nil {
		return "it holds no events"
	}
	return fmt.Sprintf("the largest of %d events is %s %s%s with %d bytes", len(events), found.Type, found.Name, found.Key, found.Size())
}

// onDurable carries out the effects of a durable commit.
func (t *runLoop) onDurable(c *commit, answer *store.Committed) {
	saved := t.draft.unsaved
	if c.req.Frame != nil {
		if t.unbegun.Load() != nil {
			t.unbegun.Store(nil)
		}
		t.reporter.length(t.seq, c.req.Last, t.size.bytes)
		t.n, t.seq, t.last = answer.N, c.req.Last, c.req.CommitID
		t.size.add(len(c.req.Frame), saved[:c.events])
		t.moved = c.made
	}
	if (c.req.Effect == store.EffectFinish || c.req.Effect == store.EffectContinue) && c.events > 0 {
		t.ended = &localstart.End{Workflow: t.route.Workflow, Last: saved[c.events-1]}
		t.reporter.commit(c, &t.ended.Last)
	} else {
		t.reporter.commit(c, nil)
	}
	if label, set := c.req.Label(); set {
		t.group = label.Group
	}
	t.draft.saved(c)
	t.inbox.saved(c, answer.Unread)
	switch {
	case c.req.Exempt != store.ExemptUnchanged && c.req.Effect == store.EffectNone:
		t.suspicion.onExempt(c.req.Exempt)
	case c.req.Progress && t.recoveries > 0:
		t.suspicion.acquit()
	}
	if len(c.req.Send) > 0 {
		t.outbox(t.partition, t.id, answer.Sent, len(answer.Sent) == len(c.req.Send))
	}
	switch c.req.Effect {
	case store.EffectNone:
		if t.next != nil {
			t.lose(nil) // the claim of this commit is over: a later claim waits
			return
		}
		t.stepping.saved(c)
	case store.EffectPark, store.EffectYield:
		t.left = c.made
		t.leave(true)
	case store.EffectBlock, store.EffectFinish, store.EffectContinue:
		t.stepping.drop(errEnded)
		t.forget()
		t.leave(false)
	}
}

// onCreated continues with the run if it was created, and otherwise drops it.
func (t *runLoop) onCreated(c *commit) {
	t.start = nil
	switch {
	case c.answer.Err == nil:
		t.claimSeq = t.runs.claimSeq.Add(1) // A request for the owned runs that was sent earlier does not contain this run.
		t.onDurable(c, &c.answer)
	case errors.Is(c.answer.Err, errNotKnown):
		t.lose(&t.fence)
	default:
		t.lose(nil)
	}
}
