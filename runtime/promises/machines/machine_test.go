package machines_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func send[T any](t *testing.T, w *flowtest.World, topic workflow.Topic[T], run workflow.Target, v T) {
	t.Helper()
	if err := topic.Send(w.Ctx, run, v); err != nil {
		t.Fatal(err)
	}
}

func TestCONT1_EachStepNamesTheNextOne(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, machineOf(&depot{}, 0))
		run := flowtest.Start(w, trips, "first")
		send(t, w, legs, run, 40)
		send(t, w, legs, run, 60)
		if d := cmp.Diff([]string{"first", "asked", "asked"}, flowtest.Result(w, run)); d != "" {
			t.Errorf("result (-want +got):\n%s", d)
		}
		log := w.Log(run)
		if d := cmp.Diff([]string{"begin", "leg", "leg", "leg"}, stepsOf(log)); d != "" {
			t.Errorf("steps (-want +got):\n%s", d)
		}
		var keys []string
		for _, e := range flowtest.Filter(log, event.StepCreated) {
			keys = append(keys, e.Key)
		}
		if want := "trip/test.machines.leg#3"; keys[len(keys)-1] != want {
			t.Errorf("the last step has the key %s, want %s: it is a step as any other", keys[len(keys)-1], want)
		}
	})
}

func TestCONT1_WhicheverMessageComesFirstLeadsOn(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, machineOf(&depot{}, 0))
		run := flowtest.Start(w, trips, "wait")
		send(t, w, stops, run, 3)
		if d := cmp.Diff([]string{"gave up"}, flowtest.Result(w, run)); d != "" {
			t.Errorf("result (-want +got):\n%s", d)
		}
	})
}

// TestCONT1_TimeLimitsLeadOnWhenNoMessageComes proves that the time limit of a wait continues a
// machine if no message arrives. One run waits for three hours in all. Another run begins a step
// after a day.
func TestCONT1_TimeLimitsLeadOnWhenNoMessageComes(t *testing.T) {
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, machineOf(&depot{}, 0))
	began := w.Clock.Now()
	waits := flowtest.Start(w, trips, "wait")
	w.FastForward(waits)
	if d := cmp.Diff([]string{"gave up"}, flowtest.Result(w, waits)); d != "" {
		t.Errorf("result (-want +got):\n%s", d)
	}
	if d := w.Clock.Now().Sub(began); !flowtest.Exactly(d, 3*time.Hour) {
		t.Errorf("it waited for %v, want 3h", d)
	}
	var keys []string
	for _, e := range flowtest.Filter(w.Log(waits), event.StepCreated) {
		keys = append(keys, e.Key)
	}
	if want := []string{"trip/test.machines.begin#1", "trip/test.machines.nudge[1]", "trip/test.machines.nudge[2]", "trip/test.machines.nudge[3]"}; !slices.Equal(keys, want) {
		t.Errorf("got keys %q, want %q", keys, want)
	}
	began = w.Clock.Now()
	sleeps := flowtest.Start(w, trips, "sleep")
	w.FastForward(sleeps)
	flowtest.Result(w, sleeps)
	if d := w.Clock.Now().Sub(began); !flowtest.Exactly(d, 24*time.Hour) {
		t.Errorf("it slept for %v, want 24h", d)
	}
}

func TestCONT1_AFailureLeadsToTheStepThatCatchesIt(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		d := &depot{try: func(_ context.Context, _ *trip, leg string) error {
			if leg == "flat" {
				return step.Fatal(errFlat)
			}
			return errors.New("fog")
		}}
		w.Work(worker.Config{}, machineOf(d, 0))
		for plan, want := range map[string]string{"flat": "towed: flat", "fog": "towed: error"} {
			run := flowtest.Start(w, trips, plan)
			if d := cmp.Diff([]string{want}, flowtest.Result(w, run)); d != "" {
				t.Errorf("%s: result (-want +got):\n%s", plan, d) // the result must not contain changes of failed attempts
			}
			attempts := map[string]int{"flat": 1, "fog": 5}[plan]
			if n := len(flowtest.Filter(w.Log(run), event.StepStarted)); n != attempts+2 {
				t.Errorf("%s: %d attempts in all, want %d", plan, n, attempts+2)
			}
		}
	})
}

