package steps_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// over fails the test unless err reports that the attempt is over. answered is the expected result
// of matching ErrHookAnswered.
func over(t *testing.T, what string, err error, answered bool) {
	t.Helper()
	if !errors.Is(err, workflow.ErrHookDisposed) || errors.Is(err, workflow.ErrHookAnswered) != answered {
		t.Errorf("%s: got %v, want ErrHookDisposed, and ErrHookAnswered: %t", what, err, answered)
	}
}

func TestSTEP13_ItsTimeoutAndTotalTimeHoldWhileItWaits(t *testing.T) {
	for name, tt := range map[string]struct {
		policy   shim.Policy
		attempts int // number of attempts that time out
		code     string
		text     string
	}{
		"retried, and completed":        {policy: shim.Policy{Timeout: time.Hour}, attempts: 1},
		"the last attempt":              {policy: shim.Policy{Timeout: time.Hour, Retry: workflow.RetryPolicy{Attempts: 2}}, attempts: 2, code: event.CodeTimeout, text: "timeout of 1h"},
		"the total time":                {policy: shim.Policy{Timeout: time.Hour, Retry: workflow.RetryPolicy{Attempts: 9, Total: 90 * time.Minute}}, attempts: 2, code: event.CodeTimeout, text: "total timeout of 1h30m"},
		"a step that is not idempotent": {policy: shim.Policy{Timeout: time.Hour, NonIdempotent: true}, attempts: 1, code: event.CodeTimeout, text: "it was not finished from outside"},
		"the default of ten minutes":    {policy: shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}}, attempts: 1, code: event.CodeTimeout, text: "timeout of 10m"},
	} {
		t.Run(name, func(t *testing.T) {
			charge := flowtest.AStep[int, int]("charge.late", tt.policy)
			limit := tt.policy.Timeout
			if limit == 0 {
				limit = flow.DefaultAttemptTimeout
			}
			w := flowtest.NewVirtual(t)
			w.Work(worker.Config{Parked: 1}, charge.As(leaves), flowtest.As(charges, charge.Call))
			run := flowtest.Start(w, charges, 1)
			var tokens []string
			for n := 1; n <= tt.attempts; n++ {
				tokens = append(tokens, left(w, run, n))
				w.Eventually("nobody has the run", func() bool { return w.Parked(run) })
				began := flowtest.Filter(w.Log(run), event.StepStarted)[n-1].Time
				w.Clock.Advance(limit - time.Second - w.Clock.Now().Sub(began))
				if info, err := w.Client.Hook(w.Ctx, tokens[n-1]); err != nil || info.Closed || !info.Due.Equal(began.Add(limit)) {
					t.Errorf("a second before: got %+v, %v", info, err)
				}
				w.Clock.Advance(2 * time.Second)
				if n < tt.attempts || tt.code == "" {
					e := w.Reach(run, event.StepRetrying, n)
					if !flowtest.Exactly(e.Time.Sub(began), limit) || e.Failure.Code != event.CodeTimeout {
						t.Errorf("attempt %d ended after %v with %s, want the timeout after %v", n, e.Time.Sub(began), e.Failure.Code, limit)
					}
					w.Clock.Advance(e.Due.Sub(w.Clock.Now()))
				}
			}
			if tt.code == "" {
				tok := left(w, run, tt.attempts+1)
				for _, old := range tokens {
					over(t, "after its time", charged.Send(w.Ctx, w.Client, old, 1), false)
					over(t, "after its time", charged.Fail(w.Ctx, w.Client, old, flowtest.ErrBusy), false)
				}
				if err := charged.Send(w.Ctx, w.Client, tok, 5); err != nil {
					t.Fatal(err)
				}
				if got := flowtest.Result(w, run); got != 5 {
					t.Errorf("got %d, want 5", got)
				}
				return
			}
			var failed *workflow.StepError
			if err := flowtest.Failure(w, run); !errors.As(err, &failed) || failed.Code != tt.code || failed.Attempts != tt.attempts || !flowtest.ContainsAll(err.Error(), tt.text) {
				t.Errorf("got %v, want code %s, %d attempts, %q", err, tt.code, tt.attempts, tt.text)
			}
		})
	}
}

