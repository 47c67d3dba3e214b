package runloop

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failuregroup"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Commit is a commit of a run. A run has at most one commit in flight.
type Commit struct {
	Req          store.Commit
	Create       bool           // whether the commit creates the run, with the frame, the ID and the status of Req
	Why          string         // why the commit blocks the run; empty if it does not
	Differs      *flow.Mismatch // how the code differs from the log; nil if it matches
	GivesPermits bool           // whether the commit gives back permits that other runs may claim with it
	Answer       store.Committed

	events int    // number of entries of unsaved that the commit contains
	again  bool   // whether the commit publishes keptValues
	told   int    // number of entries of refusals that the commit publishes
	took   int    // number of entries of taken that the commit consumes
	read   extent // the part of takenSize that the commit contains
	made   time.Time
}

// extent is an amount of inbox content.
type extent struct{ items, bytes int }

// Bytes returns the approximate size of the request.
func (c *Commit) Bytes() int {
	n := len(c.Req.Frame)
	for i := range c.Req.Send {
		n += len(c.Req.Send[i].Body)
	}
	for i := range c.Req.Publish {
		n += len(c.Req.Publish[i].Body)
	}
	if c.Req.Continue != nil {
		n += len(c.Req.Continue.Frame)
	}
	return n
}

// draft is the part of the state that contains the events and publications that no confirmed commit
// contains yet.
type draft struct {
	unsaved    []event.Event
	folded     int                 // number of entries of unsaved whose consequences are in folds
	folds      []consequence       // in the order of the events
	keptValues []store.Publication // publications of values that were taken over from an earlier run
}

// addEvents adds the new events of the run to the draft.
func (s *State) addEvents() {
	events := s.run.Take()
	if len(s.unsaved) == 0 {
		s.unsaved = events
		return
	}
	s.unsaved = append(s.unsaved, events...)
	s.run.Reuse(events)
}

// drafted returns the sequence number of the last event in the draft or in the log.
func (s *State) drafted() uint64 {
	if n := len(s.unsaved); n > 0 {
		return s.unsaved[n-1].Seq
	}
	return s.seq
}

// keepValues makes the first commit of a run publish the values that the run has taken over from an
// earlier run.
func (s *State) keepValues(events []event.Event) {
	if s.n > 1 || s.run.State().Spec.Kept == 0 {
		return
	}
	s.keptValues = effects.TakenOver(events)
	if len(s.keptValues) > 0 && !s.run.Ended() {
		s.apply(event.Event{Type: event.ValuesKept}) // a commit needs a frame to publish
	}
}

// nextCommit returns the next commit. The commit also gives the run back if the run has nothing to do
// on this worker. nextCommit returns nil if there is nothing to commit.
func (s *State) nextCommit() (*Commit, error) {
	if s.isNew {
		return s.creation()
	}
	effect, due := s.effect()
	status := s.status(effect)
	if s.stays(effect) {
		effect, due = store.EffectNone, time.Time{}
	}
	n, exempt := portion(s.unsaved, s.inherited()), s.turn.exempt
	all := n == len(s.unsaved)
	switch {
	case !all: // the run may leave only after the remaining events are committed
		effect, due = store.EffectNone, time.Time{}
		status = s.status(effect)
	case effect == store.EffectNone && s.blocked == nil && s.run.Ended():
		// The terminal event is committed together with the release of the run. It lists the
		// accepted items that the code never received, so the inbox must be read first.
		s.refusedCommits = max(s.refusedCommits, s.rereads)
		if s.refusedCommits >= inboxPatience {
			return s.closing(), nil
		}
		return nil, nil
	case effect == store.EffectNone && len(s.refusals) == 0 && exempt == store.ExemptUnchanged && (n == 0 || s.nothingToLose()):
		return nil, nil
	case effect == store.EffectNone && n == 0 && len(s.taken) > 0 && s.reading:
		return nil, nil // see consumesUnseen
	}
	if effect != store.EffectNone {
		s.rereads = 0
	}
	c := s.newCommit(n)
	c.Req.Effect, c.Req.Due, c.Req.Status = effect, due, status
	c.Req.Progress, c.Req.Exempt, c.Req.Unused = progress(s.unsaved[:n]), exempt, s.unused(effect)
	if all {
		s.conclude(c)
	}
	if effect == store.EffectBlock {
		c.Why = s.why(s.blocked)
		if m, ok := errors.AsType[*replay.MismatchError](s.blocked); ok {
			recorded, asked := m.Sides()
			c.Differs = &flow.Mismatch{Event: m.Seq, Recorded: recorded, Asked: asked, Position: m.Position, Diff: m.Diff, Build: m.Build, Here: m.Here}
		}
	}
	return c, s.fill(c)
}

