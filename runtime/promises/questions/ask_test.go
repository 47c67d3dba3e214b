package questions_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW16_ARunAnswersWhatItIsAsked(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, flowtest.Accounts, 1)
		early := make(chan int, 1)
		go func() { // asks before the run has a handler
			v, err := flowtest.Add.Ask(w.Ctx, run, 2)
			if err != nil {
				t.Error(err)
			}
			early <- v
		}()
		w.Eventually("it is asked", func() bool { return w.Inbox(run) == 1 })
		w.Work(worker.Config{}, flowtest.Account, flowtest.Slowly)
		if got := <-early; got != 3 {
			t.Errorf("the early question: got %d, want 3", got)
		}
		if got, err := flowtest.Add.Ask(w.Ctx, w.Client.Run(run.ID()), 4); got != 7 || err != nil {
			t.Errorf("got %d, %v, want 7", got, err)
		}
		w.Send(run, 1)
		if got := flowtest.Result(w, run); got != 7 {
			t.Errorf("result: got %d, want 7", got)
		}
		log := w.Log(run)
		if a, b := len(flowtest.Filter(log, event.AskReceived)), len(flowtest.Filter(log, event.AskAccepted)); a != 1 || b != 1 {
			t.Errorf("the log has %d ask_received and %d ask_accepted, want one each", a, b)
		}
	})
}

func TestFLOW16_ARefusedQuestionLeavesNoTrace(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Account, flowtest.Slowly)
		run := flowtest.Start(w, flowtest.Accounts, 90)
		w.Reach(run, event.WaitCreated, 1)
		before := len(w.Log(run))
		for range 3 {
			_, err := flowtest.Add.Ask(w.Ctx, run, 11, workflow.IdempotencyKey("eleven"))
			var refused *workflow.RefusedError
			var limit *flowtest.LimitError
			if !errors.As(err, &refused) || !errors.As(err, &limit) || limit.Limit != 100 || errors.Is(err, workflow.ErrRunTerminal) {
				t.Fatalf("got %v, want a *RefusedError about a *limitError", err)
			}
			if refused.Run != run.ID() || refused.Ask != "add" || refused.Reason != "more than 100" {
				t.Errorf("got %+v", refused)
			}
		}
		if after := len(w.Log(run)); after != before {
			t.Errorf("the log has %d events more", after-before)
		}
		if v, err := flowtest.Add.Ask(w.Ctx, run, 10); v != 100 || err != nil {
			t.Errorf("got %d, %v, want 100", v, err)
		}
		w.Send(run, 1)
		if got := flowtest.Result(w, run); got != 100 {
			t.Errorf("result: got %d", got)
		}
		_, err := workflow.NewAsk[string, int]("add").Ask(w.Ctx, run, "x")
		var refused *workflow.RefusedError
		if !errors.As(err, &refused) || !refused.Ended || !errors.Is(err, workflow.ErrRunTerminal) {
			t.Errorf("after the end: got %v, want a *RefusedError that matches ErrRunTerminal", err)
		}
	})
}

func TestFLOW16_ARunRefusesWhileItExecutesAStep(t *testing.T) {
	w := flowtest.NewMemory(t)
	begun, release := make(chan struct{}), make(chan struct{})
	w.Work(worker.Config{}, flowtest.Account, flowtest.Slow.As(func(_ context.Context, n int) (int, error) {
		close(begun)
		<-release
		return n, nil
	}))
	run := flowtest.Start(w, flowtest.Accounts, 0)
	asked := make(chan int, 1)
	go func() {
		v, err := flowtest.Add.Ask(w.Ctx, run, 1)
		if err != nil {
			t.Error(err)
		}
		asked <- v
	}()
	<-begun
	if _, err := flowtest.Add.Ask(w.Ctx, run, 200); !errors.As(err, new(*flowtest.LimitError)) {
		t.Errorf("got %v, want a *limitError", err)
	}
	close(release)
	if got := <-asked; got != 1 {
		t.Errorf("got %d, want 1", got)
	}
	w.Send(run, 1)
	flowtest.Result(w, run)
}

