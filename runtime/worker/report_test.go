package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// ails is a step that fails twice. It panics if its input requests a panic.
var (
	ails     = flowtest.AStep[string, int]("ails", shim.Policy{Retry: flowtest.Quick})
	ailing   = flowtest.Flow[string, int]("ailing")
	ailments atomic.Int64
	ailsAt   string // position of the panic
)

func ail(_ context.Context, how string) (int, error) {
	switch n := ailments.Add(1); {
	case how == "panic":
		_, file, line, _ := runtime.Caller(0)
		ailsAt = fmt.Sprintf("%s:%d", file, line+2)
		_ = strings.Repeat("x", -int(n))
	case n <= 2 || how == "always":
		return 0, fmt.Errorf("out of order %d", n)
	}
	return 1, nil
}

// ailBinding is workflow code that calls the step and then waits for a message.
var ailBinding = flowtest.As(ailing, func(ctx workflow.Context, how string) (int, error) {
	if _, err := ails.Call(ctx, how); err != nil {
		return 0, err
	}
	return flowtest.Numbers.Receive(ctx)
})

func TestLog_EachFailedAttemptIsALineThatNoReplayRepeats(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		ailments.Store(0)
		first := w.Work(worker.Config{}, ailBinding, ails.As(ail))
		run := flowtest.Start(w, ailing, "twice")
		w.Reach(run, event.WaitCreated, 1)
		first.Stop()
		w.Work(worker.Config{}, ailBinding, ails.As(ail)) // the second worker replays the run
		w.Send(run, 7)
		if got := flowtest.Result(w, run); got != 7 {
			t.Errorf("got %d", got)
		}
		w.StopWorkers()
		lines := w.Lines("attempt of a step failed")
		if len(lines) != 2 {
			t.Fatalf("%d lines, want 2:\n%s", len(lines), strings.Join(lines, ""))
		}
		for i, line := range lines {
			for _, part := range []string{"level=WARN", "run=" + string(run.ID()), "workflow=test.ailing", "step=test.ails", "key=ailing/test.ails#1",
				fmt.Sprintf("attempt=%d", i+1), "next=1ms", fmt.Sprintf(`error="out of order %d"`, i+1)} {
				if !strings.Contains(line, part) {
					t.Errorf("the line lacks %s:\n%s", part, line)
				}
			}
		}
		if strings.Contains(w.Logs.String(), "level=ERROR") {
			t.Errorf("there are errors:\n%s", w.Logs)
		}
	})
}

func TestLog_AFailedStepAndItsRunAreALineEach(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		ailments.Store(0)
		w.Work(worker.Config{}, ailBinding, ails.As(ail))
		run := flowtest.Start(w, ailing, "always")
		flowtest.Failure(w, run)
		w.OneLine("run failed", "level=ERROR", "run="+string(run.ID()), "workflow=test.ailing", "code=error", "out of order 4")
		w.OneLine("step failed", "level=ERROR", "run="+string(run.ID()), "key=ailing/test.ails#1", "attempt=4", "code=error", "out of order 4")
	})
}

func TestLog_APanicSaysTheUsersLine(t *testing.T) {
	w := flowtest.NewMemory(t)
	at := ""
	blows := flowtest.Flow[int, int]("blows")
	w.Work(worker.Config{}, ailBinding, ails.As(ail), flowtest.As(blows, func(workflow.Context, int) (int, error) {
		_, file, line, _ := runtime.Caller(0)
		at = fmt.Sprintf("%s:%d", file, line+2)
		panic("no")
	}))
	run := flowtest.Start(w, ailing, "panic")
	flowtest.Failure(w, run)
	w.OneLine("step failed", "attempt=4", "code=panic", "at="+ailsAt)
	if lines := w.Lines("attempt of a step failed"); len(lines) != 3 || !strings.Contains(lines[0], "at="+ailsAt) {
		t.Errorf("want 3 attempts at %s, got:\n%s", ailsAt, strings.Join(lines, ""))
	}
	flowtest.Failure(w, flowtest.Start(w, blows, 1))
	// The lines of the two runs may have any order.
	w.Eventually("the run's panic is logged", func() bool {
		return slices.ContainsFunc(w.Lines("run failed"), func(line string) bool {
			return strings.Contains(line, "workflow=test.blows") && strings.Contains(line, "at="+at)
		})
	})
}

// answerless is a store that loses the first answer to each commit.
type answerless struct {
	store.Store
	calls atomic.Int64
}

func (s *answerless) Unwrap() store.Store { return s.Store }

func (s *answerless) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := s.Store.Commit(ctx, commits)
	if err == nil && s.calls.Add(1)%2 == 1 {
		return nil, flowtest.ErrOutage
	}
	return answers, err
}

