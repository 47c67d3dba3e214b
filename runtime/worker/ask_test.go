package worker_test

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
	"github.com/flowgen/flowgen/runtime/internal/publish"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// limitError is the error of a validation.
type limitError struct{ Limit int }

func (e *limitError) Error() string { return fmt.Sprintf("more than %d", e.Limit) }

var (
	add      = workflow.NewAsk[int, int]("add") // answers with the sum so far
	slow     = aStep[int, int]("slow", shim.Policy{Retry: quick})
	accounts = flow[int, int]("accounts") // adds up to 100 until a message comes
	account  = as(accounts, func(ctx workflow.Context, sum int) (int, error) {
		add.Handle(ctx, func(n int) error {
			if sum+n > 100 {
				return &limitError{100}
			}
			return nil
		}, func(ctx workflow.Context, n int) (int, error) {
			if _, err := slow.Call(ctx, n); err != nil {
				return 0, err
			}
			sum += n
			return sum, nil
		})
		_, err := numbers.Receive(ctx)
		return sum, err
	})
	slowly = slow.as(func(_ context.Context, n int) (int, error) { return n, nil })
)

func TestFLOW16_ARunAnswersWhatItIsAsked(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		run := start(w, accounts, 1)
		early := make(chan int, 1)
		go func() { // before the run handles it
			v, err := add.Ask(w.ctx, run, 2)
			if err != nil {
				t.Error(err)
			}
			early <- v
		}()
		w.eventually("it is asked", func() bool { return w.inbox(run) == 1 })
		w.work(worker.Config{}, account, slowly)
		if got := <-early; got != 3 {
			t.Errorf("the early question: got %d, want 3", got)
		}
		if got, err := add.Ask(w.ctx, w.client.Run(run.ID()), 4); got != 7 || err != nil {
			t.Errorf("got %d, %v, want 7", got, err)
		}
		w.send(run, 1)
		if got := result(w, run); got != 7 {
			t.Errorf("result: got %d, want 7", got)
		}
		log := w.log(run)
		if a, b := len(filter(log, event.AskReceived)), len(filter(log, event.AskAccepted)); a != 1 || b != 1 {
			t.Errorf("the log has %d ask_received and %d ask_accepted, want one each", a, b)
		}
	})
}

// inbox returns how many items a run has not taken.
func (w *world) inbox(run follows) int {
	w.t.Helper()
	loaded, err := w.store.Load(w.ctx, []store.Load{{Run: run.ID(), Inbox: true, Limit: -1}})
	if err != nil || loaded[0].Err != nil {
		w.t.Fatal(err, loaded)
	}
	return len(loaded[0].Inbox)
}

func TestFLOW16_ARefusedQuestionLeavesNoTrace(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, account, slowly)
		run := start(w, accounts, 90)
		w.reach(run, event.WaitCreated, 1)
		before := len(w.log(run))
		for range 3 {
			_, err := add.Ask(w.ctx, run, 11, workflow.IdempotencyKey("eleven"))
			var refused *workflow.RefusedError
			var limit *limitError
			if !errors.As(err, &refused) || !errors.As(err, &limit) || limit.Limit != 100 || errors.Is(err, workflow.ErrRunTerminal) {
				t.Fatalf("got %v, want a *RefusedError about a *limitError", err)
			}
			if refused.Run != run.ID() || refused.Ask != "add" || refused.Reason != "more than 100" {
				t.Errorf("got %+v", refused)
			}
		}
		if after := len(w.log(run)); after != before {
			t.Errorf("the log has %d events more", after-before)
		}
		if v, err := add.Ask(w.ctx, run, 10); v != 100 || err != nil {
			t.Errorf("got %d, %v, want 100", v, err)
		}
		w.send(run, 1)
		if got := result(w, run); got != 100 {
			t.Errorf("result: got %d", got)
		}
		_, err := workflow.NewAsk[string, int]("add").Ask(w.ctx, run, "x")
		var refused *workflow.RefusedError
		if !errors.As(err, &refused) || !refused.Ended || !errors.Is(err, workflow.ErrRunTerminal) {
			t.Errorf("after the end: got %v, want a *RefusedError that matches ErrRunTerminal", err)
		}
	})
}

