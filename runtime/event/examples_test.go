package event_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

const (
	runA = event.RunID("wrun_01JZ8Q4M5N6P7R8S9TAVBWCXDY")
	runB = event.RunID("wrun_01JZ8Q4M5N0000000000000042")
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)

// at returns the time d after the start of all examples.
func at(d time.Duration) time.Time { return start.Add(d) }

func cid(n byte) (c event.CommitID) {
	for i := range c {
		c[i] = n + byte(i)
	}
	return c
}

func declined() *event.Failure {
	return &event.Failure{
		Message: "charge customer c-7: card declined",
		Code:    event.CodeError,
		Type:    "billing.DeclinedError",
		Data:    json.RawMessage(`{"limit":100}`),
		Stack:   "billing.charge\n\tcharge.go:31",
		Causes: []*event.Failure{
			{Message: "card declined", Causes: []*event.Failure{{Message: "limit", Code: "limit"}}},
			{Message: "audit: write: broken pipe"},
		},
		Undone:    []string{"fulfil/undo#2: orders.cancelLabel"},
		NotUndone: []string{"fulfil/undo#1: orders.refund: no such receipt"},
	}
}

func orderSpec() *event.Spec {
	return &event.Spec{
		Workflow:    "orders.fulfil",
		Queue:       "orders",
		WorkflowID:  "order-42",
		Tags:        map[string]string{"tenant": "acme", "region": "eu", "": "empty key", "empty value": ""},
		Timeout:     90 * time.Minute,
		Retention:   7 * 24 * time.Hour,
		Priority:    -3,
		StartAt:     at(time.Hour),
		Parent:      runB,
		ParentKey:   "checkout/orders.fulfil#1",
		Root:        runB,
		Depth:       3,
		RerunOf:     runA,
		ContinuedOf: runB,
		Attributes:  map[string]string{"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"},
		Hold:        5 * time.Minute,
		Debug:       true,
		Kept:        17,
		Seed:        runA,
	}
}

