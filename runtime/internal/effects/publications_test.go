package effects_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/store"
)

// stateOf returns the state at the end of a log that begins with the creation of a run.
func stateOf(t *testing.T, log []event.Event) *event.LogState {
	t.Helper()
	var f event.LogState
	for i := range log {
		e := &log[i]
		e.Seq, e.Time = uint64(i+1), time.Unix(1_700_000_000, 0)
		if e.Type.Creates() && e.Type != event.RunCreated {
			e.Ref = e.Seq
		}
		if err := f.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	return &f
}

func TestPublications_IsWhatEachEventLetsOthersRead(t *testing.T) {
	log := []event.Event{
		{Type: event.RunCreated}, {Type: event.RunStarted},
		{Type: event.ValueSet, Name: "progress", Payload: json.RawMessage(`40`)},
		{Type: event.HookCreated, Name: "paid", Token: "one"},
		{Type: event.HookCreated, Name: "paid", Token: "two", Payload: json.RawMessage(`{"is":"int"}`), Meta: json.RawMessage(`{"title":"Pay"}`)},
		{Type: event.HookCreated, Name: "paid", Token: "three"},
		{Type: event.HookDisposed, Ref: 4, Token: "one"},
		{Type: event.AskReceived, Name: "add", Item: "item"},
		{Type: event.StepCreated}, {Type: event.StepStarted, Ref: 9, Attempt: 1},
		{Type: event.StepHookCreated, Ref: 9, Attempt: 1, Name: "charged", Token: "four", Payload: json.RawMessage(`{"is":"int"}`), Due: time.Unix(1_700_000_060, 0).UTC()},
		{Type: event.StepStarted, Ref: 9, Attempt: 2, Token: "four"},
		{Type: event.StepHookCreated, Ref: 9, Attempt: 2, Name: "charged", Token: "five", Meta: json.RawMessage(`{"title":"Charge"}`)},
		{Type: event.StepPending, Ref: 9, Attempt: 2},
		{Type: event.MessageReceived, Name: "approval"},
		{Type: event.RunContinued},
	}
	state := stateOf(t, log)
	want := [][]store.Publication{
		2:  {{Stream: "v:progress", Body: []byte(`40`), Keep: 1}},
		3:  {{Stream: "h:one", Drop: true, Body: []byte("paid")}},
		4:  {{Stream: "h:two", Drop: true, Body: []byte(`{"title":"Pay"}`)}, {Stream: "h:two", Body: []byte("paid\x00" + `{"is":"int"}`)}},
		5:  {{Stream: "h:three", Drop: true, Body: []byte("paid")}},
		6:  {{Stream: "h:one", Close: true}},
		10: {{Stream: "h:four", Drop: true, Body: []byte("\x00" + `{"name":"charged","shape":{"is":"int"},"step":{"ref":9,"attempt":1,"due":"2023-11-14T22:14:20Z"}}`)}},
		11: {{Stream: "h:four", Close: true}},
		12: {
			{Stream: "h:five", Drop: true, Body: []byte(`{"title":"Charge"}`)},
			{Stream: "h:five", Body: []byte("\x00" + `{"name":"charged","step":{"ref":9,"attempt":2,"due":"0001-01-01T00:00:00Z"}}`)},
		},
		15: {{Stream: "h:five", Close: true}, {Stream: "h:three", Close: true}, {Stream: "h:two", Close: true}},
	}
	for i := range log {
		if diff := cmp.Diff(want[i], effects.Publications(state, &log[i])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", log[i].Type, diff)
		}
	}
}

func TestDecodeHook_ReadsWhatEachReleaseHasPublished(t *testing.T) {
	due := time.Unix(1_700_000_060, 0).UTC()
	for chunk, want := range map[string]effects.HookState{
		"paid":                           {Name: "paid"},
		"paid\x00" + `{"is":"int"}`:      {Name: "paid", Shape: []byte(`{"is":"int"}`)},
		"a\x00b\x00" + `{"is":"string"}`: {Name: "a\x00b", Shape: []byte(`{"is":"string"}`)},
		"\x00" + `{"name":"charged","shape":{"is":"int"},"step":{"ref":9,"attempt":1,"due":"2023-11-14T22:14:20Z"},"later":1}`: {
			Name: "charged", Shape: []byte(`{"is":"int"}`), Step: &effects.StepHook{Ref: 9, Attempt: 1, Due: due},
		},
	} {
		got, err := effects.DecodeHook([]byte(chunk))
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", chunk, err, diff)
		}
	}
	for _, chunk := range []string{"\x00", "\x00{", "\x00{}"} {
		if got, err := effects.DecodeHook([]byte(chunk)); !errors.Is(err, event.ErrCorrupt) {
			t.Errorf("%q: got %v, %v, want ErrCorrupt", chunk, got, err)
		}
	}
}

