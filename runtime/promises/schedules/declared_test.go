package schedules_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// declares binds a workflow whose directive declares a schedule. If when is empty, the directive
// declares none.
func declares(when string) flowtest.Binding {
	d := shim.NewWorkflow[workflow.None, workflow.None]("nightly", "", shim.WorkflowPolicy{Schedule: when})
	return flowtest.As(d, func(workflow.Context, workflow.None) (workflow.None, error) { return workflow.None{}, nil })
}

// whenIs waits until the schedule has the expression when.
func whenIs(w *flowtest.World, when string) schedule.Info {
	w.T.Helper()
	eventually(w, "the schedule exists", func() bool {
		_, err := ops.New(w.Client).Schedules().Get(w.Ctx, "nightly")
		return err == nil
	})
	return await(w, "it fires at "+when, func(i schedule.Info) bool { return i.When == when })
}

// heard waits until the schedule has received n commands.
func heard(w *flowtest.World, n int) {
	w.T.Helper()
	w.Reach(own(w), event.MessageReceived, n)
}

func TestPOOL6_WorkersCreateWhatTheirDirectivesDeclareOnce(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		for range 5 {
			w.Work(worker.Config{}, declares("every 1s"))
		}
		info := whenIs(w, "every 1s")
		heard(w, 5)
		if info.Workflow != "nightly" || info.Overlap != "" {
			t.Errorf("got %+v", info)
		}
		await(w, "two ticks", func(i schedule.Info) bool { return i.Started+i.Skipped >= 2 })
		n := 0
		for _, err := range ops.New(w.Client).Schedules().List(w.Ctx) {
			call(t, err)
			n++
		}
		if n != 1 {
			t.Errorf("schedules: got %d, want 1", n)
		}
		call(t, ops.New(w.Client).Schedules().Delete(w.Ctx, "nightly"))
		w.StopWorkers()
		for tick, runs := range started(w, "nightly") {
			if runs != 1 {
				t.Errorf("tick %s has %d runs", tick, runs)
			}
		}
	})
}

func TestPOOL6_TheDeclarationOfTheWorkerThatBeganLastHolds(t *testing.T) {
	onTime(t, at(t, "2027-01-01T00:00:30Z"), func(t *testing.T, w *flowtest.World) {
		began := func(when string) *flowtest.Running {
			passTo(w, w.Store.Clock().Now().Add(time.Second))
			return w.Work(worker.Config{}, declares(when))
		}
		old := began("0 1 * * *")
		whenIs(w, "0 1 * * *")
		began("0 2 * * *") // a rolling deployment, in which the old worker is running
		info := whenIs(w, "0 2 * * *")
		if !info.Next.Equal(at(t, "2027-01-01T02:00:00Z")) {
			t.Errorf("next tick: got %v", info.Next)
		}
		heard(w, 2)

		call(t, ops.New(w.Client).Schedules().Update(w.Ctx, "nightly", schedule.Spec{When: "0 3 * * *"})) // changes the schedule manually
		whenIs(w, "0 3 * * *")
		call(t, ops.New(w.Client).Schedules().Pause(w.Ctx, "nightly", ""))
		began("0 2 * * *") // declares the same expression again
		heard(w, 5)
		if info := get(w, "nightly"); info.When != "0 3 * * *" || !info.Paused {
			t.Errorf("after a restart: got %+v", info)
		}
		old.Stop()
		began("0 1 * * *") // deploys the old code again
		if info := whenIs(w, "0 1 * * *"); !info.Paused {
			t.Error("a declaration has ended the pause")
		}
		w.StopWorkers()
		w.Work(worker.Config{}, declares("")) // without the directive, the schedule remains
		call(t, ops.New(w.Client).Schedules().Resume(w.Ctx, "nightly"))
		await(w, "it goes on", func(i schedule.Info) bool { return !i.Next.IsZero() })
	})
}

func TestPOOL6_ALateDeclarationOfAnOlderWorkerChangesNothing(t *testing.T) {
	onTime(t, at(t, "2027-01-01T00:00:30Z"), func(t *testing.T, w *flowtest.World) {
		arrived, proceed := make(chan struct{}), make(chan struct{})
		st := &flowtest.Between{Store: w.Store, Around: func(ctx context.Context, op string, _ any, do func() error) error {
			if op == "create" {
				close(arrived)
				select {
				case <-proceed:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
			return do()
		}}
		w.WorkOn(st, worker.Config{Heartbeat: 20_000 * time.Hour, ClaimExpiry: 80_000 * time.Hour}, declares("0 1 * * *"))
		w.Await("the declaration of the old worker", arrived)
		passTo(w, w.Store.Clock().Now().Add(time.Second))
		w.Work(worker.Config{}, declares("0 2 * * *"))
		whenIs(w, "0 2 * * *")
		close(proceed)
		heard(w, 2)
		if info := get(w, "nightly"); info.When != "0 2 * * *" {
			t.Errorf("got %q", info.When)
		}
	})
}

func TestPOOL6_AWorkerWaitsForAnOutageToDeclare(t *testing.T) {
	onTime(t, at(t, "2027-01-01T00:00:30Z"), func(t *testing.T, w *flowtest.World) {
		failures := 3
		st := &flowtest.Between{Store: w.Store, Around: func(_ context.Context, op string, _ any, do func() error) error {
			if op == "create" && failures > 0 {
				failures--
				return flowtest.ErrOutage
			}
			return do()
		}}
		r := w.WorkOn(st, worker.Config{Heartbeat: 20_000 * time.Hour, ClaimExpiry: 80_000 * time.Hour}, declares("0 1 * * *"))
		whenIs(w, "0 1 * * *")
		r.Stop()
		if n := strings.Count(w.Logs.String(), "schedules of directives cannot be created yet"); n != 3 {
			t.Errorf("the log has %d warnings, want 3", n)
		}
	})
}
