package machine

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	toA     = &Next{Step: "a", Args: json.RawMessage(`{"n":1}`)}
	toGone  = &Next{Step: "gone"}
	done    = &Next{Done: true, Result: json.RawMessage(`7`)}
	later   = &Next{After: time.Hour, Then: toA}
	waits   = &Next{Waits: []Wait{{Topic: "t", Step: "a", Args: json.RawMessage(`{"n":1}`), Message: "m"}, {Topic: "u", Step: "gone", Message: "m"}}}
	limited = &Next{Waits: waits.Waits, After: time.Hour, Then: done}
	again   = &Next{After: time.Hour, Then: waits}
)

// TestCONT2_OneFunctionDecidesFromTheLastEventWhatComesNext proves the decision for each kind of
// event with each kind of transition.
func TestCONT2_OneFunctionDecidesFromTheLastEventWhatComesNext(t *testing.T) {
	start := Action{Do: Start, Step: "a", Args: toA.Args}
	complete := Action{Do: Complete, Result: done.Result}
	nowhere := Action{Do: Fail, Reason: Nowhere}
	block := Action{Do: Block, Step: "gone"}
	for _, tt := range []struct {
		name string
		last Event
		want Action
	}{
		{"returned a step", Event{Kind: Returned, Next: toA}, start},
		{"returned a step that is gone", Event{Kind: Returned, Next: toGone}, block},
		{"returned the end", Event{Kind: Returned, Next: done}, complete},
		{"returned a wait", Event{Kind: Returned, Next: waits}, Action{Do: Await, Next: waits}},
		{"returned a limited wait", Event{Kind: Returned, Next: limited}, Action{Do: Await, Next: limited}},
		{"returned a delay", Event{Kind: Returned, Next: later}, Action{Do: Await, Next: later}},
		{"returned nothing", Event{Kind: Returned, Next: &Next{}}, nowhere},
		{"returned no next", Event{Kind: Returned}, nowhere},

		{"failed, and nothing catches that", Event{Kind: Failed}, Action{Do: Fail, Reason: StepFailed}},
		{"failed, and leads to a step", Event{Kind: Failed, Next: toA}, start},
		{"failed, and leads to a step that is gone", Event{Kind: Failed, Next: toGone}, block},
		{"failed, and leads nowhere", Event{Kind: Failed, Next: &Next{}}, nowhere},

		{"received", Event{Kind: Received, Next: waits, Message: json.RawMessage(`"x"`)}, Action{Do: Start, Step: "a", Args: json.RawMessage(`{"m":"x","n":1}`)}},
		{"received nothing", Event{Kind: Received, Next: waits}, Action{Do: Start, Step: "a", Args: json.RawMessage(`{"m":null,"n":1}`)}},
		{"received for a step that is gone", Event{Kind: Received, Next: waits, Case: 1}, block},
		{"received within a limit", Event{Kind: Received, Next: limited, Message: json.RawMessage(`1`)}, Action{Do: Start, Step: "a", Args: json.RawMessage(`{"m":1,"n":1}`)}},
		{"received what nobody waits for", Event{Kind: Received, Next: waits, Case: 2}, nowhere},
		{"received before the first case", Event{Kind: Received, Next: waits, Case: -1}, nowhere},
		{"received, and no next", Event{Kind: Received}, nowhere},
		{"received for arguments that are none", Event{Kind: Received, Next: &Next{Waits: []Wait{{Step: "a", Args: json.RawMessage(`3`)}}}}, nowhere},

		{"time is up for messages", Event{Kind: TimeUp, Next: limited}, complete},
		{"time is up for a step", Event{Kind: TimeUp, Next: later}, start},
		{"time is up for a wait", Event{Kind: TimeUp, Next: again}, Action{Do: Await, Next: waits}},
		{"time is up for ever", Event{Kind: TimeUp, Next: waits}, nowhere},
		{"time is up, and no next", Event{Kind: TimeUp}, nowhere},

		{"something else", Event{Kind: "else", Next: toA}, nowhere},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := Machine{Has: func(step string) bool { return step == "a" }, Max: 3}
			got := m.Decide(tt.last, 2)
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("after 2 steps (-want +got):\n%s", d)
			}
			if again := m.Decide(tt.last, 2); cmp.Diff(got, again) != "" {
				t.Errorf("asked again: %+v", again)
			}
			want := tt.want
			if want.Do == Start {
				want = Action{Do: Fail, Step: want.Step, Reason: TooMany}
			}
			if d := cmp.Diff(want, m.Decide(tt.last, 3)); d != "" {
				t.Errorf("after as many steps as may begin (-want +got):\n%s", d)
			}
			m.Max = 0
			if d := cmp.Diff(tt.want, m.Decide(tt.last, 1_000_000)); d != "" {
				t.Errorf("without a maximum (-want +got):\n%s", d)
			}
		})
	}
}

func TestNext_RefusesWhatLeadsNowhere(t *testing.T) {
	w := Next{Waits: waits.Waits[:1]}
	or := func(a, b Next) error { _, err := a.Or(b); return err }
	orAfter := func(a Next) error { _, err := a.OrAfter(time.Hour, *done); return err }
	for name, tt := range map[string]struct{ got, want error }{
		"nothing":                {(&Next{}).Check(), ErrNowhere},
		"nothing, later":         {(&Next{After: 1, Then: &Next{}}).Check(), ErrNowhere},
		"a step":                 {toA.Check(), nil},
		"the end":                {done.Check(), nil},
		"a wait":                 {waits.Check(), nil},
		"a limit on a step":      {orAfter(*toA), ErrOrAfter},
		"a limit on a limit":     {orAfter(*limited), ErrOrAfter},
		"a limit on a delay":     {orAfter(*later), ErrOrAfter},
		"a wait or a step":       {or(w, *toA), ErrOr},
		"a step or a wait":       {or(*toA, w), ErrOr},
		"a limited wait or one":  {or(*limited, w), ErrOr},
		"a wait or a limited":    {or(w, *limited), ErrOr},
		"a wait or another wait": {or(w, w), nil},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: got %v, want %v", name, tt.got, tt.want)
		}
	}
}

// TestNext_OrDoesNotWriteToWhatItJoins proves that deriving two values from one Next changes
// neither of them.
func TestNext_OrDoesNotWriteToWhatItJoins(t *testing.T) {
	first := Next{Waits: append(make([]Wait, 0, 4), Wait{Step: "a"})}
	one, _ := first.Or(Next{Waits: []Wait{{Step: "b"}}})
	two, _ := first.Or(Next{Waits: []Wait{{Step: "c"}}})
	if one.Waits[1].Step != "b" || two.Waits[1].Step != "c" || len(first.Waits) != 1 {
		t.Errorf("got %v, %v and %v", first, one, two)
	}
}
