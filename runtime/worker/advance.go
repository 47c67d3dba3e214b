package worker

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// advance does what can be done with the run now: timers fire, steps start, and
// what has happened is committed.
func (t *task) advance() {
	if t.state == taskWaiting {
		t.takeTurn()
	}
	if t.state != taskLive {
		return
	}
	if !t.leaving() {
		t.proceed()
	}
	// Without a live lease nothing new is committed; but a run that is to leave
	// may: its fence tells whether it still can.
	if t.inflight == nil && (t.alive() || t.w.stopping.Load()) {
		t.commitNext()
	}
	if t.state == taskLive {
		t.setAlarm()
	}
}

// proceed does what needs no commit.
func (t *task) proceed() {
	if len(t.held) > 0 && t.alive() {
		held := t.held
		t.held = nil
		for _, a := range held {
			t.launch(a)
		}
	}
	if len(t.pending) > 0 {
		t.applyPending()
	}
	if t.run != nil {
		t.move()
	}
	if t.mailWanted && !t.mailLoading && len(t.pending) == 0 && t.blocked == nil {
		t.readMail()
	}
}

// alive reports whether the run is certainly still this worker's.
func (t *task) alive() bool { return t.w.sessions[t.partition].alive(t.session) }

// move lets timers fire and steps start, and collects what happened.
func (t *task) move() {
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
	if news := t.run.Take(); len(t.unsaved) == 0 {
		t.unsaved = news
	} else {
		t.unsaved = append(t.unsaved, news...)
	}
	if t.run.Ended() {
		t.blocked = nil // what was under way has brought it to its end all the same
	}
	for _, op := range t.run.Cancels() {
		t.cancels = append(t.cancels, op.Ref)
	}
}

// fireDue ends the waits whose time has come, in order of their due times.
func (t *task) fireDue() {
	now := t.w.clock.Now()
	for _, o := range t.run.Fold().DueBy(now) {
		if o.Entity != event.EntityWait || t.run.Fold().Open(o.Ref) != o {
			continue // a step's next attempt, or ended by one that fired before it
		}
		t.apply(event.Event{Type: event.WaitCompleted, Ref: o.Ref, Outcome: event.OutcomeDue})
		if t.run.Ended() || t.run.Err() != nil {
			return
		}
	}
}

// startSteps begins attempts while there are slots for them: those that were
// interrupted, those whose backoff is over, and new ones.
func (t *task) startSteps() {
	t.gaveWay = false
	if t.w.stopping.Load() || !t.alive() || t.run.Fold().Paused {
		return
	}
	var retries []uint64
	for _, o := range t.run.Fold().DueBy(t.w.clock.Now()) {
		if o.Entity == event.EntityStep && o.State == event.StatePending {
			retries = append(retries, o.Ref)
		}
	}
	for t.run.Err() == nil && !t.run.Ended() && t.blocked == nil {
		ref, ok := t.nextStep(&retries)
		if !ok {
			return
		}
		if t.gaveWay = t.overBudget() || t.w.closedTo(t); t.gaveWay {
			return
		}
		op := t.run.Op(ref)
		if _, known := t.w.code.Step(op.Name); !known {
			t.block(&unknownStepError{Run: t.id, Workflow: t.class.Workflow, Step: op.Name})
			return
		}
		if !t.w.acquireSlot(t) {
			return
		}
		n := t.run.Fold().Open(ref).Attempt + 1
		t.interrupted = slices.DeleteFunc(t.interrupted, func(r uint64) bool { return r == ref })
		begun := event.Event{Type: event.StepStarted, Ref: ref, Attempt: n, By: t.w.cfg.Name}
		if t.w.build != t.run.Fold().Build {
			begun.Build = t.w.build
		}
		t.apply(begun)
		a := &attempt{ref: ref, number: n, started: t.w.clock.Now()}
		if t.attempts == nil {
			t.attempts = map[uint64]*attempt{}
		}
		t.attempts[ref] = a
		t.starts = append(t.starts, a)
	}
}

