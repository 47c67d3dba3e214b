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
	"github.com/flowgen/flowgen/runtime/internal/failuregroup"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// draft builds the next commit of a run from what has happened and is not in a confirmed commit.
type draft struct {
	*execution
	*heldClaim
	*logEnd
	inbox    *inbox
	stepping *stepping
	unsaved  []event.Event
	again    []store.Publication // publications for values that were taken over from another run
	spare    *commit             // an answered commit, to be reused
}

// add appends events of the run.
func (d *draft) add(events []event.Event) {
	if len(d.unsaved) == 0 {
		d.unsaved = events
	} else {
		d.unsaved = append(d.unsaved, events...)
	}
}

// keepValues makes a run that has not committed anything publish the values that it has taken over
// from an earlier run.
func (d *draft) keepValues(events []event.Event) {
	if d.n > 1 || d.run.State().Spec.Kept == 0 {
		return
	}
	d.again = effects.TakenOver(events)
	if len(d.again) > 0 && !d.run.Ended() {
		d.apply(event.Event{Type: event.ValuesKept}) // the commit needs a frame
	}
}

// next returns the next commit, with what has happened. The commit also gives the run back if the
// run has nothing to do here. next returns nil if there is nothing to commit.
func (d *draft) next(exempt store.Exempt) (*commit, error) {
	effect, due := d.effect()
	status := d.status(effect)
	if d.stays(effect) {
		effect, due = store.EffectNone, time.Time{}
	}
	events := d.unsaved[:portion(d.unsaved)]
	switch {
	case len(events) < len(d.unsaved): // the run may leave only after the rest
		effect, due = store.EffectNone, time.Time{}
		status = d.status(effect)
	case effect == store.EffectNone && d.blocked == nil && d.run.Ended():
		// The terminal event is committed together with the release of the run, and lists the items
		// that were accepted but never taken. So the inbox is read first.
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
		c.req.FailureGroup = d.label(effect)
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

// label returns the label that a commit gives the run. Nil keeps the current label, or leaves the
// label at the end of the run to the store.
func (d *draft) label(effect store.Effect) *store.FailureGroup {
	t := d.failuregroup(effect)
	if t.Group == d.group || t.Group == "" && (effect == store.EffectFinish || effect == store.EffectContinue) {
		return nil
	}
	label := t // allocate only if the label changes
	return &label
}

// trouble returns the failure group of the run after a commit; the zero value means none. If
// several steps are being retried, the first one that began counts, so the label does not change
// with each of their failures.
func (d *draft) failuregroup(effect store.Effect) store.FailureGroup {
	if effect == store.EffectBlock {
		return failuregroup.Blocked(d.route.Workflow, whatBlocks(d.blocked))
	}
	if d.run == nil {
		return store.FailureGroup{Group: d.group} // the log could not be read, so there is no reason to change the label
	}
	state := d.run.State()
	if effect == store.EffectFinish && state.Run == event.StateFailed {
		return failuregroup.Failed(d.route.Workflow, state.Failure)
	}
	if o := state.Failing(); o != nil {
		return failuregroup.Retrying(d.route.Workflow, o.Name, o.Failure)
	}
	return store.FailureGroup{}
}

// whatBlocks returns why a run is blocked, without details of that run. For code that does not
// match the log it returns the operations of the log and of the code.
func whatBlocks(err error) string {
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		return mismatch.Operations()
	}
	return err.Error()
}

// The worker creates a run that a client of its process starts, if it can begin the run at once.
// The code of the run executes first: up to its first wait it has only events, no effects. Then one
// request stores the run, owned by this worker, with all these events in its first frame. Only
// after the answer are the effects of the events carried out. This saves a claim and a commit, and
// keeps every rule: create, claim and commit happen in one atomic action.
//
// If the answer is lost, the run may exist and be owned although no worker executes it. That is the
// same as a claim whose answer was lost: the next reconciliation gives it back.

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
		r.Status = d.status(effect) // the run waits from the beginning
	}
	r.Owner = &store.Owner{Session: d.session, Token: d.fence.Token}
	return c, nil
}

// newCommit returns a commit of the given number of events, under the current claim and at the end
// of the log.
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

// saved drops what a durable commit contains.
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

// recycle keeps an answered commit for reuse. Nothing else may refer to it.
func (d *draft) recycle(c *commit) {
	*c = commit{}
	d.spare = c
}

// forget drops what was not committed.
func (d *draft) forget() { d.unsaved, d.again = nil, nil }

// nothingToLose reports whether the unsaved events need no commit yet: the run waits for a slot for
// its next step, which it has only created. The commit that starts the step will contain them.
func (d *draft) nothingToLose() bool {
	if d.blocked != nil || len(d.stepping.attempts)+len(d.inbox.taken)+len(d.stepping.cancels) > 0 || !d.stepping.wanted() {
		return false
	}
	return !slices.ContainsFunc(d.unsaved, func(e event.Event) bool {
		return e.Type != event.RunStarted && e.Type != event.StepCreated && e.Type != event.ResourceWait
	})
}

// inboxPatience is how often in a row the inbox may keep a run from ending before the store refuses
// new items: because a commit is refused, or because the inbox must be read again before the next
// commit.
const inboxPatience = 3

// closing returns the commit that makes the store refuse further items, because the run could not
// end while items kept coming.
func (d *draft) closing() *commit {
	d.inbox.rereads = 0
	c := d.newCommit(0)
	c.req.Closing = true
	return c
}

// fill puts unsaved events into a commit: the frame, and its effects for other runs and for
// readers.
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

