package effects

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Sends returns the outbox records that an event in the log of a run causes, in the order of their
// delivery. They depend only on the log, so records that are made again after lost writes have the
// same IDs.
//
// If e ends the run, state must be the state of the log up to e, or of a longer part of the log.
// For other events Sends reads only these parts of the state: the Spec, the notices that each event
// has caused, and the open runs for steps and permits.
//
// The events of a run's first frame cause no records, because the creation of the run, and not a
// commit, writes that frame.
func Sends(run event.RunID, state *event.LogState, e *event.Event) ([]store.Send, error) {
	var s store.Send
	var err error
	switch e.Type {
	case event.ChildCreated:
		s, err = sendStart(run, state, e)
	case event.ChildCancelRequested:
		s, err = sendCancel(run, e.Next, e.Reason)
	case event.MessageSent:
		m, attributes := OutboxMessage{Key: e.Key, Answer: Always}, state.Spec.Attributes
		if e.Name == event.NoticeTopic { // the sender gets the notice itself as the answer
			m, attributes = OutboxMessage{Key: string(e.Item), Answer: OnRefusal}, nil
		}
		s, err = sendItem(e.Item, e.Next, &event.Event{Type: event.MessageReceived, Name: e.Name, Payload: e.Payload, Attributes: attributes}, m, store.ScopeChain)
	case event.MessageReceived, event.ValueSet:
		return sendNotices(run, state, state.NoticesAt(e.Seq), nil)
	case event.RunPaused, event.RunResumed, event.RunStepped, event.CancelRequested:
		return sendControl(run, state, e)
	case event.StreamClosed:
		if _, remote := event.StepOfRun(state.Spec.Workflow); !remote || e.Attempt == 0 {
			return nil, nil
		}
		s, err = sendItem(event.DerivedItemID(run, "close:"+e.Name), state.Spec.Parent,
			&event.Event{Type: event.StreamClosed, Name: e.Name, Key: state.Spec.ParentKey, Attempt: e.Attempt}, OutboxMessage{}, store.ScopeRun)
	default:
		if !e.Type.Terminal() {
			return nil, nil
		}
		return sendEnds(run, state, e)
	}
	if err != nil {
		return nil, err
	}
	return []store.Send{s}, nil
}

// StartID returns the ID of the record by which a run starts a child.
func StartID(run event.RunID, key string) event.ItemID {
	return event.DerivedItemID(run, "start:"+key)
}

// EndID returns the ID of the record by which a run notifies its parent of its end.
func EndID(run event.RunID) event.ItemID { return event.DerivedItemID(run, "end") }

// firstFrame returns the first frame of a run that is created at the time at. The frame is the same
// however often it is made, because its commit ID is derived.
func firstFrame(run event.RunID, at time.Time, spec *event.Spec, input []byte) ([]byte, error) {
	var cid event.CommitID
	copy(cid[:], event.DerivedItemID(run, "created"))
	return event.AppendFrame(nil, &event.Frame{CommitID: cid, Time: at, Events: []event.Event{
		{Seq: 1, Type: event.RunCreated, Time: at, Spec: spec, Payload: input},
	}})
}

// sendStart returns the record that creates a run. The first frame has the time of the event that
// causes the record. A run without a parent in its Spec is not a child. It inherits the attributes
// nevertheless: a schedule starts such runs.
func sendStart(run event.RunID, state *event.LogState, e *event.Event) (store.Send, error) {
	spec := e.Spec
	if all := state.Spec.Attributes; len(all) > 0 && e.Name != event.HookRun && e.Name != event.PermitRun {
		with := *spec
		with.Attributes, spec = all, &with
	}
	frame, err := firstFrame(e.Next, e.Time, spec, e.Payload)
	if err != nil {
		return store.Send{}, err
	}
	p := OutboxMessage{Key: e.Key, Answer: OnRefusal, Start: &Start{
		Frame: frame, Active: store.ActivePolicy(e.Active), Finished: store.FinishedPolicy(e.Finished),
	}}
	switch {
	case e.Spec.Parent == "":
		p.Answer = Settles
	case e.Ack:
		p.Answer = Always
	}
	body, err := p.Encode()
	return store.Send{ID: StartID(run, e.Key), To: e.Next, Body: body, First: true}, err
}

// sendCancel returns the record that requests a cancel of a child and of the runs as which it
// continues.
func sendCancel(run, child event.RunID, reason string) (store.Send, error) {
	return sendItem(event.DerivedItemID(run, "cancel:"+string(child)), child,
		&event.Event{Type: event.CancelRequested, Reason: reason}, OutboxMessage{}, store.ScopeChain)
}

