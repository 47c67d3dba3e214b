package runloop

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
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

	events int    // number of entries of draft.unsaved that the commit contains
	again  bool   // whether the commit publishes draft.again
	told   int    // number of entries of inbox.refusals that the commit publishes
	took   int    // number of entries of inbox.taken that the commit consumes
	read   extent // the part of inbox.read that the commit contains
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

// draft contains the events and publications that no confirmed commit contains yet.
type draft struct {
	unsaved []event.Event
	folded  int                 // number of entries of unsaved whose consequences are in folds
	folds   []consequence       // in the order of the events
	again   []store.Publication // publications of values that were taken over from an earlier run
	spare   *Commit             // an answered commit whose memory can be reused
}

// add appends new events of the run.
func (d *draft) add(events []event.Event) {
	if len(d.unsaved) == 0 {
		d.unsaved = events
	} else {
		d.unsaved = append(d.unsaved, events...)
	}
}

// recycle keeps an answered commit for reuse. The caller must hold the only reference to the
// commit.
func (d *draft) recycle(c *Commit) {
	*c = Commit{}
	d.spare = c
}

// forget drops everything that was not committed.
func (d *draft) forget() { *d = draft{spare: d.spare} }

// drafted returns the sequence number of the last event in the draft or in the log.
func (s *State) drafted() uint64 {
	if n := len(s.draft.unsaved); n > 0 {
		return s.draft.unsaved[n-1].Seq
	}
	return s.seq
}

// keepValues makes the first commit of a run publish the values that the run has taken over from an
// earlier run.
func (s *State) keepValues(events []event.Event) {
	if s.n > 1 || s.run.State().Spec.Kept == 0 {
		return
	}
	s.draft.again = effects.TakenOver(events)
	if len(s.draft.again) > 0 && !s.run.Ended() {
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
	n, exempt := portion(s.draft.unsaved), s.turn.exempt
	all := n == len(s.draft.unsaved)
	switch {
	case !all: // the run may leave only after the remaining events are committed
		effect, due = store.EffectNone, time.Time{}
		status = s.status(effect)
	case effect == store.EffectNone && s.blocked == nil && s.run.Ended():
		// The terminal event is committed together with the release of the run. It lists the
		// accepted items that the code never received, so the inbox must be read first.
		s.inbox.refused = max(s.inbox.refused, s.inbox.rereads)
		if s.inbox.refused >= inboxPatience {
			return s.closing(), nil
		}
		return nil, nil
	case effect == store.EffectNone && len(s.inbox.refusals) == 0 && exempt == store.ExemptUnchanged && (n == 0 || s.nothingToLose()):
		return nil, nil
	}
	if effect != store.EffectNone {
		s.inbox.rereads = 0
	}
	c := s.newCommit(n)
	c.Req.Effect, c.Req.Due, c.Req.Status = effect, due, status
	c.Req.Progress, c.Req.Exempt, c.Req.Unused = progress(s.draft.unsaved[:n]), exempt, s.unused(effect)
	if all {
		s.conclude(c)
	}
	if effect == store.EffectBlock {
		c.Why = s.blocked.Error()
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
	c.took, c.read = len(s.inbox.taken), s.inbox.read
	if n := c.took; n > 0 {
		c.Req.Consume, c.Req.ConsumeLast = n, s.inbox.taken[n-1]
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
	n := fitting(s.draft.unsaved)
	for i := range s.draft.unsaved[:n] {
		if s.draft.unsaved[i].Type.Terminal() || s.fold(i+1) != nil || len(s.draft.folds) > 0 { // an error of fold is reported by the next commit
			n = i
			break
		}
	}
	c := s.newCommit(n)
	c.Create, c.Req.Status = true, event.StatusRunning
	if effect, _ := s.effect(); effect == store.EffectPark && n == len(s.draft.unsaved) {
		c.Req.Status = s.status(effect) // the run waits from its creation
	}
	return c, s.frame(&c.Req, s.draft.unsaved[:n])
}

// newCommit returns a commit of the given number of events, under the current claim and at the end
// of the durable log.
func (s *State) newCommit(events int) *Commit {
	c := s.draft.spare
	if c == nil {
		c = &Commit{}
	}
	s.draft.spare = nil
	*c = Commit{events: events, made: s.moment.Now}
	c.Req.Run, c.Req.WorkflowID, c.Req.Fence, c.Req.Prev = s.id, s.workflowID, s.fence, s.last
	return c
}

// saveDraft removes the contents of a durable commit from the draft.
func (s *State) saveDraft(c *Commit) {
	d := &s.draft
	saved := d.unsaved
	if c.events > 0 {
		last := saved[c.events-1].Seq
		d.folded = max(d.folded-c.events, 0)
		d.folds = slices.DeleteFunc(d.folds, func(c consequence) bool { return c.seq <= last })
		if s.holdBack.seq <= last {
			s.holdBack = holdBack{}
		}
	}
	if d.unsaved = saved[c.events:]; len(d.unsaved) == 0 && s.run != nil {
		s.run.Reuse(saved[:0])
		d.unsaved = nil
	}
	if c.again {
		d.again = nil
	}
}

// nothingToLose reports whether the unsaved events can wait for the next commit. This holds if the
// run has created its next step and waits for a slot to start it. The commit that starts the step
// contains the events.
func (s *State) nothingToLose() bool {
	if s.blocked != nil || len(s.attempts)+len(s.inbox.taken) > 0 || s.cancelsWait() || !s.wanted() {
		return false
	}
	return !slices.ContainsFunc(s.draft.unsaved, func(e event.Event) bool {
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
	s.inbox.rereads = 0
	c := s.newCommit(0)
	c.Req.Closing = true
	return c
}

// fill adds the frame of a commit's events, and the publications and outbox records that follow from
// them. It also adds refusals of asks, and with the first frame the values that the run has taken
// over.
func (s *State) fill(c *Commit) error {
	events, req := s.draft.unsaved[:c.events], &c.Req
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
	if len(events) > 0 && len(events) == len(s.draft.unsaved) {
		for i := range s.inbox.lateWrites {
			late, err := s.chunks(&s.inbox.lateWrites[i])
			if err != nil {
				return err
			}
			req.Publish = append(req.Publish, late...)
		}
	}
	if c.took == len(s.inbox.taken) { // If the commit does not consume all taken items, refused asks may stay in the inbox, and the next worker would judge them again.
		c.told = len(s.inbox.refusals)
		req.Publish = append(req.Publish, s.inbox.refusals...)
	}
	if len(events) > 0 && len(s.draft.again) > 0 {
		c.again = true
		req.Publish = append(req.Publish, s.draft.again...)
	}
	for i := range folds {
		req.Publish = append(req.Publish, folds[i].values...)
	}
	return nil
}

// frame encodes events as the frame of a commit.
func (s *State) frame(req *store.Commit, events []event.Event) error {
	last := &events[len(events)-1]
	if last.Type.Terminal() {
		last.Unread = append(slices.Clip(s.untaken()), s.inbox.late...)
		s.rerun(last)
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
