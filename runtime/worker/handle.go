package worker

import (
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// execute handles what has been posted until there is no more.
func (t *runLoop) execute(e *executor) {
	t.exec = e
	if t.run != nil {
		t.run.SetPool(&e.pool) // another executor may have had it before
	}
	var in []input
	for {
		in = t.take(in, t.state == stateAway)
		if len(in) == 0 {
			return
		}
		if t.killed.Load() {
			t.forget() // what was posted comes too late
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

// takeNext takes the claim that came while a commit was in flight, once that has given the
// run back. It reports whether there was one.
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
		t.unread.wanted = t.state != stateAway // also while the log is read: the read may have been before it
	case inputStep:
		t.onStep(in.attempt, &in.attempt.outcome)
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
		t.onTurnOver(in.turn)
	case inputTick:
		t.alarm.at = time.Time{}
	}
}

// onClaimed begins the work on a run, from memory if its log has not moved.
func (t *runLoop) onClaimed(c *claimed) {
	if t.inflight != nil {
		t.next = c
		return
	}
	if !t.runs.own(&t.inputs) {
		t.forget() // another claim of the same run was faster: this one is over
		return
	}
	usable := t.state == stateAway && t.run != nil && t.blocked == nil && len(t.news.unsaved) == 0 && t.last == c.Last && t.n == c.N &&
		c.Recoveries < t.suspectAfter() // a suspect waits for its turn
	t.route, t.workflowID, t.partition, t.session = c.Route, c.WorkflowID, c.partition, c.session
	t.fence, t.recoveries, t.since = c.Fence, c.Recoveries, t.clock.Now()
	t.unread.refused, t.unread.rereads, t.unread.caughtUp, t.claimSeq = 0, 0, false, c.seq
	t.turn, t.blamed, t.exempt = 0, false, store.ExemptUnchanged
	t.setName(c.Route.Workflow)
	if t.stopping.Load() || t.runs.closedTo(&t.inputs) && c.Recoveries < t.suspectAfter() {
		t.state = stateNew
		t.lose(&t.fence) // the worker claims nothing more, or not now
		return
	}
	if usable {
		t.state = stateLive
		// A read that was under way when the run left is not answered any more, and
		// mail may have been announced while this claim waited for that.
		t.unread.wanted, t.unread.loading = t.unread.wanted || c.Mail, false
		return
	}
	t.forget()
	t.n, t.seq, t.last, t.bytes = c.N, c.Seq, c.Last, c.Bytes
	if t.suspected(c.Recoveries) {
		t.state = stateWaiting
		t.runs.lineUp(&t.inputs, t.turnTime())
		return
	}
	t.readClaimed(c.Loaded)
}

func (t *runLoop) onLoaded(l *load) {
	if l.fence != t.fence || t.state == stateAway {
		return // it was for an earlier claim
	}
	switch {
	case errors.Is(l.got.Err, store.ErrRunNotFound):
		t.lose(nil) // the run is gone
	case errors.Is(l.got.Err, store.ErrClosed), l.got.Err != nil && store.Unknown(l.got.Err):
		t.lose(&t.fence)
	case l.got.Err != nil: // it will not be readable later either
		t.forget()
		t.state, t.inflight = stateLive, nil // a commit under way was for what was known before
		t.block(l.got.Err)
	case l.inbox:
		t.unread.loading = false
		if t.state == stateLive {
			t.takeItems(l.got.Inbox)
		}
	case t.state == stateLoading:
		t.replay(&l.got)
	}
}

// onStop makes a run that is not being executed leave at once; one that is ends
// what it does first.
func (t *runLoop) onStop() {
	switch t.state {
	case stateNew, stateLoading, stateWaiting:
		t.lose(&t.fence)
	case stateLive:
		t.endAttempts()
	}
}

// onGiveWay gives the run back because it is the turn of a suspect: at once, unless something of it
// is under way. Then it begins nothing more, and leaves with its next commit.
func (t *runLoop) onGiveWay() {
	if t.runs.closedTo(&t.inputs) && (t.state == stateNew || t.state == stateLoading) && t.recoveries < t.cfg.Recoveries {
		t.lose(&t.fence)
	}
}

// advance does what can be done with the run now: timers fire, steps start, and
// what has happened is committed.
func (t *runLoop) advance() {
	if t.state == stateWaiting {
		t.takeTurn()
	}
	if t.state != stateLive {
		return
	}
	if !t.leaving() {
		t.proceed()
	}
	// Without a live lease nothing new is committed; but a run that must leave
	// may: its fence tells whether it still can.
	if t.inflight == nil && (t.alive() || t.stopping.Load()) {
		if t.start != nil {
			t.create()
		} else {
			t.commitNext()
		}
	}
	if t.state == stateLive {
		t.setAlarm()
	}
}

// proceed does what needs no commit.
func (t *runLoop) proceed() {
	if len(t.under.held) > 0 && t.alive() {
		held := t.under.held
		t.under.held = nil
		for _, a := range held {
			t.launch(a)
		}
	}
	if len(t.unread.pending) > 0 {
		t.applyPending()
	}
	if t.run != nil {
		t.move()
	}
	if t.unread.wanted && !t.unread.loading && len(t.unread.pending) == 0 && t.blocked == nil {
		t.readInbox()
	}
}

// move lets timers fire and steps start, and collects what happened.
func (t *runLoop) move() {
	if t.blocked == nil && !t.run.Ended() && t.run.Err() == nil {
		t.limitLog()
	}
	if t.blocked == nil && !t.run.Ended() && t.run.Err() == nil {
		t.begin()
		t.fireDue()
		t.startSteps()
	}
	if err := t.run.Err(); err != nil {
		t.block(err)
		return
	}
	if news := t.run.Take(); len(t.news.unsaved) == 0 {
		t.news.unsaved = news
	} else {
		t.news.unsaved = append(t.news.unsaved, news...)
	}
	if t.run.Ended() {
		t.blocked = nil // what was under way has brought it to its end all the same
	}
	for _, op := range t.run.Cancels() {
		t.under.cancels = append(t.under.cancels, op.Ref)
	}
}

// overdue is how often a run loop looks again at what was due and could not be done.
const overdue = 20 * time.Millisecond

// lookAgain bounds how long a run loop trusts an alarm: the clock may be set, or the
// machine may sleep.
const lookAgain = time.Minute

// setAlarm wakes the run loop when something in it is due while it is kept busy by
// something else.
func (t *runLoop) setAlarm() {
	if t.state != stateLive || t.run == nil {
		return
	}
	if t.leaving() {
		t.clearAlarm() // it is the store that wakes it
		return
	}
	due := t.run.Fold().Due()
	if due.Equal(t.alarm.at) {
		return
	}
	t.clearAlarm()
	if due.IsZero() || t.run.Ended() {
		return
	}
	// What is due already waits for something else, such as a slot.
	wait := min(max(due.Sub(t.clock.Now()), overdue), t.lookAgain)
	t.alarm.at = due
	t.alarm.stop = t.clock.AfterFunc(wait, func() { t.post(input{kind: inputTick}) })
	if wait > overdue && !t.clock.Now().Before(due) {
		t.post(input{kind: inputTick}) // the clock has jumped in between
	}
}
