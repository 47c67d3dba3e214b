package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW8_AnAttemptThatHasEndedBeginsToWriteNothing(t *testing.T) {
	w := flowtest.NewMemory(t)
	left := make(chan context.Context, 1)
	w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
		if _, err := flowtest.Work1.Call(ctx, n); err != nil {
			return 0, err
		}
		return flowtest.Numbers.Receive(ctx)
	}), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		left <- context.WithoutCancel(ctx)
		return n, nil
	}))
	run := flowtest.Start(w, flowtest.Streams, 1)
	w.Reach(run, event.WaitCreated, 1)
	late := <-left
	for what, err := range map[string]error{"Write": step.Write(late, flowtest.Tokens, 1), "Close": step.Close(late, flowtest.Tokens)} {
		if err == nil || !flowtest.ContainsAll(err.Error(), "attempt has ended") {
			t.Errorf("%s after the end of the attempt: got %v, want an error that says so", what, err)
		}
	}
	w.Send(run, 1)
	_ = flowtest.Result(w, run)
	flowtest.Same(t, "a reader", w.Chunks(run), nil)
}

func TestFLOW7_AForkPublishesWhatItHasTakenOverOnce(t *testing.T) {
	forked := flowtest.Flow[int, int]("forked-once")
	note := flowtest.AStep[int, int]("note", shim.Policy{})
	w := flowtest.NewMemory(t)
	code := []flowtest.Binding{
		note.As(func(_ context.Context, n int) (int, error) { return n, nil }),
		flowtest.As(forked, func(ctx workflow.Context, _ int) (int, error) {
			flowtest.Level.Set(ctx, 1)
			flowtest.Level.Set(ctx, 2)
			if _, err := note.CallKey(ctx, "here", 1); err != nil {
				return 0, err
			}
			for range 2 {
				if _, err := flowtest.Numbers.Receive(ctx); err != nil {
					return 0, err
				}
			}
			flowtest.Level.Set(ctx, 3)
			return flowtest.Numbers.Receive(ctx)
		}),
	}
	first := w.Work(worker.Config{Parked: 1}, code...)
	run := flowtest.Start(w, forked, 0)
	w.Reach(run, event.WaitCreated, 1)
	fork, err := run.Fork(w.Ctx, "forked-once/test.note[here]")
	flowtest.Order(t, err)
	w.Reach(fork, event.WaitCreated, 1)
	w.Send(fork, 1) // the message causes a commit of a run that is in memory
	w.Reach(fork, event.WaitCreated, 2)
	if n := w.Published(fork, effects.ValueStream("level")); n != 1 {
		t.Errorf("after a commit: %d values were published, want the one that was taken over", n)
	}
	first.Stop()
	w.Work(worker.Config{}, code...) // the second worker replays the run
	w.Send(fork, 2)
	w.Reach(fork, event.ValueSet, 3)
	if n := w.Published(fork, effects.ValueStream("level")); n != 2 {
		t.Errorf("after a replay: %d values were published, want one more", n)
	}
	if v, _, err := flowtest.Level.Get(w.Ctx, fork); v != 3 || err != nil {
		t.Errorf("got %d, %v, want 3", v, err)
	}
}

func TestFLOW16_ARefusalIsToldOnce(t *testing.T) {
	w := flowtest.NewMemory(t)
	busy := flowtest.Flow[int, int]("busy-refuses")
	begun, release := make(chan struct{}, 3), make(chan struct{}, 3)
	w.Work(worker.Config{}, flowtest.As(busy, func(ctx workflow.Context, n int) (int, error) {
		flowtest.Add.Handle(ctx, func(int) error { return &flowtest.LimitError{Limit: n} }, func(_ workflow.Context, n int) (int, error) { return n, nil })
		for range 3 { // each step takes its own commits
			if _, err := flowtest.Slow.Call(ctx, n); err != nil {
				return 0, err
			}
		}
		return n, nil
	}), flowtest.Slow.As(func(_ context.Context, n int) (int, error) {
		begun <- struct{}{}
		<-release
		return n, nil
	}))
	run := flowtest.Start(w, busy, 1)
	w.Await("the first step", begun)
	if _, err := flowtest.Add.Ask(w.Ctx, run, 200, workflow.IdempotencyKey("no")); !errors.As(err, new(*flowtest.LimitError)) {
		t.Errorf("got %v, want a *limitError", err)
	}
	for range 2 {
		release <- struct{}{}
		w.Await("the next step", begun)
	}
	release <- struct{}{}
	_ = flowtest.Result(w, run)
	if n := w.Published(run, effects.AnswerStream(`key:"ask add":no`)); n != 1 {
		t.Errorf("the refusal was published %d times, want once", n)
	}
}

