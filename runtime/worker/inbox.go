package worker

import (
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/publish"
	"github.com/flowgen/flowgen/runtime/store"
)

// readInbox asks for the inbox. One read at a time: recent then holds all items
// that were applied but may still be in what is read.
func (t *runLoop) readInbox() {
	t.unread.wanted, t.unread.loading = false, true
	t.unread.recent = make(map[event.ItemID]struct{}, len(t.unread.taken))
	for _, id := range t.unread.taken {
		t.unread.recent[id] = struct{}{}
	}
	t.loader.load(&load{by: t, run: t.id, fence: t.fence, inbox: true, partition: t.partition})
}

// The limits of what is taken from the inbox and is not confirmed as removed from it. What
// comes faster than that is read, and waits until the next commit: else there would be no
// commit that has all that happened, which alone starts steps and removes items.
const (
	takenItems = 1000
	takenBytes = commitBytes / 4
)

// takeItems takes over what a read of the inbox has found, as far as there is room for it.
func (t *runLoop) takeItems(items []store.Item) {
	if t.run != nil && t.run.Ended() {
		t.unread.rereads++
	}
	t.unread.pending = items
	t.applyPending()
}

// applyPending moves items that were read into the log, in order, as far as there is room.
// What gives no event needs none, so that whatever waits here waits for a commit.
func (t *runLoop) applyPending() {
	for len(t.unread.pending) > 0 && t.unread.read.items < takenItems && t.unread.read.bytes < takenBytes {
		if !t.applyNext() {
			t.unread.pending = nil
		}
	}
	if len(t.unread.pending) == 0 {
		t.unread.pending, t.unread.logged, t.unread.caughtUp = nil, nil, true
	}
}

// hasMail reports whether the inbox is known to hold something that the run has not seen,
// or may do so.
func (t *runLoop) hasUnread() bool {
	return t.unread.wanted || t.unread.loading || len(t.unread.pending) > 0
}

// applyNext moves the first item of those that were read into the log. It reports whether
// the others are for this run, too.
func (t *runLoop) applyNext() bool {
	item := t.unread.pending[0]
	if _, known := t.unread.recent[item.ID]; known || t.blocked != nil {
		t.unread.pending = t.unread.pending[1:]
		return true
	}
	if t.unread.logged[item.ID] {
		t.unread.pending = t.unread.pending[1:]
		t.unread.taken = append(t.unread.taken, item.ID)
		return true
	}
	ended := t.run.Ended()
	if ended && t.run.Fold().Run == event.StateContinued && !forThisRun(t.unread.pending) {
		return false // what is left goes on to the next run by itself
	}
	t.unread.pending = t.unread.pending[1:]
	e, err := event.DecodeItem(item.Body)
	if err != nil && !ended {
		t.block(fmt.Errorf("item %s in the inbox of run %s: %w", item.ID, t.id, err))
		return false
	}
	t.unread.taken = append(t.unread.taken, item.ID)
	switch {
	case !ended:
		e.Item = item.ID
		t.applyItem(e)
	case err == nil && (e.Type == event.StreamWritten || e.Type == event.StreamClosed):
		t.unread.lateWrites = append(t.unread.lateWrites, *e) // it was accepted, and is for others to read
	default:
		t.unread.late = append(t.unread.late, item.ID)
		if err == nil && item.Scope == store.ScopeChain {
			e.Item = item.ID
			t.unread.carried = append(t.unread.carried, *e)
		}
	}
	return true
}

// forThisRun reports whether some of the items do not go on to the next run.
func forThisRun(items []store.Item) bool {
	return slices.ContainsFunc(items, func(i store.Item) bool { return i.Scope == store.ScopeRun })
}

// applyItem lets what somebody has sent come into effect. An answer that nothing
// waits for is not recorded: it was given before, or the log that asked was lost;
// nor is a command that changes nothing.
func (t *runLoop) applyItem(e *event.Event) {
	switch e.Type.Entity() {
	case event.EntityChild, event.EntitySend:
		ref := t.run.Answered(e.Type, e.Key)
		if t.run.Fold().Open(ref) == nil || e.Type == event.ChildStarted && t.run.Fold().StateOf(ref) != event.StateWaiting {
			return
		}
		e.Ref, e.Key = ref, ""
	case event.EntityHook:
		ref := t.run.Hook(e.Token)
		if t.run.Fold().Open(ref) == nil {
			e = &event.Event{Type: event.HookMissed, Item: e.Item, Token: e.Token} // not lost silently
			break
		}
		if f := t.unreadable(e); f != nil {
			e = &event.Event{Type: event.HookMissed, Item: e.Item, Token: e.Token, Failure: f}
			break
		}
		e.Ref, e.Token = ref, ""
	case event.EntityAsk:
		if t.refuses(e) {
			return
		}
	case event.EntityNone:
		if t.pointless(e) {
			return
		}
	}
	t.unread.read.items, t.unread.read.bytes = t.unread.read.items+1, t.unread.read.bytes+e.Size()
	t.apply(*e)
}

// pointless reports whether a command changes nothing: it is not recorded.
func (t *runLoop) pointless(e *event.Event) bool {
	f := t.run.Fold()
	switch e.Type {
	case event.RunPaused:
		return f.Paused
	case event.RunResumed:
		return !f.Paused && !t.run.Stepping()
	case event.RunReleased:
		return !f.Held()
	case event.RunStepped:
		return !f.Spec.Debug
	}
	return false
}

// refuses reports whether the code does not accept a question. Then nothing of it is
// recorded, but the next commit tells who has asked. One that is accepted is
// recorded as that, and one that nobody can judge as it is.
func (t *runLoop) refuses(e *event.Event) bool {
	var refusal *event.Failure
	var handled bool
	t.exec.inUserCode(func() { refusal, handled = t.run.Judge(e.Name, e.Payload) })
	switch {
	case refusal != nil:
		t.news.refusals = append(t.news.refusals, publish.Refusal(e.Item, refusal))
		return true
	case handled:
		e.Type = event.AskAccepted
	}
	return false
}

// unreadable says why the run's code cannot read a payload for its hook. Such a payload
// must not fail the run: whoever has the token may have sent it.
func (t *runLoop) unreadable(e *event.Event) *event.Failure {
	var err error
	t.exec.inUserCode(func() { err = t.run.JudgePayload(e.Token, e.Payload) })
	if err == nil {
		return nil
	}
	t.log.Warn("a payload does not fit its hook, and is skipped", "run", t.id, "item", e.Item, "error", err)
	return failure.Encode(err, event.CodePayload)
}