func TestLog_ACommitWhoseAnswerIsLostIsLoggedOnce(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, plain *flowtest.World) {
		ailments.Store(0)
		w := *plain
		w.Store = &answerless{Store: plain.Store}
		w.Client = workflow.NewClient(w.Store, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(w.Logs, nil))})
		defer w.Client.Close()
		r := w.Work(worker.Config{}, ailBinding, ails.As(ail))
		defer r.Stop()
		flowtest.Failure(&w, flowtest.Start(&w, ailing, "always"))
		w.OneLine("run failed")
		w.OneLine("step failed")
		if n := len(w.Lines("attempt of a step failed")); n != 3 {
			t.Errorf("%d failed attempts are logged, want 3", n)
		}
	})
}

func TestLog_AnErrorOfRunIsLogged(t *testing.T) {
	w := flowtest.NewMemory(t)
	err := worker.New(w.Client, worker.Config{Name: "w1"}).Run(t.Context())
	if err == nil {
		t.Fatal("a worker without anything registered runs")
	}
	w.OneLine("worker does not run", "level=ERROR", "worker=w1", err.Error())
}

func TestInfo_HasTheAttemptAndTheLastErrorOfAStepThatIsTriedAgain(t *testing.T) {
	slow := flowtest.AStep[int, int]("ails.slowly", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Hour}})
	patient := flowtest.Flow[int, int]("patient")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(patient, func(ctx workflow.Context, n int) (int, error) {
			for i := range 150 { // more than a page of frames
				if err := workflow.Sleep(ctx, time.Duration(i)); err != nil {
					return 0, err
				}
			}
			return slow.Call(ctx, n)
		}), slow.As(func(context.Context, int) (int, error) { return 0, flowtest.ErrBusy }))
		run := flowtest.Start(w, patient, 1)
		retry := w.Reach(run, event.StepRetrying, 1)
		info, err := run.Info(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		want := []workflow.StepRetry{{Step: "test.ails.slowly", Key: "patient/test.ails.slowly#1", Attempt: 1, Failed: "busy", Code: "error", Next: retry.Due}}
		if diff := cmp.Diff(want, info.Retries); diff != "" {
			t.Errorf("retries (-want +got):\n%s", diff)
		}
	})
}

func TestSTEP_AnErrorOfATimeoutSaysWhichAndHowLong(t *testing.T) {
	late := flowtest.AStep[string, int]("ails.late", shim.Policy{Timeout: 250 * time.Millisecond, Retry: workflow.RetryPolicy{Attempts: 1}})
	waits := flowtest.Flow[string, int]("waits.late")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(waits, late.Call), late.As(func(ctx context.Context, how string) (int, error) {
		<-ctx.Done()
		if how == "cause" {
			return 0, context.Cause(ctx)
		}
		return 0, fmt.Errorf("ask the bank: %w", ctx.Err())
	}))
	for how, text := range map[string]string{
		"error": "attempt took longer than its timeout of 250ms: ask the bank: context deadline exceeded",
		"cause": "attempt took longer than its timeout of 250ms",
	} {
		err := flowtest.Failure(w, flowtest.Start(w, waits, how))
		if !strings.HasSuffix(err.Reason, "after 1 attempt: "+text) || err.Code != event.CodeTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v with code %s", how, err, err.Code)
		}
	}
}

func TestLog_ARunThatNobodyServesIsALineOfEachRoute(t *testing.T) {
	flowtest.OnVirtualTime(t, func(t *testing.T, w *flowtest.World, _ *flowtest.Purges) {
		forgotten := flowtest.Flow[string, string]("forgotten")
		first := flowtest.Start(w, forgotten, "a")
		flowtest.Start(w, forgotten, "b")
		flowtest.Start(w, forgotten, "c", workflow.WithQueue("elsewhere"))
		flowtest.Start(w, flowtest.Echo, "later", workflow.WithDelay(100*time.Hour))
		w.Work(worker.Config{Heartbeat: time.Minute, ClaimExpiry: 80_000 * time.Hour}, flowtest.Echoes)
		const message = "a run waits for a worker, but no worker serves it"
		for range 8 {
			if lines := w.Lines(message); len(lines) == 0 {
				w.Clock.Advance(time.Minute)
				flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "time passes"))
			}
		}
		w.Eventually("both routes are told", func() bool {
			w.Clock.Advance(time.Second)
			return len(w.Lines(message)) >= 2
		})
		for range 5 {
			w.Clock.Advance(2 * time.Minute)
			flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "time passes"))
		}
		lines := strings.Join(w.Lines(message), "")
		if strings.Count(lines, "\n") != 2 || !strings.Contains(lines, "workflow="+"test.forgotten queue=default") || !strings.Contains(lines, "queue=elsewhere") {
			t.Errorf("of run %s:\n%s", first.ID(), lines)
		}
	})
}
