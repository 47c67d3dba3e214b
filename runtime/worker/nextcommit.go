package worker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/trouble"
	"github.com/flowgen/flowgen/runtime/store"
)

// draft makes the next commit of a run, of what has happened and is in no confirmed commit.
type draft struct {
	*execution
	*tenure
	*logEnd
	inbox    *inbox
	stepping *stepping
	unsaved  []event.Event
	again    []store.Publication // of what was taken over from another run, to publish
	spare    *commit             // answered, for the next one
}

// add adds what the run has done.
func (d *draft) add(events []event.Event) {
	if len(d.unsaved) == 0 {
		d.unsaved = events
	} else {
		d.unsaved = append(d.unsaved, events...)
	}
}

// keepValues lets a run that has not committed anything publish what it has taken
// over of an older one.
func (d *draft) keepValues(events []event.Event) {
	if d.n > 1 || d.run.State().Spec.Kept == 0 {
		return
	}
	d.again = effects.TakenOver(events)
	if len(d.again) > 0 && !d.run.Ended() {
		d.apply(event.Event{Type: event.ValuesKept}) // the commit needs a frame
	}
}

// next returns the next commit: of what has happened, and one that gives the run back if
// there is nothing to do for it here. It is nil if there is nothing to commit.
func (d *draft) next(exempt store.Exempt) (*commit, error) {
	effect, due := d.effect()
	status := d.status(effect)
	if d.stays(effect) {
		effect, due = store.EffectNone, time.Time{}
	}
	events := d.unsaved[:portion(d.unsaved)]
	switch {
	case len(events) < len(d.unsaved): // the rest follows, and then the run may leave
		effect, due = store.EffectNone, time.Time{}
		status = d.status(effect)
	case effect == store.EffectNone && d.blocked == nil && d.run.Ended():
		// The last event leaves together with the run, and names what was accepted
		// and never taken: the inbox is read first.
		d.inbox.refused = max(d.inbox.refused, d.inbox.rereads)
		if d.inbox.refused >= inboxPatience {
			return d.closing(), nil
		}
		return nil, nil
	case effect == store.EffectNone && len(d.inbox.refusals) == 0 && exempt == store.ExemptUnchanged && (len(d.unsaved) == 0 || d.nothingToLose()):
		return nil, nil
	}
	if effect != store.EffectNone {
		d.inbox.rereads = 0
	}
	c := d.newCommit(len(events))
	c.req.Effect, c.req.Due, c.req.Status = effect, due, status
	c.req.Progress, c.req.Exempt, c.req.Unused = progress(events), exempt, d.unused(effect)
	if len(events) == len(d.unsaved) {
		c.req.Trouble = d.label(effect)
		c.starts, c.cancels, c.took, c.read = d.stepping.starts, d.stepping.cancels, len(d.inbox.taken), d.inbox.read
		c.opened = d.stepping.opened
		d.stepping.starts, d.stepping.cancels, d.stepping.opened = nil, nil, nil
	}
	if n := c.took; n > 0 {
		c.req.Consume, c.req.ConsumeLast = n, d.inbox.taken[n-1]
	}
	if effect == store.EffectBlock {
		c.why, c.differs = d.blocked.Error(), nil
		if m, ok := errors.AsType[*replay.MismatchError](d.blocked); ok {
			recorded, asked := m.Sides()
			c.differs = &engine.Mismatch{Event: m.Seq, Recorded: recorded, Asked: asked, Position: m.Position, Diff: m.Diff, Build: m.Build, Here: m.Here}
		}
	}
	if len(events) > 0 {
		if err := d.fill(&c.req, events); err != nil {
			return nil, err
		}
		if h := d.stepping.holdBack; h.seq <= c.req.Last {
			c.req.HoldBack = h.d
		}
	}
	d.tell(c)
	return c, nil
}

// label returns the label that a commit gives the run; nil: the one that it has, or what the store
// makes of that at its end.
func (d *draft) label(effect store.Effect) *store.Trouble {
	t := d.trouble(effect)
	if t.Group == d.group || t.Group == "" && (effect == store.EffectFinish || effect == store.EffectContinue) {
		return nil
	}
	label := t // only what changes a label is worth an allocation
	return &label
}

