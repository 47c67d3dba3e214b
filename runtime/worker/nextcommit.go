package worker

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/chunk"
	"github.com/flowgen/flowgen/runtime/internal/parcel"
	"github.com/flowgen/flowgen/runtime/internal/publish"
	"github.com/flowgen/flowgen/runtime/store"
)

// commitNext commits what has happened, and gives the run back if there is
// nothing to do for it here.
func (t *runLoop) commitNext() {
	effect, due := t.effect()
	events := t.news.unsaved[:portion(t.news.unsaved)]
	switch {
	case len(events) < len(t.news.unsaved): // the rest follows, and then the run may leave
		effect, due = store.EffectNone, time.Time{}
	case effect == store.EffectNone && t.blocked == nil && t.run.Ended():
		// The last event leaves together with the run, and names what was accepted
		// and never taken: the inbox is read first.
		t.unread.refused = max(t.unread.refused, t.unread.rereads)
		if t.unread.refused >= inboxPatience {
			t.closeInbox()
		}
		return
	case effect == store.EffectNone && len(t.news.refusals) == 0 && t.exempt == store.ExemptUnchanged && (len(t.news.unsaved) == 0 || t.nothingToLose()):
		return
	}
	if effect != store.EffectNone {
		t.unread.rereads = 0
	}
	c := t.newCommit(len(events))
	c.req = store.Commit{
		Run: t.id, WorkflowID: t.workflowID, Fence: t.fence, Prev: t.last, Effect: effect, Due: due,
		Status: t.status(effect), Progress: progress(events), Exempt: t.exempt,
	}
	if len(events) == len(t.news.unsaved) {
		c.starts, c.cancels, c.took, c.read = t.under.starts, t.under.cancels, len(t.unread.taken), t.unread.read
		t.under.starts, t.under.cancels = nil, nil
	}
	if n := c.took; n > 0 {
		c.req.Consume, c.req.ConsumeLast = n, t.unread.taken[n-1]
	}
	if effect == store.EffectBlock {
		c.note = t.blocked.Error()
	}
	if len(events) > 0 {
		if err := t.fill(&c.req, events); err != nil {
			// What the engine itself has made cannot be written: a defect, not a
			// state of the run. Nothing was written.
			t.log.Error("encode commit failed", "run", t.id, "error", err)
			t.lose(&t.fence)
			return
		}
	}
	t.tell(c)
	t.send(c)
}

// nothingToLose reports whether what is not saved need not be yet: the run waits for
// a slot for its next step, and has only asked for it. The commit that starts the
// step says so, too.
func (t *runLoop) nothingToLose() bool {
	if t.blocked != nil || len(t.under.attempts)+len(t.unread.taken)+len(t.under.cancels) > 0 || !t.wantsStep() {
		return false
	}
	return !slices.ContainsFunc(t.news.unsaved, func(e event.Event) bool {
		return e.Type != event.RunStarted && e.Type != event.StepCreated
	})
}

// inboxPatience is how often in a row the inbox may keep a run from ending before
// senders are told to come later: by a commit that is refused, or because it must be
// read again before there can be one.
const inboxPatience = 3

// closeInbox lets the store refuse what is sent from now on: the run could not
// end while items kept coming.
func (t *runLoop) closeInbox() {
	t.unread.rereads = 0
	t.send(&commit{run: t, req: store.Commit{
		Run: t.id, WorkflowID: t.workflowID, Fence: t.fence, Prev: t.last, Closing: true,
	}})
}

// fill writes events that are not saved into a commit: the frame, and what follows
// from it for other runs and for readers.
func (t *runLoop) fill(req *store.Commit, events []event.Event) error {
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
	if len(events) == len(t.news.unsaved) && len(t.unread.lateWrites) > 0 {
		published = slices.Concat(events, t.unread.lateWrites)
	}
	if req.Publish, err = publications(t.route.Workflow, published); err != nil {
		return err
	}
	req.Send, err = t.sends(events)
	return err
}

// frame encodes events as one frame.
func (t *runLoop) frame(req *store.Commit, events []event.Event) error {
	last := &events[len(events)-1]
	if last.Type.Terminal() {
		last.Unread = append(slices.Clip(t.untaken()), t.unread.late...)
	}
	req.CommitID = event.NewCommitID()
	req.First, req.Last = events[0].Seq, last.Seq
	var err error
	req.Frame, err = event.AppendFrame(nil, &event.Frame{
		CommitID: req.CommitID, Prev: t.last, Epoch: t.fence.Epoch, Token: t.fence.Token, Time: last.Time, Events: logged(events),
	})
	return err
}

