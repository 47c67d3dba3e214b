package worker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/request"
)

const (
	loaders   = 2
	loadBatch = 128
)

// load is a read of a run: all of it, or only its inbox.
type load struct {
	t     *task
	fence store.Fence // of the claim that wants it
	inbox bool        // only the inbox
	got   store.Loaded

	partition, bytes int // of the run
}

// read asks for the log and the inbox of a run that was claimed.
func (t *task) read() {
	t.state = taskLoading
	t.w.load(&load{t: t, fence: t.fence, partition: t.partition, bytes: t.bytes})
}

// readClaimed is read for a run that was claimed just now: what the claim has
// brought need not be asked for.
func (t *task) readClaimed(got *store.Loaded) {
	if got == nil {
		t.read()
		return
	}
	t.state = taskLoading
	t.post(input{kind: inputLoaded, loaded: &load{t: t, fence: t.fence, got: *got}})
}

// readMail asks for the inbox. One read at a time: recent then holds all items
// that were applied but may still be in what is read.
func (t *task) readMail() {
	t.mailWanted, t.mailLoading = false, true
	t.recent = make(map[event.ItemID]struct{}, len(t.taken))
	for _, id := range t.taken {
		t.recent[id] = struct{}{}
	}
	t.w.load(&load{t: t, fence: t.fence, inbox: true, partition: t.partition})
}

// load hands a read to the loaders. It is not answered if the worker has
// stopped.
func (w *Worker) load(l *load) {
	w.activity.Begin()
	select {
	case w.loads <- l:
	case <-w.io.Done():
	}
}

// loadLoop reads for many runs at once.
func (w *Worker) loadLoop() {
	defer w.work.Done()
	var batch []*load
	for {
		if batch = request.Gather(w.io, w.loads, batch, loadBatch); len(batch) == 0 {
			return
		}
		w.loadSender.Send(batch)
		clear(batch[:cap(batch)])
	}
}

// newLoadSender returns what asks for runs until there is an answer.
func (w *Worker) newLoadSender() *request.Sender[*load] {
	return request.NewSender(request.Params[*load]{
		Ask:       w.readBatch,
		GiveUp:    func(l *load, err error) { l.deliver(store.Loaded{Err: err}) },
		Partition: func(l *load) int { return l.partition },
		Bytes:     func(l *load) int { return l.bytes },
		Clock:     w.clock, Context: w.io, Last: w.hard.Load, Work: &w.work,
	})
}

// readBatch asks once, and returns what was not answered.
func (w *Worker) readBatch(batch []*load) (unknown []*load, err error) {
	requests := make([]store.Load, len(batch))
	for i, l := range batch {
		requests[i] = store.Load{Run: l.t.id, Inbox: true, Bytes: l.bytes}
		if l.inbox {
			requests[i].Limit = -1
		}
	}
	got, err := w.store.Load(w.io, requests)
	unknown = batch[:0]
	for i, l := range batch {
		answer := store.Loaded{Err: err}
		if err == nil {
			answer = got[i]
		}
		if store.Unknown(answer.Err) {
			unknown, err = append(unknown, l), answer.Err
			continue
		}
		l.deliver(answer)
	}
	return unknown, err
}

// deliver tells the task what was read.
func (l *load) deliver(got store.Loaded) {
	l.got = got
	l.t.post(input{kind: inputLoaded, loaded: l})
	l.t.w.activity.End()
}

func (t *task) onLoaded(l *load) {
	if l.fence != t.fence || t.state == taskAway {
		return // it was for an earlier claim
	}
	switch {
	case errors.Is(l.got.Err, store.ErrRunNotFound):
		t.lose(nil) // the run is gone
	case errors.Is(l.got.Err, store.ErrClosed), l.got.Err != nil && store.Unknown(l.got.Err):
		t.lose(&t.fence)
	case l.got.Err != nil: // it will not be readable later either
		t.forget()
		t.state, t.inflight = taskLive, nil // a commit under way was for what was known before
		t.block(l.got.Err)
	case l.inbox:
		t.mailLoading = false
		if t.state == taskLive {
			t.takeMail(l.got.Inbox)
		}
	case t.state == taskLoading:
		t.replay(&l.got)
	}
}

// replay brings the code of the run to where its log ends.
func (t *task) replay(got *store.Loaded) {
	events, err := t.decode(got.Frames)
	if err != nil {
		t.state, t.recent = taskLive, nil
		t.block(err)
		return
	}
	t.execute(events, got.Inbox)
}

// execute makes a run live: its log holds these events, its inbox these items.
func (t *task) execute(events []event.Event, inbox []store.Item) {
	t.state, t.recent = taskLive, nil
	if !t.w.serves[t.class] {
		t.executeUnserved(events, inbox)
		return
	}
	program, short, ok := t.w.code.Program(t.class.Workflow, t.w.client, t.w.log)
	if !ok {
		t.lose(&t.fence) // not served here
		return
	}
	t.run = replay.New(t.id, short, program, &t.exec.pool)
	t.run.Stray = t.onStray
	if t.recoveries >= t.w.cfg.Recoveries {
		t.poison(events, inbox)
		return
	}
	var err error
	t.exec.inUserCode(func() { err = t.run.Replay(events) })
	if err != nil {
		t.block(err)
		return
	}
	t.interrupted = runningSteps(t.run.Fold())
	t.keepValues(events)
	if len(inbox) > 0 {
		t.logged = itemsIn(events)
	}
	t.takeMail(inbox)
}

