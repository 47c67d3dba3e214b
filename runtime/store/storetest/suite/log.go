package suite

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Log is the log of one run from the perspective of its owner. It makes frames like those of the
// runtime. [Log.Create] makes the first frame and [Log.Commit] makes the next one. [Log.Accept]
// advances the log after the store has written the frame.
type Log struct {
	Run  event.RunID
	Spec event.Spec
	// State is the state of the run after the last accepted frame.
	State event.LogState
	// Last is the ID of the commit of the last accepted frame.
	Last event.CommitID

	ids   *IDs
	clock store.Clock
}

// NewLog returns the log of a run that does not exist yet.
func NewLog(ids *IDs, clock store.Clock, run event.RunID, spec event.Spec) *Log {
	return &Log{Run: run, Spec: spec, ids: ids, clock: clock}
}

// Create returns a request that creates the run with the first frame of the log. It also accepts
// the frame.
func (l *Log) Create() store.Create { return l.CreateWith() }

// CreateWith is Create with additional events in the first frame.
func (l *Log) CreateWith(more ...event.Event) store.Create {
	events := []event.Event{{Type: event.RunCreated, Spec: &l.Spec, Payload: json.RawMessage(`{"n":1}`)}}
	c := l.Commit(store.Fence{}, append(events, more...)...)
	l.Accept(c)
	return store.Create{
		Run: l.Run, WorkflowID: l.Spec.WorkflowID, Route: store.Route{Queue: l.Spec.Queue, Workflow: l.Spec.Workflow},
		Tags: l.Spec.Tags, Parent: l.Spec.Parent, Root: l.Spec.Root, Retention: l.Spec.Retention,
		Frame: c.Frame, CommitID: c.CommitID, Seq: c.Last,
	}
}

// Commit returns a commit of the given events after the last accepted frame. It sets Seq and Time
// of the events. The events may be concatenated from results of Work, Sleep, Receive and End. A
// commit without events has no frame.
func (l *Log) Commit(fence store.Fence, events ...event.Event) store.Commit {
	c := store.Commit{Run: l.Run, WorkflowID: l.Spec.WorkflowID, Fence: fence, Prev: l.Last}
	if len(events) == 0 {
		return c
	}
	f := event.Frame{CommitID: l.ids.CommitID(), Prev: l.Last, Epoch: fence.Epoch, Token: fence.Token, Time: l.clock.Now(), Events: startedOnce(events)}
	for i := range f.Events {
		f.Events[i].Seq, f.Events[i].Time = l.State.Seq+uint64(i)+1, f.Time
	}
	frame, err := event.AppendFrame(nil, &f)
	if err != nil {
		panic(fmt.Sprintf("storetest: frame of run %s: %v", l.Run, err))
	}
	c.Frame, c.CommitID, c.First, c.Last = frame, f.CommitID, f.First(), f.Last()
	return c
}

// Accept advances the log by the frame of c. The store must have written the frame.
func (l *Log) Accept(c store.Commit) {
	if c.Frame == nil {
		return
	}
	f, err := event.DecodeFrame(c.Frame)
	if err != nil {
		panic(fmt.Sprintf("storetest: frame of run %s: %v", l.Run, err))
	}
	for i := range f.Events {
		if err := l.State.Apply(&f.Events[i]); err != nil {
			panic(fmt.Sprintf("storetest: log of run %s: %v", l.Run, err))
		}
	}
	l.Last = f.CommitID
}

// Work returns events that record a value. If the log does not contain the start of the run, the
// events begin with it.
func (l *Log) Work() []event.Event {
	record := event.Event{Type: event.ValueRecorded, Key: "value", Payload: json.RawMessage(`42`)}
	return append(l.Started(), record)
}

// Sleep returns the events of a run that ends its open wait and then waits until due. If due is the
// zero time, the run waits for a message without a timer.
func (l *Log) Sleep(due time.Time) []event.Event {
	events := append(l.Started(), l.settled()...)
	if due.IsZero() {
		return append(events, event.Event{Type: event.WaitCreated, Wait: event.WaitMessage, Name: "topic", Key: "receive"})
	}
	return append(events, event.Event{Type: event.WaitCreated, Wait: event.WaitSleep, Key: "sleep", Due: due})
}

// Receive returns the events that record the receipt of inbox items in the log.
func (l *Log) Receive(items ...store.Item) []event.Event {
	return append(l.Started(), received(items)...)
}

func received(items []store.Item) []event.Event {
	var events []event.Event
	for _, i := range items {
		events = append(events, event.Event{Type: event.MessageReceived, Name: "topic", Item: i.ID, Payload: i.Body})
	}
	return events
}

// Continue returns a commit that ends the run as continued, and the log of the run that continues
// it. The commit contains the given events before the end. The new run has the same Spec, and its
// first frame contains the carried items.
func (l *Log) Continue(fence store.Fence, carried []store.Item, events ...event.Event) (store.Commit, *Log) {
	spec := l.Spec
	spec.ContinuedOf = l.Run
	next := NewLog(l.ids, l.clock, l.ids.Run(l.clock.Now(), l.Run.Slot()), spec)
	create := next.CreateWith(received(carried)...)
	end := event.Event{Type: event.RunContinued, Next: next.Run, Unread: unread(carried)}
	c := l.Commit(fence, append(append(l.Started(), events...), end)...)
	c.Effect, c.Status, c.Continue = store.EffectContinue, event.StatusContinued, &create
	return c, next
}

func unread(items []store.Item) []event.ItemID {
	var ids []event.ItemID
	for _, i := range items {
		ids = append(ids, i.ID)
	}
	return ids
}

// End returns the events that end the run with a status. The status must be terminal. A run that
// has not started can end only as failed or canceled.
func (l *Log) End(status event.Status) []event.Event {
	failure := &event.Failure{Message: "it did not work", Code: event.CodeError}
	switch status {
	case event.StatusCompleted:
		return append(l.Started(), event.Event{Type: event.RunCompleted, Payload: json.RawMessage(`"done"`)})
	case event.StatusFailed:
		return []event.Event{{Type: event.RunFailed, Failure: failure}}
	case event.StatusCanceled:
		return []event.Event{{Type: event.RunCanceled, Failure: failure}}
	}
	panic(fmt.Sprintf("storetest: a run does not end as %s", status))
}

// Started returns the event that starts the run, or nil if the log contains it.
func (l *Log) Started() []event.Event {
	if l.State.Run != event.StatePending {
		return nil
	}
	return []event.Event{{Type: event.RunStarted, By: "worker"}}
}

// settled returns the event that ends the open wait, or nil if no wait is open.
func (l *Log) settled() []event.Event {
	var events []event.Event
	for o := range l.State.Opens {
		events = append(events, event.Event{Type: event.WaitCompleted, Ref: o.Ref, Since: o.Since, Outcome: event.OutcomeDue})
	}
	return events
}

// startedOnce drops every run_started event after the first. Each of the concatenated parts of a
// commit may contain a run_started event.
func startedOnce(events []event.Event) []event.Event {
	var kept []event.Event
	started := false
	for _, e := range events {
		if e.Type == event.RunStarted && started {
			continue
		}
		started = started || e.Type == event.RunStarted
		kept = append(kept, e)
	}
	return kept
}
