package runloop

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/store"
)

// inbox contains the items of a run's inbox on their way into the log.
type inbox struct {
	unread
	refusals []store.Publication // refusals of asks, not published yet
}

// unread is the state of the inbox: items that the run has not read or not applied, and applied
// items that are not confirmed.
type unread struct {
	taken      []event.ItemID            // items that were applied, but are not confirmed as removed from the inbox
	drafted    drafted                   // the part of taken and refusals that the draft covers
	recent     map[event.ItemID]struct{} // items that were applied since the last read of the inbox began, or are not confirmed
	pending    []store.Item              // items that were read from the inbox, but are not applied yet
	looked     int                       // length of pending when lets computed stops
	stops      bool                      // whether an item of pending pauses or cancels the run; cached by lets
	read       extent                    // the part of taken that has produced events
	logged     map[event.ItemID]bool     // items that are in the log; used while the inbox of a freshly read run is applied
	late       []event.ItemID            // items that arrived after the code had ended
	lateWrites []event.Event             // the stream operations of steps in late
	carried    []event.Event             // events of late that the run continued as new receives
	began      time.Time                 // when the last read of the inbox began, except for the read at the claim
	seen       time.Time                 // all items accepted before this time were applied
	caughtUp   bool                      // whether all items accepted before the claim were applied
	wanted     bool                      // whether the inbox may have new items
	loading    bool
	failed     error // why the inbox cannot be read; nil if it can
	refused    int   // number of consecutive commits refused because of unread items
	rereads    int   // reads of the inbox since the code ended, or since the last commit that could have ended the run
}

// drafted counts the first entries of taken and refusals that the draft covers.
type drafted struct{ items, refusals int }

// forget drops the items in memory, but keeps the count of refused commits.
func (b *inbox) forget() {
	b.unread, b.refusals = unread{refused: b.refused, rereads: b.rereads}, nil
}

// keep records that the draft covers all items taken so far.
func (b *inbox) keep() { b.drafted = drafted{len(b.taken), len(b.refusals)} }

// giveBack leaves items in the inbox that the run had applied when its code turned out not to match
// the log. No commit consumes them. A worker with matching code applies them and judges the asks
// among them again.
func (b *inbox) giveBack() {
	b.taken, b.refusals = b.taken[:b.drafted.items], b.refusals[:b.drafted.refusals]
}

// saved records that a commit is durable. The parameter more reports whether the inbox holds
// further items.
func (b *inbox) saved(c *Commit, more bool) {
	b.taken = b.taken[c.took:]
	b.read.items, b.read.bytes = b.read.items-c.read.items, b.read.bytes-c.read.bytes
	b.refusals = b.refusals[c.told:]
	b.drafted = drafted{max(b.drafted.items-c.took, 0), max(b.drafted.refusals-c.told, 0)}
	b.refused = 0
	b.wanted = b.wanted || more
}