// TestCONT1_AMessageOfAnotherTypeFailsTheStepThatTakesIt proves that a message that does not fit
// the argument of a step is a failure of this step.
func TestCONT1_AMessageOfAnotherTypeFailsTheStepThatTakesIt(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, machineOf(&depot{}, 0))
	run := flowtest.Start(w, trips, "wait")
	send(t, w, workflow.NewTopic[string](legs.Name()), run, "far")
	if d := cmp.Diff([]string{"towed: payload"}, flowtest.Result(w, run)); d != "" {
		t.Errorf("result (-want +got):\n%s", d)
	}
}

func TestCONT1_NothingCatchesACancel(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan struct{}, 1)
		d := &depot{try: func(ctx context.Context, _ *trip, _ string) error {
			begun <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}}
		w.Work(worker.Config{}, machineOf(d, 0))
		run := flowtest.Start(w, trips, "slow")
		<-begun
		if err := run.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled {
			t.Errorf("got %v", err)
		}
		if got := stepsOf(w.Log(run)); slices.Contains(got, "tow") {
			t.Errorf("the steps were %v: the cancel was caught", got)
		}
		waits := flowtest.Start(w, trips, "wait")
		w.ReachWaiting(waits)
		if err := waits.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		if err := flowtest.Failure(w, waits); err.Status != workflow.StatusCanceled {
			t.Errorf("while it waits: got %v", err)
		}
	})
}

func TestCONT1_AMachineThatBeginsTooManyStepsFails(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, machineOf(&depot{}, 7))
		run := flowtest.Start(w, trips, "loop")
		err := flowtest.Failure(w, run)
		var too *step.TransitionsError
		if !errors.As(err, &too) || err.Code != event.CodeTransitions {
			t.Fatalf("got %v with code %s", err, err.Code)
		}
		if want := (step.TransitionsError{Machine: trips.Name(), Max: 7, Next: "test.machines.leg"}); *too != want {
			t.Errorf("got %+v, want %+v", *too, want)
		}
		if n := len(stepsOf(w.Log(run))); n != 7 {
			t.Errorf("%d steps began, want 7", n)
		}
	})
}

// TestCONT1_AStepThatLeadsNowhereFailsWithTheReason proves that a step that returns no transition
// fails without another attempt, and that catch= handles this failure like others. Another attempt
// would make the same mistake.
func TestCONT1_AStepThatLeadsNowhereFailsWithTheReason(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, machineOf(&depot{}, 0))
	for plan, want := range map[string]string{"nowhere": "it leads nowhere", "twice": "OrAfter limits a wait"} {
		run := flowtest.Start(w, trips, plan)
		flowtest.Result(w, run)
		failed := flowtest.Filter(w.Log(run), event.StepFailed)
		if len(failed) != 1 || failed[0].Attempt != 1 || !strings.Contains(failed[0].Failure.Message, want) {
			t.Errorf("%s: got %+v, want one failure after one attempt, with %q", plan, failed, want)
		}
	}
}

