package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// unsound is a workflow that decides by what a replay does not repeat.
var (
	unsound = flow[int, int]("unsound")
	weather = "fine"
)

var byWeather = as(unsound, func(ctx workflow.Context, n int) (int, error) {
	if weather == "fine" {
		if err := workflow.Sleep(ctx, time.Nanosecond); err != nil {
			return 0, err
		}
	}
	return numbers.Receive(ctx)
})

// whyBlocked starts a run under the first code, and wakes it under the second, which
// does not fit. It returns what Result says when its time is up.
func (w *world) whyBlocked(first, second binding) error {
	w.t.Helper()
	before := w.work(worker.Config{}, first)
	run := start(w, unsound, 0)
	w.reach(run, event.WaitCreated, 2)
	before.stop()
	weather = "foul"
	w.t.Cleanup(func() { weather = "fine" })
	w.work(worker.Config{}, second)
	w.send(run, 1)
	w.eventually("the run is blocked", func() bool {
		info, err := run.Info(w.ctx)
		return err != nil || info.Status == workflow.StatusBlocked && info.Blocked != ""
	})
	ctx, cancel := context.WithTimeout(w.ctx, time.Millisecond)
	defer cancel()
	_, err := run.Result(ctx)
	return err
}

func TestVER1_ResultSaysThatTheRunIsBlockedAndWhichCauseIsLikelier(t *testing.T) {
	changed := as(unsound, func(ctx workflow.Context, n int) (int, error) { return numbers.Receive(ctx) })
	for name, tt := range map[string]struct {
		second      binding
		likely, not string
	}{
		"the same program": {byWeather, "The same program has recorded this", "Another program"},
		"another program":  {changed, "Another program has recorded this", "The same program"},
	} {
		t.Run(name, func(t *testing.T) {
			onEveryStore(t, func(t *testing.T, w *world) {
				err := w.whyBlocked(byWeather, tt.second)
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
