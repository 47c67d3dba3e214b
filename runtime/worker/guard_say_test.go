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
	"github.com/flowgen/flowgen/runtime/internal/publish"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// published returns how many chunks were ever published on a stream.
func (w *world) published(run follows, stream string) uint64 {
	w.t.Helper()
	page, err := w.store.ReadStream(w.ctx, store.ReadStream{Run: run.ID(), Stream: stream, Limit: -1})
	order(w.t, err)
	return page.Last
}

func TestFLOW8_AnAttemptThatHasEndedBeginsToWriteNothing(t *testing.T) {
	w := newMemory(t)
	left := make(chan context.Context, 1)
	w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
		if _, err := work1.Call(ctx, n); err != nil {
			return 0, err
		}
		return numbers.Receive(ctx)
	}), work1.as(func(ctx context.Context, n int) (int, error) {
		left <- context.WithoutCancel(ctx)
		return n, nil
	}))
	run := start(w, streams, 1)
	w.reach(run, event.WaitCreated, 1)
	late := <-left
	for what, err := range map[string]error{"Write": step.Write(late, tokens, 1), "Close": step.Close(late, tokens)} {
		if err == nil || !containsAll(err.Error(), "attempt has ended") {
			t.Errorf("%s after the end of the attempt: got %v, want an error that says so", what, err)
		}
	}
	w.send(run, 1)
	_ = result(w, run)
	same(t, "a reader", w.chunks(run), nil)
}

func TestFLOW7_AForkPublishesWhatItHasTakenOverOnce(t *testing.T) {
	forked := flow[int, int]("forked-once")
	note := aStep[int, int]("note", shim.Policy{})
	w := newMemory(t)
	code := []binding{
		note.as(func(_ context.Context, n int) (int, error) { return n, nil }),
		as(forked, func(ctx workflow.Context, _ int) (int, error) {
			level.Set(ctx, 1)
			level.Set(ctx, 2)
			if _, err := note.CallKey(ctx, "here", 1); err != nil {
				return 0, err
			}
			for range 2 {
				if _, err := numbers.Receive(ctx); err != nil {
					return 0, err
				}
			}
			level.Set(ctx, 3)
			return numbers.Receive(ctx)
		}),
	}
	first := w.work(worker.Config{Parked: 1}, code...)
	run := start(w, forked, 0)
	w.reach(run, event.WaitCreated, 1)
	fork, err := run.Fork(w.ctx, "forked-once/test.note[here]")
	order(t, err)
	w.reach(fork, event.WaitCreated, 1)
	w.send(fork, 1) // a commit of a run that is in memory
	w.reach(fork, event.WaitCreated, 2)
	if n := w.published(fork, publish.ValueStream("level")); n != 1 {
		t.Errorf("after a commit: %d values were published, want the one that was taken over", n)
	}
	first.stop()
	w.work(worker.Config{}, code...) // replays
	w.send(fork, 2)
	w.reach(fork, event.ValueSet, 3)
	if n := w.published(fork, publish.ValueStream("level")); n != 2 {
		t.Errorf("after a replay: %d values were published, want one more", n)
	}
	if v, _, err := level.Get(w.ctx, fork); v != 3 || err != nil {
		t.Errorf("got %d, %v, want 3", v, err)
	}
}

func TestFLOW16_ARefusalIsToldOnce(t *testing.T) {
	w := newMemory(t)
	busy := flow[int, int]("busy-refuses")
	begun, release := make(chan struct{}, 3), make(chan struct{}, 3)
	w.work(worker.Config{}, as(busy, func(ctx workflow.Context, n int) (int, error) {
		add.Handle(ctx, func(int) error { return &limitError{n} }, func(_ workflow.Context, n int) (int, error) { return n, nil })
		for range 3 { // each is a commit
			if _, err := slow.Call(ctx, n); err != nil {
				return 0, err
			}
		}
		return n, nil
	}), slow.as(func(_ context.Context, n int) (int, error) {
		begun <- struct{}{}
		<-release
		return n, nil
	}))
	run := start(w, busy, 1)
	w.await("the first step", begun)
	if _, err := add.Ask(w.ctx, run, 200, workflow.IdempotencyKey("no")); !errors.As(err, new(*limitError)) {
		t.Errorf("got %v, want a *limitError", err)
	}
	for range 2 {
		release <- struct{}{}
		w.await("the next step", begun)
	}
	release <- struct{}{}
	_ = result(w, run)
	if n := w.published(run, publish.AnswerStream(`key:"ask add":no`)); n != 1 {
		t.Errorf("the refusal was published %d times, want once", n)
	}
}

