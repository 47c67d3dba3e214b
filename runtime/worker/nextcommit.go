package worker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failuregroup"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// draft builds the next commit of a run from the state and events that no confirmed commit
// contains.
type draft struct {
	*execution
	*heldClaim
	*logEnd
	inbox    *inbox
	stepping *stepping
	unsaved  []event.Event
	again    []store.Publication // publications of values that were taken over from an earlier run
	spare    *commit             // an answered commit whose memory can be reused
}

// add appends new events of the run.
func (d *draft) add(events []event.Event) {
	if len(d.unsaved) == 0 {
		d.unsaved = events
	} else {
		d.unsaved = append(d.unsaved, events...)
	}
}

// keepValues makes the first commit of a run publish the values that the run has taken over from an
// earlier run.
func (d *draft) keepValues(events []event.Event) {
	if d.n > 1 || d.run.State().Spec.Kept == 0 {
		return
	}
	d.again = effects.TakenOver(events)
	if len(d.again) > 0 && !d.run.Ended() {
		d.apply(event.Event{Type: event.ValuesKept}) // a commit needs a frame to publish
	}
}

// next returns the next commit. The commit also gives the run back if the run has nothing to do on
// this worker. next returns nil if there is nothing to commit.
func (d *draft) next(exempt store.Exempt) (*commit, error) {
	effect, due := d.effect()
	status := d.status(effect)
	if d.stays(effect) {
		effect, due = store.EffectNone, time.Time{}
	}
	events := d.unsaved[:portion(d.unsaved)]
	switch {
	case len(events) < len(d.unsaved): // the run may leave only after the remaining events are committed
		effect, due = store.EffectNone, time.Time{}
		status = d.status(effect)
	case effect == store.EffectNone && d.blocked == nil && d.run.Ended():
		// The terminal event is committed together with the release of the run. It lists the
		// accepted items that the code never received, so the inbox must be read first.
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
			c.differs = &flow.Mismatch{Event: m.Seq, Recorded: recorded, Asked: asked, Position: m.Position, Diff: m.Diff, Build: m.Build, Here: m.Here}
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

// label returns the failure group that a commit sets for the run. Nil keeps the recorded group; at
// the end of the run the store then decides.
func (d *draft) label(effect store.Effect) *store.FailureGroup {
	t := d.failuregroup(effect)
	if t.Group == d.group || t.Group == "" && (effect == store.EffectFinish || effect == store.EffectContinue) {
		return nil
	}
	label := t // allocate only if the label changes
	return &label
}

// failuregroup returns the failure group of the run after a commit with the given effect. The zero
// value means that the run is in no group. If several steps are being retried, the first one that
// began determines the group. So the group does not change with each failure of these steps.
func (d *draft) failuregroup(effect store.Effect) store.FailureGroup {
	if effect == store.EffectBlock {
		return failuregroup.Blocked(d.route.Workflow, whatBlocks(d.blocked))
	}
	if d.run == nil {
		return store.FailureGroup{Group: d.group} // the log could not be read, so the group remains unchanged
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

// whatBlocks returns why a run is blocked, without details of the run. If the code does not match
// the log, it returns the operation in the log and the operation that the code requested.
func whatBlocks(err error) string {
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		return mismatch.Operations()
	}
	return err.Error()
}

// If a worker can begin a run at once that a client of its process starts, the worker also creates
// the run. It first executes the code of the run up to its first wait, which produces events but no
// effects. Then one request stores the run with all these events in its first frame, owned by this
// worker. The effects of the events happen only after the answer. This saves a claim and a commit,
// and violates no rule, because create, claim and commit are one atomic action.
//
// If the answer is lost, the run may exist and be owned by a worker that does not execute it. This
// state is the same as after a claim whose answer was lost: the next reconciliation gives the run
// back.

// creation returns the commit that creates the run of start.
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
		r.Status = d.status(effect) // the run waits from its creation
	}
	r.Owner = &store.Owner{Session: d.session, Token: d.fence.Token}
	return c, nil
}

// newCommit returns a commit of the given number of events, under the current claim and at the end
// of the durable log.
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

// saved removes the contents of a durable commit from the draft.
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

// recycle keeps an answered commit for reuse. The caller must hold the only reference to the
// commit.
func (d *draft) recycle(c *commit) {
	*c = commit{}
	d.spare = c
}

// forget drops everything that was not committed.
func (d *draft) forget() { d.unsaved, d.again = nil, nil }

// nothingToLose reports whether the unsaved events can wait for the next commit. This holds if the
// run has created its next step and waits for a slot to start it. The commit that starts the step
// contains the events.
func (d *draft) nothingToLose() bool {
	if d.blocked != nil || len(d.stepping.attempts)+len(d.inbox.taken)+len(d.stepping.cancels) > 0 || !d.stepping.wanted() {
		return false
	}
	return !slices.ContainsFunc(d.unsaved, func(e event.Event) bool {
		return e.Type != event.RunStarted && e.Type != event.StepCreated && e.Type != event.ResourceWait
	})
}

// inboxPatience is how many times in a row unread items may prevent a run from ending before the
// store refuses new items. An end is prevented if the commit is refused, or if the inbox must be
// read again before the next commit.
const inboxPatience = 3

// closing returns the commit that makes the store refuse further items. It is needed if the run
// cannot end because new items keep arriving.
func (d *draft) closing() *commit {
	d.inbox.rereads = 0
	c := d.newCommit(0)
	c.req.Closing = true
	return c
}

// fill adds events to a commit: their frame, and the publications and outbox records that follow
// from them.
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

// frame encodes events as the frame of a commit.
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

// untaken returns the IDs of the messages in the log that the code never received.
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

// effect returns the effect of the next commit on the run, and the next due time of the run.
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
		return store.EffectYield, time.Time{} // Abandoned attempts remain. The next worker decides about them.
	}
	return store.EffectPark, d.run.State().Due()
}

