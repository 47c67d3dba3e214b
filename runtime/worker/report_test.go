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
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// lines returns the lines of the log with this message.
func (w *world) lines(message string) (found []string) {
	for line := range strings.Lines(w.logs.String()) {
		if strings.Contains(line, `msg="`+message+`"`) || strings.Contains(line, "msg="+message+" ") {
			found = append(found, line)
		}
	}
	return found
}

// oneLine waits for the only line with a message, which holds all the parts.
func (w *world) oneLine(message string, parts ...string) {
	w.t.Helper()
	w.eventually("there is a line: "+message, func() bool { return len(w.lines(message)) > 0 })
	all := w.lines(message)
	if len(all) != 1 {
		w.t.Errorf("%d lines, want one:\n%s", len(all), strings.Join(all, ""))
	}
	for _, part := range parts {
		if !strings.Contains(all[0], part) {
			w.t.Errorf("the line lacks %s:\n%s", part, all[0])
		}
	}
}

// ails is a step that fails twice, and panics if it is to.
var (
	ails     = aStep[string, int]("ails", shim.Policy{Retry: quick})
	ailing   = flow[string, int]("ailing")
	ailments atomic.Int64
	ailsAt   string // where it panics
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

// ailBinding calls the step, and then waits for a message.
var ailBinding = as(ailing, func(ctx workflow.Context, how string) (int, error) {
	if _, err := ails.Call(ctx, how); err != nil {
		return 0, err
	}
	return numbers.Receive(ctx)
})

func TestLog_EachFailedAttemptIsALineThatNoReplayRepeats(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		ailments.Store(0)
		first := w.work(worker.Config{}, ailBinding, ails.as(ail))
		run := start(w, ailing, "twice")
		w.reach(run, event.WaitCreated, 1)
		first.stop()
		w.work(worker.Config{}, ailBinding, ails.as(ail)) // replays
		w.send(run, 7)
		if got := result(w, run); got != 7 {
			t.Errorf("got %d", got)
		}
		lines := w.lines("attempt of a step failed")
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
		if strings.Contains(w.logs.String(), "level=ERROR") {
			t.Errorf("there are errors:\n%s", w.logs)
		}
	})
}

func TestLog_AFailedStepAndItsRunAreALineEach(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		ailments.Store(0)
		w.work(worker.Config{}, ailBinding, ails.as(ail))
		run := start(w, ailing, "always")
		failure(w, run)
		w.oneLine("run failed", "level=ERROR", "run="+string(run.ID()), "workflow=test.ailing", "code=error", "out of order 4")
		w.oneLine("step failed", "level=ERROR", "run="+string(run.ID()), "key=ailing/test.ails#1", "attempt=4", "code=error", "out of order 4")
	})
}

func TestLog_APanicSaysTheUsersLine(t *testing.T) {
	w := newMemory(t)
	at := ""
	blows := flow[int, int]("blows")
	w.work(worker.Config{}, ailBinding, ails.as(ail), as(blows, func(workflow.Context, int) (int, error) {
		_, file, line, _ := runtime.Caller(0)
		at = fmt.Sprintf("%s:%d", file, line+2)
		panic("no")
	}))
	run := start(w, ailing, "panic")
	failure(w, run)
	w.oneLine("step failed", "attempt=4", "code=panic", "at="+ailsAt)
	if lines := w.lines("attempt of a step failed"); len(lines) != 3 || !strings.Contains(lines[0], "at="+ailsAt) {
		t.Errorf("want 3 attempts at %s, got:\n%s", ailsAt, strings.Join(lines, ""))
	}
	failure(w, start(w, blows, 1))
	// The lines of two runs come in any order.
	w.eventually("the run's panic is logged", func() bool {
		return slices.ContainsFunc(w.lines("run failed"), func(line string) bool {
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
		return nil, errOutage
	}
	return answers, err
}

func TestLog_ACommitWhoseAnswerIsLostIsLoggedOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, plain *world) {
		ailments.Store(0)
		w := *plain
		w.store = &answerless{Store: plain.store}
		w.client = workflow.NewClient(w.store, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(w.logs, nil))})
		defer w.client.Close()
		r := w.work(worker.Config{}, ailBinding, ails.as(ail))
		defer r.stop()
		failure(&w, start(&w, ailing, "always"))
		w.oneLine("run failed")
		w.oneLine("step failed")
		if n := len(w.lines("attempt of a step failed")); n != 3 {
			t.Errorf("%d failed attempts are logged, want 3", n)
		}
	})
}