// TestCONT1_AStepOfAMachineIsNotLeftToOthers proves that a step of a machine cannot be completed
// from outside. The holder of a token sends a result, and a result does not determine the next
// step.
func TestCONT1_AStepOfAMachineIsNotLeftToOthers(t *testing.T) {
	w := flowtest.NewMemory(t)
	signed := workflow.NewHook[int]("machines.signed")
	w.Work(worker.Config{}, machineOf(&depot{try: func(ctx context.Context, _ *trip, _ string) error {
		later, err := step.Later(ctx, signed)
		if err != nil {
			return err
		}
		_, err = later.Pending()
		return err
	}}, 0))
	run := flowtest.Start(w, trips, "first")
	flowtest.Result(w, run)
	log := w.Log(run)
	failed := flowtest.Filter(log, event.StepFailed)
	if len(failed) != 1 || failed[0].Attempt != 1 || !flowtest.ContainsAll(failed[0].Failure.Message, "machines.signed", "await…", "topic") {
		t.Errorf("got %+v, want one failure after one attempt that says what to write", failed)
	}
	if opened := flowtest.Filter(log, event.StepHookCreated); len(opened) > 0 {
		t.Errorf("%d hooks were opened", len(opened))
	}
	refused := step.Failure{Cause: failed[0].Failure}
	if !errors.As(refused, new(*workflow.InvalidError)) {
		t.Errorf("got %v, want an *InvalidError", refused)
	}
}

func TestFLOW15_WritesAreCommittedWithTheStepAndARetrySeesWhatWasCommitted(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		d := &depot{try: func(_ context.Context, m *trip, leg string) error {
			if leg == "first" && m.depot.seen.Len() < 4 { // the first three attempts of the leg change the machine and fail
				m.Km = 1000
				return errors.New("a flat tyre")
			}
			return nil
		}}
		w.Work(worker.Config{}, machineOf(d, 0))
		run := flowtest.Start(w, trips, "first")
		send(t, w, legs, run, 100)
		flowtest.Result(w, run)
		want := []string{
			`{"km":0}`,                                                                                  // the step begin
			`{"km":0,"seen":{"begin":1}}`, `{"km":0,"seen":{"begin":1}}`, `{"km":0,"seen":{"begin":1}}`, // three attempts of the first leg
			`{"km":0,"legs":["first"],"seen":{"begin":1,"first":1}}`, // the second leg
		}
		if d := cmp.Diff(want, d.seen.Get()); d != "" {
			t.Errorf("the machine at the begin of each attempt (-want +got):\n%s", d)
		}
		var kept []string
		for _, e := range flowtest.Filter(w.Log(run), event.StepCompleted) {
			var r struct{ State json.RawMessage }
			if err := json.Unmarshal(e.Payload, &r); err != nil {
				t.Fatal(err)
			}
			kept = append(kept, string(r.State))
		}
		want = []string{want[1], want[4], `{"km":100,"legs":["first","asked"],"seen":{"asked":1,"begin":1,"first":1}}`}
		if d := cmp.Diff(want, kept); d != "" {
			t.Errorf("the scratchpad in the completions (-want +got):\n%s", d)
		}
	})
}

// TestFLOW15_WhatIsNotChangedIsNotStoredAgain proves that the completion of a step stores only the
// fields that the step has changed.
func TestFLOW15_WhatIsNotChangedIsNotStoredAgain(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, machineOf(&depot{try: func(context.Context, *trip, string) error { return step.Fatal(errFlat) }}, 0))
	run := flowtest.Start(w, trips, "flat")
	flowtest.Result(w, run)
	done := flowtest.Filter(w.Log(run), event.StepCompleted)
	if last := done[len(done)-1]; strings.Contains(string(last.Payload), `"state"`) || !strings.Contains(string(done[0].Payload), `"state"`) {
		t.Errorf("got %s and %s, want a state in the first only", done[0].Payload, last.Payload)
	}
}

// TestCONT3_TheExportedFieldsAreTheScratchpad proves that the exported fields of a machine are
// stored, under the names of their tags. The dependencies of its steps are never stored.
func TestCONT3_TheExportedFieldsAreTheScratchpad(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, machineOf(&depot{}, 0))
	run := flowtest.Start(w, trips, "first")
	send(t, w, legs, run, 100)
	flowtest.Result(w, run)
	for _, e := range flowtest.Filter(w.Log(run), event.StepCreated) {
		var args struct{ State map[string]any }
		if err := json.Unmarshal(e.Payload, &args); err != nil {
			t.Fatal(err)
		}
		for name := range args.State {
			if !slices.Contains([]string{"km", "legs", "seen"}, name) {
				t.Errorf("step %s was given %s", e.Key, e.Payload)
			}
		}
	}
}

