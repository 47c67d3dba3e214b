package runloop

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/store"
)

// React applies an input and returns what the caller must perform, in order, before the next call.
// The result is valid until then. When there are no more inputs, the caller must call Proceed.
func (s *State) React(d Driver, in Input) []Action {
	s.use(d)
	s.look()
	switch in.Kind {
	case Claimed:
		s.onClaimed(in.Claim)
	case Loaded:
		s.onLoaded(in.Load)
	case Unread:
		s.mustRead = s.phase != phaseAway // set even while the log is being read, because the read may have preceded the item
	case Ended: // the outcome is dropped if the run was lost
		if s.phase == phaseLive {
			s.block(s.record(in.Ref, in.Attempt, in.Outcome))
		}
	case Opened:
		if s.phase == phaseLive {
			s.open(in.Opening)
		}
	case Answered:
		s.onAnswered(in.Commit, in.Seq)
	case Lost:
		s.next = nil // a claim that waits was made under the same session
		s.lose(nil)
	case Owned:
		if s.phase != phaseAway && s.claimSeq <= in.Seq && in.Fence != s.fence && s.inflight == nil {
			s.lose(nil)
		}
	case Stop:
		s.onStop()
	case Evict:
		if s.phase == phaseAway {
			s.forget()
		}
	case Drop:
		s.forget()
	case GiveWay:
		s.onGiveWay()
	case TurnOver:
		if s.phase != phaseAway {
			s.turnOver(in.Turn)
		}
	case Due:
		s.wake = time.Time{}
	}
	s.takeNext()
	return s.result()
}

// Proceed does all work that is possible after the inputs, and returns what the caller must perform,
// in order, before the next call. The result is valid until then.
func (s *State) Proceed(d Driver) []Action {
	s.use(d)
	s.advance()
	for s.takeNext() {
		s.advance()
	}
	return s.result()
}

// use begins a call with a driver.
func (s *State) use(d Driver) {
	s.driver, s.memory = d, d.Memory()
	clear(s.memory.actions)
	s.actions = s.memory.actions[:0]
	if s.run != nil {
		s.run.SetPool(&s.memory.Pool) // another executor may have handled the run before
	}
	if b := s.memory.observed; b != nil {
		s.memory.observed = nil
		if s.run != nil {
			s.run.Reuse(b)
		} else {
			s.memory.KeepBuffer(b)
		}
	}
}

// result ends a call. It returns the actions.
func (s *State) result() []Action {
	s.memory.actions = s.actions
	return s.actions
}

func (s *State) look() { s.moment = s.driver.Moment(s.claim) }

// enter must be called before user code, and leave after it.
func (s *State) enter() { s.driver.Enter() }
func (s *State) leave() { s.moment = s.driver.Leave(s.claim) }

// apply applies an event to the run at the current time.
func (s *State) apply(e event.Event) {
	e.Time = s.moment.Now
	s.enter()
	defer s.leave()
	_ = s.run.Apply(e) // The caller checks Err.
}

func (s *State) replayCode(events []event.Event, portion bool) error {
	s.enter()
	defer s.leave()
	if portion {
		return s.run.ReplayPortion(events)
	}
	return s.run.Replay(events)
}

// takeNext handles a claim that arrived while a commit was in flight. It does so once the commit
// has given the run back, and reports whether there was a claim.
func (s *State) takeNext() bool {
	if s.next == nil || s.phase != phaseAway || s.inflight != nil {
		return false
	}
	c := s.next
	s.next = nil
	s.onClaimed(c)
	return true
}

// onClaimed begins to execute a claimed run. It resumes the run from memory if the log has not
// changed, and otherwise reads the log.
func (s *State) onClaimed(c *Claim) {
	if s.inflight != nil {
		s.next = c
		return
	}
	usable := s.phase == phaseAway && s.run != nil && s.blocked == nil && len(s.unsaved) == 0 && s.last == c.Last && s.n == c.N &&
		c.Recoveries < s.QuarantineAfter && c.Create == nil // a quarantined run must not be resumed before its turn
	s.hold(c)
	s.look() // the claim determines whether the run is owned
	s.refusedCommits, s.rereads, s.caughtUp = 0, 0, false
	s.turn = turn{}
	if c.Create != nil {
		s.create(c.Create)
		return
	}
	if s.moment.Stage >= Stopping || s.moment.Closed && c.Recoveries < s.QuarantineAfter {
		s.phase = phaseNew
		s.lose(&s.fence) // the worker accepts no claims at present
		return
	}
	if usable {
		s.phase = phaseLive
		s.wokenAt(s.left, s.since)
		// A read of the inbox that was in flight when the run left is never answered. Items may
		// have been announced while this claim waited for the commit.
		s.mustRead, s.reading = s.mustRead || c.Unread, false
		return
	}
	s.forget()
	s.n, s.seq, s.last = c.N, c.Seq, c.Last
	if c.Recoveries >= s.QuarantineAfter && c.Recoveries < s.Recoveries { // the run is quarantined
		s.phase = phaseWaiting
		s.act(Action{Op: LineUp, Most: s.turnTime()})
		return
	}
	s.phase = phaseLoading
	if c.Loaded != nil {
		s.onLoaded(&Load{Fence: s.fence, Got: *c.Loaded})
		return
	}
	s.readLog()
}