// sendControl returns the records that pause or resume the runs that execute a step or take permits
// for this run. These runs work on behalf of this run. The outbox contains the start of each such
// run before the control record, so the control record reaches each of them. Once the pause is in
// its log, such a run begins no attempt, whatever its queue and worker.
//
// A run that was created after the event gets no record, because the code of this run was not
// paused at that time. A cancel of this run resumes the other runs only if it ends a pause.
func sendControl(run event.RunID, state *event.LogState, e *event.Event) ([]store.Send, error) {
	typ := event.RunResumed
	switch {
	case e.Next != "": // the event belongs to the part that was taken over from an older run
		return nil, nil
	case e.Type == event.RunPaused:
		typ = event.RunPaused
	case e.Type == event.CancelRequested && state.Unpaused != e.Seq:
		return nil, nil
	}
	var all []store.Send
	for _, o := range openChildren(state, func(o *event.Open) bool {
		return o.Ref < e.Seq && (event.IsStepRun(o.Name) || o.Name == event.PermitRun)
	}) {
		s, err := sendItem(event.DerivedItemID(run, fmt.Sprintf("control:%d:%s", e.Seq, o.Next)), o.Next,
			&event.Event{Type: typ, Reason: e.Reason, By: e.By}, OutboxMessage{}, store.ScopeRun)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// openChildren returns the open children of a run for which f returns true, in the order of their
// creation.
func openChildren(state *event.LogState, f func(*event.Open) bool) (open []*event.Open) {
	state.Opens(func(o *event.Open) bool {
		if o.Entity == event.EntityChild && f(o) {
			open = append(open, o)
		}
		return true
	})
	slices.SortFunc(open, func(a, b *event.Open) int { return cmp.Compare(a.Ref, b.Ref) })
	return open
}

// sendItem returns a record that delivers an event to another run's inbox.
func sendItem(id event.ItemID, to event.RunID, e *event.Event, p OutboxMessage, scope store.Scope) (store.Send, error) {
	item, err := event.AppendItem(nil, e)
	if err != nil {
		return store.Send{}, err
	}
	p.Item = &Item{Scope: scope, Body: item, Urgent: e.Type == event.CancelRequested, Pauses: e.Type == event.RunPaused}
	body, err := p.Encode()
	return store.Send{ID: id, To: to, Body: body}, err
}

// owed returns the items that request a notice and have no answer when the run ends. These are the
// items that arrived too late to be read. They also include all other pending requests, unless the
// next run of the chain takes them over.
func owed(state *event.LogState, e *event.Event) (items []event.ItemID) {
	if e.Type != event.RunContinued {
		state.NoticesPending(func(item event.ItemID, _ string) bool {
			items = append(items, item)
			return true
		})
	}
	for _, item := range e.Unread {
		if _, asks := event.NoticeFor(item); asks && !slices.Contains(items, item) {
			items = append(items, item)
		}
	}
	return items
}

// sendNotices appends the records that notify other runs that they should read a value again. items
// are the requests for these notices.
func sendNotices(run event.RunID, state *event.LogState, items []event.ItemID, all []store.Send) ([]store.Send, error) {
	for _, item := range items {
		to, _ := event.NoticeFor(item)
		mark, err := json.Marshal(state.NoticeMark())
		if err != nil {
			return nil, err
		}
		s, err := sendItem(event.DerivedItemID(run, "notice:"+string(item)), to,
			&event.Event{Type: event.SendCompleted, Key: string(item), Next: run, Payload: mark}, OutboxMessage{}, store.ScopeRun)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// sendEnds returns the records for the end of a run. Its children are canceled. The runs that
// deliver alerts about it are created. Its parent is notified, or the run is rerun. If a run continues as a new run, it has not ended for its parent.
func sendEnds(run event.RunID, state *event.LogState, e *event.Event) ([]store.Send, error) {
	var all []store.Send
	for _, o := range openChildren(state, func(o *event.Open) bool { return o.Close != event.CloseAbandon }) {
		s, err := sendCancel(run, o.Next, "the parent "+string(run)+" has ended: it is "+string(state.Status()))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	all, err := sendNotices(run, state, owed(state, e), all)
	if err != nil {
		return nil, err
	}
	if e.Type == event.RunFailed && len(e.Meta) > 0 {
		if all, err = sendAlerts(run, e, all); err != nil {
			return nil, err
		}
	}
	if e.Type == event.RunFailed && !e.Due.IsZero() {
		s, err := sendRerun(run, e)
		return append(all, s), err
	}
	spec := state.Spec
	if e.Type == event.RunContinued || spec.Parent == "" {
		return all, nil
	}
	end := event.Event{Key: spec.ParentKey, Next: run, Payload: e.Payload, Failure: e.Failure}
	switch e.Type {
	case event.RunCompleted:
		end.Type = event.ChildCompleted
	case event.RunCanceled:
		end.Type = event.ChildCanceled
	default:
		end.Type = event.ChildFailed
	}
	if state.Unsure && end.Type != event.ChildCompleted {
		end.Outcome = event.OutcomeUnsure
	}
	s, err := sendItem(EndID(run), spec.Parent, &end, OutboxMessage{}, store.ScopeRun)
	return append(all, s), err
}

// sendRerun returns the record that makes the relay rerun a failed run. A manual retry makes the
// same new run.
func sendRerun(run event.RunID, e *event.Event) (store.Send, error) {
	body, err := (&OutboxMessage{Rerun: true}).Encode()
	return store.Send{ID: event.DerivedItemID(run, "rerun"), To: event.NextRunID(run, e.Seq+1, e.Time), Body: body, First: true}, err
}

// Termination returns the event that ends a run without its code. asked is a cancel item with the
// name event.Terminate.
func Termination(asked *event.Event) event.Event {
	text := "terminated without its code"
	if asked.Reason != "" {
		text += ": " + asked.Reason
	}
	return event.Event{Type: event.RunCanceled, Item: asked.Item, By: asked.By, Failure: &event.Failure{Code: event.CodeTerminated, Message: text}}
}