func TestFLOW16_AQuestionIsValidatedOnce(t *testing.T) {
	w := flowtest.NewMemory(t)
	counts := flowtest.Flow[int, int]("counts-validations")
	var calls atomic.Int64
	code := flowtest.As(counts, func(ctx workflow.Context, _ int) (int, error) {
		flowtest.Add.Handle(ctx, func(int) error {
			calls.Add(1)
			return nil
		}, func(_ workflow.Context, n int) (int, error) { return n, nil })
		return flowtest.Numbers.Receive(ctx)
	})
	first := w.Work(worker.Config{Parked: 1}, code)
	run := flowtest.Start(w, counts, 0)
	w.Reach(run, event.WaitCreated, 1)
	const questions = 3
	for n := range questions {
		if v, err := flowtest.Add.Ask(w.Ctx, run, n); v != n || err != nil {
			t.Errorf("got %d, %v, want %d", v, err, n)
		}
	}
	first.Stop()
	w.Work(worker.Config{}, code) // the second worker replays the run
	w.Send(run, 1)
	_ = flowtest.Result(w, run)
	if n := calls.Load(); n != questions {
		t.Errorf("%d questions were validated %d times", questions, n)
	}
}

// forgetful is a store that executes every delivery and loses every other answer. Only deliveries
// count: if reads counted as well, they could alternate with a sender's retries so that every
// answer to the sender is lost.
type forgetful struct {
	store.Store
	calls atomic.Int64
}

func (s *forgetful) Unwrap() store.Store { return s.Store }

func (s *forgetful) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	got, err := s.Store.Deliver(ctx, d)
	if s.calls.Add(1)%2 == 1 {
		return "", flowtest.ErrOutage
	}
	return got, err
}

func TestSTEP10_LostAnswersDoubleNoChunkOfAStepOnAnotherQueue(t *testing.T) {
	plain := flowtest.NewMemory(t)
	st := &forgetful{Store: plain.Store}
	w := *plain
	w.Store, w.Client = st, workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	const n = 6
	flowtest.Farm(&w, flowtest.Film, func(ctx context.Context, _ int) (string, error) {
		for i := range n {
			if err := flowtest.Writes(ctx, 20+i); err != nil {
				return "", err
			}
		}
		return "", step.Close(ctx, flowtest.Tokens)
	})
	run := flowtest.Start(&w, flowtest.Films, 1)
	var got []int
	for _, c := range w.Chunks(run) {
		got = append(got, c.Value)
	}
	if diff := cmp.Diff([]int{10, 20, 21, 22, 23, 24, 25}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lost := st.calls.Load() / 2; lost < n {
		t.Errorf("only %d answers were lost: the test proves nothing", lost)
	}
	flowtest.Order(t, flowtest.Numbers.Send(plain.Ctx, plain.Client.Run(run.ID()), 7))
	_ = flowtest.Result(&w, run)
}

func TestSTEP10_WhatAStepHasPostedIsPublishedAlsoByTheEndOfItsCaller(t *testing.T) {
	st := memstore.New()
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	begun, write, posted := make(chan struct{}), make(chan struct{}), make(chan error)
	none := flowtest.Gpu.As(func(context.Context, int) (string, error) { return "", flowtest.ErrBusy })
	code := flowtest.As(flowtest.Films, func(ctx workflow.Context, n int) (int, error) {
		workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return flowtest.Gpu.Call(ctx, n) })
		return flowtest.Numbers.Receive(ctx)
	})
	first := w.Work(worker.Config{Queues: []string{workflow.DefaultQueue}}, code, none)
	w.Work(worker.Config{Queues: []string{"gpu"}}, flowtest.Gpu.As(func(ctx context.Context, _ int) (string, error) {
		close(begun)
		<-write
		posted <- flowtest.Writes(ctx, 5)
		return "", nil
	}))
	run := flowtest.Start(w, flowtest.Films, 1)
	<-begun
	w.Reach(run, event.WaitCreated, 1)
	first.Stop()
	w.Send(run, 7) // the message ends the run
	close(write)   // the step writes the chunk after the end
	flowtest.Order(t, <-posted)
	w.Work(worker.Config{Queues: []string{workflow.DefaultQueue}}, code, none)
	if got := flowtest.Result(w, run); got != 7 {
		t.Errorf("got %d", got)
	}
	flowtest.Same(t, "a reader", w.Chunks(run), flowtest.By("films/go#1/test.gpu#1", 1, flowtest.Written(1, 5)))
}
