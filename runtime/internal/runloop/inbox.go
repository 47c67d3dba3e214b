package runloop

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/store"
)

// inbox is the part of the state that contains the items of the run's inbox on their way into the
// log.
type inbox struct {
	pending   []store.Item // items that were read from the inbox, but are not applied yet
	mustRead  bool         // whether the inbox may have new items
	reading   bool
	readBegan time.Time // when the last read of the inbox began, except for the read at the claim
	readUntil time.Time // all items accepted before this time were applied
	readErr   error     // why the inbox cannot be read; nil if it can
	caughtUp  bool      // whether all items accepted before the claim were applied

	taken     []event.ItemID          // items that were applied, but are not confirmed as removed from the inbox
	takenSize extent                  // the part of taken that has produced events
	refusals  []store.Publication     // refusals of asks, not published yet
	covered   covered                 // the part of taken and refusals that the draft covers
	recent    map[event.ItemID]uint64 // items of taken at the begin of the last read, with the number of the frame that consumes them, or 0
	logged    map[event.ItemID]bool   // items that are in the log; used while the inbox of a freshly read run is applied

	late       []event.ItemID // items that arrived after the code had ended
	lateWrites []event.Event  // the stream operations of steps in late
	carried    []event.Event  // events of late that the run continued as new receives

	refusedCommits int  // number of consecutive commits refused because of unread items
	rereads        int  // reads of the inbox since the code ended, or since the last commit that could have ended the run
	stops          bool // whether an item of pending pauses or cancels the run; cached by inboxLets
	stopsOf        int  // length of pending when inboxLets computed stops
}

// covered counts the first entries of taken and refusals that the draft covers.
type covered struct{ items, refusals int }

// forgetInbox drops the items in memory, but keeps the count of refused commits.
func (s *State) forgetInbox() {
	s.inbox = inbox{refusedCommits: s.refusedCommits, rereads: s.rereads}
}

// coverTaken records that the draft covers all items taken so far.
func (s *State) coverTaken() { s.covered = covered{len(s.taken), len(s.refusals)} }

// giveBackItems leaves items in the inbox that the run had applied when its code turned out not to match
// the log. No commit consumes them. A worker with matching code applies them and judges the asks
// among them again.
func (s *State) giveBackItems() {
	s.taken, s.refusals = s.taken[:s.covered.items], s.refusals[:s.covered.refusals]
}

// savedItems records that a commit is durable. The parameter more reports whether the inbox holds
// further items.
func (s *State) savedItems(c *Commit, more bool) {
	s.taken = s.taken[c.took:]
	s.takenSize.items, s.takenSize.bytes = s.takenSize.items-c.read.items, s.takenSize.bytes-c.read.bytes
	s.refusals = s.refusals[c.told:]
	s.covered = covered{max(s.covered.items-c.took, 0), max(s.covered.refusals-c.told, 0)}
	s.refusedCommits = 0
	s.mustRead = s.mustRead || more
}

// reread records that a read of the inbox begins. At most one read is in flight. So recent contains
// all applied items that the read may return again.
func (s *State) reread() {
	s.mustRead, s.reading, s.readBegan = false, true, s.moment.Now
	s.recent = make(map[event.ItemID]uint64, len(s.taken))
	for _, id := range s.taken {
		s.recent[id] = 0
	}
	if s.inflight != nil {
		s.consumes(s.inflight)
	}
}

// consumesUnseen reports whether the commit in flight consumes items but has no frame. This is so if
// the code refuses all asks that the commit consumes. No read shows whether such a commit was carried out, so reads and these commits
// wait for one another.
func (s *State) consumesUnseen() bool {
	return s.inflight != nil && s.inflight.took > 0 && s.inflight.Req.Frame == nil
}

// consumes records which items of recent a commit consumes.
func (s *State) consumes(c *Commit) {
	for i, id := range s.taken {
		if _, known := s.recent[id]; !known {
			continue
		}
		if s.recent[id] = 0; i < c.took && c.Req.Frame != nil {
			s.recent[id] = s.n + 1
		}
	}
}

// forgetConsumed removes from recent the items that the first n frames of the log consume. A read of
// a log with n frames has not returned them. An item with such an ID was sent again after the store
// had forgotten it, and is a new item.
func (s *State) forgetConsumed(n uint64) {
	maps.DeleteFunc(s.recent, func(_ event.ItemID, frame uint64) bool { return frame > 0 && frame <= n })
}

