package workflow_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestFLOW18_AHookIsListedOnceItsTokenIsGranted proves that a hook with a user-defined token is not
// listed before the store has granted the token, although it is in the log. Operators must not
// distribute a token that may be refused.
func TestFLOW18_AHookIsListedOnceItsTokenIsGranted(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000).UTC()
	run := event.NewRunID(now, 1)
	log := []event.Event{
		{Type: event.RunCreated, Spec: &event.Spec{}}, {Type: event.RunStarted},
		{Type: event.HookCreated, Name: "paid", Key: "f/hook.paid#1", Token: "desk-7", Meta: json.RawMessage(`{"title":"Pay"}`)},
		{Type: event.ChildCreated, Name: event.HookRun, Key: "f/hook.paid#1/hold", Ack: true},
		{Type: event.ChildStarted, Ref: 4},
		{Type: event.HookDisposed, Ref: 3, Token: "desk-7"},
	}
	for i := range log {
		log[i].Seq, log[i].Time = uint64(i+1), now
		if log[i].Type.Creates() && i > 0 {
			log[i].Ref, log[i].Since = log[i].Seq, now
		}
	}
	desk := []workflow.HookInfo{{
		Hook: "paid", Token: "desk-7", Run: run, Meta: workflow.HookMeta{Title: "Pay"}, ID: log[2].Correlation(run), Key: "f/hook.paid#1", Event: 3, OpenedAt: now,
	}}
	for n, want := range map[int][]workflow.HookInfo{2: nil, 4: nil, 5: desk, 6: nil} {
		got, err := workflow.OpenHooks(run, log[:n])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", log[n-1].Type, diff)
		}
	}
	log[2].Meta = json.RawMessage(`{`)
	if got, err := workflow.OpenHooks(run, log[:5]); err == nil {
		t.Errorf("a description that is damaged: got %v and no error", got)
	}
}