// conclude adds to a commit of all unsaved events what belongs to the last of them: the failure
// group, and the consumed items.
func (s *State) conclude(c *Commit) {
	group := s.failureGroup(c.Req.Effect)
	c.Req.FailureGroup = s.label(group, c.Req.Effect)
	c.GivesPermits = group.Group == "" && s.moment.Alive && s.givesPermits(c.Req.Effect)
	c.took, c.read = len(s.taken), s.takenSize
	if n := c.took; n > 0 {
		c.Req.Consume, c.Req.ConsumeLast = n, s.taken[n-1]
	}
}

// givesPermits reports whether a commit with the given effect gives back permits of the run that
// other runs may claim. A run yields so that other ready runs can begin.
func (s *State) givesPermits(effect store.Effect) bool {
	switch effect {
	case store.EffectPark, store.EffectFinish, store.EffectContinue:
	default:
		return false
	}
	if s.run == nil || s.leftQueue {
		return false
	}
	spec := s.run.State().Spec
	if spec == nil || spec.PermitSlot != 0 || spec.Whole && effect == store.EffectPark {
		return false
	}
	return slices.ContainsFunc(spec.Uses, func(u event.Use) bool { return !u.Local })
}

// A run that a client of this process starts is created by the worker. The code of the run was
// executed up to its first wait, which has produced events but no effects. One request stores the
// run with these events in its first frame, owned by this worker. Their effects happen only after
// the answer. This saves a claim and a commit, and violates no rule, because create, claim and commit
// are one atomic action. The creation stops before the first event that ends the run or that others
// receive or read, because only commits write outbox records and publications.

// creation returns the commit that creates the run.
func (s *State) creation() (*Commit, error) {
	n := fitting(s.unsaved, s.inherited())
	for i := range s.unsaved[:n] {
		if s.unsaved[i].Type.Terminal() || s.fold(i+1) != nil || len(s.folds) > 0 { // an error of fold is reported by the next commit
			n = i
			break
		}
	}
	c := s.newCommit(n)
	c.Create, c.Req.Status = true, event.StatusRunning
	if effect, _ := s.effect(); effect == store.EffectPark && n == len(s.unsaved) {
		c.Req.Status = s.status(effect) // the run waits from its creation
	}
	return c, s.frame(&c.Req, s.unsaved[:n])
}

// newCommit returns a commit of the given number of events, under the current claim and at the end
// of the durable log.
func (s *State) newCommit(events int) *Commit {
	c, m := s.spareCommit, s.memory
	s.spareCommit = nil
	switch n := len(m.commits); {
	case c != nil:
	case n > 0:
		c, m.commits[n-1] = m.commits[n-1], nil
		m.commits = m.commits[:n-1]
	default:
		c = &Commit{}
	}
	c.events, c.made = events, s.moment.Now
	c.Req.Run, c.Req.WorkflowID, c.Req.Fence, c.Req.Prev = s.id, s.workflowID, s.fence, s.last
	return c
}

// recycle keeps the memory of an answered commit, to which no other reference exists: for the next
// commit of the run, or for other runs if the run has left. One executor may handle all answers of a
// run, and another one make all its commits.
func (s *State) recycle(c *Commit) {
	*c = Commit{}
	if m := s.memory; s.phase == phaseLive {
		s.spareCommit = c
	} else if len(m.commits) < keptCommits {
		m.commits = append(m.commits, c)
	}
}

// saveDraft removes the contents of a durable commit from the draft.
func (s *State) saveDraft(c *Commit) {
	saved := s.unsaved
	if c.events > 0 {
		last := saved[c.events-1].Seq
		s.folded = max(s.folded-c.events, 0)
		s.folds = slices.DeleteFunc(s.folds, func(c consequence) bool { return c.seq <= last })
		if s.holdBack.seq <= last {
			s.holdBack = holdBack{}
		}
	}
	if s.unsaved = saved[c.events:]; len(s.unsaved) == 0 && s.run != nil {
		if s.Observed {
			s.memory.observed = saved
		} else {
			s.run.Reuse(saved)
		}
		s.unsaved = nil
	}
	if c.again {
		s.keptValues = nil
	}
}

