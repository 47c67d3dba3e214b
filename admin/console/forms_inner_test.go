package console

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
)

// TestOPS2_FormsHaveTitlesAndOrderAndNoDefaults proves that a form has the titles, the descriptions
// and the order of its schema, marks required fields, and preselects no boolean.
func TestOPS2_FormsHaveTitlesAndOrderAndNoDefaults(t *testing.T) {
	fields := formOf(json.RawMessage(`{"type":"object","required":["approved","reason"],"properties":{
		"reason":{"type":"string","title":"Why"},
		"approved":{"type":"boolean","title":"Approve the order?","description":"No sends it back"},
		"cents":{"type":"integer"}}}`))
	type shown struct {
		Label, Hint, Value string
		Options            []string
		Required, Marked   bool
	}
	var got []shown
	for _, f := range fields {
		got = append(got, shown{f.Label, f.Hint, f.Value, f.Options, f.Required, f.Marked})
	}
	want := []shown{
		{Label: "Why", Marked: true},
		{Label: "Approve the order?", Hint: "No sends it back", Options: []string{"", "true", "false"}, Required: true, Marked: true},
		{Label: "cents", Hint: "a whole number"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
}

// TestOPS2_WaitsReadAsASentence proves that the description of a wait is a sentence.
func TestOPS2_WaitsReadAsASentence(t *testing.T) {
	now := time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC)
	after := func(hours int) string {
		o := &operation{kind: "wait", note: note{due: now.Add(time.Duration(hours) * time.Hour).UnixMilli()}, lane: &node{label: "after"}}
		return o.waitedFor(now)
	}
	topic := &operation{kind: "wait", name: "approval", lane: &node{label: "receive"}}
	got := enumerate([]string{topic.waitedFor(now), after(5), after(23)})
	if want := "a message of approval, a timer due in 5 h and a timer due in 23 h"; got != want {
		t.Errorf("it waits for %q, want %q", got, want)
	}
}

// TestOPS2_AWaitForAHookIsNoMessage proves that the page shows a wait for a payload of a hook as
// the hook. Even with a timeout, the wait is not shown as a wait for a topic of the same name.
func TestOPS2_AWaitForAHookIsNoMessage(t *testing.T) {
	lane := &node{label: "receive"}
	s := &skeleton{ops: []*operation{
		{kind: "hook", name: "verdict", state: stateOpen, lane: lane}, {kind: "wait", name: "verdict", state: stateOpen, lane: lane}, {kind: "wait", name: "paid", state: stateOpen, lane: lane},
	}}
	s.lanes.root = &node{open: 3}
	got, _ := s.waits(time.Unix(0, 0))
	if diff := cmp.Diff([]string{"a message of paid", "hook verdict"}, got); diff != "" {
		t.Errorf("waits (-want +got):\n%s", diff)
	}
}

// TestOPS2_ActionsHaveTheNamesOfTheCommand proves that actions have the same names in the console,
// in flowctl and in the API.
func TestOPS2_ActionsHaveTheNamesOfTheCommand(t *testing.T) {
	for _, name := range admin.Actions() {
		if got, want := verbs[name].Name, title(name); got != want {
			t.Errorf("action %s is called %q, want %q", name, got, want)
		}
	}
}

func title(name string) string {
	b := []byte(name)
	b[0] -= 'a' - 'A'
	for i := range b {
		if b[i] == '-' {
			b[i] = ' '
		}
	}
	return string(b)
}