func TestLog_AnErrorOfRunIsLogged(t *testing.T) {
	w := newMemory(t)
	err := worker.New(w.client, worker.Config{Name: "w1"}).Run(t.Context())
	if err == nil {
		t.Fatal("a worker without anything registered runs")
	}
	w.oneLine("worker does not run", "level=ERROR", "worker=w1", err.Error())
}

func TestInfo_HasTheAttemptAndTheLastErrorOfAStepThatIsTriedAgain(t *testing.T) {
	slow := aStep[int, int]("ails.slowly", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Hour}})
	patient := flow[int, int]("patient")
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(patient, func(ctx workflow.Context, n int) (int, error) {
			for i := range 150 { // more than a page of frames
				if err := workflow.Sleep(ctx, time.Duration(i)); err != nil {
					return 0, err
				}
			}
			return slow.Call(ctx, n)
		}), slow.as(func(context.Context, int) (int, error) { return 0, errBusy }))
		run := start(w, patient, 1)
		retry := w.reach(run, event.StepRetrying, 1)
		info, err := run.Info(w.ctx)
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
	late := aStep[string, int]("ails.late", shim.Policy{Timeout: 5 * time.Millisecond, Retry: workflow.RetryPolicy{Attempts: 1}})
	waits := flow[string, int]("waits.late")
	w := newMemory(t)
	w.work(worker.Config{}, as(waits, late.Call), late.as(func(ctx context.Context, how string) (int, error) {
		<-ctx.Done()
		if how == "cause" {
			return 0, context.Cause(ctx)
		}
		return 0, fmt.Errorf("ask the bank: %w", ctx.Err())
	}))
	for how, text := range map[string]string{
		"error": "attempt took longer than its timeout of 5ms: ask the bank: context deadline exceeded",
		"cause": "attempt took longer than its timeout of 5ms",
	} {
		err := failure(w, start(w, waits, how))
		if !strings.HasSuffix(err.Reason, "after 1 attempt: "+text) || err.Code != event.CodeTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: got %v with code %s", how, err, err.Code)
		}
	}
}

func TestLog_ARunThatNobodyServesIsALineOfEachClass(t *testing.T) {
	onVirtualTime(t, func(t *testing.T, w *world, _ *purges) {
		forgotten := flow[string, string]("forgotten")
		first := start(w, forgotten, "a")
		start(w, forgotten, "b")
		start(w, forgotten, "c", workflow.WithQueue("elsewhere"))
		start(w, echo, "later", workflow.WithDelay(100*time.Hour))
		w.work(worker.Config{Heartbeat: time.Minute, ClaimExpiry: 80_000 * time.Hour}, echoes)
		const message = "a run waits for a worker, and none serves it"
		for range 8 {
			if lines := w.lines(message); len(lines) == 0 {
				w.clock.Advance(time.Minute)
				result(w, start(w, echo, "time passes"))
			}
		}
		w.eventually("both classes are told", func() bool {
			w.clock.Advance(time.Second)
			return len(w.lines(message)) >= 2
		})
		for range 5 {
			w.clock.Advance(2 * time.Minute)
			result(w, start(w, echo, "time passes"))
		}
		lines := strings.Join(w.lines(message), "")
		if strings.Count(lines, "\n") != 2 || !strings.Contains(lines, "workflow="+"test.forgotten queue=default") || !strings.Contains(lines, "queue=elsewhere") {
			t.Errorf("of run %s:\n%s", first.ID(), lines)
		}
	})
}
