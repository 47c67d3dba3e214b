package event_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
)

// asksFor returns the event by which an operation of a run requests a notice about a value.
func asksFor(key, value, checked string) event.Event {
	payload, err := json.Marshal(event.Notice{Value: value, Checked: checked})
	if err != nil {
		panic(err)
	}
	return event.Event{Type: event.MessageReceived, Name: event.NoticeTopic, Item: event.NoticeItem(runB, key), Payload: payload}
}

func TestLogState_GivesEachNoticeOnce(t *testing.T) {
	item := func(key string) event.ItemID { return event.NoticeItem(runB, key) }
	set := func(name string) event.Event { return event.Event{Type: event.ValueSet, Name: name} }
	tests := map[string]struct {
		spec    event.Spec
		log     []event.Event
		given   map[uint64][]event.ItemID
		pending []event.ItemID
	}{
		"when the value is set": {
			log:   []event.Event{asksFor("a", "x", ""), asksFor("b", "x", ""), asksFor("c", "y", ""), set("x"), set("x")},
			given: map[uint64][]event.ItemID{5: {item("a"), item("b")}}, pending: []event.ItemID{item("c")},
		},
		"at once if the value was set": {
			log:   []event.Event{set("x"), asksFor("a", "x", "")},
			given: map[uint64][]event.ItemID{3: {item("a")}},
		},
		"at once if an earlier run of the chain may have set it": {
			spec:  event.Spec{ContinuedOf: runA},
			log:   []event.Event{asksFor("a", "x", ""), asksFor("b", "x", string(runA)), set("x")},
			given: map[uint64][]event.ItemID{2: {item("a")}, 4: {item("b")}},
		},
		"later, if the run before it owed it": {
			spec:    event.Spec{ContinuedOf: runA},
			log:     []event.Event{event.CarriedNotice(item("a"), "x", runA)},
			pending: []event.ItemID{item("a")},
		},
		"at once if it cannot be read": {
			log:   []event.Event{{Type: event.MessageReceived, Name: event.NoticeTopic, Item: item("a"), Payload: []byte(`7`)}},
			given: map[uint64][]event.ItemID{2: {item("a")}},
		},
		"not for other messages": {log: []event.Event{{Type: event.MessageReceived, Name: "topic", Item: "i", Payload: []byte(`{"value":"x"}`)}, set("x")}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var f event.LogState
			log := append([]event.Event{{Type: event.RunCreated, Spec: &tt.spec}}, tt.log...)
			given := map[uint64][]event.ItemID{}
			for i := range log {
				log[i].Seq = uint64(i + 1)
				if err := f.Apply(&log[i]); err != nil {
					t.Fatal(err)
				}
			}
			for i := range log {
				if items := f.NoticesAt(log[i].Seq); items != nil {
					given[log[i].Seq] = items
				}
			}
			var pending []event.ItemID
			f.NoticesPending(func(item event.ItemID, _ string) bool {
				pending = append(pending, item)
				return true
			})
			if tt.given == nil {
				tt.given = map[uint64][]event.ItemID{}
			}
			if diff := cmp.Diff(tt.given, given); diff != "" {
				t.Errorf("given (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.pending, pending); diff != "" {
				t.Errorf("pending (-want +got):\n%s", diff)
			}
		})
	}
	if run, ok := event.NoticeFor(item("a")); run != runB || !ok {
		t.Errorf("the item is for %s, %v", run, ok)
	}
	if _, ok := event.NoticeFor("key:\"notice\":7"); ok {
		t.Error("another item counts as one that asks for a notice")
	}
}