// trouble returns the trouble that the run is in after a commit; none: in none. Of several steps that are being retried the
// one that began first counts: so the label does not change each time that one of them fails.
func (d *draft) trouble(effect store.Effect) store.Trouble {
	if effect == store.EffectBlock {
		return trouble.Blocked(d.route.Workflow, whatBlocks(d.blocked))
	}
	if d.run == nil {
		return store.Trouble{Group: d.group} // the log could not be read: nothing is known that would change it
	}
	state := d.run.State()
	if effect == store.EffectFinish && state.Run == event.StateFailed {
		return trouble.Failed(d.route.Workflow, state.Failure)
	}
	if o := state.Failing(); o != nil {
		return trouble.Retrying(d.route.Workflow, o.Name, o.Failure)
	}
	return store.Trouble{}
}

// whatBlocks says why a run is blocked without what is about that run: if the code does not fit, the operation of the log
// and that of the code.
func whatBlocks(err error) string {
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		return mismatch.Operations()
	}
	return err.Error()
}

// What a client on this process starts is created by the worker if that can begin it at
// once. The code of the run comes first: it has no effects before it waits for the
// first time, only events. Then one request stores the run, owned by this worker, with
// all of them in its first frame; and only when that was answered, what they explain is
// done. That saves a claim and a commit, and changes no rule: create, claim and
// commit happen in one action.
//
// If the answer is lost the run may be there, owned, and nobody works on it: that is a
// claim whose answer was lost, which the next reconciliation gives back.

// creation returns the commit that creates the run.
func (d *draft) creation(start *localStart) (*commit, error) {
	n := d.portionOfStart()
	c := d.newCommit(n)
	c.start = start
	if err := d.frame(&c.req, d.unsaved[:n]); err != nil {
		return nil, err
	}
	if n == len(d.unsaved) {
		c.starts, d.stepping.starts = d.stepping.starts, nil
	}
	r := &start.request
	*r = start.Create
	r.Frame, r.CommitID, r.Seq, r.Status = c.req.Frame, c.req.CommitID, c.req.Last, event.StatusRunning
	if effect, _ := d.effect(); effect == store.EffectPark && n == len(d.unsaved) {
		r.Status = d.status(effect) // it waits from the beginning
	}
	r.Owner = &store.Owner{Session: d.session, Token: d.fence.Token}
	return c, nil
}

// newCommit returns a commit of so many events, under the claim and at the end of the log.
func (d *draft) newCommit(events int) *commit {
	c := d.spare
	if c == nil {
		c = &commit{}
	}
	d.spare = nil
	*c = commit{run: d.in, events: events, made: d.clock.Now()}
	c.req.Run, c.req.WorkflowID, c.req.Fence, c.req.Prev = d.in.id, d.workflowID, d.fence, d.last
	return c
}

// saved forgets what a commit holds that is durable.
func (d *draft) saved(c *commit) {
	saved := d.unsaved
	if d.unsaved = saved[c.events:]; len(d.unsaved) == 0 && d.run != nil {
		d.run.Reuse(saved[:0])
		d.unsaved = nil
	}
	if c.again {
		d.again = nil
	}
	if h := &d.stepping.holdBack; c.req.Frame != nil && h.seq <= c.req.Last {
		*h = holdBack{}
	}
}

// recycle keeps a commit that was answered, and that nobody else has, for the next one.
func (d *draft) recycle(c *commit) {
	*c = commit{}
	d.spare = c
}

// forget drops what was not committed.
func (d *draft) forget() { d.unsaved, d.again = nil, nil }

// nothingToLose reports whether what is not saved need not be yet: the run waits for
// a slot for its next step, and has only asked for it. The commit that starts the
// step says so, too.
func (d *draft) nothingToLose() bool {
	if d.blocked != nil || len(d.stepping.attempts)+len(d.inbox.taken)+len(d.stepping.cancels) > 0 || !d.stepping.wanted() {
		return false
	}
	return !slices.ContainsFunc(d.unsaved, func(e event.Event) bool {
		return e.Type != event.RunStarted && e.Type != event.StepCreated && e.Type != event.ResourceWait
	})
}