func TestFLOW16_AQuestionThatHadToWaitIsRefusedLater(t *testing.T) {
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, flowtest.Accounts, 100)
	done := make(chan error, 1)
	go func() {
		_, err := flowtest.Add.Ask(w.Ctx, run, 1)
		done <- err
	}()
	w.Eventually("it is asked", func() bool { return w.Inbox(run) == 1 })
	first := w.Work(worker.Config{Parked: 1}, flowtest.Account, flowtest.Slowly)
	if err := <-done; !errors.As(err, new(*workflow.RefusedError)) || !errors.As(err, new(*flowtest.LimitError)) {
		t.Errorf("got %v, want a *RefusedError", err)
	}
	first.Stop()
	w.Work(worker.Config{}, flowtest.Account, flowtest.Slowly) // the worker replays the refusal
	w.Send(run, 1)
	if got := flowtest.Result(w, run); got != 100 {
		t.Errorf("got %d", got)
	}
}

func TestFLOW16_AKeyAsksOnceAndAllAreToldTheSame(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Account, flowtest.Slowly)
		run := flowtest.Start(w, flowtest.Accounts, 0)
		ask := func(target workflow.Target) {
			if v, err := flowtest.Add.Ask(w.Ctx, target, 5, workflow.IdempotencyKey("five")); v != 5 || err != nil {
				t.Errorf("got %d, %v, want 5", v, err)
			}
		}
		var askers sync.WaitGroup
		for range 20 {
			askers.Go(func() { ask(run) })
		}
		askers.Wait()
		w.Send(run, 1)
		if got := flowtest.Result(w, run); got != 5 {
			t.Errorf("result: got %d, want 5", got)
		}
		ask(run) // asks after the end of the run
	})
}

func TestFLOW16_AnAnswerCanBeAnError(t *testing.T) {
	fails := flowtest.Flow[int, int]("fails-to-answer")
	w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{MaxPayload: 200})
	w.Work(worker.Config{}, flowtest.As(fails, func(ctx workflow.Context, _ int) (int, error) {
		flowtest.Add.Handle(ctx, nil, func(_ workflow.Context, n int) (int, error) { return n, &flowtest.LimitError{Limit: n} })
		workflow.NewAsk[int, string]("long").Handle(ctx, nil, func(_ workflow.Context, n int) (string, error) { return strings.Repeat("x", n), nil })
		return flowtest.Numbers.Receive(ctx)
	}))
	run := flowtest.Start(w, fails, 1)
	_, err := flowtest.Add.Ask(w.Ctx, run, 3)
	var answer *workflow.AnswerError
	var limit *flowtest.LimitError
	if !errors.As(err, &answer) || !errors.As(err, &limit) || limit.Limit != 3 || answer.Code != event.CodeError {
		t.Errorf("got %v, want an *AnswerError about a *limitError", err)
	}
	if _, err := workflow.NewAsk[int, string]("long").Ask(w.Ctx, run, 300); !errors.As(err, &answer) || !errors.As(err, new(*workflow.PayloadError)) {
		t.Errorf("an answer that is too large: got %v, want an *AnswerError about a *PayloadError", err)
	}
	if _, err := workflow.NewAsk[string, int]("add").Ask(w.Ctx, run, "text"); !errors.As(err, new(*workflow.RefusedError)) || !errors.As(err, new(*workflow.PayloadError)) {
		t.Errorf("a question of another type: got %v, want a *RefusedError about a *PayloadError", err)
	}
	if _, err := workflow.NewAsk[int, string]("add").Ask(w.Ctx, w.Client.Run(event.NewRunID(time.Now(), 3)), 1); !errors.Is(err, workflow.ErrRunNotFound) {
		t.Errorf("an unknown run: got %v, want ErrRunNotFound", err)
	}
	short, cancel := context.WithTimeout(w.Ctx, 5*time.Millisecond)
	defer cancel()
	if _, err := workflow.NewAsk[int, int]("nobody").Ask(short, run, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an ask that nobody handles: got %v, want the end of the context", err)
	}
	w.Send(run, 1)
	flowtest.Result(w, run)
}