// nextStep returns the step to start next. On the way it ends interrupted steps
// that may not be started again.
func (t *task) nextStep(retries *[]uint64) (uint64, bool) {
	for len(t.interrupted) > 0 {
		ref := t.interrupted[0]
		if !t.endInterrupted(ref) {
			return ref, true
		}
		t.interrupted = t.interrupted[1:]
		if t.run.Ended() || t.run.Err() != nil {
			return 0, false
		}
	}
	for len(*retries) > 0 {
		ref := (*retries)[0]
		if t.run.Fold().StateOf(ref) == event.StatePending {
			return ref, true
		}
		*retries = (*retries)[1:] // started
	}
	if op := t.run.Startable(); op != nil {
		return op.Ref, true
	}
	return 0, false
}

// wantsStep reports whether a step waits to be started.
func (t *task) wantsStep() bool {
	if len(t.interrupted) > 0 || t.run.Startable() != nil {
		return true
	}
	due := t.run.Fold().Due()
	return !due.IsZero() && !due.After(t.w.clock.Now())
}

func runningSteps(f *event.Fold) []uint64 {
	var refs []uint64
	if f.RunningSteps() == 0 {
		return nil
	}
	f.Opens(func(o *event.Open) bool {
		if o.State == event.StateRunning {
			refs = append(refs, o.Ref)
		}
		return true
	})
	slices.SortFunc(refs, cmp.Compare)
	return refs
}

// overBudget reports whether the run has had its time while others wait.
func (t *task) overBudget() bool {
	return t.w.clock.Now().Sub(t.since) >= t.w.cfg.RunBudget && t.w.full()
}

func (w *Worker) full() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.occupied() >= w.cfg.Runs
}

// commitNext commits what has happened, and gives the run back if there is
// nothing to do for it here.
func (t *task) commitNext() {
	if t.birth != nil {
		t.bear()
		return
	}
	effect, due := t.effect()
	events := t.unsaved[:portion(t.unsaved)]
	switch {
	case len(events) < len(t.unsaved): // the rest follows, and then the run may leave
		effect, due = store.EffectNone, time.Time{}
	case effect == store.EffectNone && t.blocked == nil && t.run.Ended():
		// The last event leaves together with the run, and names what was accepted
		// and never taken: the inbox is read first.
		t.refused = max(t.refused, t.rereads)
		if t.refused >= inboxPatience {
			t.closeInbox()
		}
		return
	case effect == store.EffectNone && len(t.refusals) == 0 && t.exempt == store.ExemptUnchanged && (len(t.unsaved) == 0 || t.nothingToLose()):
		return
	}
	if effect != store.EffectNone {
		t.rereads = 0
	}
	c := t.newCommit(len(events))
	c.req = store.Commit{
		Run: t.id, WorkflowID: t.workflowID, Fence: t.fence, Prev: t.last, Effect: effect, Due: due,
		Status: t.status(effect), Progress: progress(events), Exempt: t.exempt,
	}
	if len(events) == len(t.unsaved) {
		c.starts, c.cancels, c.took, c.mail = t.starts, t.cancels, len(t.taken), t.mail
		t.starts, t.cancels = nil, nil
	}
	if n := c.took; n > 0 {
		c.req.Consume, c.req.ConsumeLast = n, t.taken[n-1]
	}
	if effect == store.EffectBlock {
		c.note = t.blocked.Error()
	}
	if len(events) > 0 {
		if err := t.fill(&c.req, events); err != nil {
			// What the engine itself has made cannot be written: a defect, not a
			// state of the run. Nothing was written.
			t.w.log.Error("encode commit failed", "run", t.id, "error", err)
			t.lose(&t.fence)
			return
		}
	}
	t.tell(c)
	t.send(c, t.w.commits)
}

// nothingToLose reports whether what is not saved need not be yet: the run waits for
// a slot for its next step, and has only asked for it. The commit that starts the
// step says so, too.
func (t *task) nothingToLose() bool {
	if t.blocked != nil || len(t.attempts)+len(t.taken)+len(t.cancels) > 0 || !t.wantsStep() {
		return false
	}
	return !slices.ContainsFunc(t.unsaved, func(e event.Event) bool {
		return e.Type != event.RunStarted && e.Type != event.StepCreated
	})
}

// inboxPatience is how often in a row the inbox may keep a run from ending before
// senders are told to come later: by a commit that is refused, or because it must be
// read again before there can be one.
const inboxPatience = 3

// closeInbox lets the store refuse what is sent from now on: the run could not
// end while items kept coming.
func (t *task) closeInbox() {
	t.rereads = 0
	t.send(&commit{t: t, req: store.Commit{
		Run: t.id, WorkflowID: t.workflowID, Fence: t.fence, Prev: t.last, Closing: true,
	}}, t.w.commits)
}

