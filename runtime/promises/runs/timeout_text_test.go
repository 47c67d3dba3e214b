package runs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestTimeout_AnErrorOfATimeLimitSaysWhichAndHowLong(t *testing.T) {
	waits := flowtest.Flow[time.Duration, string]("limited-wait")
	w := flowtest.NewVirtual(t)
	w.Clock.Advance(300 * time.Microsecond) // real clocks also show parts of a millisecond
	w.Work(worker.Config{Parked: 1}, flowtest.As(waits, func(ctx workflow.Context, d time.Duration) (string, error) {
		if d > 0 {
			limited, cancel := workflow.WithTimeout(ctx, d)
			defer cancel()
			_, err := flowtest.Wake.Receive(limited)
			if !errors.Is(err, workflow.ErrTimeout) || limited.Err() != workflow.ErrTimeout {
				t.Errorf("got %v and %v, want ErrTimeout", err, limited.Err())
			}
			return err.Error(), nil
		}
		_, err := flowtest.Wake.Receive(ctx)
		return "", err
	}))
	run := flowtest.Start(w, waits, 90*time.Minute)
	w.FastForward(run)
	if got, want := flowtest.Result(w, run), "workflow: timed out: its context had 1h30m0s"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	run = flowtest.Start(w, waits, 0, workflow.WithRunTimeout(20*time.Minute))
	w.FastForward(run)
	if err, want := flowtest.Failure(w, run), "the run took longer than its timeout of 20m0s"; !strings.Contains(err.Error(), want) || !errors.Is(err, workflow.ErrTimeout) && err.Code != "timeout" {
		t.Errorf("got %v with code %s, want %q", err, err.Code, want)
	}
}