// TestSTEP13_NoAcceptedOutcomeIsLostWhenItRacesWithTheTimeout proves that an accepted outcome of a
// step counts, even if it arrives at the same time as the timeout of the attempt.
func TestSTEP13_NoAcceptedOutcomeIsLostWhenItRacesWithTheTimeout(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.races", shim.Policy{Timeout: 300 * time.Millisecond, Retry: workflow.RetryPolicy{Attempts: 1}})
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, charge.As(leaves), flowtest.As(charges, charge.Call))
	var racers sync.WaitGroup
	var won, late atomic.Int64
	for n := range 300 {
		run := flowtest.Start(w, charges, n)
		racers.Go(func() {
			e := w.Reach(run, event.StepHookCreated, 1)
			if n%4 > 0 { // send at about the time of the timeout
				time.Sleep(time.Until(e.Due) + time.Duration(n%7-5)*time.Millisecond)
			}
			sent := charged.Send(w.Ctx, w.Client, e.Token, n)
			got, err := run.Result(w.Ctx)
			var failed *workflow.RunError
			switch {
			case sent == nil && err == nil && got == n:
				won.Add(1)
			case errors.Is(sent, workflow.ErrHookDisposed) && errors.As(err, &failed) && failed.Code == event.CodeTimeout:
				late.Add(1)
			default:
				t.Errorf("sent: %v, result: %d, %v", sent, got, err)
			}
		})
	}
	racers.Wait()
	if t.Logf("%d in time, %d late", won.Load(), late.Load()); late.Load() == 0 {
		t.Error("what came after the time was up counts")
	}
}

// TestSTEP13_WhatWasAcceptedInTimeCountsThoughTheCodeIsTooSlow proves that an outcome accepted
// before the timeout of an attempt counts, although the code of the attempt waits until the
// timeout. The worker is not notified of the outcome before that.
func TestSTEP13_WhatWasAcceptedInTimeCountsThoughTheCodeIsTooSlow(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.slow", shim.Policy{Timeout: time.Hour, Retry: workflow.RetryPolicy{Attempts: 1}})
	w := flowtest.NewVirtual(t)
	var deaf atomic.Bool
	between := &flowtest.Between{Store: w.Store}
	between.Around = func(_ context.Context, op string, _ any, do func() error) error {
		err := do()
		if op == "wait" && deaf.Load() {
			return errors.New("no answer")
		}
		return err
	}
	client := w.Client
	w.Client = flowtest.NewClient(between, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = client.Close() })
	opened := make(chan string, 1)
	w.Work(worker.Config{}, flowtest.As(charges, charge.Call), charge.As(func(ctx context.Context, _ int) (int, error) {
		later, err := step.Later(ctx, charged)
		if err != nil {
			return 0, err
		}
		opened <- later.Token()
		<-ctx.Done()
		return 0, ctx.Err()
	}))
	run := flowtest.Start(w, charges, 1)
	tok := <-opened
	deaf.Store(true)
	if err := charged.Send(w.Ctx, w.Client, tok, 17); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(2 * time.Hour)
	aStepEnds(w, run)
	deaf.Store(false)
	if got := flowtest.Result(w, run); got != 17 {
		t.Errorf("got %d, want the outcome that was accepted before the time was up", got)
	}
}

// TestSTEP13_WhatWasAcceptedInTimeCountsHoweverLateItIsRead proves that an outcome accepted before
// the timeout of an attempt counts, although the worker reads it after the timeout.
func TestSTEP13_WhatWasAcceptedInTimeCountsHoweverLateItIsRead(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.unread", shim.Policy{Timeout: time.Hour, Retry: workflow.RetryPolicy{Attempts: 1}})
	holds := flowtest.AStep[int, int]("charge.holds", shim.Policy{Timeout: 100 * time.Hour})
	w := flowtest.NewVirtual(t)
	deaf := &flowtest.Between{Store: w.Store}
	var closed atomic.Bool
	deaf.Around = func(_ context.Context, op string, _ any, do func() error) error {
		err := do()
		if op == "wait" && closed.Load() { // keeps the worker from being notified of new items
			return errors.New("no answer")
		}
		return err
	}
	client := w.Client
	w.Client = flowtest.NewClient(deaf, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = client.Close() })
	leave := make(chan struct{})
	w.Work(worker.Config{}, charge.As(leaves), holds.As(func(context.Context, int) (int, error) {
		<-leave // keeps the run on the worker
		return 0, nil
	}), flowtest.As(charges, func(ctx workflow.Context, n int) (int, error) {
		other := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return holds.Call(ctx, n) })
		v, err := charge.Call(ctx, n)
		if err != nil {
			return 0, err
		}
		_, err = other.Get(ctx)
		return v, err
	}))
	run := flowtest.Start(w, charges, 1)
	tok := left(w, run, 1)
	closed.Store(true)
	if err := charged.Send(w.Ctx, w.Client, tok, 17); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(2 * time.Hour)
	aStepEnds(w, run)
	closed.Store(false)
	close(leave)
	if got := flowtest.Result(w, run); got != 17 {
		t.Errorf("got %d, want 17", got)
	}
}