func TestVER1_ARunWhoseNextStepWasRemovedIsBlockedUntilItIsBack(t *testing.T) {
	for removed, plan := range map[string]string{"leg": "wait", "tow": "flat", "begin": "wait"} {
		t.Run(removed, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				var fails bool
				d := &depot{try: func(_ context.Context, _ *trip, leg string) error {
					if fails && leg == "asked" {
						return step.Fatal(errFlat)
					}
					return nil
				}}
				fails = plan == "flat"
				first := w.Work(worker.Config{Parked: 1}, machineOf(d, 0))
				run := flowtest.Start(w, trips, plan)
				w.ReachWaiting(run)
				first.Stop()
				// The additional step gives the second worker another fingerprint. A blocked run is
				// not given to a worker with the same fingerprint again.
				second := w.Work(worker.Config{}, machineOf(d, 0, removed), flowtest.DoWork1)
				send(t, w, legs, run, 100)
				w.Status(run, workflow.StatusBlocked)
				info, err := run.Info(w.Ctx)
				if err != nil {
					t.Fatal(err)
				}
				if !flowtest.ContainsAll(info.Blocked, "test.machines."+removed, "machine test.machines.trip does not have", "name=test.machines."+removed, "put it back") {
					t.Errorf("it says %q", info.Blocked)
				}
				second.Stop()
				w.Work(worker.Config{}, machineOf(d, 0))
				flowtest.Result(w, run)
			})
		})
	}
}

// renamed is trip with another name for the field km.
type renamed struct {
	Distance int            `json:"distance"`
	Legs     []string       `json:"legs,omitempty"`
	Seen     map[string]int `json:"seen,omitempty"`
}

func TestVER1_ARunWhoseScratchpadLostANameIsBlockedUntilItIsBack(t *testing.T) {
	w := flowtest.NewMemory(t)
	first := w.Work(worker.Config{Parked: 1}, machineOf(&depot{}, 0))
	run := flowtest.Start(w, trips, "wait")
	send(t, w, legs, run, 50)
	w.Reach(run, event.StepCompleted, 2)
	w.ReachWaiting(run)
	first.Stop()
	second := w.Work(worker.Config{}, func(r workflow.Registrar) {
		next := shim.Goto[renamed, []string](begin.Step, legArgs{Leg: "wait"})
		handler := func(name string) shim.Step[func(context.Context, *renamed, legArgs) (step.Next[renamed, []string], error)] {
			s := shim.NewStep("test.machines."+name, shim.Policy{}, func(f func(context.Context, *renamed, legArgs) (step.Next[renamed, []string], error)) shim.Handler {
				return shim.HandleMachine(f)
			})
			s.Bind(r, func(context.Context, *renamed, legArgs) (step.Next[renamed, []string], error) { return next, nil })
			return s
		}
		shim.BindMachine(r, trips, 0, func(string) step.Next[renamed, []string] { return next },
			shim.NewMachineStep[legArgs, renamed, []string](handler("begin"), nil, nil), shim.NewMachineStep[legArgs, renamed, []string](handler("leg"), nil, nil))
	})
	send(t, w, legs, run, 50)
	w.Status(run, workflow.StatusBlocked)
	info, err := run.Info(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !flowtest.ContainsAll(info.Blocked, "scratchpad of machine test.machines.trip lost a name", `"km"`, "distance", `tag the field with `+"`json:\"km\"`") {
		t.Errorf("it says %q", info.Blocked)
	}
	second.Stop()
	w.Work(worker.Config{}, machineOf(&depot{}, 0))
	if d := cmp.Diff([]string{"asked", "asked"}, flowtest.Result(w, run)); d != "" {
		t.Errorf("result (-want +got):\n%s", d)
	}
}