// exampleEvents returns one event of each type with number 7. Each event has every field that the
// comment of its type lists.
func exampleEvents() map[event.Type]event.Event {
	const item = event.ItemID("0123456789abcdef0123456789abcdef")
	unread := []event.ItemID{item, "fedcba9876543210fedcba9876543210"}
	created := at(-time.Hour)
	all := map[event.Type]event.Event{
		event.RunCreated:      {Spec: orderSpec(), Payload: json.RawMessage(`{"order":{"id":"42"}}`)},
		event.RunStarted:      {By: "worker-1"},
		event.RunCompleted:    {Payload: json.RawMessage(`{"total":1999}`), Unread: unread},
		event.RunFailed:       {Failure: declined(), Unread: unread},
		event.RunCanceled:     {Failure: &event.Failure{Message: "cancelled: customer left", Code: event.CodeCanceled}, Unread: unread},
		event.RunContinued:    {Next: runB, Payload: json.RawMessage(`{"round":2}`), Unread: unread},
		event.CancelRequested: {Reason: "customer left", Item: item},
		event.InputReceived:   {Item: item, Payload: json.RawMessage(`{"doc":{"id":"7"}}`)},

		event.StepCreated:   {Ref: 7, Since: at(0), Name: "orders.charge", Key: "fulfil/orders.charge#1", Payload: json.RawMessage(`{"cents":1999}`)},
		event.StepStarted:   {Ref: 4, Since: created, Attempt: 2, By: "worker-1"},
		event.StepRetrying:  {Ref: 4, Since: created, Attempt: 2, Failure: declined(), Due: at(30 * time.Second)},
		event.StepCompleted: {Ref: 4, Since: created, Attempt: 3, Payload: json.RawMessage(`"receipt-9"`)},
		event.StepFailed:    {Ref: 4, Since: created, Attempt: 4, Failure: declined()},

		event.StepHookCreated: {
			Ref: 4, Since: created, Attempt: 2, Name: "charged", Token: "wrun_7.secret", Payload: json.RawMessage(`{"t":"int"}`), Meta: json.RawMessage(`{"title":"Charge"}`), Due: at(time.Hour),
		},
		event.StepPending: {Ref: 4, Since: created, Attempt: 2, Due: at(time.Hour), Payload: json.RawMessage(`["tokens"]`)},

		event.WaitCreated:   {Ref: 7, Since: at(0), Key: "fulfil/receive#1", Wait: event.WaitMessage, Name: "approval", Due: at(24 * time.Hour)},
		event.WaitCompleted: {Ref: 4, Since: created, Outcome: event.OutcomeReceived},

		event.HookCreated:  {Ref: 7, Since: at(0), Name: "paid", Key: "fulfil/paid#1", Token: "order-42/paid", Payload: json.RawMessage(`{"t":"int"}`), Meta: json.RawMessage(`{"title":"Pay order 42"}`)},
		event.HookReceived: {Ref: 4, Since: created, Item: item, Payload: json.RawMessage(`{"ok":true}`)},
		event.HookDisposed: {Ref: 4, Since: created, Token: "order-42/paid"},
		event.HookConflict: {Ref: 4, Since: created, Next: runB, Token: "order-42/paid"},

		event.MessageReceived: {Name: "approval", Item: item, Payload: json.RawMessage(`{"ok":true}`)},
		event.ValueRecorded:   {Key: "fulfil/record#1", Payload: json.RawMessage(`17`), Failure: declined()},

		event.MessageSent:   {Ref: 7, Since: at(0), Name: "approval", Key: "fulfil/send.approval#1", Next: runB, Item: item, Payload: json.RawMessage(`{"ok":true}`)},
		event.SendCompleted: {Ref: 4, Since: created, Next: runB, Item: item},
		event.SendFailed:    {Ref: 4, Since: created, Next: runB, Item: item, Failure: &event.Failure{Message: "run has ended", Code: event.CodeRefused}},

		event.ChildCreated: {
			Ref: 7, Since: at(0), Name: "orders.invoice", Key: "fulfil/orders.invoice#1", Next: runB, Spec: orderSpec(),
			Payload: json.RawMessage(`{"cents":1999}`), Close: event.CloseWait, Ack: true, Active: 1, Finished: 2,
		},
		event.ChildStarted:         {Ref: 4, Since: created, Next: runB},
		event.ChildCancelRequested: {Ref: 4, Since: created, Next: runB, Reason: "customer left"},
		event.ChildCompleted:       {Ref: 4, Since: created, Next: runB, Payload: json.RawMessage(`"invoice-9"`)},
		event.ChildFailed:          {Ref: 4, Since: created, Next: runB, Failure: declined()},
		event.ChildCanceled:        {Ref: 4, Since: created, Next: runB, Failure: &event.Failure{Message: "cancelled", Code: event.CodeCanceled}},
	}
	all[event.StreamWritten] = event.Event{Name: "tokens", Key: "fulfil/orders.write#1", Attempt: 2, Item: item}
	all[event.StreamClosed] = event.Event{Name: "tokens", Key: "fulfil/close.tokens#1"}
	all[event.HookMissed] = event.Event{Item: item, Token: "order-42/paid"}
	all[event.HookAnswered] = event.Event{Name: "paid", Key: string(item), Token: "order-42/paid", Payload: json.RawMessage(`{"status":200}`)}
	all[event.AskReceived] = event.Event{Ref: 7, Since: at(0), Name: "set-limit", Item: item, Payload: json.RawMessage(`100`)}
	all[event.AskAccepted] = event.Event{Ref: 7, Since: at(0), Name: "set-limit", Item: item, Payload: json.RawMessage(`100`)}
	all[event.AskAnswered] = event.Event{Ref: 4, Since: created, Key: string(item), Payload: json.RawMessage(`50`), Failure: declined()}
	all[event.AskRefused] = event.Event{Ref: 4, Since: created, Key: string(item), Failure: declined()}
	all[event.ValuesKept] = event.Event{}
	all[event.ValueSet] = event.Event{Name: "progress", Key: "fulfil/set.progress#1", Payload: json.RawMessage(`{"percent":40}`)}
	all[event.RunPaused] = event.Event{Item: item}
	all[event.RunResumed] = event.Event{Item: item}
	all[event.RunReleased] = event.Event{Item: item}
	all[event.RunStepped] = event.Event{Item: item}
	all[event.RunDelayed] = event.Event{Next: runB, Due: at(time.Hour)}
	all[event.VersionRecorded] = event.Event{Name: "fraud-check", Payload: json.RawMessage(`2`)}
	all[event.ResourceWait] = event.Event{
		Key: "fulfil/orders.render#1", Next: runB, From: at(-time.Minute),
		Uses: []event.Use{{Limit: "gpu", Weight: 2}, {Limit: "host", Key: "example.org", Weight: 1}},
	}
	for typ, e := range all {
		e.Seq, e.Type, e.Time = 7, typ, at(0)
		all[typ] = e
	}
	return all
}