func TestSTEP13_ACancelFreesAStepThatIsLeftToOthers(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.canceled", shim.Policy{})
	limited := flowtest.Flow[int, string]("charges.limited")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{Parked: 1}, charge.As(leaves), flowtest.As(charges, charge.Call), flowtest.As(limited, func(ctx workflow.Context, n int) (string, error) {
			short, cancel := workflow.WithTimeout(ctx, time.Duration(n)*time.Millisecond)
			defer cancel()
			_, err := charge.Call(short, n)
			if !errors.Is(err, workflow.ErrTimeout) {
				t.Errorf("got %v, want ErrTimeout", err)
			}
			return "too late", nil
		}))
		run := flowtest.Start(w, charges, 1)
		tok := left(w, run, 1)
		if err := run.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled {
			t.Errorf("got %v, want it canceled", err)
		}
		over(t, "after the cancel", charged.Send(w.Ctx, w.Client, tok, 1), false)

		branch := flowtest.Start(w, limited, 50)
		tok = w.Reach(branch, event.StepHookCreated, 1).Token
		if got := flowtest.Result(w, branch); got != "too late" {
			t.Errorf("got %q", got)
		}
		over(t, "after the time of its branch", charged.Send(w.Ctx, w.Client, tok, 1), false)
	})
}

// TestSTEP13_NoAcceptedOutcomeIsLostWhenItRacesWithACancel proves that an outcome that races with a
// cancel is not lost. If it was accepted, the step has completed, or the log lists the outcome as
// unread.
func TestSTEP13_NoAcceptedOutcomeIsLostWhenItRacesWithACancel(t *testing.T) {
	charge := flowtest.AStep[int, int]("charge.cancels", shim.Policy{})
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, charge.As(leaves), flowtest.As(charges, charge.Call))
	var racers sync.WaitGroup
	var won, lost, missed atomic.Int64
	for n := range 300 {
		run := flowtest.Start(w, charges, n)
		racers.Go(func() {
			tok := w.Reach(run, event.StepHookCreated, 1).Token
			sent := make(chan error, 1)
			go func() { sent <- charged.Send(w.Ctx, w.Client, tok, n) }()
			if err := run.Cancel(w.Ctx, "enough"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
				t.Error(err)
			}
			err := <-sent
			got, ended := run.Result(w.Ctx)
			log := w.Log(run)
			last := log[len(log)-1]
			switch {
			case err == nil && ended == nil && got == n:
				won.Add(1)
			case err == nil && errors.Is(ended, workflow.ErrCanceled) && (len(last.Unread) == 1 || len(flowtest.Filter(log, event.StepCompleted)) == 1):
				missed.Add(1)
			case errors.Is(err, workflow.ErrHookDisposed) && errors.Is(ended, workflow.ErrCanceled) && len(flowtest.Filter(log, event.StepCompleted)) == 0:
				lost.Add(1)
			default:
				t.Errorf("sent: %v, result: %d, %v, log %v, unread %v", err, got, ended, types(log), last.Unread)
			}
		})
	}
	racers.Wait()
	t.Logf("%d completed, %d refused, %d accepted and listed as unread, or completed under the cancel", won.Load(), lost.Load(), missed.Load())
}

// aStepEnds waits until a step of the run has completed or failed.
func aStepEnds(w *flowtest.World, run flowtest.Follows) {
	w.T.Helper()
	w.Eventually("the step has ended", func() bool {
		log := w.Log(run)
		return len(flowtest.Filter(log, event.StepCompleted))+len(flowtest.Filter(log, event.StepFailed)) > 0
	})
}