// These constants bound the items that were applied but are not confirmed as removed from the
// inbox. Further items are read, but are applied only after the next commit. Without the bounds, a
// commit could become too large to contain all new events, and only a commit that contains all of
// them starts steps and removes items.
const (
	takenItems = 1000
	takenBytes = commitBytes / 4
)

// applyNext applies the first pending item. It reports whether the remaining items are for this run
// as well.
func (s *State) applyNext() (more bool, err error) {
	item := s.pending[0]
	if _, known := s.recent[item.ID]; known || s.blocked != nil {
		s.pending = s.pending[1:]
		return true, nil //nolint:nilerr // why the run is blocked is told elsewhere
	}
	if s.logged[item.ID] {
		s.pending = s.pending[1:]
		s.taken = append(s.taken, item.ID)
		return true, nil
	}
	ended := s.run.Ended()
	if ended && s.run.State().Run == event.StateContinued && !forThisRun(s.pending) {
		return false, nil // the store moves the remaining items to the inbox of the next run
	}
	s.pending = s.pending[1:]
	e, err := event.DecodeItem(item.Body)
	if err == nil {
		err = e.CheckOpen()
	}
	if err != nil && !ended {
		return false, fmt.Errorf("item %s in the inbox of run %s: %w", item.ID, s.id, err)
	}
	s.taken = append(s.taken, item.ID)
	switch {
	case !ended:
		e.Item = item.ID
		s.applyItem(e)
	case err == nil && (e.Type == event.StreamWritten || e.Type == event.StreamClosed):
		s.lateWrites = append(s.lateWrites, *e) // The stream operation was accepted, and other runs and clients may read it.
	case err == nil && answers(e):
		// The item is a result that the ended code requested. No message of another sender is lost,
		// so the last event does not list the item as unread.
	default:
		s.late = append(s.late, item.ID)
		if _, notice := event.NoticeFor(item.ID); err == nil && item.Scope == store.ScopeChain && !notice { // the end of the run is the answer to a notice
			e.Item = item.ID
			s.carried = append(s.carried, *e)
		}
	}
	return true, nil
}

// answers reports whether an event is the result of an operation that the code requested.
func answers(e *event.Event) bool {
	entity := e.Type.Entity()
	return entity == event.EntityChild || entity == event.EntitySend || e.Type == event.ResourceWait
}

// forThisRun reports whether any of the items is only for this run and is not passed on to the next
// run of the chain.
func forThisRun(items []store.Item) bool {
	return slices.ContainsFunc(items, func(i store.Item) bool { return i.Scope == store.ScopeRun })
}

// takeItems receives the items of an inbox read and applies them as far as the limits allow.
func (s *State) takeItems(items []store.Item) error {
	if s.run != nil && s.run.Ended() {
		s.rereads++
	}
	s.pending, s.stopsOf = items, 0
	return s.applyPending()
}

// applyPending applies pending items in order, as far as the limits allow. Items that produce no
// event are always applied. So each remaining item waits for a commit, and that commit exists as
// long as the code has not ended.
func (s *State) applyPending() (err error) {
	for len(s.pending) > 0 && (s.takenSize.items < takenItems && s.takenSize.bytes < takenBytes || s.givesNone(&s.pending[0])) {
		var more bool
		if more, err = s.applyNext(); !more {
			s.pending = nil
		}
	}
	if len(s.pending) == 0 {
		s.pending, s.logged, s.caughtUp = nil, nil, true
		if !s.reading {
			s.readUntil = s.readBegan
		}
	}
	return err
}

// givesNone reports whether an item produces no event, because it is in the log or arrives too
// late.
func (s *State) givesNone(i *store.Item) bool {
	_, known := s.recent[i.ID]
	return known || s.logged[i.ID] || s.blocked != nil || s.run.Ended()
}

