package runs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// unsound is a workflow whose code decides by the global variable weather. Therefore a replay can
// differ from the log.
var (
	unsound = flowtest.Flow[int, int]("unsound")
	weather = "fine"
)

var byWeather = flowtest.As(unsound, func(ctx workflow.Context, n int) (int, error) {
	if weather == "fine" {
		if err := workflow.Sleep(ctx, time.Nanosecond); err != nil {
			return 0, err
		}
	}
	return flowtest.Numbers.Receive(ctx)
})

func TestVER1_ResultSaysThatTheRunIsBlockedAndWhichCauseIsLikelier(t *testing.T) {
	changed := flowtest.As(unsound, func(ctx workflow.Context, n int) (int, error) { return flowtest.Numbers.Receive(ctx) })
	for name, tt := range map[string]struct {
		second      flowtest.Binding
		likely, not string
	}{
		"the same program": {byWeather, "The same program has recorded this", "Another program"},
		"another program":  {changed, "Another program has recorded this", "The same program"},
	} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				err := whyBlocked(w, byWeather, tt.second)
				if !errors.Is(err, workflow.ErrRunBlocked) || !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %v, want one that matches ErrRunBlocked and the error of the context", err)
				}
				for _, part := range []string{"is blocked", tt.likely, "time.Now", "workflow.Version"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("the error lacks %q: %v", part, err)
					}
				}
				if strings.Contains(err.Error(), tt.not) {
					t.Errorf("the error says %q: %v", tt.not, err)
				}
			})
		})
	}
}

// whyBlocked starts a run with the code first, and wakes it with the code second, whose operations
// differ from the log. It returns the error of Result with a short timeout.
func whyBlocked(w *flowtest.World, first, second flowtest.Binding) error {
	w.T.Helper()
	before := w.Work(worker.Config{}, first)
	run := flowtest.Start(w, unsound, 0)
	w.Reach(run, event.WaitCreated, 2)
	before.Stop()
	weather = "foul"
	w.T.Cleanup(func() { weather = "fine" })
	w.Work(worker.Config{}, second)
	w.Send(run, 1)
	w.Eventually("the run is blocked", func() bool {
		info, err := run.Info(w.Ctx)
		return err != nil || info.Status == workflow.StatusBlocked && info.Blocked != ""
	})
	ctx, cancel := context.WithTimeout(w.Ctx, time.Millisecond)
	defer cancel()
	_, err := run.Result(ctx)
	return err
}