// fill writes events that are not saved into a commit: the frame, and what follows
// from it for other runs and for readers.
func (t *task) fill(req *store.Commit, events []event.Event) error {
	if err := t.frame(req, events); err != nil {
		return err
	}
	var err error
	if req.Effect == store.EffectContinue {
		if req.Continue, err = t.continuation(&events[len(events)-1]); err != nil {
			return err
		}
	}
	published := events
	if len(events) == len(t.unsaved) && len(t.lateWrites) > 0 {
		published = slices.Concat(events, t.lateWrites)
	}
	if req.Publish, err = publications(t.class.Workflow, published); err != nil {
		return err
	}
	req.Send, err = t.sends(events)
	return err
}

// frame encodes events as one frame.
func (t *task) frame(req *store.Commit, events []event.Event) error {
	last := &events[len(events)-1]
	if last.Type.Terminal() {
		last.Unread = append(slices.Clip(t.unread()), t.late...)
	}
	req.CID = event.NewCID()
	req.First, req.Last = events[0].Seq, last.Seq
	var err error
	req.Frame, err = event.AppendFrame(nil, &event.Frame{
		CID: req.CID, Prev: t.last, Epoch: t.fence.Epoch, Token: t.fence.Token, Time: last.Time, Events: logged(events),
	})
	return err
}

// unread returns the messages that are in the log, but that the code never took.
func (t *task) unread() []event.ItemID {
	var ids []event.ItemID
	var found []*event.Event
	t.run.Unread(func(e *event.Event) bool {
		found = append(found, e)
		return true
	})
	slices.SortFunc(found, func(a, b *event.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range found {
		ids = append(ids, e.Item)
	}
	return ids
}

// effect decides what becomes of the run with the next commit.
func (t *task) effect() (store.Effect, time.Time) {
	busy := len(t.attempts) > 0
	switch {
	case t.blocked != nil:
		if busy {
			return store.EffectNone, time.Time{}
		}
		return store.EffectBlock, time.Time{}
	case t.hasMail():
		return store.EffectNone, time.Time{}
	case t.run.Ended():
		if t.run.Fold().Run == event.StateContinued {
			return store.EffectContinue, time.Time{}
		}
		return store.EffectFinish, time.Time{}
	case busy:
		return store.EffectNone, time.Time{}
	case t.run.Fold().Paused: // nothing is due
		return store.EffectPark, time.Time{}
	case t.wantsStep():
		if t.w.stopping.Load() || t.gaveWay {
			return store.EffectYield, time.Time{}
		}
		return store.EffectNone, time.Time{}
	case t.run.Fold().RunningSteps() > 0:
		return store.EffectYield, time.Time{} // of attempts that were left behind: the next worker decides
	}
	return store.EffectPark, t.run.Fold().Due()
}

func (t *task) status(effect store.Effect) event.Status {
	switch effect {
	case store.EffectBlock:
		return event.StatusBlocked
	case store.EffectNone, store.EffectYield:
		if t.run.Fold().Paused {
			return event.StatusPaused
		}
	case store.EffectPark, store.EffectFinish, store.EffectContinue:
		if effect == store.EffectPark && t.run.AtGate() {
			return event.StatusPaused // until it is stepped
		}
		return t.run.Fold().Status()
	}
	return event.StatusRunning
}

// progress reports whether events say that the run got further. That an attempt
// was started does not: the attempt may be what kills the worker. That it was given back
// does not either: it came no further.
func progress(events []event.Event) bool {
	return slices.ContainsFunc(events, func(e event.Event) bool {
		switch e.Type {
		case event.StepRetrying:
			return e.Failure == nil || e.Failure.Code != event.CodeStopped
		case event.StepCompleted, event.StepFailed, event.WaitCompleted, event.MessageReceived, event.ValueRecorded,
			event.ChildCreated, event.ChildCompleted, event.ChildFailed, event.ChildCanceled, event.MessageSent, event.ValueSet,
			event.StreamWritten, event.StreamClosed, event.HookCreated, event.HookReceived, event.HookDisposed,
			event.AskReceived, event.AskAccepted, event.AskAnswered:
			return true
		}
		return e.Type.Terminal()
	})
}

// end ends a run without its code.
func (t *task) end(e event.Event) {
	e.By = t.w.cfg.Name
	t.apply(e)
}