// everything returns an event with many fields set, including a time of its own.
func everything() event.Event {
	return event.Event{
		Seq: 1000, Type: event.StepRetrying, Time: at(-time.Minute), Ref: 3, Since: at(-10 * 24 * time.Hour),
		Name: "näme", Key: "key", Payload: json.RawMessage(`{"text":"` + strings.Repeat("x", 300) + `"}`),
		Failure: declined(), Attempt: 1 << 20, Due: at(0), Wait: event.WaitDeadline, Outcome: event.OutcomeCanceled,
		Item: "item", Reason: "reason", Token: "token", Meta: json.RawMessage(`{"title":"t"}`), Next: runB, By: "by", Spec: orderSpec(),
		Unread: []event.ItemID{"1", "2"}, Close: event.CloseAbandon, Ack: true, Active: 2, Finished: 1,
		Uses: []event.Use{{Limit: "gpu", Key: "key", Weight: 3}}, From: at(-time.Hour),
	}
}

// numbered numbers the events, and sets the times of events that have none.
func numbered(events ...event.Event) []event.Event {
	for i := range events {
		e := &events[i]
		e.Seq = uint64(i + 1)
		if e.Time.IsZero() {
			e.Time = at(time.Duration(i) * time.Second)
		}
		if e.Type.Creates() && e.Type.Entity() != event.EntityRun {
			e.Ref = e.Seq
		}
		if e.Ref > 0 && e.Ref <= e.Seq {
			e.Since = events[e.Ref-1].Time
		}
	}
	return events
}