func TestFLOW16_ARunRefusesWhileItExecutesAStep(t *testing.T) {
	w := newMemory(t)
	begun, release := make(chan struct{}), make(chan struct{})
	w.work(worker.Config{}, account, slow.as(func(_ context.Context, n int) (int, error) {
		close(begun)
		<-release
		return n, nil
	}))
	run := start(w, accounts, 0)
	asked := make(chan int, 1)
	go func() {
		v, err := add.Ask(w.ctx, run, 1)
		if err != nil {
			t.Error(err)
		}
		asked <- v
	}()
	<-begun
	if _, err := add.Ask(w.ctx, run, 200); !errors.As(err, new(*limitError)) {
		t.Errorf("got %v, want a *limitError", err)
	}
	close(release)
	if got := <-asked; got != 1 {
		t.Errorf("got %d, want 1", got)
	}
	w.send(run, 1)
	result(w, run)
}

func TestFLOW16_AQuestionThatHadToWaitIsRefusedLater(t *testing.T) {
	w := newMemory(t)
	run := start(w, accounts, 100)
	done := make(chan error, 1)
	go func() {
		_, err := add.Ask(w.ctx, run, 1)
		done <- err
	}()
	w.eventually("it is asked", func() bool { return w.inbox(run) == 1 })
	first := w.work(worker.Config{Parked: 1}, account, slowly)
	if err := <-done; !errors.As(err, new(*workflow.RefusedError)) || !errors.As(err, new(*limitError)) {
		t.Errorf("got %v, want a *RefusedError", err)
	}
	first.stop()
	w.work(worker.Config{}, account, slowly) // replays the refusal
	w.send(run, 1)
	if got := result(w, run); got != 100 {
		t.Errorf("got %d", got)
	}
}

func TestFLOW16_AKeyAsksOnceAndAllAreToldTheSame(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, account, slowly)
		run := start(w, accounts, 0)
		ask := func(target workflow.Target) {
			if v, err := add.Ask(w.ctx, target, 5, workflow.IdempotencyKey("five")); v != 5 || err != nil {
				t.Errorf("got %d, %v, want 5", v, err)
			}
		}
		var askers sync.WaitGroup
		for range 20 {
			askers.Go(func() { ask(run) })
		}
		askers.Wait()
		w.send(run, 1)
		if got := result(w, run); got != 5 {
			t.Errorf("result: got %d, want 5", got)
		}
		ask(run) // after the end
	})
}

func TestFLOW16_AnAnswerCanBeAnError(t *testing.T) {
	fails := flow[int, int]("fails-to-answer")
	w := newWorld(t, memstore.New(), workflow.ClientConfig{MaxPayload: 200})
	w.work(worker.Config{}, as(fails, func(ctx workflow.Context, _ int) (int, error) {
		add.Handle(ctx, nil, func(_ workflow.Context, n int) (int, error) { return n, &limitError{n} })
		workflow.NewAsk[int, string]("long").Handle(ctx, nil, func(_ workflow.Context, n int) (string, error) { return strings.Repeat("x", n), nil })
		return numbers.Receive(ctx)
	}))
	run := start(w, fails, 1)
	_, err := add.Ask(w.ctx, run, 3)
	var answer *workflow.AnswerError
	var limit *limitError
	if !errors.As(err, &answer) || !errors.As(err, &limit) || limit.Limit != 3 || answer.Code != event.CodeError {
		t.Errorf("got %v, want an *AnswerError about a *limitError", err)
	}
	if _, err := workflow.NewAsk[int, string]("long").Ask(w.ctx, run, 300); !errors.As(err, &answer) || !errors.As(err, new(*workflow.PayloadError)) {
		t.Errorf("an answer that is too large: got %v, want an *AnswerError about a *PayloadError", err)
	}
	if _, err := workflow.NewAsk[string, int]("add").Ask(w.ctx, run, "text"); !errors.As(err, new(*workflow.RefusedError)) || !errors.As(err, new(*workflow.PayloadError)) {
		t.Errorf("a question of another type: got %v, want a *RefusedError about a *PayloadError", err)
	}
	if _, err := workflow.NewAsk[int, string]("add").Ask(w.ctx, w.client.Run(event.NewRunID(time.Now(), 3)), 1); !errors.Is(err, workflow.ErrRunNotFound) {
		t.Errorf("an unknown run: got %v, want ErrRunNotFound", err)
	}
	short, cancel := context.WithTimeout(w.ctx, 5*time.Millisecond)
	defer cancel()
	if _, err := workflow.NewAsk[int, int]("nobody").Ask(short, run, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an ask that nobody handles: got %v, want the end of the context", err)
	}
	w.send(run, 1)
	result(w, run)
}