// unused returns what the store does with permits that the run has not used. If the code of the run
// has not begun, the run holds no permits and consumes no rate, whatever has woken it. The same
// holds for a run that executes a step and has begun no attempt. A paused run keeps its position in
// the limiter queue.
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
			return event.StatusPaused // the run is paused until its next step is requested
		}
		return d.run.State().Status()
	}
	return event.StatusRunning
}

// progress reports whether the events count as progress of the run. The start of an attempt does
// not count, because the attempt may kill the worker. An attempt that was given back does not count
// because it has no outcome.
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

// publications returns the stream operations of events in the log of a run of the given workflow.
func publications(workflow string, events []event.Event) ([]store.Publication, error) {
	if _, remote := event.StepOfRun(workflow); remote {
		return nil, nil // such a run writes to the streams of the run for which it executes a step
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

// logged returns events as they are stored in the log: without the payloads that are stored in
// streams.
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

// sends returns the outbox records that follow from events. They are written by the commit that
// contains the events.
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

// continuation returns the run as which this run continues. The first frame of the new run contains
// the messages that the code of this run did not receive.
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
	for _, name := range d.run.ClosedStreams() { // streams belong to the whole chain of runs
		events = append(events, event.Event{Type: event.StreamClosed, Name: name})
	}
	d.run.Unread(func(e *event.Event) bool {
		switch e.Type {
		case event.MessageReceived, event.AskReceived, event.AskAccepted: // payloads of hooks are not carried over, because hooks end with the run
			events = append(events, event.Event{Type: e.Type, Name: e.Name, Item: e.Item, Payload: e.Payload})
		}
		return true
	})
	state.NoticesPending(func(item event.ItemID, value string) bool {
		events = append(events, event.CarriedNotice(item, value, d.in.id))
		return true
	})
	// A run that receives a cancel before it has started ends at once. So the cancel is the last
	// event, and only one cancel is kept.
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

// tell adds publications to a commit: those of its events, refusals of asks, and with the first
// frame the values that the run has taken over.
func (d *draft) tell(c *commit) {
	if c.took == len(d.inbox.taken) { // If the commit does not consume all taken items, refused asks may stay in the inbox, and the next worker would judge them again.
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

// portionOfStart returns how many of the first events the creation of a run can contain. It stops
// before the first event that has an effect on others or ends the run.
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
// code requests very many operations or writes very much to streams without waiting. Every prefix
// of a log is a valid log, so events may be split at any event. The only exception is the end of a
// run, which stays together with its cause.
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
	case chunks > commitChunks || bytes+events[cause].Size() > endingBytes: // the end and its cause are too large for one commit
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
			bytes += len(e.Payload) // the payload is also part of an outbox record
		}
		if i > 0 && (chunks > commitChunks || bytes > commitBytes) {
			return i
		}
	}
	return len(events)
}

// causes reports whether an event of this type originates outside of the run's code and may cause
// the run to end.
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
