package effects_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

var run = event.NewRunID(time.Unix(1_700_000_000, 0), 7)

func TestOutboxMessage_ComesBackAsItWas(t *testing.T) {
	for name, want := range map[string]*effects.OutboxMessage{
		"a start": {Start: &effects.Start{Frame: []byte{1, 2}, Active: store.ActiveFail, Finished: store.FinishedReject}, Key: "k", Answer: effects.OnRefusal},
		"an item": {Item: &effects.Item{Scope: store.ScopeRun, Body: []byte{3}}, Answer: effects.Always},
	} {
		b, err := want.Encode()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := effects.DecodeOutboxMessage(b)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOutboxMessage_RefusesWhatIsNeitherOrBoth(t *testing.T) {
	for _, p := range []*effects.OutboxMessage{{}, {Start: &effects.Start{}, Item: &effects.Item{}}} {
		if _, err := p.Encode(); err == nil {
			t.Errorf("%+v was encoded", p)
		}
	}
	for _, text := range []string{"", "{", "{}", `{"start":{},"item":{}}`, "[]"} {
		if _, err := effects.DecodeOutboxMessage([]byte(text)); !errors.Is(err, event.ErrCorrupt) {
			t.Errorf("%q: got %v, want ErrCorrupt", text, err)
		}
	}
}

func TestCreate_IsWhatTheFirstFrameSays(t *testing.T) {
	spec := &event.Spec{
		Workflow: "orders.fulfil", Queue: "slow", WorkflowID: "order-7", Tags: map[string]string{"a": "b"}, Priority: 3,
		Parent: run, Root: run, Retention: time.Hour, StartAt: time.Unix(1_700_000_100, 0).UTC(),
	}
	cid := event.NewCommitID()
	frame, err := event.AppendFrame(nil, &event.Frame{CommitID: cid, Time: time.Unix(1_700_000_000, 0), Events: []event.Event{
		{Seq: 1, Type: event.RunCreated, Spec: spec, Time: time.Unix(1_700_000_000, 0)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	o := &store.Outgoing{Send: store.Send{ID: "record", To: event.DerivedRunID(run, "k", 1)}, From: run, Deadline: time.Unix(1_700_000_060, 0)}
	got, err := (&effects.OutboxMessage{Start: &effects.Start{Frame: frame, Active: store.ActiveFail}}).Create(o)
	if err != nil {
		t.Fatal(err)
	}
	want := store.Create{
		Run: o.To, WorkflowID: "order-7", Active: store.ActiveFail, Route: store.Route{Queue: "slow", Workflow: "orders.fulfil"},
		Priority: 3, Tags: spec.Tags, Parent: run, Root: run, CreatedBy: "record", Deadline: o.Deadline,
		Frame: frame, CommitID: cid, Seq: 1, At: spec.StartAt, Retention: time.Hour,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := (&effects.OutboxMessage{Start: &effects.Start{Frame: frame[:20]}}).Create(o); !errors.Is(err, event.ErrCorrupt) {
		t.Errorf("a damaged frame: got %v, want ErrCorrupt", err)
	}
}

func TestCheck_TellsDamageFromWhatANewerReleaseWrote(t *testing.T) {
	for name, tt := range map[string]struct {
		body  string
		newer bool
	}{
		"nothing":                    {"", false},
		"no field":                   {"{}", false},
		"a field of another type":    {`{"start":5}`, false},
		"a start that says nothing":  {`{"start":{"frame":"AAAA"}}`, false},
		"a kind that is not known":   {`{"query":{"name":"x"},"key":"k"}`, true},
		"half of a kind not known":   {`{"query":{"na`, false},
		"a list":                     {"[]", false},
		"an item that is no base 64": {`{"item":{"body":"?"}}`, false},
	} {
		err := effects.Check(&store.Outgoing{Send: store.Send{ID: "record", To: run, Body: []byte(tt.body)}})
		if got := errors.Is(err, effects.ErrNewer); err == nil || got != tt.newer {
			t.Errorf("%s: got error %v, of a newer release: %t, want %t", name, err, got, tt.newer)
		}
	}
	b, err := (&effects.OutboxMessage{Item: &effects.Item{Body: []byte{1}}}).Encode()
	if err == nil {
		err = effects.Check(&store.Outgoing{Send: store.Send{ID: "record", To: run, Body: b}})
	}
	if err != nil {
		t.Errorf("an item: %v", err)
	}
}