// nothingToLose reports whether the unsaved events can wait for the next commit. This holds if the
// run has created its next step and waits for a slot to start it. The commit that starts the step
// contains the events.
func (s *State) nothingToLose() bool {
	if s.blocked != nil || s.attempts.Len()+len(s.taken) > 0 || s.cancelsWait() || !s.wanted() {
		return false
	}
	return !slices.ContainsFunc(s.unsaved, func(e event.Event) bool {
		return e.Type != event.RunStarted && e.Type != event.StepCreated && e.Type != event.ResourceWait
	})
}

// inboxPatience is how many times in a row unread items may prevent a run from ending before the
// store refuses new items. An end is prevented if the commit is refused, or if the inbox must be
// read again before the next commit.
const inboxPatience = 3

// closing returns the commit that makes the store refuse further items. It is needed if the run
// cannot end because new items keep arriving.
func (s *State) closing() *Commit {
	s.rereads = 0
	c := s.newCommit(0)
	c.Req.Closing = true
	return c
}

// fill adds the frame of a commit's events, and the publications and outbox records that follow from
// them. It also adds refusals of asks, and with the first frame the values that the run has taken
// over.
func (s *State) fill(c *Commit) error {
	events, req := s.unsaved[:c.events], &c.Req
	var folds []consequence
	if len(events) > 0 {
		if err := s.frame(req, events); err != nil {
			return err
		}
		if req.Effect == store.EffectContinue {
			var err error
			if req.Continue, err = s.continuation(&events[len(events)-1]); err != nil {
				return err
			}
		}
		if h := s.holdBack; h.seq <= req.Last {
			req.HoldBack = h.d
		}
		var err error
		if folds, err = s.consequences(len(events)); err != nil {
			return err
		}
	}
	for i := range folds {
		req.Send = append(req.Send, folds[i].sends...)
		req.Publish = append(req.Publish, folds[i].chunks...)
	}
	if len(events) > 0 && len(events) == len(s.unsaved) {
		for i := range s.lateWrites {
			late, err := s.chunks(&s.lateWrites[i])
			if err != nil {
				return err
			}
			req.Publish = append(req.Publish, late...)
		}
	}
	if c.took == len(s.taken) { // If the commit does not consume all taken items, refused asks may stay in the inbox, and the next worker would judge them again.
		c.told = len(s.refusals)
		req.Publish = append(req.Publish, s.refusals...)
	}
	if len(events) > 0 && len(s.keptValues) > 0 {
		c.again = true
		req.Publish = append(req.Publish, s.keptValues...)
	}
	for i := range folds {
		req.Publish = append(req.Publish, folds[i].values...)
	}
	clear(folds) // the buffer is shared, and must not keep payloads
	return nil
}

// frame encodes events as the frame of a commit.
func (s *State) frame(req *store.Commit, events []event.Event) error {
	last := &events[len(events)-1]
	if last.Type.Terminal() {
		last.Unread = append(slices.Clip(s.untaken()), s.late...)
		s.rerun(last)
		s.alert(last)
	}
	req.CommitID = s.driver.CommitID()
	req.First, req.Last = events[0].Seq, last.Seq
	var err error
	req.Frame, err = event.AppendFrame(nil, &event.Frame{
		CommitID: req.CommitID, Prev: s.last, Epoch: s.fence.Epoch, Token: s.fence.Token, Time: last.Time, Events: logged(events),
	})
	return err
}

