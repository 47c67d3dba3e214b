package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/store"
)

// inbox moves the items in a run's inbox into its log.
type inbox struct {
	*execution
	unread
	steps    finisher            // the steps of the run
	refusals []store.Publication // refusals of asks that were taken, to publish
}

// unread is the state of the inbox: items that the run has not seen, and items that it has taken.
type unread struct {
	taken      []event.ItemID            // applied, but not confirmed as removed from the inbox
	drafted    drafted                   // how many of these the draft already covers
	recent     map[event.ItemID]struct{} // applied since the last read of the inbox began, or not confirmed
	pending    []store.Item              // read from the inbox, but not applied yet
	looked     int                       // how many were pending when lets computed stops
	stops      bool                      // whether an item in pending pauses or cancels the run; cached by lets
	read       extent                    // how much of taken has produced events
	logged     map[event.ItemID]bool     // items that are in the log, while the inbox of a freshly read run is applied
	late       []event.ItemID            // items that came after the code had ended
	lateWrites []event.Event             // stream operations of steps among late
	carried    []event.Event             // events among late for the run that this one continues as
	began      time.Time                 // when the last read of the inbox began, except for the read at the claim
	seen       time.Time                 // all that the inbox held at this time was taken
	caughtUp   bool                      // all that the inbox held at the claim was taken
	wanted     bool                      // the inbox has something new
	loading    bool
	refused    int // how often in a row the inbox kept the run from leaving
	rereads    int // reads of the inbox since the code ended, without a commit that could have ended the run
}

// drafted counts the items taken, and the asks refused, that the draft covers. These are the first
// ones of their slices.
type drafted struct{ items, refusals int }

// finisher ends attempts of steps whose outcome comes from outside.
type finisher interface {
	// finish makes e the outcome of the current attempt of the step that event ref created.
	finish(ref uint64, e *event.Event)
}

// forget drops the read items, but keeps the count of how often the inbox kept the run here.
func (b *inbox) forget() {
	b.unread, b.refusals = unread{refused: b.refused, rereads: b.rereads}, nil
}

// keep records that the draft covers everything taken so far.
func (b *inbox) keep() { b.drafted = drafted{len(b.taken), len(b.refusals)} }

// giveBack leaves in the inbox the items that the run was taking when its code turned out not to
// match the log. No commit will contain them. A worker with matching code takes them and judges the
// asks among them anew.
func (b *inbox) giveBack() {
	b.taken, b.refusals = b.taken[:b.drafted.items], b.refusals[:b.drafted.refusals]
}

// saved records that a commit is durable, and whether the inbox holds more.
func (b *inbox) saved(c *commit, more bool) {
	b.taken = b.taken[c.took:]
	b.read.items, b.read.bytes = b.read.items-c.read.items, b.read.bytes-c.read.bytes
	b.refusals = b.refusals[c.told:]
	b.drafted = drafted{max(b.drafted.items-c.took, 0), max(b.drafted.refusals-c.told, 0)}
	b.refused = 0
	b.wanted = b.wanted || more
}

// reread records that a read of the inbox begins. There is one read at a time, so recent contains
// all items that were applied and that the read may return again.
func (b *inbox) reread() {
	b.wanted, b.loading, b.began = false, true, b.clock.Now()
	b.recent = make(map[event.ItemID]struct{}, len(b.taken))
	for _, id := range b.taken {
		b.recent[id] = struct{}{}
	}
}

// These limit the items that were taken from the inbox but are not confirmed as removed from it.
// Items beyond the limits are read, but wait until the next commit. Otherwise no commit could
// contain all that happened, and only such a commit starts steps and removes items.
const (
	takenItems = 1000
	takenBytes = commitBytes / 4
)

// applyNext moves the first pending item into the log. It reports whether the remaining items are
// for this run as well.
func (b *inbox) applyNext() (more bool, err error) {
	item := b.pending[0]
	if _, known := b.recent[item.ID]; known || b.blocked != nil {
		b.pending = b.pending[1:]
		return true, nil //nolint:nilerr // why the run is blocked is told elsewhere
	}
	if b.logged[item.ID] {
		b.pending = b.pending[1:]
		b.taken = append(b.taken, item.ID)
		return true, nil
	}
	ended := b.run.Ended()
	if ended && b.run.State().Run == event.StateContinued && !forThisRun(b.pending) {
		return false, nil // the store moves the remaining items to the next run
	}
	b.pending = b.pending[1:]
	e, err := event.DecodeItem(item.Body)
	if err != nil && !ended {
		return false, fmt.Errorf("item %s in the inbox of run %s: %w", item.ID, b.in.id, err)
	}
	b.taken = append(b.taken, item.ID)
	switch {
	case !ended:
		e.Item = item.ID
		b.applyItem(e)
	case err == nil && (e.Type == event.StreamWritten || e.Type == event.StreamClosed):
		b.lateWrites = append(b.lateWrites, *e) // it was accepted, and other runs and clients may read it
	case err == nil && answers(e):
		// The code that requested this result has ended. No message of another sender is lost, so
		// the last event does not list the item as unread.
	default:
		b.late = append(b.late, item.ID)
		if _, notice := event.NoticeFor(item.ID); err == nil && item.Scope == store.ScopeChain && !notice { // the end of the run answers a notice
			e.Item = item.ID
			b.carried = append(b.carried, *e)
		}
	}
	return true, nil
}

// answers reports whether an item is the result of an operation that the code requested.
func answers(e *event.Event) bool {
	entity := e.Type.Entity()
	return entity == event.EntityChild || entity == event.EntitySend || e.Type == event.ResourceWait
}

