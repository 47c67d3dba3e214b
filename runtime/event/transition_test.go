package event_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
)

// legal is an independent copy of the table of transitions. Each row has a state, an event and the
// next state. All other pairs of state and event are illegal.
var legal = []struct {
	from event.State
	by   event.Type
	to   event.State
}{
	{event.StateNone, event.RunCreated, event.StatePending},
	{event.StatePending, event.RunStarted, event.StateRunning},
	{event.StatePending, event.RunFailed, event.StateFailed},
	{event.StatePending, event.RunCanceled, event.StateCanceled},
	{event.StateRunning, event.RunCompleted, event.StateCompleted},
	{event.StateRunning, event.RunFailed, event.StateFailed},
	{event.StateRunning, event.RunCanceled, event.StateCanceled},
	{event.StateRunning, event.RunContinued, event.StateContinued},

	{event.StateNone, event.StepCreated, event.StatePending},
	{event.StatePending, event.StepStarted, event.StateRunning},
	{event.StatePending, event.StepFailed, event.StateFailed},
	{event.StateRunning, event.StepStarted, event.StateRunning},
	{event.StateRunning, event.StepRetrying, event.StatePending},
	{event.StateRunning, event.StepCompleted, event.StateCompleted},
	{event.StateRunning, event.StepFailed, event.StateFailed},
	{event.StateRunning, event.StepHookCreated, event.StateRunning},
	{event.StateRunning, event.StepPending, event.StateWaiting},
	{event.StateWaiting, event.StepCompleted, event.StateCompleted},
	{event.StateWaiting, event.StepRetrying, event.StatePending},
	{event.StateWaiting, event.StepFailed, event.StateFailed},

	{event.StateNone, event.WaitCreated, event.StateWaiting},
	{event.StateWaiting, event.WaitCompleted, event.StateCompleted},

	{event.StateNone, event.HookCreated, event.StateActive},
	{event.StateActive, event.HookReceived, event.StateActive},
	{event.StateActive, event.HookDisposed, event.StateDisposed},
	{event.StateActive, event.HookConflict, event.StateConflicted},

	{event.StateNone, event.AskReceived, event.StateWaiting},
	{event.StateNone, event.AskAccepted, event.StateActive},
	{event.StateWaiting, event.AskAnswered, event.StateCompleted},
	{event.StateActive, event.AskAnswered, event.StateCompleted},
	{event.StateWaiting, event.AskRefused, event.StateFailed},

	{event.StateNone, event.MessageSent, event.StateWaiting},
	{event.StateWaiting, event.SendCompleted, event.StateCompleted},
	{event.StateWaiting, event.SendFailed, event.StateFailed},

	{event.StateNone, event.ChildCreated, event.StateWaiting},
	{event.StateWaiting, event.ChildStarted, event.StateActive},
	{event.StateWaiting, event.ChildCancelRequested, event.StateWaiting},
	{event.StateActive, event.ChildCancelRequested, event.StateActive},
	{event.StateWaiting, event.ChildCompleted, event.StateCompleted},
	{event.StateActive, event.ChildCompleted, event.StateCompleted},
	{event.StateWaiting, event.ChildFailed, event.StateFailed},
	{event.StateActive, event.ChildFailed, event.StateFailed},
	{event.StateWaiting, event.ChildCanceled, event.StateCanceled},
	{event.StateActive, event.ChildCanceled, event.StateCanceled},
}

func legalNext(from event.State, by event.Type) (event.State, bool) {
	for _, l := range legal {
		if l.from == from && l.by == by {
			return l.to, true
		}
	}
	return event.StateNone, false
}

func allStates() []event.State {
	return []event.State{
		event.StateNone, event.StatePending, event.StateRunning, event.StateCompleted, event.StateFailed, event.StateCanceled,
		event.StateContinued, event.StateWaiting, event.StateActive, event.StateDisposed, event.StateConflicted,
	}
}

// allTypes returns all possible numbers of types, including unknown ones.
func allTypes() []event.Type {
	all := make([]event.Type, 256)
	for i := range all {
		all[i] = event.Type(i)
	}
	return all
}

func TestEV3_TableDecidesEveryPair(t *testing.T) {
	for _, from := range allStates() {
		for _, by := range allTypes() {
			t.Run(fmt.Sprintf("%s/%s", from, by), func(t *testing.T) {
				want, ok := legalNext(from, by)
				got, err := event.Next(from, by)
				if ok {
					if err != nil || got != want {
						t.Fatalf("Next = %s, %v; want %s", got, err, want)
					}
					return
				}
				checkRefusal(t, err, from, by)
				if got != from {
					t.Errorf("Next = %s, want the state to stay %s", got, from)
				}
			})
		}
	}
}