// inboxPatience is how often in a row the inbox may keep a run from ending before
// senders are told to come later: by a commit that is refused, or because it must be
// read again before there can be one.
const inboxPatience = 3

// closing returns the commit that lets the store refuse what is sent from now on: the run
// could not end while items kept coming.
func (d *draft) closing() *commit {
	d.inbox.rereads = 0
	c := d.newCommit(0)
	c.req.Closing = true
	return c
}

// fill writes events that are not saved into a commit: the frame, and what follows
// from it for other runs and for readers.
func (d *draft) fill(req *store.Commit, events []event.Event) error {
	if err := d.frame(req, events); err != nil {
		return err
	}
	var err error
	if req.Effect == store.EffectContinue {
		if req.Continue, err = d.continuation(&events[len(events)-1]); err != nil {
			return err
		}
	}
	published := events
	if len(events) == len(d.unsaved) && len(d.inbox.lateWrites) > 0 {
		published = slices.Concat(events, d.inbox.lateWrites)
	}
	if req.Publish, err = publications(d.route.Workflow, published); err != nil {
		return err
	}
	req.Send, err = d.sends(events)
	return err
}

// frame encodes events as one frame.
func (d *draft) frame(req *store.Commit, events []event.Event) error {
	last := &events[len(events)-1]
	if last.Type.Terminal() {
		last.Unread = append(slices.Clip(d.untaken()), d.inbox.late...)
		d.rerun(last)
	}
	req.CommitID = event.NewCommitID()
	req.First, req.Last = events[0].Seq, last.Seq
	var err error
	req.Frame, err = event.AppendFrame(nil, &event.Frame{
		CommitID: req.CommitID, Prev: d.last, Epoch: d.fence.Epoch, Token: d.fence.Token, Time: last.Time, Events: logged(events),
	})
	return err
}