// exampleLogs returns logs that together contain every event type.
func exampleLogs() map[string][]event.Event {
	created := event.Event{Type: event.RunCreated, Spec: orderSpec(), Payload: json.RawMessage(`{}`)}
	started := event.Event{Type: event.RunStarted, By: "worker-1"}
	step := func(typ event.Type, attempt int) event.Event {
		return event.Event{Type: typ, Ref: 3, Attempt: attempt}
	}
	named := func(typ event.Type, name string) event.Event {
		return event.Event{Type: typ, Name: name, Key: "fulfil/" + name + "#1"}
	}
	child := func(name string) event.Event {
		return event.Event{Type: event.ChildCreated, Name: name, Key: "fulfil/" + name + "#1", Next: runB, Spec: orderSpec(), Payload: json.RawMessage(`2`)}
	}
	retrying := event.Event{Type: event.StepRetrying, Ref: 3, Attempt: 1, Failure: declined(), Due: at(time.Minute)}
	failed := event.Event{Type: event.StepFailed, Ref: 3, Attempt: 2, Failure: declined()}
	return map[string][]event.Event{
		"controlled": controlledLog(),
		"delayed":    delayedLog(),
		"streaming": numbered(created, started,
			named(event.StreamWritten, "write.tokens"),
			event.Event{Type: event.StreamWritten, Name: "tokens", Key: "fulfil/orders.write#1", Attempt: 1, Item: "item-1"},
			named(event.StreamClosed, "close.tokens"),
			event.Event{Type: event.RunCompleted}),
		"heard":    heardLog(),
		"answered": answeredLog(),
		"limited": numbered(created,
			event.Event{Type: event.ResourceWait, From: at(-time.Second), Uses: []event.Use{{Limit: "customer", Key: "c-7", Weight: 1}}},
			started, child("renders"),
			event.Event{Type: event.ResourceWait, Key: "fulfil/renders#1", Next: runB, From: at(3 * time.Second), Uses: []event.Use{{Limit: "gpu", Weight: 2}}},
			event.Event{Type: event.ChildCompleted, Ref: 4, Next: runB},
			event.Event{Type: event.RunCompleted}),
		"completed": numbered(created, started,
			named(event.StepCreated, "orders.charge"), step(event.StepStarted, 1), retrying, step(event.StepStarted, 2),
			step(event.StepCompleted, 2),
			event.Event{Type: event.WaitCreated, Key: "fulfil/sleep#1", Wait: event.WaitSleep, Due: at(24 * time.Hour)},
			event.Event{Type: event.WaitCompleted, Ref: 8, Outcome: event.OutcomeDue, Time: at(24 * time.Hour)},
			event.Event{Type: event.ValueRecorded, Key: "fulfil/record#1", Payload: json.RawMessage(`4`), Time: at(24 * time.Hour)},
			event.Event{Type: event.RunCompleted, Payload: json.RawMessage(`{"total":1999}`), Time: at(24 * time.Hour)}),
		"failed": numbered(created, started,
			named(event.StepCreated, "orders.charge"), step(event.StepStarted, 1), step(event.StepStarted, 2), failed,
			event.Event{Type: event.RunFailed, Failure: declined()}),
		"pending": numbered(created, started,
			named(event.StepCreated, "orders.charge"), step(event.StepStarted, 1),
			event.Event{Type: event.StepHookCreated, Ref: 3, Attempt: 1, Name: "charged", Token: "one", Due: at(time.Minute)},
			event.Event{Type: event.StepStarted, Ref: 3, Attempt: 2, Token: "one"},
			event.Event{Type: event.StepHookCreated, Ref: 3, Attempt: 2, Name: "charged", Token: "two", Due: at(time.Minute)},
			event.Event{Type: event.StepPending, Ref: 3, Attempt: 2, Due: at(time.Minute)},
			event.Event{Type: event.StepRetrying, Ref: 3, Attempt: 2, Token: "two", Failure: declined(), Due: at(2 * time.Minute), Time: at(time.Minute)},
			event.Event{Type: event.StepStarted, Ref: 3, Attempt: 3, Time: at(2 * time.Minute)},
			event.Event{Type: event.StepHookCreated, Ref: 3, Attempt: 3, Name: "charged", Token: "three", Due: at(3 * time.Minute), Time: at(2 * time.Minute)},
			event.Event{Type: event.StepPending, Ref: 3, Attempt: 3, Due: at(3 * time.Minute), Time: at(2 * time.Minute)},
			event.Event{Type: event.StepCompleted, Ref: 3, Attempt: 3, Token: "three", Item: "item-1", Key: "call-7", Payload: json.RawMessage(`9`), Time: at(2 * time.Minute)},
			event.Event{Type: event.RunCompleted, Time: at(2 * time.Minute)}),
		"gathered": numbered(created,
			event.Event{Type: event.InputReceived, Item: "item-1", Payload: json.RawMessage(`{"n":1}`)},
			event.Event{Type: event.InputReceived, Item: "item-2", Payload: json.RawMessage(`{"n":2}`)},
			started),
		"cancelled": numbered(created,
			event.Event{Type: event.CancelRequested, Reason: "customer left", Item: "item-1"},
			event.Event{Type: event.RunCanceled, Failure: &event.Failure{Message: "customer left", Code: event.CodeCanceled}}),
		"continued": numbered(created, started,
			named(event.HookCreated, "paid"), named(event.HookCreated, "refused"),
			event.Event{Type: event.HookConflict, Ref: 4, Next: runB},
			event.Event{Type: event.HookReceived, Ref: 3, Item: "item-1", Payload: json.RawMessage(`{"ok":true}`)},
			event.Event{Type: event.HookDisposed, Ref: 3},
			event.Event{Type: event.MessageReceived, Name: "approval", Item: "item-2", Payload: json.RawMessage(`1`)},
			event.Event{Type: event.RunContinued, Next: runB}),
		"parent": numbered(created, started,
			child("doubles"), child("fails"), child("waits"),
			event.Event{Type: event.MessageSent, Name: "approval", Key: "fulfil/send.approval#1", Next: runB, Item: "item-1"},
			event.Event{Type: event.MessageSent, Name: "approval", Key: "fulfil/send.approval#2", Next: runA, Item: "item-2"},
			event.Event{Type: event.ChildStarted, Ref: 5, Next: runB},
			event.Event{Type: event.SendCompleted, Ref: 6, Next: runB, Item: "item-1"},
			event.Event{Type: event.SendFailed, Ref: 7, Next: runA, Item: "item-2", Failure: declined()},
			event.Event{Type: event.ChildCompleted, Ref: 3, Next: runB, Payload: json.RawMessage(`4`)},
			event.Event{Type: event.ChildFailed, Ref: 4, Next: runB, Failure: declined()},
			event.Event{Type: event.ChildCancelRequested, Ref: 5, Next: runB, Reason: "enough"},
			event.Event{Type: event.ChildCanceled, Ref: 5, Next: runB, Failure: declined()},
			event.Event{Type: event.RunCompleted}),
	}
}

// controlledLog returns the log of a run that was held, paused and stepped.
func controlledLog() []event.Event {
	fact := func(typ event.Type, item event.ItemID) event.Event { return event.Event{Type: typ, Item: item} }
	return numbered(event.Event{Type: event.RunCreated, Spec: orderSpec()},
		fact(event.RunReleased, "item-1"), event.Event{Type: event.RunStarted, By: "worker-1"},
		fact(event.RunStepped, "item-2"),
		event.Event{Type: event.VersionRecorded, Name: "fraud-check", Payload: json.RawMessage(`1`)},
		event.Event{Type: event.WaitCreated, Key: "fulfil/sleep#1", Wait: event.WaitSleep, Due: at(time.Hour)},
		fact(event.RunPaused, "item-3"), fact(event.RunResumed, "item-4"),
		event.Event{Type: event.WaitCompleted, Ref: 6, Outcome: event.OutcomeCanceled},
		event.Event{Type: event.RunFailed, Failure: declined()})
}