// create executes the code of a run that does not exist up to its first wait. This produces events
// but no effects. The first commit creates the run with these events; see commit.go.
func (s *State) create(first *event.Event) {
	s.unsaved = append(s.memory.Buffer(), *first)
	s.goLive(s.unsaved, nil)
}

// readLog reads the part of the log that was not read before. The log of a run whose code is not
// executed is read at once.
func (s *State) readLog() {
	a := Action{Op: Read, Claim: s.claim, After: s.read.n}
	if s.Serves(s.route) && s.recoveries < s.Recoveries {
		a.Portion = store.LogPortion
	}
	s.act(a)
}

func (s *State) onLoaded(l *Load) {
	if l.Fence != s.fence || s.phase == phaseAway {
		return // the answer belongs to an earlier claim
	}
	if l.Got.Err == nil {
		l.Got.Err = l.Got.Sealed // code receives no sealed data
	}
	switch {
	case errors.Is(l.Got.Err, store.ErrRunNotFound):
		s.lose(nil) // the run was deleted
	case errors.Is(l.Got.Err, store.ErrClosed), l.Got.Err != nil && store.Unknown(l.Got.Err):
		s.lose(&s.fence)
	case l.Got.Err != nil && s.inflight != nil:
		s.readErr = l.Got.Err // the commit in flight is answered before the run is blocked
	case l.Got.Err != nil: // another read would fail as well
		s.unreadable(l.Got.Err)
	case l.Inbox:
		s.reading = false
		if s.phase == phaseLive {
			s.forgetConsumed(l.Got.Record.N)
			s.block(s.takeItems(l.Got.Inbox))
		}
	case s.phase == phaseLoading:
		s.replay(&l.Got)
	}
}

// unreadable blocks a run whose log or inbox cannot be read.
func (s *State) unreadable(err error) {
	s.forget()
	s.phase = phaseLive
	s.block(err)
}

// onStop handles the stop of the worker. A run that is not being executed leaves at once. A live
// run ends its attempts first.
func (s *State) onStop() {
	switch s.phase {
	case phaseNew, phaseLoading, phaseWaiting:
		s.lose(&s.fence)
	case phaseLive:
		s.endAttempts()
	}
}

// onGiveWay gives the run back so that a quarantined run can be executed alone. A run that is being
// executed begins nothing new and leaves with its next commit.
func (s *State) onGiveWay() {
	if s.moment.Closed && (s.phase == phaseNew || s.phase == phaseLoading) && s.recoveries < s.Recoveries {
		s.lose(&s.fence)
	}
}

// These are errors of a commit that creates the run. After ErrNotKnown it is unknown whether the
// commit has created it. After ErrWithdrawn the client has created it instead, or will do so. After
// other errors the run was not created, or belongs to another claim.
var (
	ErrNotKnown  = errors.New("it is not known whether the run was created")
	ErrWithdrawn = errors.New("its client has created it")
)

