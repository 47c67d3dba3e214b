package worker_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// grows is a workflow that waits for messages until it is canceled. For the input "parent" it first
// starts a child and registers a compensation.
var (
	grows    = flowtest.Flow[string, int]("grows")
	growing  = flowtest.Flow[int, int]("growing")
	growUndo = flowtest.As(grows, func(ctx workflow.Context, how string) (int, error) {
		if how == "parent" {
			growing.StartChild(ctx, 1)
			workflow.Compensate(ctx, func(ctx workflow.Context) error {
				_, err := workflow.Record(ctx, func() (int, error) { return 1, nil })
				return err
			})
		}
		for n := 0; ; n++ {
			_, err := flowtest.Numbers.Receive(ctx)
			switch {
			case err == nil:
			case how == "deaf" && n < 1000:
				ctx = workflow.Detached(ctx)
			case how == "completes":
				return n, nil
			default:
				return 0, fmt.Errorf("after %d messages: %w", n, err)
			}
		}
	})
	growChild = flowtest.As(growing, func(ctx workflow.Context, _ int) (int, error) { return 0, workflow.Sleep(ctx, time.Hour) })
)

func TestLogLimit_FailsARunAfterItHasUndoneWhatItDid(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{MaxLogEvents: 60}, growUndo, growChild)
		run := flowtest.Start(w, grows, "parent")
		feed(w, run)
		err := flowtest.Failure(w, run)
		if err.Code != event.CodeLogLimit || err.Status != workflow.StatusFailed || len(err.Undone) != 1 || !strings.Contains(err.Reason, "workflow.ContinueAsNew") {
			t.Errorf("got %v with code %q, undone %q", err, err.Code, err.Undone)
		}
		if !errors.Is(err, workflow.ErrCanceled) && !strings.Contains(fmt.Sprint(err), "60 events") {
			t.Errorf("the error does not say the limit: %v", err)
		}
		log := w.Log(run)
		if n := len(log); n < 60 || n > 60+60/5+10 {
			t.Errorf("the log has %d events", n)
		}
		child := w.Client.Run(flowtest.Filter(log, event.ChildCreated)[0].Next)
		w.Eventually("the child is cancelled", func() bool {
			info, err := child.Info(w.Ctx)
			if errors.Is(err, workflow.ErrRunNotFound) {
				return false // the child is not created yet, although the log of the parent names it
			}
			if err != nil {
				t.Fatal(err)
			}
			return info.Status == workflow.StatusCanceled
		})
		w.OneLine("run failed", "code=loglimit")
	})
}

func TestLogLimit_EndsARunThatDoesNotEndWithinItsRoom(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{MaxLogEvents: 60}, growUndo)
		run := flowtest.Start(w, grows, "deaf")
		feed(w, run)
		err := flowtest.Failure(w, run)
		if err.Code != event.CodeLogLimit || !strings.Contains(err.Reason, "was ended without its code") {
			t.Errorf("got %v with code %q", err, err.Code)
		}
		log := w.Log(run)
		limited := slices.IndexFunc(log, func(e event.Event) bool { return e.Type == event.CancelRequested })
		if limited < 60-1 || len(log) < limited+60/5 {
			t.Errorf("the log has %d events, and was found to be too long at %d: it has no room to end", len(log), limited+1)
		}
	})
}

func TestLogLimit_CountsBytes(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{MaxLogBytes: 20_000}, growUndo)
	run := flowtest.Start(w, grows, "")
	feed(w, run)
	if err := flowtest.Failure(w, run); err.Code != event.CodeLogLimit {
		t.Errorf("got %v with code %q", err, err.Code)
	}
	if n := len(w.Log(run)); n < 100 || n > 1000 {
		t.Errorf("the log has %d events", n)
	}
}

// TestLogLimit_LeavesRoomToARunThatIsAboveItAlready proves that a run whose log exceeds a lowered
// limit gets the same allowance as other runs, so that its code decides how the run ends.
func TestLogLimit_LeavesRoomToARunThatIsAboveItAlready(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := w.Work(worker.Config{}, growUndo)
		run := flowtest.Start(w, grows, "completes")
		for i := range 200 {
			w.Send(run, i)
		}
		w.Reach(run, event.MessageReceived, 200)
		first.Stop()
		w.Work(worker.Config{MaxLogEvents: 60}, growUndo)
		w.Send(run, 1)
		if got := flowtest.Result(w, run); got < 200 {
			t.Errorf("the code has seen %d messages, want all", got)
		}
	})
}

// TestLogLimit_RetryGoesOnUnderAHigherLimit proves that a run that its log limit has ended can be
// rerun under a higher limit and continues from its log.
func TestLogLimit_RetryGoesOnUnderAHigherLimit(t *testing.T) {
	w := flowtest.NewMemory(t)
	first := w.Work(worker.Config{MaxLogEvents: 60}, growUndo)
	run := flowtest.Start(w, grows, "")
	feed(w, run)
	flowtest.Failure(w, run)
	first.Stop()
	w.Work(worker.Config{}, growUndo)
	again, err := run.Retry(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("the new run waits", func() bool {
		info, err := again.Info(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		return info.Status == workflow.StatusWaiting && info.Events > 20
	})
}

func TestLog_WarnsOfALongLogAtEachDoubling(t *testing.T) {
	w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{})
	talks, pause := flowtest.Flow[int, int]("talks"), flowtest.AStep[int, int]("talks.pause", shim.Policy{})
	w.Work(worker.Config{}, pause.As(twice), flowtest.As(talks, func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := workflow.Record(ctx, func() (int, error) { return i, nil }); err != nil {
				return 0, err
			}
			if i%5_000 == 0 { // everything before is durable when the code of the step begins
				if _, err := pause.Call(ctx, i); err != nil {
					return 0, err
				}
			}
		}
		return n, nil
	}))
	run := flowtest.Start(w, talks, 21_000)
	flowtest.Result(w, run)
	w.Eventually("the doubling is logged", func() bool {
		return len(w.Lines("log of a run is long: continue as new before it reaches its limit")) >= 2
	})
	if lines := w.Lines("log of a run is long: continue as new before it reaches its limit"); len(lines) != 2 || !strings.Contains(lines[1], "run="+string(run.ID())) {
		t.Errorf("got\n%s", strings.Join(lines, ""))
	}
}

// feed sends one message after another to a run until the run has ended.
func feed(w *flowtest.World, run *workflow.Run[int]) {
	w.T.Helper()
	for i, events := 0, uint64(0); ; i++ {
		w.Eventually("the message before is in the log", func() bool {
			info, err := run.Info(w.Ctx)
			flowtest.Order(w.T, err)
			before := events
			events = info.Events
			return events > before || !info.EndedAt.IsZero()
		})
		err := flowtest.Numbers.Send(w.Ctx, run, i)
		if errors.Is(err, workflow.ErrRunTerminal) || w.Ctx.Err() != nil {
			return
		}
		flowtest.Order(w.T, err)
	}
}