// inboxLets reports whether attempts may begin: no item that waits because of the limits pauses or
// cancels the run. Without this check, attempts would have to wait until all received items are
// applied.
func (s *State) inboxLets() bool {
	if s.mustRead || s.reading || len(s.pending) == 0 {
		return false
	}
	if s.stopsOf != len(s.pending) { // pending only becomes shorter
		s.stops = slices.ContainsFunc(s.pending, func(i store.Item) bool {
			e, err := event.DecodeItem(i.Body)
			return err == nil && (e.Type == event.RunPaused || e.Type == event.CancelRequested)
		})
		s.stopsOf = len(s.pending)
	}
	return !s.stops
}

// hasUnread reports whether the inbox may hold items that the run has not applied.
func (s *State) hasUnread() bool {
	return s.mustRead || s.reading || len(s.pending) > 0
}

// applyItem applies a received event. An answer without a pending operation is not recorded: either
// a previous answer was recorded, or the log that contained the request was lost. A command without
// an effect is not recorded.
func (s *State) applyItem(e *event.Event) {
	switch e.Type.Entity() {
	case event.EntityChild, event.EntitySend:
		ref := s.run.Answered(e.Type, e.Key)
		if s.run.State().Open(ref) == nil || e.Type == event.ChildStarted && s.run.State().StateOf(ref) != event.StateWaiting {
			return
		}
		e.Ref, e.Key = ref, ""
	case event.EntityHook:
		if ref := s.run.StepHook(e.Token); ref != 0 {
			s.takenSize.items, s.takenSize.bytes = s.takenSize.items+1, s.takenSize.bytes+e.Size()
			s.finish(ref, e)
			return
		}
		ref := s.run.Hook(e.Token)
		if s.run.State().Open(ref) == nil {
			e = &event.Event{Type: event.HookMissed, Item: e.Item, By: e.By, Attributes: e.Attributes, Token: e.Token} // the log records the missed payload
			break
		}
		if f := s.misfit(e); f != nil {
			e = &event.Event{Type: event.HookMissed, Item: e.Item, By: e.By, Attributes: e.Attributes, Token: e.Token, Failure: f}
			break
		}
		e.Ref, e.Token = ref, ""
	case event.EntityAsk:
		if s.refuses(e) {
			return
		}
	case event.EntityNone:
		if e.Type == event.CancelRequested && e.Name == event.Terminate {
			s.end(effects.Termination(e)) // the remaining items of the inbox arrive too late
			return
		}
		if s.pointless(e) {
			return
		}
	}
	s.takenSize.items, s.takenSize.bytes = s.takenSize.items+1, s.takenSize.bytes+e.Size()
	s.apply(*e)
}

// pointless reports whether a command has no effect. Such a command is not recorded.
func (s *State) pointless(e *event.Event) bool {
	f := s.run.State()
	switch e.Type {
	case event.RunPaused:
		return f.Paused || f.Ending() // a run that is ending must not be paused, because it must clean up
	case event.RunResumed:
		return !f.StandsStill() && !s.run.Stepping()
	case event.RunReleased:
		return !f.Held()
	case event.RunStepped:
		return !f.Spec.Debug
	case event.ResourceWait: // the operation does not wait for permits
		return f.Open(s.run.Answered(event.ChildCreated, e.Key)) == nil
	}
	return false
}

// refuses reports whether the code rejects an ask. A rejected ask is not recorded; the next commit
// publishes the refusal to the sender. An accepted ask is recorded as accepted. An ask without a
// handler that could judge it is recorded as received.
func (s *State) refuses(e *event.Event) bool {
	var refusal *event.Failure
	var handled bool
	func() {
		s.enter()
		defer s.leave()
		refusal, handled = s.run.Judge(e.Name, e.Payload)
	}()
	switch {
	case refusal != nil:
		s.refusals = append(s.refusals, effects.Refusal(e.Item, refusal))
		return true
	case handled:
		e.Type = event.AskAccepted
	}
	return false
}

// misfit returns the reason if the run's code cannot decode a payload for its hook. It returns
// nil if the code can. Such a payload must not fail the run, because any holder of the token may
// have sent it.
func (s *State) misfit(e *event.Event) *event.Failure {
	err := func() error {
		s.enter()
		defer s.leave()
		return s.run.JudgePayload(e.Token, e.Payload)
	}()
	if err == nil {
		return nil
	}
	s.warn("a payload does not fit its hook, and is skipped", "run", s.id, "item", e.Item, "error", err)
	return failure.Encode(err, event.CodePayload)
}
