package worker

import (
	"cmp"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/parcel"
	"github.com/flowgen/flowgen/runtime/store"
)

// sends returns the records for the outbox that follow from what is not saved:
// they are written by the commit that holds their cause, and derived from nothing
// but the log, so that what is done again after lost writes has the same ids.
func (t *task) sends() ([]store.Send, error) {
	var all []store.Send
	for i := range t.unsaved {
		e := &t.unsaved[i]
		var s store.Send
		var err error
		switch e.Type {
		case event.ChildCreated:
			s, err = t.sendStart(e)
		case event.ChildCancelRequested:
			s, err = t.sendCancel(e.Next, e.Ref, e.Reason)
		case event.MessageSent:
			s, err = t.sendItem(e.Item, e.Next, &event.Event{Type: event.MessageReceived, Name: e.Name, Payload: e.Payload},
				parcel.Parcel{Key: e.Key, Answer: parcel.Always}, store.ScopeChain)
		default:
			if e.Type.Terminal() {
				return t.sendEnds(all, e)
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// sendStart creates a child. The frame of its log is the same however often the
// record is made: the name of the frame is derived, and its time is that of the
// cause.
func (t *task) sendStart(e *event.Event) (store.Send, error) {
	id := event.DerivedItemID(t.id, "start:"+e.Key)
	var cid event.CID
	copy(cid[:], event.DerivedItemID(e.Next, "created"))
	frame, err := event.AppendFrame(nil, &event.Frame{CID: cid, Time: e.Time, Events: []event.Event{
		{Seq: 1, Type: event.RunCreated, Time: e.Time, Spec: e.Spec, Payload: e.Payload},
	}})
	if err != nil {
		return store.Send{}, err
	}
	p := parcel.Parcel{Key: e.Key, Answer: parcel.OnRefusal, Start: &parcel.Start{
		Frame: frame, Active: store.ActivePolicy(e.Active), Finished: store.FinishedPolicy(e.Finished),
	}}
	if e.Ack {
		p.Answer = parcel.Always
	}
	body, err := p.Encode()
	return store.Send{ID: id, To: e.Next, Body: body}, err
}

// sendCancel asks a child, and what it continues as, to end.
func (t *task) sendCancel(child event.RunID, _ uint64, reason string) (store.Send, error) {
	return t.sendItem(event.DerivedItemID(t.id, "cancel:"+string(child)), child,
		&event.Event{Type: event.CancelRequested, Reason: reason}, parcel.Parcel{}, store.ScopeChain)
}

// sendItem puts what is to be recorded into another run's inbox.
func (t *task) sendItem(id event.ItemID, to event.RunID, e *event.Event, p parcel.Parcel, scope store.Scope) (store.Send, error) {
	item, err := event.AppendItem(nil, e)
	if err != nil {
		return store.Send{}, err
	}
	p.Item = &parcel.Item{Scope: scope, Body: item}
	body, err := p.Encode()
	return store.Send{ID: id, To: to, Body: body}, err
}

// sendEnds adds what the end of the run means for others: its children are asked
// to end, and its parent is told. What continues as a new run has not ended.
func (t *task) sendEnds(all []store.Send, e *event.Event) ([]store.Send, error) {
	fold := t.run.Fold()
	var open []*event.Open
	fold.Opens(func(o *event.Open) bool {
		if o.Entity == event.EntityChild && o.Close != event.CloseAbandon {
			open = append(open, o)
		}
		return true
	})
	slices.SortFunc(open, func(a, b *event.Open) int { return cmp.Compare(a.Ref, b.Ref) })
	for _, o := range open {
		s, err := t.sendCancel(o.Next, o.Ref, "the parent "+string(t.id)+" has ended: it is "+string(fold.Status()))
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	spec := fold.Spec
	if e.Type == event.RunContinued || spec.Parent == "" {
		return all, nil
	}
	end := event.Event{Key: spec.ParentKey, Next: t.id, Payload: e.Payload, Failure: e.Failure}
	switch e.Type {
	case event.RunCompleted:
		end.Type = event.ChildCompleted
	case event.RunCanceled:
		end.Type = event.ChildCanceled
	default:
		end.Type = event.ChildFailed
	}
	s, err := t.sendItem(event.DerivedItemID(t.id, "end"), spec.Parent, &end, parcel.Parcel{}, store.ScopeRun)
	return append(all, s), err
}

// continuation returns the run that this one continues as. Its first frame holds
// what this run was given and its code has not taken.
func (t *task) continuation(last *event.Event) (*store.Create, error) {
	fold := t.run.Fold()
	spec := *fold.Spec
	spec.ContinuedOf = t.id
	events := []event.Event{{Type: event.RunCreated, Spec: &spec, Payload: last.Payload}}
	t.run.Unread(func(e *event.Event) bool {
		events = append(events, event.Event{Type: event.MessageReceived, Name: e.Name, Item: e.Item, Payload: e.Payload})
		return true
	})
	// A run that is asked to end before it has started ends at once: that comes last,
	// and counts once.
	var cancel []event.Event
	if fold.CancelRequested {
		cancel = append(cancel, event.Event{Type: event.CancelRequested, Reason: fold.CancelReason, Item: fold.CancelItem})
	}
	for _, e := range t.carried {
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
		Run: last.Next, WorkflowID: spec.WorkflowID, Class: t.class, Priority: spec.Priority, Tags: spec.Tags,
		Parent: spec.Parent, Root: spec.Root, Retention: spec.Retention, CID: event.NewCID(), Seq: uint64(len(events)),
	}
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{CID: c.CID, Time: last.Time, Events: events})
	return c, err
}
