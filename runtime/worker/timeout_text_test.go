package worker_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestTimeout_AnErrorOfATimeLimitSaysWhichAndHowLong(t *testing.T) {
	waits := flow[time.Duration, string]("limited-wait")
	w := newVirtual(t)
	w.work(worker.Config{Parked: 1}, as(waits, func(ctx workflow.Context, d time.Duration) (string, error) {
		if d > 0 {
			limited, cancel := workflow.WithTimeout(ctx, d)
			defer cancel()
			_, err := wake.Receive(limited)
			if !errors.Is(err, workflow.ErrTimeout) || limited.Err() != workflow.ErrTimeout {
				t.Errorf("got %v and %v, want ErrTimeout", err, limited.Err())
			}
			return err.Error(), nil
		}
		_, err := wake.Receive(ctx)
		return "", err
	}))
	run := start(w, waits, 90*time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if got, want := result(w, run), "workflow: timed out: its context had 1h30m0s"; !strings.HasSuffix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}()
	w.elapse("the time limit", done)
	run = start(w, waits, 0, workflow.WithRunTimeout(20*time.Minute))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err, want := failure(w, run), "the run took longer than its timeout of 20m0s"; !strings.Contains(err.Error(), want) || !errors.Is(err, workflow.ErrTimeout) && err.Code != "timeout" {
			t.Errorf("got %v with code %s, want %q", err, err.Code, want)
		}
	}()
	w.elapse("the run's timeout", ended)
}

// elapse moves the clock on until done is closed.
func (w *world) elapse(what string, done <-chan struct{}) {
	w.t.Helper()
	for {
		select {
		case <-done:
			return
		case <-w.ctx.Done():
			w.t.Fatalf("waited in vain for %s", what)
		default:
			w.clock.Advance(time.Minute)
			runtime.Gosched()
		}
	}
}