// delayedLog returns the log of an automatic rerun that was paused before its time and failed
// again.
func delayedLog() []event.Event {
	return numbered(event.Event{Type: event.RunCreated, Spec: orderSpec(), By: "rerun policy", Reason: "rerun 1 of 3 by the policy of its workflow"},
		event.Event{Type: event.RunStarted, By: "worker-1"},
		event.Event{Type: event.RunPaused, Next: runB}, event.Event{Type: event.RunDelayed, Next: runA, Due: at(time.Minute)},
		event.Event{Type: event.RunPaused, Item: "item-1"}, event.Event{Type: event.MessageReceived, Name: "wake", Item: "item-2", Payload: json.RawMessage(`1`)},
		event.Event{Type: event.RunResumed, Item: "item-3"}, event.Event{Type: event.RunResumed, By: "worker-1"},
		event.Event{Type: event.RunFailed, Failure: declined(), Attempt: 2, Due: at(time.Hour), Reason: "rerun 2 of 3 by the policy of its workflow"})
}

// heardLog returns the log of a run that published values and received questions.
func heardLog() []event.Event {
	return numbered(event.Event{Type: event.RunCreated, Spec: orderSpec()}, event.Event{Type: event.RunStarted, By: "worker-1"},
		event.Event{Type: event.ValueSet, Name: "progress", Key: "fulfil/set.progress#1", Payload: json.RawMessage(`40`)},
		event.Event{Type: event.ValueSet, Name: "progress", Key: "fulfil/set.progress#2", Payload: json.RawMessage(`100`)},
		event.Event{Type: event.ValuesKept}, event.Event{Type: event.HookMissed, Item: "item-1", Token: "order-42/paid"},
		event.Event{Type: event.AskReceived, Name: "set-limit", Item: "item-2", Payload: json.RawMessage(`-1`)},
		event.Event{Type: event.AskAccepted, Name: "set-limit", Item: "item-3", Payload: json.RawMessage(`100`)},
		event.Event{Type: event.AskRefused, Ref: 7, Key: "item-2", Failure: declined()},
		event.Event{Type: event.AskAnswered, Ref: 8, Key: "item-3", Payload: json.RawMessage(`50`)},
		event.Event{Type: event.RunCompleted})
}

// answeredLog returns the log of a run that has answered a payload of its hook after closing the
// hook.
func answeredLog() []event.Event {
	return numbered(event.Event{Type: event.RunCreated, Spec: orderSpec()}, event.Event{Type: event.RunStarted, By: "worker-1"},
		event.Event{Type: event.HookCreated, Name: "paid", Key: "fulfil/hook.paid#1", Token: "order-42/paid", Meta: json.RawMessage(`{"respondMs":5000}`)},
		event.Event{Type: event.HookReceived, Ref: 3, Item: "item-1", Payload: json.RawMessage(`{"cents":1999}`)},
		event.Event{Type: event.HookDisposed, Ref: 3, Token: "order-42/paid"},
		event.Event{Type: event.HookAnswered, Name: "paid", Key: "item-1", Token: "order-42/paid", Payload: json.RawMessage(`{"json":{"ok":true}}`)},
		event.Event{Type: event.RunCompleted})
}

// framed splits a log into frames of at most n events, as a worker does.
func framed(log []event.Event, n int) []*event.Frame {
	var frames []*event.Frame
	var prev event.CommitID
	for chunk := range slices.Chunk(log, n) {
		f := &event.Frame{
			CommitID: cid(byte(16 * (len(frames) + 1))), Prev: prev, Time: chunk[len(chunk)-1].Time, Events: chunk,
		}
		if len(frames) > 0 {
			f.Epoch, f.Token = uint64(len(frames)), event.Token{1, 2, 3, 4, 5, 6, 7, byte(len(frames))}
		}
		frames, prev = append(frames, f), f.CommitID
	}
	return frames
}

func TestExamples_CoverEveryType(t *testing.T) {
	inLogs := map[event.Type]bool{}
	for _, log := range exampleLogs() {
		for _, e := range log {
			inLogs[e.Type] = true
		}
	}
	examples := exampleEvents()
	for _, typ := range event.Types() {
		if _, ok := examples[typ]; !ok {
			t.Errorf("no example event of type %s", typ)
		}
		if !inLogs[typ] {
			t.Errorf("no example log holds a %s", typ)
		}
	}
	if got, want := len(examples), len(event.Types()); got != want {
		t.Errorf("%d example events of types %v, want %d", got, slices.Collect(maps.Keys(examples)), want)
	}
}