// reread records that a read of the inbox begins. At most one read is in flight. So recent contains
// all applied items that the read may return again.
func (s *State) reread() {
	s.inbox.wanted, s.inbox.loading, s.inbox.began = false, true, s.moment.Now
	s.inbox.recent = make(map[event.ItemID]struct{}, len(s.inbox.taken))
	for _, id := range s.inbox.taken {
		s.inbox.recent[id] = struct{}{}
	}
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
	item := s.inbox.pending[0]
	if _, known := s.inbox.recent[item.ID]; known || s.blocked != nil {
		s.inbox.pending = s.inbox.pending[1:]
		return true, nil //nolint:nilerr // why the run is blocked is told elsewhere
	}
	if s.inbox.logged[item.ID] {
		s.inbox.pending = s.inbox.pending[1:]
		s.inbox.taken = append(s.inbox.taken, item.ID)
		return true, nil
	}
	ended := s.run.Ended()
	if ended && s.run.State().Run == event.StateContinued && !forThisRun(s.inbox.pending) {
		return false, nil // the store moves the remaining items to the inbox of the next run
	}
	s.inbox.pending = s.inbox.pending[1:]
	e, err := event.DecodeItem(item.Body)
	if err != nil && !ended {
		return false, fmt.Errorf("item %s in the inbox of run %s: %w", item.ID, s.id, err)
	}
	s.inbox.taken = append(s.inbox.taken, item.ID)
	switch {
	case !ended:
		e.Item = item.ID
		s.applyItem(e)
	case err == nil && (e.Type == event.StreamWritten || e.Type == event.StreamClosed):
		s.inbox.lateWrites = append(s.inbox.lateWrites, *e) // The stream operation was accepted, and other runs and clients may read it.
	case err == nil && answers(e):
		// The item is a result that the ended code requested. No message of another sender is lost,
		// so the last event does not list the item as unread.
	default:
		s.inbox.late = append(s.inbox.late, item.ID)
		if _, notice := event.NoticeFor(item.ID); err == nil && item.Scope == store.ScopeChain && !notice { // the end of the run is the answer to a notice
			e.Item = item.ID
			s.inbox.carried = append(s.inbox.carried, *e)
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
		s.inbox.rereads++
	}
	s.inbox.pending, s.inbox.looked = items, 0
	return s.applyPending()
}

// applyPending applies pending items in order, as far as the limits allow. Items that produce no
// event are always applied. So each remaining item waits for a commit, and that commit exists as
// long as the code has not ended.
func (s *State) applyPending() (err error) {
	for len(s.inbox.pending) > 0 && (s.inbox.read.items < takenItems && s.inbox.read.bytes < takenBytes || s.givesNone(&s.inbox.pending[0])) {
		var more bool
		if more, err = s.applyNext(); !more {
			s.inbox.pending = nil
		}
	}
	if len(s.inbox.pending) == 0 {
		s.inbox.pending, s.inbox.logged, s.inbox.caughtUp = nil, nil, true
		if !s.inbox.loading {
			s.inbox.seen = s.inbox.began
		}
	}
	return err
}

// givesNone reports whether an item produces no event, because it is in the log or arrives too
// late.
func (s *State) givesNone(i *store.Item) bool {
	_, known := s.inbox.recent[i.ID]
	return known || s.inbox.logged[i.ID] || s.blocked != nil || s.run.Ended()
}

// lets reports whether attempts may begin: no item that waits because of the limits pauses or
// cancels the run. Without this check, attempts would have to wait until all received items are
// applied.
func (b *inbox) lets() bool {
	if b.wanted || b.loading || len(b.pending) == 0 {
		return false
	}
	if b.looked != len(b.pending) { // pending only becomes shorter
		b.stops = slices.ContainsFunc(b.pending, func(i store.Item) bool {
			e, err := event.DecodeItem(i.Body)
			return err == nil && (e.Type == event.RunPaused || e.Type == event.CancelRequested)
		})
		b.looked = len(b.pending)
	}
	return !b.stops
}

// hasUnread reports whether the inbox may hold items that the run has not applied.
func (b *inbox) hasUnread() bool {
	return b.wanted || b.loading || len(b.pending) > 0
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
			s.inbox.read.items, s.inbox.read.bytes = s.inbox.read.items+1, s.inbox.read.bytes+e.Size()
			s.finish(ref, e)
			return
		}
		ref := s.run.Hook(e.Token)
		if s.run.State().Open(ref) == nil {
			e = &event.Event{Type: event.HookMissed, Item: e.Item, By: e.By, Token: e.Token} // the log records the missed payload
			break
		}
		if f := s.misfit(e); f != nil {
			e = &event.Event{Type: event.HookMissed, Item: e.Item, By: e.By, Token: e.Token, Failure: f}
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
	s.inbox.read.items, s.inbox.read.bytes = s.inbox.read.items+1, s.inbox.read.bytes+e.Size()
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
		s.inbox.refusals = append(s.inbox.refusals, effects.Refusal(e.Item, refusal))
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
