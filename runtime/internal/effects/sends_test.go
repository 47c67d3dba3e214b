package effects_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

var began = time.Unix(1_700_000_000, 0).UTC()

// sender returns the log of a run with a child, and the state of the log before the last event.
func sender(t *testing.T, end event.Type, limit event.ParentClose) (*event.LogState, []event.Event) {
	t.Helper()
	child := event.DerivedRunID(run, "parent/child#1", 9)
	spec := &event.Spec{Workflow: "parent", Queue: "default", Parent: event.DerivedRunID(run, "above", 3), ParentKey: "above/parent#1", Root: run}
	events := []event.Event{
		{Type: event.RunCreated, Spec: spec},
		{Type: event.RunStarted},
		{
			Type: event.ChildCreated, Ref: 3, Name: "child", Key: "parent/child#1", Next: child, Close: limit,
			Spec: &event.Spec{Workflow: "child", Queue: "default"}, Payload: []byte("1"),
		},
		{Type: event.ChildCancelRequested, Ref: 3, Next: child, Reason: "enough"},
		{Type: event.MessageSent, Ref: 5, Name: "topic", Key: "parent/topic#1", Next: child, Item: "item", Payload: []byte("2")},
		{Type: event.SendCompleted, Ref: 5, Item: "answer"},
		{Type: end, Payload: []byte("3")},
	}
	if end == event.RunContinued {
		events[6].Next = event.NextRunID(run, 7, began)
	}
	f := &event.LogState{}
	for i := range events {
		events[i].Seq, events[i].Time = uint64(i+1), began
		if err := f.Apply(&events[i]); err != nil {
			t.Fatalf("event %d (%s): %v", i+1, events[i].Type, err)
		}
	}
	return f, events
}

func sends(t *testing.T, f *event.LogState, events []event.Event) (all []store.Send) {
	t.Helper()
	for i := range events {
		s, err := effects.Sends(run, f, &events[i])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s...)
	}
	return all
}

// TestSends_AreTheSameHoweverOftenTheyAreMade proves that records which are made again after lost
// writes equal the earlier ones.
func TestSends_AreTheSameHoweverOftenTheyAreMade(t *testing.T) {
	f, events := sender(t, event.RunCompleted, event.CloseCancel)
	first := sends(t, f, events)
	if len(first) != 5 {
		t.Fatalf("got %d records, want a start, two cancels, a message and an end", len(first))
	}
	if diff := cmp.Diff(first, sends(t, f, events)); diff != "" {
		t.Errorf("the same log makes other records (-first +again):\n%s", diff)
	}
	if first[0].ID != effects.StartID(run, "parent/child#1") || first[4].ID != effects.EndID(run) || first[1].ID != first[3].ID {
		t.Errorf("ids: got %q", []event.ItemID{first[0].ID, first[1].ID, first[2].ID, first[3].ID, first[4].ID})
	}
}

func TestSends_TheEndOfAChildIsForTheRunThatStartedItAlone(t *testing.T) {
	f, events := sender(t, event.RunCompleted, event.CloseAbandon)
	got, err := effects.Sends(run, f, &events[6])
	if err != nil || len(got) != 1 {
		t.Fatalf("got %d records, %v, want the end", len(got), err)
	}
	p, err := effects.DecodeOutboxMessage(got[0].Body)
	if err != nil {
		t.Fatal(err)
	}
	if p.Item == nil || p.Item.Scope != store.ScopeRun || got[0].To != f.Spec.Parent {
		t.Errorf("got %+v to %s, want an item for run %s alone", p.Item, got[0].To, f.Spec.Parent)
	}
}

func TestSends_WhatContinuesTellsNoEnd(t *testing.T) {
	f, events := sender(t, event.RunContinued, event.CloseAbandon)
	if got := sends(t, f, events[6:]); len(got) != 0 {
		t.Errorf("got %d records, want none", len(got))
	}
}

func TestDeliver_IsKeptUntilConfirm(t *testing.T) {
	o := &store.Outgoing{Send: store.Send{ID: "record", To: run}, Deadline: began}
	got := (&effects.OutboxMessage{Item: &effects.Item{Scope: store.ScopeRun, Body: []byte("1")}}).Deliver(o)
	want := store.Deliver{Run: run, Item: store.Item{ID: "record", Scope: store.ScopeRun, Body: []byte("1")}, Deadline: began, Keep: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