// untaken returns the messages in the log that the code never received.
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

// effect returns what the next commit does to the run.
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
		return store.EffectYield, time.Time{} // abandoned attempts remain: the next worker decides
	}
	return store.EffectPark, d.run.State().Due()
}

// unused returns what to do with permits that the run did not use: a run whose code has not begun
// holds no permits and consumes no rate, whatever has woken it. The same holds for a run that
// executes a step and has begun no attempt. A paused run keeps its position in the limiter queue.
func (d *draft) unused(effect store.Effect) store.Unused {
	if effect != store.EffectPark || d.leftQueue {
		return store.UnusedNone
	}
	f := d.run.State()
	switch used := f.Run != event.StatePending && f.Delayed.IsZero(); {
	case len(f.Spec.Uses) == 0, f.Spec.Whole && used, !f.Spec.Whole && d.attempted:
		return store.UnusedNone
	case f.Paused && !f.Held() && !f.Spec.StartAt.After(d.clock.Now()) && !f.Delayed.After(d.clock.Now()):
		return store.UnusedInQueue
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
			return event.StatusPaused // until its next step is requested
		}
		return d.run.State().Status()
	}
	return event.StatusRunning
}

// progress reports whether events count as progress of the run. The start of an attempt does not,
// because the attempt may be what kills the worker. An attempt that was given back does not either.
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

// publications returns the stream operations of a commit with these events, in the log of a run of
// that workflow.
func publications(workflow string, events []event.Event) ([]store.Publication, error) {
	if _, remote := event.StepOfRun(workflow); remote {
		return nil, nil // it writes to the streams of the run for which it executes a step
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

// logged returns events as they are stored in the log: without the payloads that are published with
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

// sends returns the outbox records that follow from events. The commit that holds their cause
// writes them.
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

// continuation returns the run that this one continues as. Its first frame holds what this run
// received and its code did not take.
func (d *draft) continuation(last *event.Event) (*store.Create, error) {
	state := d.run.State()
	spec := *state.Spec
	spec.ContinuedOf, spec.RerunOf, spec.Seed, spec.Kept, spec.Hold, spec.StartAt, spec.StartWithin = d.in.id, "", "", 0, 0, time.Time{}, 0
	spec.Collect, spec.Reruns = event.CollectNone, 0
	if last.Spec != nil {
		spec.Queue = last.Spec.Queue
	}
	events := []event.Event{{Type: event.RunCreated, Spec: &spec, Payload: last.Payload}}
	if spec.Debug && !d.run.Stepping() {
		events = append(events, event.Event{Type: event.RunResumed})
	}
	for _, name := range d.run.ClosedStreams() { // streams belong to the chain of runs
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
	// A run that receives a cancel before it has started ends at once. So the cancel comes last,
	// and only one is kept.
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

// tell adds what a commit publishes: the publications of its events, and with the first frame of a
// run also those of the values that it has taken over.
func (d *draft) tell(c *commit) {
	if c.took == len(d.inbox.taken) { // otherwise the asks stay in the inbox, and the next worker would judge them again
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

// portionOfStart returns how many of the first events a creation can hold. A creation has no
// effects on others and ends nothing.
func (d *draft) portionOfStart() int {
	n := fitting(d.unsaved)
	for i := range d.unsaved[:n] {
		e := &d.unsaved[i]
		sends, err := effects.Sends(d.in.id, d.run.State(), e)
		if published, wrong := publications(d.route.Workflow, d.unsaved[i:i+1]); err != nil || wrong != nil || len(sends)+len(published) > 0 {
			return i
		}
		if e.Type.Terminal() || len(effects.Publications(d.run.State(), e)) > 0 {
			return i
		}
	}
	return n
}

// portion returns how many of the unsaved events go into one commit. This is all of them, unless
// code requests very many operations, or writes very much to streams, without waiting. Every prefix
// of a log is a valid log, so events may be cut anywhere, except that the end of a run stays
// together with its cause.
func portion(events []event.Event) int {
	n := fitting(events)
	if n == len(events) || !events[len(events)-1].Type.Terminal() {
		return n
	}
	cause, chunks, bytes := len(events)-1, 0, 0
	for cause >= 0 && !causes(events[cause].Type) {
		if bytes += events[cause].Size(); events[cause].Type == event.StreamWritten {
			chunks++
		}
		cause--
	}
	switch {
	case n <= cause, cause < 0:
		return n
	case chunks > commitChunks || bytes+events[cause].Size() > endingBytes: // no commit can hold that
		return n
	case cause == 0:
		return len(events)
	}
	return cause
}

// fitting returns how many events fit into one commit.
func fitting(events []event.Event) int {
	chunks, bytes := 0, 0
	for i := range events {
		e := &events[i]
		if e.Type == event.StreamWritten {
			chunks++
		}
		bytes += e.Size()
		if e.Type.Entity() == event.EntityChild || e.Type.Entity() == event.EntitySend {
			bytes += len(e.Payload) // it goes into the outbox as well
		}
		if i > 0 && (chunks > commitChunks || bytes > commitBytes) {
			return i
		}
	}
	return len(events)
}

// causes reports whether an event comes from outside of the run's code and may cause the run to
// end.
func causes(t event.Type) bool {
	switch t {
	case event.StepCompleted, event.StepFailed, event.WaitCompleted,
		event.MessageReceived, event.HookReceived, event.AskReceived, event.AskAccepted,
		event.ChildStarted, event.ChildCompleted, event.ChildFailed, event.ChildCanceled,
		event.SendCompleted, event.SendFailed, event.CancelRequested:
		return true
	}
	return false
}