func TestFLOW16_AValidationThatMisbehavesRefuses(t *testing.T) {
	odd := flowtest.Flow[int, int]("odd-validation")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(odd, func(ctx workflow.Context, _ int) (int, error) {
		flowtest.Add.Handle(ctx, func(n int) error {
			switch n {
			case 1:
				panic("no")
			case 2:
				runtime.Goexit()
			case 3:
				return workflow.Sleep(ctx, time.Hour)
			}
			return nil
		}, func(_ workflow.Context, n int) (int, error) { return n, nil })
		return flowtest.Numbers.Receive(ctx)
	}))
	run := flowtest.Start(w, odd, 1)
	w.Reach(run, event.WaitCreated, 1)
	for n, want := range map[int]string{1: "no", 2: "Goexit", 3: "inside of the validation of ask add"} {
		_, err := flowtest.Add.Ask(w.Ctx, run, n)
		if !errors.As(err, new(*workflow.RefusedError)) || !flowtest.ContainsAll(err.Error(), want) {
			t.Errorf("%d: got %v, want a *RefusedError that says %q", n, err, want)
		}
	}
	if v, err := flowtest.Add.Ask(w.Ctx, run, 4); v != 4 || err != nil {
		t.Errorf("got %d, %v, want 4", v, err)
	}
	w.Send(run, 8)
	if got := flowtest.Result(w, run); got != 8 {
		t.Errorf("got %d", got)
	}
}

func TestFLOW16_AnAcceptedQuestionSurvivesItsWorker(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan struct{}, 2)
		hang := flowtest.Slow.As(func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		first := w.Work(worker.Config{Grace: time.Millisecond}, flowtest.Account, hang)
		run := flowtest.Start(w, flowtest.Accounts, 0)
		w.Reach(run, event.WaitCreated, 1)
		asked := make(chan int, 1)
		go func() {
			v, err := flowtest.Add.Ask(w.Ctx, run, 6)
			if err != nil {
				t.Error(err)
			}
			asked <- v
		}()
		<-begun
		first.Stop()
		w.Work(worker.Config{}, flowtest.Account, flowtest.Slowly)
		if got := <-asked; got != 6 {
			t.Errorf("got %d, want 6", got)
		}
		w.Send(run, 1)
		if got := flowtest.Result(w, run); got != 6 {
			t.Errorf("result: got %d, want 6", got)
		}
	})
}

func TestFLOW16_AnswersBeyondThoseThatAreKeptAreReadFromTheLog(t *testing.T) {
	w := flowtest.NewMemory(t)
	counts := flowtest.Flow[int, int]("counts")
	w.Work(worker.Config{}, flowtest.As(counts, func(ctx workflow.Context, _ int) (int, error) {
		flowtest.Add.Handle(ctx, func(n int) error {
			if n < 0 {
				return &flowtest.LimitError{Limit: 0}
			}
			return nil
		}, func(_ workflow.Context, n int) (int, error) { return n, nil })
		return flowtest.Numbers.Receive(ctx)
	}))
	run := flowtest.Start(w, counts, 0)
	w.Reach(run, event.WaitCreated, 1)
	no := workflow.IdempotencyKey("refused")
	if _, err := flowtest.Add.Ask(w.Ctx, run, -1, no); !errors.As(err, new(*flowtest.LimitError)) {
		t.Errorf("got %v, want a *limitError", err)
	}
	// The answers to all these questions are published in the stream that contains the refusal.
	const questions = 70
	ids := func(n int) event.ItemID { return event.ItemID(fmt.Sprintf("key:%q:%d", "ask add", n)) }
	var keys []int
	for n := 0; len(keys) < questions; n++ {
		if effects.AnswerStream(ids(n)) == effects.AnswerStream("key:\"ask add\":refused") {
			keys = append(keys, n)
		}
	}
	key := func(n int) workflow.SendOption { return workflow.IdempotencyKey(fmt.Sprint(n)) }
	for _, n := range keys {
		if v, err := flowtest.Add.Ask(w.Ctx, run, n, key(n)); v != n || err != nil {
			t.Fatalf("got %d, %v, want %d", v, err, n)
		}
	}
	var askers sync.WaitGroup
	for _, n := range keys {
		askers.Go(func() {
			if v, err := flowtest.Add.Ask(w.Ctx, run, -1, key(n)); v != n || err != nil {
				t.Errorf("asked again: got %d, %v, want %d", v, err, n)
			}
		})
	}
	askers.Go(func() {
		var refused *workflow.RefusedError
		if _, err := flowtest.Add.Ask(w.Ctx, run, 1, no); !errors.As(err, &refused) || refused.Ended {
			t.Errorf("what was refused, asked again: got %v, want a *RefusedError", err)
		}
	})
	askers.Wait()
	w.Send(run, 1)
	flowtest.Result(w, run)
}