// itemsIn returns the items that are in a log. Of what one worker took over at once and could
// not write with one commit, only the last commit consumes the items: who goes on with such
// a log finds them in the inbox, too, and must not apply them again.
func itemsIn(events []event.Event) map[event.ItemID]bool {
	known := map[event.ItemID]bool{}
	for i := range events {
		if item := events[i].Item; item != "" {
			known[item] = true
		}
	}
	return known
}

// onStray is told on a goroutine of the user's that it has called a durable operation.
// A run that waits is told, or it would be blocked by its next event only.
func (t *task) onStray(e *replay.StrayError) {
	t.w.log.Error("durable operation called on a goroutine of its own: the goroutine was ended", "run", t.id, "workflow", t.class.Workflow, "error", e)
	if !t.w.stopping.Load() {
		t.post(input{kind: inputTick})
	}
}

// decode reads the frames of a log and checks that they are what was claimed.
func (t *task) decode(frames [][]byte) ([]event.Event, error) {
	var events []event.Event
	var prev event.CID
	for i, b := range frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			return nil, fmt.Errorf("frame %d of the log of run %s: %w", i+1, t.id, err)
		}
		if f.Prev != prev {
			return nil, fmt.Errorf("frame %d of the log of run %s does not continue the frame before it: %w", i+1, t.id, event.ErrCorrupt)
		}
		prev = f.CID
		events = append(events, f.Events...)
		t.size.add(len(b), f.Events)
	}
	if last := uint64(len(events)); uint64(len(frames)) != t.n || last != t.seq || prev != t.last {
		return nil, fmt.Errorf("log of run %s ends with frame %d (%s) and event %d, its metadata says %d (%s) and %d: %w",
			t.id, len(frames), prev, last, t.n, t.last, t.seq, event.ErrCorrupt)
	}
	return events, nil
}

// The limits of what is taken from the inbox and is not confirmed as removed from it. What
// comes faster than that is read, and waits until the next commit: else there would be no
// commit that has all that happened, which alone starts steps and removes items.
const (
	mailItems = 1000
	mailBytes = commitBytes / 4
)

// takeMail takes over what a read of the inbox has found, as far as there is room for it.
func (t *task) takeMail(items []store.Item) {
	if t.run != nil && t.run.Ended() {
		t.rereads++
	}
	t.pending = items
	t.applyPending()
}

// applyPending moves items that were read into the log, in order, as far as there is room.
// What gives no event needs none, so that whatever waits here waits for a commit.
func (t *task) applyPending() {
	for len(t.pending) > 0 && t.mail.items < mailItems && t.mail.bytes < mailBytes {
		if !t.applyNext() {
			t.pending = nil
		}
	}
	if len(t.pending) == 0 {
		t.pending, t.logged, t.caughtUp = nil, nil, true
	}
}

// hasMail reports whether the inbox is known to hold something that the run has not seen,
// or may do so.
func (t *task) hasMail() bool { return t.mailWanted || t.mailLoading || len(t.pending) > 0 }

// applyNext moves the first item of those that were read into the log. It reports whether
// the others are for this run, too.
func (t *task) applyNext() bool {
	item := t.pending[0]
	if _, known := t.recent[item.ID]; known || t.blocked != nil {
		t.pending = t.pending[1:]
		return true
	}
	if t.logged[item.ID] {
		t.pending = t.pending[1:]
		t.taken = append(t.taken, item.ID)
		return true
	}
	ended := t.run.Ended()
	if ended && t.run.Fold().Run == event.StateContinued && !forThisRun(t.pending) {
		return false // what is left goes on to the next run by itself
	}
	t.pending = t.pending[1:]
	e, err := event.DecodeItem(item.Body)
	if err != nil && !ended {
		t.block(fmt.Errorf("item %s in the inbox of run %s: %w", item.ID, t.id, err))
		return false
	}
	t.taken = append(t.taken, item.ID)
	switch {
	case !ended:
		e.Item = item.ID
		t.applyItem(e)
	case err == nil && (e.Type == event.StreamWritten || e.Type == event.StreamClosed):
		t.lateWrites = append(t.lateWrites, *e) // it was accepted, and is for others to read
	default:
		t.late = append(t.late, item.ID)
		if err == nil && item.Scope == store.ScopeChain {
			e.Item = item.ID
			t.carried = append(t.carried, *e)
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
func (t *task) applyItem(e *event.Event) {
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
	t.mail.items, t.mail.bytes = t.mail.items+1, t.mail.bytes+e.Size()
	t.apply(*e)
}

// unreadable says why the run's code cannot read a payload for its hook. Such a payload
// must not fail the run: whoever has the token may have sent it.
func (t *task) unreadable(e *event.Event) *event.Failure {
	var err error
	t.exec.inUserCode(func() { err = t.run.JudgePayload(e.Token, e.Payload) })
	if err == nil {
		return nil
	}
	t.w.log.Warn("a payload does not fit its hook, and is skipped", "run", t.id, "item", e.Item, "error", err)
	return failure.Encode(err, event.CodePayload)
}

// apply lets an event come into effect, now.
func (t *task) apply(e event.Event) {
	e.Time = t.w.clock.Now()
	t.exec.inUserCode(func() { _ = t.run.Apply(e) }) // Err is looked at in advance
}