// untaken returns the messages that are in the log, but that the code never took.
func (d *draft) untaken() []event.ItemID {
	var ids []event.ItemID
	var found []*event.Event
	d.run.Unread(func(e *event.Event) bool {
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
func (d *draft) effect() (store.Effect, time.Time) {
	busy := len(d.stepping.attempts) > 0
	switch {
	case d.blocked != nil:
		if busy {
			return store.EffectNone, time.Time{}
		}
		return store.EffectBlock, time.Time{}
	case d.inbox.hasUnread():
		return store.EffectNone, time.Time{}
	case d.run.Ended():
		if d.run.State().Run == event.StateContinued {
			return store.EffectContinue, time.Time{}
		}
		return store.EffectFinish, time.Time{}
	case busy:
		return store.EffectNone, time.Time{}
	case d.run.State().StandsStill(): // no operation is due
		return store.EffectPark, d.run.State().Due()
	case d.stepping.wanted():
		if d.stopping.Load() || d.stepping.gaveWay {
			return store.EffectYield, time.Time{}
		}
		return store.EffectNone, time.Time{}
	case d.run.State().RunningSteps() > 0:
		return store.EffectYield, time.Time{} // of attempts that were left behind: the next worker decides
	}
	return store.EffectPark, d.run.State().Due()
}

// unused returns what becomes of permits with which nothing was begun: a run whose code has not begun holds none and takes up no
// rate, whatever has woken it, nor does one that executes a step and has begun no attempt. One that is paused keeps its place.
func (d *draft) unused(effect store.Effect) store.Unused {
	if effect != store.EffectPark || d.calledOff {
		return store.UnusedNone
	}
	f := d.run.State()
	switch used := f.Run != event.StatePending && f.Delayed.IsZero(); {
	case len(f.Spec.Uses) == 0, f.Spec.Whole && used, !f.Spec.Whole && d.attempted:
		return store.UnusedNone
	case f.Paused && !f.Held() && !f.Spec.StartAt.After(d.clock.Now()) && !f.Delayed.After(d.clock.Now()):
		return store.UnusedInLine
	}
	return store.UnusedBack
}

func (d *draft) status(effect store.Effect) event.Status {
	switch effect {
	case store.EffectBlock:
		return event.StatusBlocked
	case store.EffectNone, store.EffectYield:
		if d.run.State().Paused {
			return event.StatusPaused
		}
	case store.EffectPark, store.EffectFinish, store.EffectContinue:
		if effect == store.EffectPark && d.run.AtGate() {
			return event.StatusPaused // until it is stepped
		}
		return d.run.State().Status()
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
		case event.StepPending, event.StepCompleted, event.StepFailed, event.WaitCompleted, event.MessageReceived, event.ValueRecorded,
			event.ChildCreated, event.ChildCompleted, event.ChildFailed, event.ChildCanceled, event.MessageSent, event.ValueSet,
			event.StreamWritten, event.StreamClosed, event.HookCreated, event.HookReceived, event.HookDisposed, event.HookAnswered,
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
			batch, err := effects.DecodeBatch(e.Payload)
			if err != nil {
				return nil, fmt.Errorf("publish to stream %s: %w", e.Name, err)
			}
			for _, body := range batch.Bodies {
				all = append(all, store.Publication{Stream: effects.UserStream(e.Name), Body: body, Keep: batch.Keep})
			}
		case event.StreamClosed:
			all = append(all, store.Publication{Stream: effects.UserStream(e.Name), Close: true})
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
func (d *draft) sends(events []event.Event) ([]store.Send, error) {
	var all []store.Send
	for i := range events {
		records, err := effects.Sends(d.in.id, d.run.State(), &events[i])
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	return all, nil
}

// continuation returns the run that this one continues as. Its first frame holds
// what this run was given and its code has not taken.
func (d *draft) continuation(last *event.Event) (*store.Create, error) {
	state := d.run.State()
	spec := *state.Spec
	spec.ContinuedOf, spec.RerunOf, spec.Seed, spec.Kept, spec.Hold, spec.StartAt, spec.StartWithin = d.in.id, "", "", 0, 0, time.Time{}, 0
	spec.Gather, spec.Reruns = event.GatherNone, 0
	if last.Spec != nil {
		spec.Queue = last.Spec.Queue
	}
	events := []event.Event{{Type: event.RunCreated, Spec: &spec, Payload: last.Payload}}
	if spec.Debug && !d.run.Stepping() {
		events = append(events, event.Event{Type: event.RunResumed})
	}
	for _, name := range d.run.ClosedStreams() { // they are those of the chain
		events = append(events, event.Event{Type: event.StreamClosed, Name: name})
	}
	d.run.Unread(func(e *event.Event) bool {
		switch e.Type {
		case event.MessageReceived, event.AskReceived, event.AskAccepted: // hooks end with the run
			events = append(events, event.Event{Type: e.Type, Name: e.Name, Item: e.Item, Payload: e.Payload})
		}
		return true
	})
	state.NoticesPending(func(item event.ItemID, value string) bool {
		events = append(events, event.CarriedNotice(item, value, d.in.id))
		return true
	})
	// A run that is asked to end before it has started ends at once: that comes last,
	// and counts once.
	var cancel []event.Event
	if state.CancelRequested {
		cancel = append(cancel, event.Event{Type: event.CancelRequested, Reason: state.CancelReason, Item: state.CancelItem})
	}
	for _, e := range d.inbox.carried {
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
		Run: last.Next, WorkflowID: spec.WorkflowID, Route: store.Route{Workflow: d.route.Workflow, Queue: spec.Queue}, Priority: spec.Priority, Tags: spec.Tags,
		Parent: spec.Parent, Root: spec.Root, Retention: spec.Retention, CommitID: event.NewCommitID(), Seq: uint64(len(events)),
	}
	permits.Take(c, &spec)
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{CommitID: c.CommitID, Time: last.Time, Events: events})
	return c, err
}

// tell adds what a commit lets others read: what its events say, and with the first
// frame of a run what that has taken over.
func (d *draft) tell(c *commit) {
	if c.took == len(d.inbox.taken) { // else the questions stay in the inbox, and the next worker would judge them again
		c.told = len(d.inbox.refusals)
		c.req.Publish = append(c.req.Publish, d.inbox.refusals...)
	}
	if c.req.Frame == nil {
		return
	}
	c.again = len(d.again) > 0
	c.req.Publish = append(c.req.Publish, d.again...)
	for i := range d.unsaved[:c.events] {
		c.req.Publish = append(c.req.Publish, effects.Publications(d.run.State(), &d.unsaved[i])...)
	}
}