func TestFLOW16_AValidationThatMisbehavesRefuses(t *testing.T) {
	odd := flow[int, int]("odd-validation")
	w := newMemory(t)
	w.work(worker.Config{}, as(odd, func(ctx workflow.Context, _ int) (int, error) {
		add.Handle(ctx, func(n int) error {
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
		return numbers.Receive(ctx)
	}))
	run := start(w, odd, 1)
	w.reach(run, event.WaitCreated, 1)
	for n, want := range map[int]string{1: "no", 2: "Goexit", 3: "inside of the validation of ask add"} {
		_, err := add.Ask(w.ctx, run, n)
		if !errors.As(err, new(*workflow.RefusedError)) || !containsAll(err.Error(), want) {
			t.Errorf("%d: got %v, want a *RefusedError that says %q", n, err, want)
		}
	}
	if v, err := add.Ask(w.ctx, run, 4); v != 4 || err != nil {
		t.Errorf("got %d, %v, want 4", v, err)
	}
	w.send(run, 8)
	if got := result(w, run); got != 8 {
		t.Errorf("got %d", got)
	}
}

func TestFLOW16_AnAcceptedQuestionSurvivesItsWorker(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		begun := make(chan struct{}, 2)
		hang := slow.as(func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			return 0, ctx.Err()
		})
		first := w.work(worker.Config{Grace: time.Millisecond}, account, hang)
		run := start(w, accounts, 0)
		w.reach(run, event.WaitCreated, 1)
		asked := make(chan int, 1)
		go func() {
			v, err := add.Ask(w.ctx, run, 6)
			if err != nil {
				t.Error(err)
			}
			asked <- v
		}()
		<-begun
		first.stop()
		w.work(worker.Config{}, account, slowly)
		if got := <-asked; got != 6 {
			t.Errorf("got %d, want 6", got)
		}
		w.send(run, 1)
		if got := result(w, run); got != 6 {
			t.Errorf("result: got %d, want 6", got)
		}
	})
}

func TestFLOW16_AnswersBeyondThoseThatAreKeptAreReadFromTheLog(t *testing.T) {
	w := newMemory(t)
	counts := flow[int, int]("counts")
	w.work(worker.Config{}, as(counts, func(ctx workflow.Context, _ int) (int, error) {
		add.Handle(ctx, func(n int) error {
			if n < 0 {
				return &limitError{0}
			}
			return nil
		}, func(_ workflow.Context, n int) (int, error) { return n, nil })
		return numbers.Receive(ctx)
	}))
	run := start(w, counts, 0)
	w.reach(run, event.WaitCreated, 1)
	no := workflow.IdempotencyKey("refused")
	if _, err := add.Ask(w.ctx, run, -1, no); !errors.As(err, new(*limitError)) {
		t.Errorf("got %v, want a *limitError", err)
	}
	// All of these are published on the stream of the first one.
	const questions = 70
	ids := func(n int) event.ItemID { return event.ItemID(fmt.Sprintf("key:%q:%d", "ask add", n)) }
	var keys []int
	for n := 0; len(keys) < questions; n++ {
		if publish.AnswerStream(ids(n)) == publish.AnswerStream("key:\"ask add\":refused") {
			keys = append(keys, n)
		}
	}
	key := func(n int) workflow.SendOption { return workflow.IdempotencyKey(fmt.Sprint(n)) }
	for _, n := range keys {
		if v, err := add.Ask(w.ctx, run, n, key(n)); v != n || err != nil {
			t.Fatalf("got %d, %v, want %d", v, err, n)
		}
	}
	var askers sync.WaitGroup
	for _, n := range keys {
		askers.Go(func() {
			if v, err := add.Ask(w.ctx, run, -1, key(n)); v != n || err != nil {
				t.Errorf("asked again: got %d, %v, want %d", v, err, n)
			}
		})
	}
	askers.Go(func() {
		var refused *workflow.RefusedError
		if _, err := add.Ask(w.ctx, run, 1, no); !errors.As(err, &refused) || refused.Ended {
			t.Errorf("what was refused, asked again: got %v, want a *RefusedError", err)
		}
	})
	askers.Wait()
	w.send(run, 1)
	result(w, run)
}