// checkRefusal checks that err contains the event, the state that does not allow it, and the state
// to which it leads elsewhere.
func checkRefusal(t *testing.T, err error, from event.State, by event.Type) {
	t.Helper()
	var te *event.TransitionError
	if !errors.As(err, &te) {
		t.Fatalf("error is %v, want a TransitionError", err)
	}
	if te.From != from || te.Type != by {
		t.Errorf("error is about %s from %s, want %s from %s", te.Type, te.From, by, from)
	}
	text := err.Error()
	if !strings.Contains(text, "is "+from.String()) || !strings.Contains(text, by.String()+" cannot") {
		t.Errorf("error %q does not name the state %s and the event %s", text, from, by)
	}
	for _, l := range legal {
		if l.by == by && te.Entity == by.Entity() && !strings.Contains(text, "cannot make it "+te.To.String()) {
			t.Errorf("error %q does not name the state that %s aims at", text, by)
		}
		if l.by == by && l.to == te.To {
			return
		}
	}
	if te.To != event.StateNone {
		t.Errorf("error says that %s leads to %s, which it never does", by, te.To)
	}
}

func TestTransitionError_ReadsAsASentence(t *testing.T) {
	step := event.Event{Seq: 3, Type: event.StepCreated}
	done := []event.Event{{Seq: 1, Type: event.RunCreated}, {Seq: 2, Type: event.RunCanceled}}
	tests := map[string]struct {
		log  []event.Event
		next event.Event
	}{
		"step of event 3 is pending: step_completed cannot make it completed": {
			append(run(), step), event.Event{Seq: 4, Type: event.StepCompleted, Ref: 3}},
		"wait of event 2 is none: wait_completed cannot make it completed":     {run(), event.Event{Seq: 3, Type: event.WaitCompleted, Ref: 2}},
		"run is running: run_started cannot make it running":                   {run(), event.Event{Seq: 3, Type: event.RunStarted}},
		"run is cancelled, which is final: run_started cannot make it running": {done, event.Event{Seq: 3, Type: event.RunStarted}},
		"run is cancelled, which is final: step_created cannot follow":         {done, event.Event{Seq: 3, Type: event.StepCreated}},
		"run is cancelled, which is final: message_received cannot follow":     {done, event.Event{Seq: 3, Type: event.MessageReceived}},
	}
	for want, tt := range tests {
		if err := stateOf(t, tt.log).Apply(&tt.next); err == nil || err.Error() != want {
			t.Errorf("error is %q, want %q", err, want)
		}
	}
	_, err := event.Next(event.StatePending, event.MessageReceived)
	if want := "event is pending: message_received cannot follow"; err == nil || err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}

// run returns the log of a run that was started.
func run() []event.Event {
	return []event.Event{{Seq: 1, Type: event.RunCreated}, {Seq: 2, Type: event.RunStarted}}
}

func TestNext_RefusesStatesThatDoNotExist(t *testing.T) {
	for _, typ := range event.Types() {
		if got, err := event.Next(99, typ); err == nil {
			t.Errorf("Next(99, %s) = %s, want an error", typ, got)
		}
	}
}

func TestState_IsTerminalIfNothingFollows(t *testing.T) {
	for _, s := range allStates() {
		followed := false
		for _, l := range legal {
			followed = followed || l.from == s
		}
		if s.Terminal() == followed {
			t.Errorf("%s: terminal = %t, but something follows it: %t", s, s.Terminal(), followed)
		}
	}
}

func TestState_NamesDiffer(t *testing.T) {
	names := map[string]event.State{}
	for _, s := range append(allStates(), 99) {
		if other, ok := names[s.String()]; ok || s.String() == "" {
			t.Errorf("states %d and %d are both called %q", other, s, s)
		}
		names[s.String()] = s
	}
}

// logTo returns a log that ends with an entity of the given kind in the given state, and the number
// of the event that created the entity. ok is false if no such entity can reach the state.
func logTo(kind event.Entity, state event.State) (log []event.Event, ref uint64, ok bool) {
	run := []event.Type{event.RunCreated, event.RunStarted}
	paths := map[event.Entity]map[event.State][]event.Type{
		event.EntityRun: {
			event.StatePending:   {event.RunCreated},
			event.StateRunning:   run,
			event.StateCompleted: append(run, event.RunCompleted),
			event.StateFailed:    append(run, event.RunFailed),
			event.StateCanceled:  {event.RunCreated, event.RunCanceled},
			event.StateContinued: append(run, event.RunContinued),
		},
		event.EntityStep: {
			event.StatePending:   append(run, event.StepCreated),
			event.StateRunning:   append(run, event.StepCreated, event.StepStarted),
			event.StateWaiting:   append(run, event.StepCreated, event.StepStarted, event.StepHookCreated, event.StepPending),
			event.StateCompleted: append(run, event.StepCreated, event.StepStarted, event.StepCompleted),
			event.StateFailed:    append(run, event.StepCreated, event.StepStarted, event.StepRetrying, event.StepFailed),
		},
		event.EntityWait: {
			event.StateWaiting:   append(run, event.WaitCreated),
			event.StateCompleted: append(run, event.WaitCreated, event.WaitCompleted),
		},
		event.EntityHook: {
			event.StateActive:     append(run, event.HookCreated, event.HookReceived),
			event.StateDisposed:   append(run, event.HookCreated, event.HookDisposed),
			event.StateConflicted: append(run, event.HookCreated, event.HookConflict),
		},
		event.EntitySend: {
			event.StateWaiting:   append(run, event.MessageSent),
			event.StateCompleted: append(run, event.MessageSent, event.SendCompleted),
			event.StateFailed:    append(run, event.MessageSent, event.SendFailed),
		},
		event.EntityChild: {
			event.StateWaiting:   append(run, event.ChildCreated, event.ChildCancelRequested),
			event.StateActive:    append(run, event.ChildCreated, event.ChildStarted),
			event.StateCompleted: append(run, event.ChildCreated, event.ChildStarted, event.ChildCompleted),
			event.StateFailed:    append(run, event.ChildCreated, event.ChildFailed),
			event.StateCanceled:  append(run, event.ChildCreated, event.ChildStarted, event.ChildCancelRequested, event.ChildCanceled),
		},
	}
	path, ok := paths[kind][state]
	if kind != event.EntityRun {
		ref = 3
	}
	for _, typ := range path {
		e := event.Event{Type: typ}
		if !typ.Creates() && typ.Entity() != event.EntityRun {
			e.Ref = ref
		}
		log = append(log, e)
	}
	return numbered(log...), ref, ok
}