// untaken returns the messages that are in the log, but that the code never took.
func (t *runLoop) untaken() []event.ItemID {
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
func (t *runLoop) effect() (store.Effect, time.Time) {
	busy := len(t.under.attempts) > 0
	switch {
	case t.blocked != nil:
		if busy {
			return store.EffectNone, time.Time{}
		}
		return store.EffectBlock, time.Time{}
	case t.hasUnread():
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
		if t.stopping.Load() || t.under.gaveWay {
			return store.EffectYield, time.Time{}
		}
		return store.EffectNone, time.Time{}
	case t.run.Fold().RunningSteps() > 0:
		return store.EffectYield, time.Time{} // of attempts that were left behind: the next worker decides
	}
	return store.EffectPark, t.run.Fold().Due()
}

func (t *runLoop) status(effect store.Effect) event.Status {
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

// publications returns what is done to streams by the commit that holds these
// events, in the log of a run of that workflow.
func publications(workflow string, events []event.Event) ([]store.Publication, error) {
	if _, remote := event.StepOfRun(workflow); remote {
		return nil, nil // it writes to the streams of the run that it executes a step for
	}
	var all []store.Publication
	for i := range events {
		switch e := &events[i]; e.Type {
		case event.StreamWritten:
			batch, err := chunk.DecodeBatch(e.Payload)
			if err != nil {
				return nil, fmt.Errorf("publish to stream %s: %w", e.Name, err)
			}
			for _, body := range batch.Bodies {
				all = append(all, store.Publication{Stream: chunk.Stream(e.Name), Body: body, Keep: batch.Keep})
			}
		case event.StreamClosed:
			all = append(all, store.Publication{Stream: chunk.Stream(e.Name), Close: true})
		}
	}
	return all, nil
}

// logged returns events as they stand in the log: without what is published with
// them.
func logged(events []event.Event) []event.Event {
	published := func(e event.Event) bool { return e.Type == event.StreamWritten }
	if !slices.ContainsFunc(events, published) {
		return events
	}
	events = slices.Clone(events)
	for i := range events {
		if published(events[i]) {
			events[i].Payload = nil
		}
	}
	return events
}

// sends returns the records for the outbox that follow from events: they are written
// by the commit that holds their cause.
func (t *runLoop) sends(events []event.Event) ([]store.Send, error) {
	var all []store.Send
	for i := range events {
		records, err := parcel.Sends(t.id, t.run.Fold(), &events[i])
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	return all, nil
}

// continuation returns the run that this one continues as. Its first frame holds
// what this run was given and its code has not taken.
func (t *runLoop) continuation(last *event.Event) (*store.Create, error) {
	fold := t.run.Fold()
	spec := *fold.Spec
	spec.ContinuedOf, spec.RerunOf, spec.Seed, spec.Kept, spec.Hold, spec.StartAt = t.id, "", "", 0, 0, time.Time{}
	events := []event.Event{{Type: event.RunCreated, Spec: &spec, Payload: last.Payload}}
	if spec.Debug && !t.run.Stepping() {
		events = append(events, event.Event{Type: event.RunResumed})
	}
	for _, name := range t.run.ClosedStreams() { // they are those of the chain
		events = append(events, event.Event{Type: event.StreamClosed, Name: name})
	}
	t.run.Unread(func(e *event.Event) bool {
		switch e.Type {
		case event.MessageReceived, event.AskReceived, event.AskAccepted: // hooks end with the run
			events = append(events, event.Event{Type: e.Type, Name: e.Name, Item: e.Item, Payload: e.Payload})
		}
		return true
	})
	// A run that is asked to end before it has started ends at once: that comes last,
	// and counts once.
	var cancel []event.Event
	if fold.CancelRequested {
		cancel = append(cancel, event.Event{Type: event.CancelRequested, Reason: fold.CancelReason, Item: fold.CancelItem})
	}
	for _, e := range t.unread.carried {
		if e.Type == event.CancelRequested {
			cancel = append(cancel, e)
		} else {
			events = append(events, e)
		}
	}
	events = append(events, cancel[:min(len(cancel), 1)]...)
	for i := range events {
		events[i].Seq, events[i].Time = uint64(i+1), last.Time
	}
	c := &store.Create{
		Run: last.Next, WorkflowID: spec.WorkflowID, Route: t.route, Priority: spec.Priority, Tags: spec.Tags,
		Parent: spec.Parent, Root: spec.Root, Retention: spec.Retention, CommitID: event.NewCommitID(), Seq: uint64(len(events)),
	}
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{CommitID: c.CommitID, Time: last.Time, Events: events})
	return c, err
}

// tell adds what a commit lets others read: what its events say, and with the first
// frame of a run what that has taken over.
func (t *runLoop) tell(c *commit) {
	if c.took == len(t.unread.taken) { // else the questions stay in the inbox, and the next worker would judge them again
		c.told = len(t.news.refusals)
		c.req.Publish = append(c.req.Publish, t.news.refusals...)
	}
	if c.req.Frame == nil {
		return
	}
	c.again = len(t.news.again) > 0
	c.req.Publish = append(c.req.Publish, t.news.again...)
	for i := range t.news.unsaved[:c.events] {
		c.req.Publish = append(c.req.Publish, publish.Of(t.run.Fold(), &t.news.unsaved[i])...)
	}
}
