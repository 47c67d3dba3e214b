package event_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
)

// vocabulary contains the names and the numbers of all types. Neither may ever change.
var vocabulary = map[event.Type]struct {
	name    string
	entity  event.Entity
	creates bool
}{
	1: {"run_created", event.EntityRun, true}, 2: {"run_started", event.EntityRun, false},
	3: {"run_completed", event.EntityRun, false}, 4: {"run_failed", event.EntityRun, false},
	5: {"run_cancelled", event.EntityRun, false}, 6: {"run_continued", event.EntityRun, false},
	7: {"cancel_requested", event.EntityNone, false}, 8: {"input_received", event.EntityNone, false},
	10: {"step_created", event.EntityStep, true}, 11: {"step_started", event.EntityStep, false},
	12: {"step_retrying", event.EntityStep, false}, 13: {"step_completed", event.EntityStep, false},
	14: {"step_failed", event.EntityStep, false}, 15: {"step_hook_created", event.EntityStep, false}, 16: {"step_pending", event.EntityStep, false},
	20: {"wait_created", event.EntityWait, true}, 21: {"wait_completed", event.EntityWait, false},
	30: {"hook_created", event.EntityHook, true}, 31: {"hook_received", event.EntityHook, false},
	32: {"hook_disposed", event.EntityHook, false}, 33: {"hook_conflict", event.EntityHook, false},
	40: {"message_received", event.EntityNone, false}, 41: {"value_recorded", event.EntityNone, false},
	42: {"message_sent", event.EntitySend, true}, 43: {"send_completed", event.EntitySend, false},
	44: {"send_failed", event.EntitySend, false},
	50: {"child_created", event.EntityChild, true}, 51: {"child_started", event.EntityChild, false},
	52: {"child_cancel_requested", event.EntityChild, false}, 53: {"child_completed", event.EntityChild, false},
	54: {"child_failed", event.EntityChild, false}, 55: {"child_cancelled", event.EntityChild, false},
	64: {"stream_written", event.EntityNone, false}, 65: {"stream_closed", event.EntityNone, false},
	34: {"hook_missed", event.EntityNone, false}, 35: {"hook_answered", event.EntityNone, false},
	60: {"value_set", event.EntityNone, false}, 61: {"values_kept", event.EntityNone, false},
	70: {"ask_received", event.EntityAsk, true}, 71: {"ask_accepted", event.EntityAsk, true},
	72: {"ask_answered", event.EntityAsk, false}, 73: {"ask_refused", event.EntityAsk, false},
	80: {"run_paused", event.EntityNone, false}, 81: {"run_resumed", event.EntityNone, false},
	82: {"run_released", event.EntityNone, false}, 83: {"run_stepped", event.EntityNone, false},
	84: {"version_recorded", event.EntityNone, false},
	85: {"resource_wait", event.EntityNone, false}, 86: {"run_delayed", event.EntityNone, false},
}

func TestEV2_TypeKeepsItsNumberNameAndEntity(t *testing.T) {
	for _, typ := range allTypes() {
		want, known := vocabulary[typ]
		if typ.Known() != known {
			t.Errorf("type %d (%s): known = %t, want %t", uint8(typ), typ, typ.Known(), known)
			continue
		}
		if !known {
			if _, err := typ.MarshalText(); err == nil {
				t.Errorf("unknown type %d has a name to store", uint8(typ))
			}
			continue
		}
		if typ.String() != want.name || typ.Entity() != want.entity || typ.Creates() != want.creates {
			t.Errorf("type %d is %s of a %s, creates: %t; want %+v", uint8(typ), typ, typ.Entity(), typ.Creates(), want)
		}
		if got, err := event.ParseType(want.name); err != nil || got != typ {
			t.Errorf("ParseType(%q) = %s, %v", want.name, got, err)
		}
	}
}

func TestTypes_ListsAllInOrder(t *testing.T) {
	var want []event.Type
	for _, typ := range allTypes() {
		if _, known := vocabulary[typ]; known {
			want = append(want, typ)
		}
	}
	if diff := cmp.Diff(want, event.Types()); diff != "" {
		t.Error(diff)
	}
}

func TestType_IsItsNameInJSON(t *testing.T) {
	b, err := json.Marshal(map[event.Type]event.Type{event.RunCanceled: event.StepCompleted})
	if err != nil || string(b) != `{"run_cancelled":"step_completed"}` {
		t.Fatalf("types are stored as %s, %v", b, err)
	}
	var back map[event.Type]event.Type
	if err := json.Unmarshal(b, &back); err != nil || back[event.RunCanceled] != event.StepCompleted {
		t.Errorf("types read as %v, %v", back, err)
	}
	typ := event.RunFailed
	for _, name := range []string{"", "RUN_FAILED", "run_canceled", "type(99)"} {
		if err := typ.UnmarshalText([]byte(name)); err == nil || typ != event.RunFailed {
			t.Errorf("%q read as %s, %v; want an error and no change", name, typ, err)
		}
	}
}

func TestType_TerminalEndsARun(t *testing.T) {
	for _, typ := range event.Types() {
		ends := false
		for _, l := range legal {
			ends = ends || (l.by == typ && typ.Entity() == event.EntityRun && l.to.Terminal())
		}
		if typ.Terminal() != ends {
			t.Errorf("%s: terminal = %t, want %t", typ, typ.Terminal(), ends)
		}
	}
}

func TestSmallEnums_HaveNames(t *testing.T) {
	got := []string{
		event.WaitSleep.String(), event.WaitMessage.String(), event.WaitDeadline.String(), event.WaitKind(9).String(),
		event.OutcomeDue.String(), event.OutcomeReceived.String(), event.OutcomeCanceled.String(), event.OutcomeUnsure.String(), event.Outcome(9).String(),
		event.EntityRun.String(), event.EntityStep.String(), event.EntityWait.String(), event.EntityHook.String(), event.EntityNone.String(),
		event.Type(99).String(),
	}
	want := []string{
		"sleep", "message", "deadline", "wait", "due", "received", "cancelled", "unsure", "none", "run", "step", "wait", "hook", "event", "type(99)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
