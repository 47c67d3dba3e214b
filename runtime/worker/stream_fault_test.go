package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var errOutage = errors.New("the store does not answer")

// flaky does what it is asked to do with streams and logs, and loses every other
// answer, also that of questions.
type flaky struct {
	store.Store
	calls  atomic.Int64
	losses atomic.Int64
}

func (s *flaky) Unwrap() store.Store { return s.Store }

func (s *flaky) lose(err error) error {
	if s.calls.Add(1)%2 == 0 {
		return err
	}
	s.losses.Add(1)
	return errOutage
}

func (s *flaky) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	return s.lose(s.Store.Publish(ctx, run, fence, chunks))
}

func (s *flaky) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	page, err := s.Store.ReadStream(ctx, r)
	if err := s.lose(err); err != nil {
		return store.StreamPage{}, err
	}
	return page, err
}

func (s *flaky) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	return s.lose(s.Store.AwaitStream(ctx, run, stream, after))
}

func (s *flaky) Watch(ctx context.Context, run event.RunID, n uint64) error {
	return s.lose(s.Store.Watch(ctx, run, n))
}

func TestFLOW8_LostAnswersLoseAndDoubleNoChunk(t *testing.T) {
	onEachStore(t, func(t *testing.T, plain *world) {
		st := &flaky{Store: plain.store}
		w := *plain
		w.store, w.client = st, workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
		const n = 12
		w.work(worker.Config{}, as(streams, work1.Call), work1.as(func(ctx context.Context, _ int) (int, error) {
			for i := range n {
				if err := writes(ctx, i); err != nil {
					return 0, err
				}
			}
			return n, nil
		}))
		run := start(&w, streams, n)
		var want []int
		var got []int
		for i, c := range w.chunks(run) {
			got, want = append(got, c.Value), append(want, i)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != n {
			t.Errorf("%d chunks (-want +got):\n%s", len(got), diff)
		}
		if st.losses.Load() < n {
			t.Errorf("only %d answers were lost: the test proves nothing", st.losses.Load())
		}
	})
}

func TestRUN6_FollowersOfEventsWaitForAnOutageToEnd(t *testing.T) {
	plain := newMemory(t)
	plain.work(worker.Config{}, doSteps, doWork1)
	w := *plain
	st := &flaky{Store: plain.store}
	w.store, w.client = st, workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	run := start(plain, steps, 20)
	if diff := cmp.Diff(upTo(1, 2+3*20+1), w.seqs(run)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRUN3_ResultWaitsForAnOutageToEnd(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, doSteps, doWork1)
		st := &absent{flaky{Store: w.store}}
		client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
		run := start(w, steps, 20)
		if n, err := steps.Get(client, run.ID()).Result(w.ctx); n != 20 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		if st.losses.Load() == 0 {
			t.Error("no answer was lost: the test proves nothing")
		}
	})
}

// A server that is killed and restarted while readers follow.
func TestRUN6_ReadersOfStreamsReconnectWhenTheServerIsBack(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	st, err := redisstore.Open(server.URL())
	order(t, err)
	w := newWorld(t, st, workflow.ClientConfig{})
	w.takesLong()
	w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			tokens.Write(ctx, i)
			if _, err := numbers.Receive(ctx); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	run := start(w, streams, 3)
	got := make(chan []chunk)
	first := make(chan struct{}, 3)
	for range 3 {
		go func() {
			var all []chunk
			for c, err := range tokens.Read(w.ctx, run) {
				if err != nil {
					t.Error(err)
				}
				if all = append(all, chunk{Index: c.Index, Value: c.Value}); len(all) == 1 {
					first <- struct{}{}
				}
			}
			got <- all
		}()
	}
	for range 3 {
		<-first
	}
	server.Kill()
	server.Restart(t)
	for i := range 3 {
		w.eventually("a message is accepted", func() bool {
			return numbers.Send(w.ctx, run, i, workflow.IdempotencyKey(string(rune('a'+i)))) == nil
		})
	}
	for range 3 {
		same(t, "a reader", <-got, written(1, 0, 1, 2))
	}
}

// rewound shows a stream that has lost its end, once it was read.
type rewound struct {
	store.Store
	lost atomic.Bool
}

func (s *rewound) Unwrap() store.Store { return s.Store }

func (s *rewound) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	page, err := s.Store.ReadStream(ctx, r)
	if s.lost.Swap(true) {
		page.Last -= 2
		page.Chunks = nil
	}
	return page, err
}

func (s *rewound) AwaitStream(context.Context, event.RunID, string, uint64) error { return nil }

