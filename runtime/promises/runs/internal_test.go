package runs_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// commands contains all commands that a handle or an operator can send to a run.
var commands = map[string]func(ctx context.Context, c *workflow.Client, h *workflow.Handle) error{
	"cancel":  func(ctx context.Context, _ *workflow.Client, h *workflow.Handle) error { return h.Cancel(ctx, "") },
	"pause":   func(ctx context.Context, _ *workflow.Client, h *workflow.Handle) error { return h.Pause(ctx) },
	"resume":  func(ctx context.Context, _ *workflow.Client, h *workflow.Handle) error { return h.Resume(ctx) },
	"release": func(ctx context.Context, _ *workflow.Client, h *workflow.Handle) error { return h.Release(ctx) },
	"terminate": func(ctx context.Context, c *workflow.Client, h *workflow.Handle) error {
		info, err := h.Info(ctx)
		return errors.Join(err, ops.New(c).Terminate(ctx, info.ID, ""))
	},
	"restart": func(ctx context.Context, _ *workflow.Client, h *workflow.Handle) error {
		_, err := h.Restart(ctx)
		return err
	},
	"fork": func(ctx context.Context, _ *workflow.Client, h *workflow.Handle) error {
		_, err := h.Fork(ctx, "test.gpu/test.gpu#1")
		return err
	},
	"retry": func(ctx context.Context, _ *workflow.Client, h *workflow.Handle) error {
		_, err := h.Retry(ctx)
		return err
	},
	"retry of a cancelled one": func(ctx context.Context, _ *workflow.Client, h *workflow.Handle) error {
		_, err := h.RetryCanceled(ctx)
		return err
	},
	"cancel of many": func(ctx context.Context, c *workflow.Client, h *workflow.Handle) error {
		return ops.New(c).CancelMany(ctx, "", h.ID())[0]
	},
	"send": func(ctx context.Context, _ *workflow.Client, h *workflow.Handle) error {
		return workflow.NewTopic[string]("stop").Send(ctx, h, "")
	},
	"ask": func(ctx context.Context, _ *workflow.Client, h *workflow.Handle) error {
		_, err := workflow.NewAsk[string, string]("question").Ask(ctx, h, "")
		return err
	},
}

