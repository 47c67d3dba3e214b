package schedules_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Workflows that schedules start. Nightly returns its input and its tick. Stays waits for a message
// or a cancel.
var (
	Nightly = flowtest.Flow[string, string]("nightly")
	nightly = flowtest.As(Nightly, func(ctx workflow.Context, in string) (string, error) {
		tick, ticked := workflow.Tick(ctx)
		if !ticked {
			return in + " without a tick", nil
		}
		return in + " " + tick.Format(time.RFC3339), nil
	})
	Stays = flowtest.Flow[string, string]("stays")
	leave = workflow.NewTopic[string]("leave")
	stays = flowtest.As(Stays, func(ctx workflow.Context, _ string) (string, error) { return leave.Receive(ctx) })
)

// clock is ahead of another clock by a constant duration.
type clock struct {
	store.Clock
	by time.Duration
}

func (c clock) Now() time.Time { return c.Clock.Now().Add(c.by) }

func setNightly(w *flowtest.World, s schedule.Spec) {
	w.T.Helper()
	if err := Nightly.Schedule(w.Ctx, w.Client, "nightly", s, "in"); err != nil {
		w.T.Fatal(err)
	}
}

// own returns the run of the schedule nightly.
func own(w *flowtest.World) *workflow.Handle {
	w.T.Helper()
	return w.Client.Run(get(w, "nightly").Run)
}

func get(w *flowtest.World, name string) schedule.Info {
	w.T.Helper()
	info, err := ops.New(w.Client).Schedules().Get(w.Ctx, name)
	if err != nil {
		w.T.Fatal(err)
	}
	return info
}

// eventually waits until cond holds. If cond does not hold for a second, it advances time by six
// seconds. This is necessary because code may compute a timer just before the clock jumps, and the
// timer is then too late. Tests must tolerate six minutes of additional time.
func eventually(w *flowtest.World, what string, cond func() bool) {
	w.T.Helper()
	nudge := time.NewTicker(time.Second)
	defer nudge.Stop()
	for !cond() {
		select {
		case <-nudge.C:
			if w.Clock != nil {
				w.Clock.Advance(6 * time.Second)
			}
		default:
			runtime.Gosched()
		}
		if w.Ctx.Err() != nil {
			w.T.Fatalf("waited in vain until %s", what)
		}
	}
}

// await waits until the published state of the schedule nightly satisfies a condition, and returns
// the state.
func await(w *flowtest.World, what string, shows func(schedule.Info) bool) (info schedule.Info) {
	w.T.Helper()
	defer func() {
		if w.T.Failed() {
			w.T.Logf("the schedule shows %+v", info)
		}
	}()
	eventually(w, what, func() bool {
		info = get(w, "nightly")
		return shows(info)
	})
	return info
}

// trigger makes the schedule nightly start a run outside of its ticks, and waits for the result.
// The schedule must have started no run before.
func trigger(w *flowtest.World) {
	w.T.Helper()
	run, err := ops.New(w.Client).Schedules().Trigger(w.Ctx, "nightly")
	call(w.T, err)
	await(w, "the trigger is obeyed", func(i schedule.Info) bool { return i.Started == 1 })
	eventually(w, "the triggered run exists", func() bool {
		_, err := w.Client.Run(run).Info(w.Ctx)
		return err == nil
	})
	if got, want := flowtest.Result(w, Nightly.Get(w.Client, run)), "in without a tick"; got != want {
		w.T.Errorf("triggered run: got %q, want %q", got, want)
	}
}

// tickRun returns the run of a tick of the schedule nightly.
func tickRun(w *flowtest.World, tick time.Time) *workflow.Run[string] {
	return Nightly.Get(w.Client, event.TickRunID("nightly", tick.UTC().Format(time.RFC3339Nano), tick))
}

// ran waits for the result of the run of a tick, and checks it.
func ran(w *flowtest.World, tick time.Time) {
	w.T.Helper()
	eventually(w, "the run of tick "+tick.String()+" exists", func() bool {
		_, err := tickRun(w, tick).Info(w.Ctx)
		return !errors.Is(err, workflow.ErrRunNotFound)
	})
	if got, want := flowtest.Result(w, tickRun(w, tick)), "in "+tick.UTC().Format(time.RFC3339); got != want {
		w.T.Errorf("result: got %q, want %q", got, want)
	}
}

// started returns the number of runs that schedules have started for each tick.
func started(w *flowtest.World, workflowName string) map[string]int {
	w.T.Helper()
	found := map[string]int{}
	for run, err := range w.Client.List(w.Ctx, workflow.Filter{Workflow: workflowName}) {
		if err != nil {
			w.T.Fatal(err)
		}
		if run.Tags[workflow.TagSchedule] != "" {
			found[run.Tags[workflow.TagTick]]++
		}
	}
	return found
}

func call(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// at parses a time in RFC 3339 format.
func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	call(t, err)
	return v
}

var background = context.Background()