// untaken returns the IDs of the messages in the log that the code never received.
func (s *State) untaken() []event.ItemID {
	var ids []event.ItemID
	var found []*event.Event
	s.run.Unread(func(e *event.Event) bool {
		found = append(found, e)
		return true
	})
	slices.SortFunc(found, func(a, b *event.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range found {
		ids = append(ids, e.Item)
	}
	return ids
}

// effect returns the effect of the next commit on the run, and the next due time of the run.
func (s *State) effect() (store.Effect, time.Time) {
	busy := s.attempts.Len() > 0
	switch {
	case s.blocked != nil:
		if busy {
			return store.EffectNone, time.Time{}
		}
		return store.EffectBlock, time.Time{}
	case s.hasUnread():
		return store.EffectNone, time.Time{}
	case s.run.Ended():
		if s.run.State().Run == event.StateContinued {
			return store.EffectContinue, time.Time{}
		}
		return store.EffectFinish, time.Time{}
	case busy:
		return store.EffectNone, time.Time{}
	case s.run.State().StandsStill(): // no operation is due
		return store.EffectPark, s.run.State().Due()
	case s.wanted():
		if s.moment.Stage >= Stopping || s.gaveWay {
			return store.EffectYield, time.Time{}
		}
		return store.EffectNone, time.Time{}
	case s.run.State().RunningSteps() > 0:
		return store.EffectYield, time.Time{} // Abandoned attempts remain. The next worker decides about them.
	}
	return store.EffectPark, s.run.State().Due()
}

// unused returns what the store does with permits that the run has not used. If the code of the run
// has not begun, the run holds no permits and consumes no rate, whatever has woken it. The same
// holds for a run that executes a step and has begun no attempt. A paused run keeps its position in
// the limiter queue.
func (s *State) unused(effect store.Effect) store.Unused {
	if effect != store.EffectPark || s.leftQueue {
		return store.UnusedNone
	}
	f := s.run.State()
	switch used := f.Run != event.StatePending && f.Delayed.IsZero(); {
	case len(f.Spec.Uses) == 0, f.Spec.Whole && used, !f.Spec.Whole && s.attempted:
		return store.UnusedNone
	case f.Paused && !f.Held() && !f.Spec.StartAt.After(s.moment.Now) && !f.Delayed.After(s.moment.Now):
		return store.UnusedInQueue
	}
	return store.UnusedBack
}

func (s *State) status(effect store.Effect) event.Status {
	switch effect {
	case store.EffectBlock:
		return event.StatusBlocked
	case store.EffectNone, store.EffectYield:
		if s.run.State().Paused {
			return event.StatusPaused
		}
	case store.EffectPark, store.EffectFinish, store.EffectContinue:
		if effect == store.EffectPark && s.run.AtGate() {
			return event.StatusPaused // the run is paused until its next step is requested
		}
		return s.run.State().Status()
	}
	return event.StatusRunning
}

// progress reports whether the events count as progress of the run. The start of an attempt does
// not count, because the attempt may kill the worker. An attempt that was given back does not count
// because it has no outcome.
func progress(events []event.Event) bool {
	return slices.ContainsFunc(events, func(e event.Event) bool {
		switch e.Type {
		case event.StepRetrying:
			return e.Failure == nil || e.Failure.Code != event.CodeStopped
		case event.StepPending, event.StepCompleted, event.StepFailed, event.WaitCompleted, event.MessageReceived, event.ValueRecorded,
			event.ChildCreated, event.ChildCompleted, event.ChildFailed, event.ChildCanceled, event.MessageSent, event.ValueSet,
			event.StreamWritten, event.StreamClosed, event.HookCreated, event.HookReceived, event.HookDisposed, event.HookAnswered,
			event.AskReceived, event.AskAccepted, event.AskAnswered:
			return true
		}
		return e.Type.Terminal()
	})
}

// label returns the failure group that a commit sets for the run. Nil keeps the recorded group; at
// the end of the run the store then decides.
func (s *State) label(g store.FailureGroup, effect store.Effect) *store.FailureGroup {
	if g.Group == s.group || g.Group == "" && (effect == store.EffectFinish || effect == store.EffectContinue) {
		return nil
	}
	label := g // allocate only if the label changes
	return &label
}

// failureGroup returns the failure group of the run after a commit with the given effect. The zero
// value means that the run is in no group. If several steps are being retried, the first one that
// began determines the group. So the group does not change with each failure of these steps.
func (s *State) failureGroup(effect store.Effect) store.FailureGroup {
	if effect == store.EffectBlock {
		return failuregroup.Blocked(s.route.Workflow, s.whatBlocks())
	}
	if s.run == nil {
		return store.FailureGroup{Group: s.group} // the log could not be read, so the group remains unchanged
	}
	state := s.run.State()
	if effect == store.EffectFinish && state.Run == event.StateFailed {
		return s.described(failuregroup.Failed(s.route.Workflow, state.Failure), state.Failure)
	}
	if o := state.Failing(); o != nil {
		return s.described(failuregroup.Retrying(s.route.Workflow, o.Name, o.Failure), o.Failure)
	}
	return store.FailureGroup{}
}

// described returns the group with the description that everybody may read.
func (s *State) described(g store.FailureGroup, f *event.Failure) store.FailureGroup {
	if s.Private && f != nil {
		g.Text = f.Code
	}
	return g
}

// whatBlocks returns why the run is blocked, without details of the run. If the code does not match
// the log, it returns the operation in the log and the operation that the code requested.
func (s *State) whatBlocks() string {
	if mismatch, ok := errors.AsType[*replay.MismatchError](s.blocked); ok {
		return mismatch.Operations()
	}
	return s.why(s.blocked)
}

// why returns the text of an error that blocks the run. It contains no user data if the store keeps
// them encrypted. The step data under flow.MismatchKey are sealed and contain the whole difference.
func (s *State) why(err error) string {
	if !s.Private {
		return err.Error()
	}
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		return mismatch.WithoutData().Error()
	}
	if payload, ok := errors.AsType[*flow.PayloadError](err); ok && payload.Err != nil {
		if _, closed := errors.AsType[*event.SealedError](payload.Err); !closed {
			return payload.What + ": it cannot be decoded or encoded"
		}
	}
	return err.Error()
}

// These constants bound one commit. The store can serve no other request while it writes a commit,
// and each store bounds the length of a frame.
const (
	commitChunks = 1000
	commitBytes  = 4 << 20
	// endingBytes bounds a commit that ends a run, including the cause of the end.
	endingBytes = 64 << 20
)

// portion returns how many of the unsaved events go into one commit. This is all of them, unless
// code requests very many operations or writes very much to streams without waiting. Every prefix
// of a log is a valid log, so events may be split at any event. The only exception is the end of a
// run, which stays together with its cause.
func portion(events []event.Event, inherited int) int {
	n := fitting(events, inherited)
	if n == len(events) || !events[len(events)-1].Type.Terminal() {
		return n
	}
	cause, chunks, bytes := len(events)-1, 0, 0
	for cause >= 0 && !causes(events[cause].Type) {
		if bytes += sizeOf(&events[cause], inherited); events[cause].Type == event.StreamWritten {
			chunks++
		}
		cause--
	}
	switch {
	case n <= cause, cause < 0:
		return n
	case chunks > commitChunks || bytes+sizeOf(&events[cause], inherited) > endingBytes: // the end and its cause are too large for one commit
		return n
	case cause == 0:
		return len(events)
	}
	return cause
}

// inherited returns the size of the attributes that the records of new runs and messages contain.
func (s *State) inherited() (bytes int) {
	if s.run == nil || s.run.State().Spec == nil { // the log cannot be read
		return 0
	}
	for key, value := range s.run.State().Spec.Attributes {
		bytes += len(key) + len(value)
	}
	return bytes
}

// sizeOf returns the approximate size of an event and of the outbox record that follows from it.
func sizeOf(e *event.Event, inherited int) int {
	bytes := e.Size()
	if e.Type.Entity() == event.EntityChild || e.Type.Entity() == event.EntitySend {
		bytes += len(e.Payload) // the payload is also part of an outbox record
	}
	if e.Type == event.ChildCreated || e.Type == event.MessageSent {
		bytes += inherited
	}
	return bytes
}

// fitting returns how many events fit into one commit.
func fitting(events []event.Event, inherited int) int {
	chunks, bytes := 0, 0
	for i := range events {
		e := &events[i]
		if e.Type == event.StreamWritten {
			chunks++
		}
		bytes += sizeOf(e, inherited)
		if i > 0 && (chunks > commitChunks || bytes > commitBytes) {
			return i
		}
	}
	return len(events)
}

// causes reports whether an event of this type originates outside of the run's code and may cause
// the run to end.
func causes(t event.Type) bool {
	switch t {
	case event.StepCompleted, event.StepFailed, event.WaitCompleted,
		event.MessageReceived, event.HookReceived, event.AskReceived, event.AskAccepted,
		event.ChildStarted, event.ChildCompleted, event.ChildFailed, event.ChildCanceled,
		event.SendCompleted, event.SendFailed, event.CancelRequested:
		return true
	}
	return false
}