// forThisRun reports whether any of the items is for this run only and not passed on to the next
// run of the chain.
func forThisRun(items []store.Item) bool {
	return slices.ContainsFunc(items, func(i store.Item) bool { return i.Scope == store.ScopeRun })
}

// takeItems takes over the items of an inbox read, as far as the limits allow.
func (b *inbox) takeItems(items []store.Item) error {
	if b.run != nil && b.run.Ended() {
		b.rereads++
	}
	b.pending, b.looked = items, 0
	return b.applyPending()
}

// applyPending moves pending items into the log, in order, as far as the limits allow. Items that
// produce no event are always applied, so whatever remains waits for a commit. That commit exists
// as long as the code has not ended.
func (b *inbox) applyPending() (err error) {
	for len(b.pending) > 0 && (b.read.items < takenItems && b.read.bytes < takenBytes || b.givesNone(&b.pending[0])) {
		var more bool
		if more, err = b.applyNext(); !more {
			b.pending = nil
		}
	}
	if len(b.pending) == 0 {
		b.pending, b.logged, b.caughtUp = nil, nil, true
		if !b.loading {
			b.seen = b.began
		}
	}
	return err
}

// givesNone reports whether an item produces no event, because it is in the log already or comes
// too late for it.
func (b *inbox) givesNone(i *store.Item) bool {
	_, known := b.recent[i.ID]
	return known || b.logged[i.ID] || b.blocked != nil || b.run.Ended()
}

// lets reports whether none of the items that wait because of the limits pauses or cancels the run.
// Then attempts may begin. Otherwise they would have to wait for all items that others have sent.
func (b *inbox) lets() bool {
	if b.wanted || b.loading || len(b.pending) == 0 {
		return false
	}
	if b.looked != len(b.pending) { // pending only gets shorter
		b.stops = slices.ContainsFunc(b.pending, func(i store.Item) bool {
			e, err := event.DecodeItem(i.Body)
			return err == nil && (e.Type == event.RunPaused || e.Type == event.CancelRequested)
		})
		b.looked = len(b.pending)
	}
	return !b.stops
}

// hasUnread reports whether the inbox holds, or may hold, something that the run has not seen.
func (b *inbox) hasUnread() bool {
	return b.wanted || b.loading || len(b.pending) > 0
}

// applyItem applies a received event. An answer without a pending operation is not recorded: either
// it was given before, or the log that requested it was lost. A command without an effect is not
// recorded either.
func (b *inbox) applyItem(e *event.Event) {
	switch e.Type.Entity() {
	case event.EntityChild, event.EntitySend:
		ref := b.run.Answered(e.Type, e.Key)
		if b.run.State().Open(ref) == nil || e.Type == event.ChildStarted && b.run.State().StateOf(ref) != event.StateWaiting {
			return
		}
		e.Ref, e.Key = ref, ""
	case event.EntityHook:
		if ref := b.run.StepHook(e.Token); ref != 0 {
			b.read.items, b.read.bytes = b.read.items+1, b.read.bytes+e.Size()
			b.steps.finish(ref, e)
			return
		}
		ref := b.run.Hook(e.Token)
		if b.run.State().Open(ref) == nil {
			e = &event.Event{Type: event.HookMissed, Item: e.Item, By: e.By, Token: e.Token} // not lost silently
			break
		}
		if f := b.unreadable(e); f != nil {
			e = &event.Event{Type: event.HookMissed, Item: e.Item, By: e.By, Token: e.Token, Failure: f}
			break
		}
		e.Ref, e.Token = ref, ""
	case event.EntityAsk:
		if b.refuses(e) {
			return
		}
	case event.EntityNone:
		if e.Type == event.CancelRequested && e.Name == event.Terminate {
			b.end(effects.Termination(e)) // the remaining inbox items come too late
			return
		}
		if b.pointless(e) {
			return
		}
	}
	b.read.items, b.read.bytes = b.read.items+1, b.read.bytes+e.Size()
	b.apply(*e)
}

// pointless reports whether a command has no effect. Such a command is not recorded.
func (b *inbox) pointless(e *event.Event) bool {
	f := b.run.State()
	switch e.Type {
	case event.RunPaused:
		return f.Paused || f.Ending() // a run that is ending must clean up
	case event.RunResumed:
		return !f.StandsStill() && !b.run.Stepping()
	case event.RunReleased:
		return !f.Held()
	case event.RunStepped:
		return !f.Spec.Debug
	case event.ResourceWait: // it no longer waits
		return f.Open(b.run.Answered(event.ChildCreated, e.Key)) == nil
	}
	return false
}

// refuses reports whether the code rejects an ask. A rejected ask is not recorded; the next commit
// publishes the refusal to its sender. An accepted ask is recorded as accepted, and an ask without
// a handler that could judge it is recorded as received.
func (b *inbox) refuses(e *event.Event) bool {
	var refusal *event.Failure
	var handled bool
	b.exec.inUserCode(func() { refusal, handled = b.run.Judge(e.Name, e.Payload) })
	switch {
	case refusal != nil:
		b.refusals = append(b.refusals, effects.Refusal(e.Item, refusal))
		return true
	case handled:
		e.Type = event.AskAccepted
	}
	return false
}

// unreadable returns why the run's code cannot read a payload for its hook, or nil. Such a payload
// must not fail the run, because any holder of the token may have sent it.
func (b *inbox) unreadable(e *event.Event) *event.Failure {
	var err error
	b.exec.inUserCode(func() { err = b.run.JudgePayload(e.Token, e.Payload) })
	if err == nil {
		return nil
	}
	b.log.Warn("a payload does not fit its hook, and is skipped", "run", b.in.id, "item", e.Item, "error", err)
	return failure.Encode(err, event.CodePayload)
}