func TestTakenOver_IsTheLastOfEachValue(t *testing.T) {
	set := func(name, value string) event.Event {
		return event.Event{Type: event.ValueSet, Name: name, Payload: json.RawMessage(value)}
	}
	got := effects.TakenOver([]event.Event{
		{Type: event.RunCreated}, set("a", "1"), set("b", "2"), {Type: event.HookCreated, Token: "t"}, set("a", "3"), {Type: event.RunPaused},
	})
	want := []store.Publication{{Stream: "v:a", Body: []byte("3"), Keep: 1}, {Stream: "v:b", Body: []byte("2"), Keep: 1}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := effects.TakenOver([]event.Event{{Type: event.RunCreated}}); got != nil {
		t.Errorf("without values: got %v", got)
	}
}

func TestAnswer_ComesBackAsItWas(t *testing.T) {
	failed := &event.Failure{Code: event.CodeError, Message: "no", Causes: []*event.Failure{{Message: "why"}}}
	for what, tt := range map[string]struct {
		published []store.Publication
		want      effects.Answer
	}{
		"an answer": {
			effects.Publications(nil, &event.Event{Type: event.AskAnswered, Key: "q", Payload: json.RawMessage(`{"a":1}`)}),
			effects.Answer{ID: "q", Payload: json.RawMessage(`{"a":1}`)},
		},
		"an error": {
			effects.Publications(nil, &event.Event{Type: event.AskAnswered, Key: "q", Failure: failed}),
			effects.Answer{ID: "q", Failure: failed},
		},
		"a late refusal": {
			effects.Publications(nil, &event.Event{Type: event.AskRefused, Key: "q", Failure: failed}),
			effects.Answer{ID: "q", Failure: failed, Refused: true},
		},
		"a refusal": {
			[]store.Publication{effects.Refusal("q", failed)},
			effects.Answer{ID: "q", Failure: failed, Refused: true},
		},
	} {
		p := tt.published[0]
		if len(tt.published) != 1 || p.Stream != effects.AnswerStream("q") || p.Keep == 0 {
			t.Errorf("%s: published %+v", what, tt.published)
		}
		got, err := effects.DecodeAnswer(p.Body)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff(&tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	if _, err := effects.DecodeAnswer([]byte("{")); !errors.Is(err, event.ErrCorrupt) {
		t.Errorf("damaged: got %v, want ErrCorrupt", err)
	}
	bad := effects.Refusal("q", &event.Failure{Message: "no", Data: json.RawMessage(`{`)})
	if a, err := effects.DecodeAnswer(bad.Body); err != nil || a.Failure == nil || a.Failure.Code != event.CodePayload || !a.Refused {
		t.Errorf("an error that cannot be written: got %+v, %v", a, err)
	}
}

func TestAnswerStream_KeepsTheLastThousand(t *testing.T) {
	streams := map[string]int{}
	keep := effects.Refusal("q", nil).Keep
	for n := range 100_000 {
		streams[effects.AnswerStream(event.ItemID(fmt.Sprintf("key:\"ask add\":%d", n)))]++
		if n%1000 == 999 { // none of the awaited answers was displaced by so many others
			for s, of := range streams {
				if of >= keep {
					t.Fatalf("%d of 1,000 answers are on stream %s, which keeps %d", of, s, keep)
				}
			}
			clear(streams)
		}
	}
}

func TestStreams_HaveNamesThatStoresTake(t *testing.T) {
	long := strings.Repeat("x", 200) // the longest name that the packages above permit
	for _, name := range []string{effects.ValueStream(long), effects.HookStream(long), effects.AnswerStream(event.ItemID(long))} {
		if err := store.CheckStreamName(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