// TestRUN6_RunsOfTheRuntimeTakeNoCommandAndNameWhatToAddress proves that internal runs refuse
// commands, and that the error names the run, schedule or bulk action to which the command should
// be sent. A rerun of an internal run would do harm: it could repeat the effects of a step, start
// ticks of a schedule that cannot be deleted, or hold a token for ever.
func TestRUN6_RunsOfTheRuntimeTakeNoCommandAndNameWhatToAddress(t *testing.T) {
	bulk := shim.NewWorkflow[int, int](event.BulkRun, "n", shim.WorkflowPolicy{})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		began, done := make(chan struct{}, 9), make(chan struct{})
		flowtest.Farm(w, flowtest.Render, func(ctx context.Context, n int) (string, error) {
			if began <- struct{}{}; n == 0 {
				return "", nil
			}
			select {
			case <-done:
			case <-ctx.Done():
			}
			return "done", ctx.Err()
		})
		w.Work(worker.Config{}, flowtest.Hold)
		ended, open := flowtest.Start(w, flowtest.Renders, 0), flowtest.Start(w, flowtest.Renders, 1)
		flowtest.Result(w, ended)
		w.Await("the first step", began)
		w.Await("the second step", began)
		released, holds := flowtest.Start(w, flowtest.Holds, "order-7"), flowtest.Start(w, flowtest.Holds, "order-8")
		for _, run := range []*workflow.Run[int]{released, holds} {
			w.Opened(run)
		}
		w.Resume("order-7", 1)
		flowtest.Result(w, released)
		token := func(of workflow.RunID) *workflow.Handle {
			return w.Client.Run(w.List(workflow.Filter{Parent: of, Workflow: event.HookRun})[0])
		}
		w.Eventually("the token was released", func() bool {
			info, err := token(released.ID()).Info(w.Ctx)
			return err == nil && !info.EndedAt.IsZero()
		})
		if err := flowtest.Holds.Schedule(w.Ctx, w.Client, "yearly", schedule.Spec{When: "0 0 1 1 *"}, "x"); err != nil {
			t.Fatal(err)
		}
		many := flowtest.Start(w, bulk, 1, workflow.WithID("bulk-7")) // no worker has the code of this run
		step := func(of workflow.RunID) *workflow.Handle {
			return w.Client.Run(w.List(workflow.Filter{Parent: of, Workflow: event.StepRun("test.gpu")})[0])
		}
		schedule, err := ops.New(w.Client).Schedules().Get(w.Ctx, "yearly")
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []workflow.RunID{schedule.Run, token(holds.ID()).ID()} {
			w.Eventually("the run stands", func() bool {
				info, err := w.Client.Run(run).Info(w.Ctx)
				return err == nil && info.Status == workflow.StatusWaiting
			})
		}
		for name, c := range map[string]struct {
			run  *workflow.Handle
			want workflow.InternalRunError
		}{
			"an open step":      {step(open.ID()), workflow.InternalRunError{Workflow: event.StepRun("test.gpu"), Of: open.ID()}},
			"a completed step":  {step(ended.ID()), workflow.InternalRunError{Workflow: event.StepRun("test.gpu"), Of: ended.ID()}},
			"a held token":      {token(holds.ID()), workflow.InternalRunError{Workflow: event.HookRun, Of: holds.ID()}},
			"a released token":  {token(released.ID()), workflow.InternalRunError{Workflow: event.HookRun, Of: released.ID()}},
			"a schedule":        {w.Client.Run(schedule.Run), workflow.InternalRunError{Workflow: event.ScheduleRun, Schedule: "yearly"}},
			"a schedule by id":  {w.Client.RunByID("schedule:yearly"), workflow.InternalRunError{Workflow: event.ScheduleRun, Schedule: "yearly"}},
			"a token by its id": {w.Client.RunByID("hook:order-8"), workflow.InternalRunError{Workflow: event.HookRun, Of: holds.ID()}},
			"a bulk action":     {w.Client.Run(many.ID()), workflow.InternalRunError{Workflow: event.BulkRun, Bulk: "bulk-7"}},
		} {
			info, err := c.run.Info(w.Ctx)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			c.want.Run = info.ID
			for verb, do := range commands {
				if verb == "cancel of many" && c.run.ID() == "" {
					continue
				}
				var got *workflow.InternalRunError
				if err := do(w.Ctx, w.Client, c.run); !errors.As(err, &got) {
					t.Errorf("%s of %s: got %v, want an *InternalRunError", verb, name, err)
					continue
				}
				if strings.Contains(got.Error(), "order-") {
					t.Errorf("%s of %s: %q has the token of a hook", verb, name, got)
				}
				got.Verb = ""
				if diff := cmp.Diff(&c.want, got); diff != "" {
					t.Errorf("%s of %s (-want +got):\n%s", verb, name, diff)
				}
			}
			after, err := c.run.Info(w.Ctx)
			if err != nil || after.Events != info.Events || after.Status != info.Status {
				t.Errorf("%s: got %+v, %v, want %+v as before", name, after, err, info)
			}
		}
		close(done)
		if got := flowtest.Result(w, open); got != "done" {
			t.Errorf("the step went on to %q, want done", got)
		}
		w.Resume("order-8", 2)
		if got := flowtest.Result(w, holds); got != 2 {
			t.Errorf("the hook has received %d, want 2", got)
		}
		if err := ops.New(w.Client).Schedules().Delete(w.Ctx, "yearly"); err != nil {
			t.Errorf("delete the schedule: %v", err)
		}
	})
}

// TestRUN6_TopicsOfTheRuntimeTakeNoMessages proves that topics of the runtime cannot be used to
// send messages. Such a message could start runs, release a token or grant permits in the name of
// the runtime.
func TestRUN6_TopicsOfTheRuntimeTakeNoMessages(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		topic := workflow.NewTopic[string](event.ScheduleRun)
		sends := flowtest.Flow[string, string]("sends")
		w.Work(worker.Config{}, flowtest.As(sends, func(ctx workflow.Context, to string) (string, error) {
			return "", topic.SendFrom(ctx, workflow.RunID(to), "x")
		}), flowtest.Hold)
		holds := flowtest.Start(w, flowtest.Holds, "order-7")
		w.Opened(holds)
		_, started := sends.Start(w.Ctx, w.Client, "", workflow.WithMessage(topic, "x"))
		for name, err := range map[string]error{
			"send":             topic.Send(w.Ctx, holds, "x"),
			"start with one":   started,
			"send from a run":  flowtest.Failure(w, flowtest.Start(w, sends, string(holds.ID()))),
			"send to schedule": topic.Send(w.Ctx, w.Client.RunByID("schedule:none"), "x"),
		} {
			if err == nil || !strings.Contains(err.Error(), `topic "flowgen.schedule" is the runtime's own`) {
				t.Errorf("%s: got %v, want that the topic is the runtime's own", name, err)
			}
		}
		w.Resume("order-7", 1)
		flowtest.Result(w, holds)
	})
}