func TestFLOW16_AQuestionIsValidatedOnce(t *testing.T) {
	w := newMemory(t)
	counts := flow[int, int]("counts-validations")
	var calls atomic.Int64
	code := as(counts, func(ctx workflow.Context, _ int) (int, error) {
		add.Handle(ctx, func(int) error {
			calls.Add(1)
			return nil
		}, func(_ workflow.Context, n int) (int, error) { return n, nil })
		return numbers.Receive(ctx)
	})
	first := w.work(worker.Config{Parked: 1}, code)
	run := start(w, counts, 0)
	w.reach(run, event.WaitCreated, 1)
	const questions = 3
	for n := range questions {
		if v, err := add.Ask(w.ctx, run, n); v != n || err != nil {
			t.Errorf("got %d, %v, want %d", v, err, n)
		}
	}
	first.stop()
	w.work(worker.Config{}, code) // replays
	w.send(run, 1)
	_ = result(w, run)
	if n := calls.Load(); n != questions {
		t.Errorf("%d questions were validated %d times", questions, n)
	}
}

// forgetful delivers what it is told to, and loses every other answer. It counts those
// alone: if readers counted, too, they could take turns with a sender that tries again,
// so that all of its answers were lost.
type forgetful struct {
	store.Store
	calls atomic.Int64
}

func (s *forgetful) Unwrap() store.Store { return s.Store }

func (s *forgetful) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	got, err := s.Store.Deliver(ctx, d)
	if s.calls.Add(1)%2 == 1 {
		return "", errOutage
	}
	return got, err
}

func TestSTEP10_LostAnswersDoubleNoChunkOfAStepOnAnotherQueue(t *testing.T) {
	plain := newMemory(t)
	st := &forgetful{Store: plain.store}
	w := *plain
	w.store, w.client = st, workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	const n = 6
	farm(&w, film, func(ctx context.Context, _ int) (string, error) {
		for i := range n {
			if err := writes(ctx, 20+i); err != nil {
				return "", err
			}
		}
		return "", step.Close(ctx, tokens)
	})
	run := start(&w, films, 1)
	var got []int
	for _, c := range w.chunks(run) {
		got = append(got, c.Value)
	}
	if diff := cmp.Diff([]int{10, 20, 21, 22, 23, 24, 25}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if lost := st.calls.Load() / 2; lost < n {
		t.Errorf("only %d answers were lost: the test proves nothing", lost)
	}
	order(t, numbers.Send(plain.ctx, plain.client.Run(run.ID()), 7))
	_ = result(&w, run)
}

func TestSTEP10_WhatAStepHasPostedIsPublishedAlsoByTheEndOfItsCaller(t *testing.T) {
	st := memstore.New()
	w := newWorld(t, st, workflow.ClientConfig{})
	begun, write, posted := make(chan struct{}), make(chan struct{}), make(chan error)
	none := gpu.as(func(context.Context, int) (string, error) { return "", errBusy })
	code := as(films, func(ctx workflow.Context, n int) (int, error) {
		workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return gpu.Call(ctx, n) })
		return numbers.Receive(ctx)
	})
	first := w.work(worker.Config{Queues: []string{workflow.DefaultQueue}}, code, none)
	w.work(worker.Config{Queues: []string{"gpu"}}, gpu.as(func(ctx context.Context, _ int) (string, error) {
		close(begun)
		<-write
		posted <- writes(ctx, 5)
		return "", nil
	}))
	run := start(w, films, 1)
	<-begun
	w.reach(run, event.WaitCreated, 1)
	first.stop()
	w.send(run, 7) // ends the run
	close(write)   // the chunk comes after that
	order(t, <-posted)
	w.work(worker.Config{Queues: []string{workflow.DefaultQueue}}, code, none)
	if got := result(w, run); got != 7 {
		t.Errorf("got %d", got)
	}
	same(t, "a reader", w.chunks(run), by("films/go#1/test.gpu#1", 1, written(1, 5)))
}