func TestRUN15_AReaderIsToldThatTheStoreHasLostChunks(t *testing.T) {
	plain := newMemory(t)
	plain.work(worker.Config{}, five)
	run := start(plain, streams, 5)
	plain.reach(run, event.WaitCreated, 1)
	w := *plain
	w.client = workflow.NewClient(&rewound{Store: plain.store}, workflow.ClientConfig{})
	got, err := w.read(w.client.Run(run.ID()))
	var lag *workflow.LagError
	if len(got) != 5 || !errors.As(err, &lag) || lag.Wanted != 6 || lag.Next != 4 || !containsAll(lag.Error(), "chunk 5", "lost", "chunk 4") {
		t.Errorf("got %d chunks and %v, want a *LagError that says where to go on", len(got), err)
	}
}

// fenceless fences the publications of steps off from some moment on.
type fenceless struct {
	store.Store
	lost atomic.Bool
}

func (s *fenceless) Unwrap() store.Store { return s.Store }

func (s *fenceless) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	if s.lost.Load() {
		return store.ErrFenced
	}
	return s.Store.Publish(ctx, run, fence, chunks)
}

func TestFLOW8_AStepWhoseClaimIsLostIsToldSoAndStopped(t *testing.T) {
	st := &fenceless{Store: memstore.New()}
	w := newWorld(t, st, workflow.ClientConfig{})
	type end struct{ err, cause error }
	ended := make(chan end, 1)
	w.work(worker.Config{}, as(streams, work1.Call), work1.as(func(ctx context.Context, n int) (int, error) {
		if step.Attempt(ctx) > 1 {
			return n, writes(ctx, 3)
		}
		order(t, writes(ctx, 1))
		st.lost.Store(true)
		err := writes(ctx, 2)
		select {
		case <-ctx.Done():
		case <-w.ctx.Done(): // too late
		}
		ended <- end{err, context.Cause(ctx)}
		st.lost.Store(false)
		return 0, err
	}))
	run := start(w, streams, 1)
	e := <-ended
	if !errors.Is(e.err, workflow.ErrClaimLost) || !errors.Is(e.cause, workflow.ErrClaimLost) {
		t.Errorf("Write returned %v, the context ended with %v; want ErrClaimLost", e.err, e.cause)
	}
	_ = result(w, run)
	same(t, "a reader", w.chunks(run), join(by("streams/test.work1#1", 1, written(1, 1)), by("streams/test.work1#1", 2, written(2, 3))))
}

func TestFLOW8_AStepIsToldThatTheRunHasClosedTheStream(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		closed := make(chan struct{})
		w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
			f := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return work1.Call(ctx, n) })
			if _, err := numbers.Receive(ctx); err != nil {
				return 0, err
			}
			tokens.Close(ctx)
			return f.Get(ctx)
		}), work1.as(func(ctx context.Context, n int) (int, error) {
			order(t, writes(ctx, 1))
			<-closed
			if err := writes(ctx, 2); !errors.Is(err, workflow.ErrStreamClosed) {
				t.Errorf("got %v, want ErrStreamClosed", err)
			}
			other := workflow.NewStream[int]("other")
			return n, step.Write(ctx, other, 3)
		}))
		run := start(w, streams, 1)
		for range tokens.Read(w.ctx, run) { // the chunk of the step is there
			break
		}
		order(t, numbers.Send(w.ctx, run, 1))
		w.reach(run, event.StreamClosed, 1)
		close(closed)
		_ = result(w, run)
		same(t, "a reader", w.chunks(run), by("streams/go#1/test.work1#1", 1, written(1, 1)))
	})
}

// deaf does not answer publications until it is told to.
type deaf struct {
	store.Store
	asked chan int // chunks of each call
	hears chan struct{}
}

func (s *deaf) Unwrap() store.Store { return s.Store }

func (s *deaf) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	s.asked <- len(chunks)
	select {
	case <-s.hears:
		return s.Store.Publish(ctx, run, fence, chunks)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestFLOW8_WhoWaitsForAWriteIsFreeWhenItsContextEnds(t *testing.T) {
	st := &deaf{Store: memstore.New(), asked: make(chan int, 1000), hears: make(chan struct{})}
	w := newWorld(t, st, workflow.ClientConfig{})
	left := make(chan context.Context, 1)
	w.work(worker.Config{}, as(streams, work1.Call), work1.as(func(ctx context.Context, n int) (int, error) {
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := step.Write(short, tokens, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Write returned %v, want the end of its context", err)
		}
		if err := step.Write(short, tokens, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Write with a context that has ended returned %v", err)
		}
		left <- context.WithoutCancel(ctx)
		return n, nil // what is under way is given up
	}))
	run := start(w, streams, 1)
	_ = result(w, run)
	late := <-left
	if err := step.Write(late, tokens, 3); err == nil || !containsAll(err.Error(), "attempt has ended") {
		t.Errorf("a write after the end of the attempt: %v", err)
	}
	if err := step.Close(late, tokens); err == nil {
		t.Error("a close after the end of the attempt has no error")
	}
	same(t, "a reader", w.chunks(run), nil)
}
