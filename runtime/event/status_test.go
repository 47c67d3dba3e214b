package event_test

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

func TestLogState_StatusIsWhatARunWaitsFor(t *testing.T) {
	created := event.Event{Type: event.RunCreated}
	held := event.Event{Type: event.RunCreated, Spec: &event.Spec{Hold: time.Minute}}
	started := event.Event{Type: event.RunStarted}
	step := event.Event{Type: event.StepCreated}
	sleep := event.Event{Type: event.WaitCreated, Wait: event.WaitSleep, Due: at(time.Hour)}
	receive := event.Event{Type: event.WaitCreated, Wait: event.WaitMessage}
	deadline := event.Event{Type: event.WaitCreated, Wait: event.WaitDeadline, Due: at(time.Hour)}
	hook := event.Event{Type: event.HookCreated}
	on := func(typ event.Type, ref uint64) event.Event { return event.Event{Type: typ, Ref: ref} }
	pending := event.Event{Type: event.StepPending, Ref: 3, Due: at(time.Minute)}
	retrying := event.Event{Type: event.StepRetrying, Ref: 3, Due: at(time.Minute)}

	tests := map[string]struct {
		log  []event.Event
		want event.Status
	}{
		"no log":                          {nil, event.StatusPending},
		"created":                         {numbered(created), event.StatusPending},
		"created, cancel requested":       {numbered(created, event.Event{Type: event.CancelRequested}), event.StatusPending},
		"started":                         {numbered(created, started), event.StatusRunning},
		"a step to be started":            {numbered(created, started, step), event.StatusRunning},
		"a step runs":                     {numbered(created, started, step, on(event.StepStarted, 3)), event.StatusRunning},
		"a step is over":                  {numbered(created, started, step, on(event.StepStarted, 3), on(event.StepCompleted, 3)), event.StatusRunning},
		"a step waits for its retry":      {numbered(created, started, step, on(event.StepStarted, 3), retrying), event.StatusSleeping},
		"a retry at once":                 {numbered(created, started, step, on(event.StepStarted, 3), on(event.StepRetrying, 3)), event.StatusRunning},
		"a step is left to others":        {numbered(created, started, step, on(event.StepStarted, 3), on(event.StepHookCreated, 3), pending), event.StatusWaiting},
		"beside a step":                   {numbered(created, started, step, on(event.StepStarted, 3), pending, step), event.StatusRunning},
		"sleep":                           {numbered(created, started, sleep), event.StatusSleeping},
		"sleep is over":                   {numbered(created, started, sleep, on(event.WaitCompleted, 3)), event.StatusRunning},
		"sleep beside a step":             {numbered(created, started, sleep, step), event.StatusRunning},
		"receive":                         {numbered(created, started, receive), event.StatusWaiting},
		"receive beside sleep":            {numbered(created, started, sleep, receive), event.StatusWaiting},
		"an open hook":                    {numbered(created, started, hook), event.StatusWaiting},
		"an open hook beside a step":      {numbered(created, started, hook, step), event.StatusRunning},
		"a disposed hook":                 {numbered(created, started, hook, on(event.HookDisposed, 3)), event.StatusRunning},
		"a deadline blocks nothing":       {numbered(created, started, deadline), event.StatusRunning},
		"a deadline beside sleep":         {numbered(created, started, deadline, sleep), event.StatusSleeping},
		"completed with something open":   {numbered(created, started, sleep, event.Event{Type: event.RunCompleted}), event.StatusCompleted},
		"failed before it was started":    {numbered(created, event.Event{Type: event.RunFailed}), event.StatusFailed},
		"cancelled before it was started": {numbered(created, event.Event{Type: event.RunCanceled}), event.StatusCanceled},
		"continued":                       {numbered(created, started, event.Event{Type: event.RunContinued}), event.StatusContinued},
		"held":                            {numbered(held), event.StatusHeld},
		"held and paused":                 {numbered(held, event.Event{Type: event.RunPaused}), event.StatusHeld},
		"released":                        {numbered(held, event.Event{Type: event.RunReleased}), event.StatusPending},
		"paused before it began":          {numbered(created, event.Event{Type: event.RunPaused}), event.StatusPaused},
		"paused":                          {numbered(created, started, sleep, event.Event{Type: event.RunPaused}), event.StatusPaused},
		"paused and resumed":              {numbered(created, started, sleep, event.Event{Type: event.RunPaused}, event.Event{Type: event.RunResumed}), event.StatusSleeping},
		"paused and cancelled":            {numbered(created, started, sleep, event.Event{Type: event.RunPaused}, event.Event{Type: event.CancelRequested}), event.StatusSleeping},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := stateOf(t, tt.log)
			if got := f.Status(); got != tt.want {
				t.Errorf("status is %q, want %q", got, tt.want)
			}
			if got, want := f.Status().Terminal(), f.Run.Terminal(); got != want {
				t.Errorf("status %q is terminal: %t, its state %s: %t", f.Status(), got, f.Run, want)
			}
		})
	}
}

func TestStatus_KeepsItsText(t *testing.T) {
	want := map[event.Status]struct {
		text     string
		terminal bool
	}{
		event.StatusPending: {"pending", false}, event.StatusRunning: {"running", false},
		event.StatusCompleted: {"completed", true}, event.StatusFailed: {"failed", true},
		event.StatusCanceled: {"cancelled", true}, event.StatusContinued: {"continued", true},
		event.StatusHeld: {"held", false}, event.StatusPaused: {"paused", false}, event.StatusSleeping: {"sleeping", false},
		event.StatusWaiting: {"waiting", false}, event.StatusBlocked: {"blocked", false},
	}
	for s, w := range want {
		if string(s) != w.text || s.Terminal() != w.terminal {
			t.Errorf("status %q, terminal: %t; want %q, %t", s, s.Terminal(), w.text, w.terminal)
		}
	}
}
