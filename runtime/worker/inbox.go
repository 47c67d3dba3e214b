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

// inbox takes the items in the inbox of a run into its log.
type inbox struct {
	*execution
	unread
	steps    finisher            // of the run
	refusals []store.Publication // of questions that were taken, to publish
}

// unread is the state of the inbox: the items that the run has not seen, and those that it
// has taken.
type unread struct {
	taken      []event.ItemID            // applied, not confirmed as removed from the inbox
	drafted    drafted                   // of these: what became of them is in the draft
	recent     map[event.ItemID]struct{} // applied since the last read of the inbox began, or not confirmed
	pending    []store.Item              // read from the inbox, and not applied yet
	looked     int                       // how many were pending when lets has looked at them
	stops      bool                      // what it has found
	read       extent                    // of taken: what events were made of
	logged     map[event.ItemID]bool     // while the inbox of a run that was read is applied: what is in its log
	late       []event.ItemID            // came when the code had ended
	lateWrites []event.Event             // of these: what steps have done to streams
	carried    []event.Event             // of these: what the run that it continues as is given
	began      time.Time                 // when the last read of it began, other than at the claim
	seen       time.Time                 // what it held by then was taken
	caughtUp   bool                      // what the inbox held at the claim was taken
	wanted     bool                      // the inbox has something new
	loading    bool
	refused    int // times in a row that the inbox kept the run from leaving
	rereads    int // of the inbox since the code ended, with no commit that could have ended the run
}

// drafted counts the first ones of the items that were taken, and of the questions that were
// refused meanwhile.
type drafted struct{ items, refusals int }

// finisher ends the attempts of steps whose outcome comes from outside.
type finisher interface {
	// finish lets an item be the outcome of the attempt of the step that event ref created.
	finish(ref uint64, e *event.Event)
}

// forget drops what was read, but not how often the inbox has kept the run here.
func (b *inbox) forget() {
	b.unread, b.refusals = unread{refused: b.refused, rereads: b.rereads}, nil
}

// keep records that the draft has what became of all that was taken.
func (b *inbox) keep() { b.drafted = drafted{len(b.taken), len(b.refusals)} }

// giveBack leaves in the inbox what the run was taking when its code turned out not to fit: no
// commit will have it, and a worker whose code fits takes it. It judges the questions among it anew.
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

// reread records that the inbox is read. One read at a time: recent then holds all items
// that were applied but may still be in what is read.
func (b *inbox) reread() {
	b.wanted, b.loading, b.began = false, true, b.clock.Now()
	b.recent = make(map[event.ItemID]struct{}, len(b.taken))
	for _, id := range b.taken {
		b.recent[id] = struct{}{}
	}
}

// The limits of what is taken from the inbox and is not confirmed as removed from it. What
// comes faster than that is read, and waits until the next commit: else there would be no
// commit that has all that happened, which alone starts steps and removes items.
const (
	takenItems = 1000
	takenBytes = commitBytes / 4
)

// applyNext moves the first item of those that were read into the log. It reports whether
// the others are for this run, too.
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
		return false, nil // what is left goes on to the next run by itself
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
		b.lateWrites = append(b.lateWrites, *e) // it was accepted, and is for others to read
	case err == nil && answers(e):
		// The code has ended without it: nobody's message is lost.
	default:
		b.late = append(b.late, item.ID)
		if _, notice := event.NoticeFor(item.ID); err == nil && item.Scope == store.ScopeChain && !notice { // the end answers a notice
			e.Item = item.ID
			b.carried = append(b.carried, *e)
		}
	}
	return true, nil
}

// answers reports whether an item tells what became of something that the code asked for.
func answers(e *event.Event) bool {
	entity := e.Type.Entity()
	return entity == event.EntityChild || entity == event.EntitySend || e.Type == event.ResourceWait
}

// forThisRun reports whether some of the items do not go on to the next run.
func forThisRun(items []store.Item) bool {
	return slices.ContainsFunc(items, func(i store.Item) bool { return i.Scope == store.ScopeRun })
}

// takeItems takes over what a read of the inbox has found, as far as there is room for it.
func (b *inbox) takeItems(items []store.Item) error {
	if b.run != nil && b.run.Ended() {
		b.rereads++
	}
	b.pending, b.looked = items, 0
	return b.applyPending()
}

// applyPending moves items that were read into the log, in order, as far as there is room.
// What gives no event needs none, so that whatever waits here waits for a commit: and there is
// one, as long as the code has not ended.
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

// givesNone reports whether an item gives no event: it has come into the log before, or comes too late for it.
func (b *inbox) givesNone(i *store.Item) bool {
	_, known := b.recent[i.ID]
	return known || b.logged[i.ID] || b.blocked != nil || b.run.Ended()
}

// lets reports whether what waits for room in the log, of an inbox that was read, neither pauses the run nor asks it to end: then attempts
// may begin, or they would have to wait for everything that anybody has sent.
func (b *inbox) lets() bool {
	if b.wanted || b.loading || len(b.pending) == 0 {
		return false
	}
	if b.looked != len(b.pending) { // it only gets shorter
		b.stops = slices.ContainsFunc(b.pending, func(i store.Item) bool {
			e, err := event.DecodeItem(i.Body)
			return err == nil && (e.Type == event.RunPaused || e.Type == event.CancelRequested)
		})
		b.looked = len(b.pending)
	}
	return !b.stops
}

// hasUnread reports whether the inbox is known to hold something that the run has not seen,
// or may do so.
func (b *inbox) hasUnread() bool {
	return b.wanted || b.loading || len(b.pending) > 0
}

// applyItem lets what somebody has sent come into effect. An answer that nothing
// waits for is not recorded: it was given before, or the log that asked was lost;
// nor is a command that changes nothing.
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
			b.end(effects.Termination(e)) // what is in the inbox after it comes too late
			return
		}
		if b.pointless(e) {
			return
		}
	}
	b.read.items, b.read.bytes = b.read.items+1, b.read.bytes+e.Size()
	b.apply(*e)
}

// pointless reports whether a command changes nothing: it is not recorded.
func (b *inbox) pointless(e *event.Event) bool {
	f := b.run.State()
	switch e.Type {
	case event.RunPaused:
		return f.Paused || f.Ending() // a run that ends must clean up
	case event.RunResumed:
		return !f.StandsStill() && !b.run.Stepping()
	case event.RunReleased:
		return !f.Held()
	case event.RunStepped:
		return !f.Spec.Debug
	case event.ResourceWait: // it waits no more
		return f.Open(b.run.Answered(event.ChildCreated, e.Key)) == nil
	}
	return false
}

// refuses reports whether the code does not accept a question. Then nothing of it is
// recorded, but the next commit tells who has asked. One that is accepted is
// recorded as that, and one that nobody can judge as it is.
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

// unreadable says why the run's code cannot read a payload for its hook. Such a payload
// must not fail the run: whoever has the token may have sent it.
func (b *inbox) unreadable(e *event.Event) *event.Failure {
	var err error
	b.exec.inUserCode(func() { err = b.run.JudgePayload(e.Token, e.Payload) })
	if err == nil {
		return nil
	}
	b.log.Warn("a payload does not fit its hook, and is skipped", "run", b.in.id, "item", e.Item, "error", err)
	return failure.Encode(err, event.CodePayload)
}