func (s *State) onAnswered(c *Commit, claimSeq uint64) {
	answer := &c.Answer
	if s.inflight != c {
		return // the claim was lost before the answer arrived
	}
	s.inflight = nil
	defer s.recycle(c)
	conflict, isConflict := errors.AsType[*store.ConflictError](answer.Err)
	permanent, isPermanent := errors.AsType[store.PermanentError](answer.Err)
	creates := c.Create
	if creates {
		s.isNew = false
	}
	switch {
	case answer.Err == nil:
		if creates {
			s.claimSeq = claimSeq // A request for the owned runs that was sent earlier does not contain this run.
		}
		s.onDurable(c)
	case errors.Is(answer.Err, ErrNotKnown):
		s.lose(&s.fence)
	case errors.Is(answer.Err, ErrWithdrawn) && s.continueCreated(c):
	case creates:
		s.lose(nil)
	case errors.Is(answer.Err, store.ErrUnread):
		// The run may not leave before it has read all accepted items. The store has not applied
		// this commit, so the next one has a new CommitID.
		s.refusedCommits++
		s.mustRead = true
	case errors.Is(answer.Err, store.ErrFenced):
		s.warn("lost a run: its claim has ended", "run", s.id)
		s.lose(nil)
	case isConflict:
		s.warn("lost a race for a run: reading it again", "run", s.id, "error", conflict)
		s.lose(&s.fence)
	case isPermanent && permanent.Permanent():
		s.unwritable(c, answer.Err)
	default:
		s.log(slog.LevelError, "commit refused", "run", s.id, "error", answer.Err)
		s.lose(&s.fence)
	}
	switch {
	case s.phase == phaseAway:
	case s.next != nil:
		s.lose(nil) // the claim of this commit is over: a later claim waits
	case s.readErr != nil && s.phase == phaseLive:
		s.unreadable(s.readErr)
	}
}

// continueCreated continues a run that its client has created, if this worker has claimed it in the
// meantime. The log contains only the first event of the draft, so the code, which may have run for
// long, is not executed again. continueCreated reports false if there is no such claim, or if
// something may have to precede the code: an item, permits, or a turn.
func (s *State) continueCreated(c *Commit) bool {
	next := s.next
	if next == nil || next.Seq != 1 || next.Unread || next.Recoveries > 0 || len(s.unsaved[0].Spec.Uses) > 0 ||
		s.blocked != nil || s.moment.Stage >= Stopping || s.moment.Closed {
		return false
	}
	s.next = nil
	s.hold(next)
	s.look() // the claim determines whether the run is owned
	s.n, s.seq, s.last = next.N, next.Seq, next.Last
	s.addFrame(cmp.Or(next.Bytes, s.unsaved[0].Size()), s.unsaved[:1])
	s.observe(s.unsaved[:1], 0)
	c.events = 1
	s.saveDraft(c)
	s.mustRead, s.reading = s.mustRead || s.reading, false // a read under the earlier claim is never answered
	return true
}

// unwritable ends the work on a run whose commit the store rejects permanently. The state in memory
// cannot be stored, so the worker drops it and blocks the run with the reason. If the store rejects
// the commit that blocks the run, the worker sets the run aside. In both cases the worker continues
// with other runs.
func (s *State) unwritable(c *Commit, err error) {
	if c.Req.Effect == store.EffectBlock && c.Req.Frame == nil {
		s.act(Action{Op: SetAside, Err: err})
		s.lose(nil)
		return
	}
	if large, ok := errors.AsType[*store.TooLargeError](err); ok {
		err = fmt.Errorf("%w: %s", large, largest(s.unsaved[:c.events]))
	}
	s.forget()
	s.block(err)
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

// onDurable frees the effects of a durable commit.
func (s *State) onDurable(c *Commit) {
	saved, size := s.unsaved, cmp.Or(c.Answer.Bytes, len(c.Req.Frame))
	if c.Req.Frame != nil && s.Observed {
		defer s.reportCommit(c, saved[:c.events], size, s.logBytes+size)
	}
	if c.Req.Frame != nil {
		s.reportLength(s.seq, c.Req.Last, s.logBytes)
		s.n, s.seq, s.last = c.Answer.N, c.Req.Last, c.Req.CommitID
		s.addFrame(size, saved[:c.events])
		s.moved = c.made
	}
	if (c.Req.Effect == store.EffectFinish || c.Req.Effect == store.EffectContinue) && c.events > 0 {
		s.ended = &localstart.End{Workflow: s.route.Workflow, Last: saved[c.events-1]}
		s.report(c, &s.ended.Last)
	} else {
		s.report(c, nil)
	}
	if label, set := c.Req.Label(); set {
		s.group = label.Group
	}
	s.saveDraft(c)
	s.savedItems(c, c.Answer.Unread)
	switch {
	case c.Req.Exempt != store.ExemptUnchanged && c.Req.Effect == store.EffectNone:
		s.onExempt(c.Req.Exempt)
	case c.Req.Progress && s.recoveries > 0:
		s.acquit()
	}
	switch c.Req.Effect {
	case store.EffectNone:
		if s.next == nil {
			s.release(s.seq)
		}
	case store.EffectPark, store.EffectYield:
		s.releases = nil
		s.left = c.made
		s.giveUp(true)
	case store.EffectBlock, store.EffectFinish, store.EffectContinue:
		s.dropAttempts(errEnded)
		s.forget()
		s.giveUp(false)
	}
}