func stateOf(t *testing.T, log []event.Event) *event.LogState {
	t.Helper()
	f := &event.LogState{}
	for i := range log {
		if err := f.Apply(&log[i]); err != nil {
			t.Fatalf("apply event %d of the test's own log: %v", i+1, err)
		}
	}
	return f
}

func diffStates(want, got *event.LogState) string {
	return cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true }))
}

func TestEV3_StateRefusesEveryIllegalPairAndStaysUnchanged(t *testing.T) {
	for _, kind := range []event.Entity{event.EntityRun, event.EntityStep, event.EntityWait, event.EntityHook, event.EntitySend, event.EntityChild} {
		for _, from := range allStates() {
			log, ref, ok := logTo(kind, from)
			if !ok {
				continue
			}
			for _, by := range event.Types() {
				if by.Entity() != kind || (by.Creates() && kind != event.EntityRun) {
					continue // the event belongs to another entity, or creates a new one
				}
				t.Run(fmt.Sprintf("%s/%s/%s", kind, from, by), func(t *testing.T) {
					f := stateOf(t, log)
					err := f.Apply(&event.Event{Seq: f.Seq + 1, Type: by, Time: at(0), Ref: ref})
					if want, ok := legalNext(from, by); ok {
						if err != nil {
							t.Fatal(err)
						}
						got := f.StateOf(ref)
						if kind == event.EntityRun {
							got = f.Run
						}
						if got != want {
							t.Errorf("%s leads to %s, want %s", by, got, want)
						}
						return
					}
					checkRefusal(t, err, from, by)
					var te *event.TransitionError
					if errors.As(err, &te) && (te.Seq != f.Seq+1 || te.Ref != ref || te.Entity != kind) {
						t.Errorf("error is about a %s, event %d and entity %d; want %s, %d, %d", te.Entity, te.Seq, te.Ref, kind, f.Seq+1, ref)
					}
					if diff := diffStates(stateOf(t, log), f); diff != "" {
						t.Errorf("a refused event changed the state (-before +after):\n%s", diff)
					}
				})
			}
		}
	}
}

func TestLogState_LetsNothingFollowTheEndOfARun(t *testing.T) {
	for _, end := range []event.State{event.StateCompleted, event.StateFailed, event.StateCanceled, event.StateContinued} {
		log, _, _ := logTo(event.EntityRun, end)
		for _, by := range event.Types() {
			t.Run(fmt.Sprintf("%s/%s", end, by), func(t *testing.T) {
				f := stateOf(t, log)
				err := f.Apply(&event.Event{Seq: f.Seq + 1, Type: by, Ref: 1})
				checkRefusal(t, err, end, by)
				if !strings.Contains(err.Error(), "which is final") {
					t.Errorf("error %q does not say that the run has ended", err)
				}
				if diff := diffStates(stateOf(t, log), f); diff != "" {
					t.Errorf("a refused event changed the state (-before +after):\n%s", diff)
				}
			})
		}
	}
}

func TestLogState_RefusesEventsAboutAnEntityOfAnotherKind(t *testing.T) {
	kinds := []event.Entity{event.EntityStep, event.EntityWait, event.EntityHook, event.EntitySend, event.EntityChild}
	for _, kind := range kinds {
		for _, from := range allStates() {
			log, ref, ok := logTo(kind, from)
			if !ok {
				continue
			}
			for _, by := range event.Types() {
				if by.Creates() || by.Entity() == kind || by.Entity() == event.EntityRun || by.Entity() == event.EntityNone {
					continue
				}
				f := stateOf(t, log)
				err := f.Apply(&event.Event{Seq: f.Seq + 1, Type: by, Ref: ref})
				var te *event.TransitionError
				if !errors.Is(err, event.ErrCorrupt) && !errors.As(err, &te) {
					t.Errorf("%s about a %s that is %s: %v, want a refusal", by, kind, from, err)
				}
				if diff := diffStates(stateOf(t, log), f); diff != "" {
					t.Errorf("a refused %s changed the state (-before +after):\n%s", by, diff)
				}
			}
		}
	}
}
