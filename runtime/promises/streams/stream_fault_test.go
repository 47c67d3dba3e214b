package streams_test

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
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW8_LostAnswersLoseAndDoubleNoChunk(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, plain *flowtest.World) {
		st := &flowtest.Flaky{Store: plain.Store}
		w := *plain
		w.Store, w.Client = st, flowtest.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
		const n = 12
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, flowtest.Work1.Call), flowtest.Work1.As(func(ctx context.Context, _ int) (int, error) {
			for i := range n {
				if err := flowtest.Writes(ctx, i); err != nil {
					return 0, err
				}
			}
			return n, nil
		}))
		run := flowtest.Start(&w, flowtest.Streams, n)
		var want []int
		var got []int
		for i, c := range w.Chunks(run) {
			got, want = append(got, c.Value), append(want, i)
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != n {
			t.Errorf("%d chunks (-want +got):\n%s", len(got), diff)
		}
		if st.Losses.Load() < n {
			t.Errorf("only %d answers were lost: the test proves nothing", st.Losses.Load())
		}
	})
}

func TestRUN6_FollowersOfEventsWaitForAnOutageToEnd(t *testing.T) {
	plain := flowtest.NewMemory(t)
	plain.Work(worker.Config{}, flowtest.DoSteps, flowtest.DoWork1)
	w := *plain
	st := &flowtest.Flaky{Store: plain.Store}
	w.Store, w.Client = st, flowtest.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	run := flowtest.Start(plain, flowtest.Steps, 20)
	if diff := cmp.Diff(flowtest.UpTo(1, 2+3*20+1), w.Seqs(run)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRUN3_ResultWaitsForAnOutageToEnd(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.DoSteps, flowtest.DoWork1)
		st := &flowtest.Absent{Flaky: flowtest.Flaky{Store: w.Store}}
		client := flowtest.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
		run := flowtest.Start(w, flowtest.Steps, 20)
		if n, err := flowtest.Steps.Get(client, run.ID()).Result(w.Ctx); n != 20 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
		if st.Losses.Load() == 0 {
			t.Error("no answer was lost: the test proves nothing")
		}
	})
}

// TestRUN6_ReadersOfStreamsReconnectWhenTheServerIsBack proves that readers of streams continue
// after the server was killed and restarted.
func TestRUN6_ReadersOfStreamsReconnectWhenTheServerIsBack(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	st, err := redisstore.Open(server.URL())
	flowtest.Order(t, err)
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.TakesLong()
	w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			flowtest.Tokens.Write(ctx, i)
			if _, err := flowtest.Numbers.Receive(ctx); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	run := flowtest.Start(w, flowtest.Streams, 3)
	got := make(chan []flowtest.Chunk)
	first := make(chan struct{}, 3)
	for range 3 {
		go func() {
			var all []flowtest.Chunk
			for c, err := range flowtest.Tokens.Read(w.Ctx, run) {
				if err != nil {
					t.Error(err)
				}
				if all = append(all, flowtest.Chunk{Index: c.Index, Value: c.Value}); len(all) == 1 {
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
		w.Eventually("a message is accepted", func() bool {
			return flowtest.Numbers.Send(w.Ctx, run, i, workflow.IdempotencyKey(string(rune('a'+i)))) == nil
		})
	}
	for range 3 {
		flowtest.Same(t, "a reader", <-got, flowtest.Written(1, 0, 1, 2))
	}
}

// rewound is a store in which a stream loses its last two chunks after the first read.
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
	plain := flowtest.NewMemory(t)
	plain.Work(worker.Config{}, five)
	run := flowtest.Start(plain, flowtest.Streams, 5)
	plain.Reach(run, event.WaitCreated, 1)
	w := *plain
	w.Client = flowtest.NewClient(&rewound{Store: plain.Store}, workflow.ClientConfig{})
	got, err := w.Read(w.Client.Run(run.ID()))
	var lag *workflow.LagError
	if len(got) != 5 || !errors.As(err, &lag) || lag.Wanted != 6 || lag.Next != 4 || !flowtest.ContainsAll(lag.Error(), "chunk 5", "lost", "chunk 4") {
		t.Errorf("got %d chunks and %v, want a *LagError that says where to go on", len(got), err)
	}
}

// fenceless is a store that refuses the publications of steps with ErrFenced while lost is set.
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
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	type end struct{ err, cause error }
	ended := make(chan end, 1)
	w.Work(worker.Config{}, flowtest.As(flowtest.Streams, flowtest.Work1.Call), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		if step.Attempt(ctx) > 1 {
			return n, flowtest.Writes(ctx, 3)
		}
		flowtest.Order(t, flowtest.Writes(ctx, 1))
		st.lost.Store(true)
		err := flowtest.Writes(ctx, 2)
		select {
		case <-ctx.Done():
		case <-w.Ctx.Done(): // the test has run out of time
		}
		ended <- end{err, context.Cause(ctx)}
		st.lost.Store(false)
		return 0, err
	}))
	run := flowtest.Start(w, flowtest.Streams, 1)
	e := <-ended
	if !errors.Is(e.err, workflow.ErrClaimLost) || !errors.Is(e.cause, workflow.ErrClaimLost) {
		t.Errorf("Write returned %v, the context ended with %v; want ErrClaimLost", e.err, e.cause)
	}
	_ = flowtest.Result(w, run)
	flowtest.Same(t, "a reader", w.Chunks(run), join(flowtest.By("streams/test.work1#1", 1, flowtest.Written(1, 1)), flowtest.By("streams/test.work1#1", 2, flowtest.Written(2, 3))))
}

func TestFLOW8_AStepIsToldThatTheRunHasClosedTheStream(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		closed := make(chan struct{})
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
			f := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.Work1.Call(ctx, n) })
			if _, err := flowtest.Numbers.Receive(ctx); err != nil {
				return 0, err
			}
			flowtest.Tokens.Close(ctx)
			return f.Get(ctx)
		}), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			flowtest.Order(t, flowtest.Writes(ctx, 1))
			<-closed
			if err := flowtest.Writes(ctx, 2); !errors.Is(err, workflow.ErrStreamClosed) {
				t.Errorf("got %v, want ErrStreamClosed", err)
			}
			other := workflow.NewStream[int]("other")
			return n, step.Write(ctx, other, 3)
		}))
		run := flowtest.Start(w, flowtest.Streams, 1)
		for range flowtest.Tokens.Read(w.Ctx, run) { // waits until the step has written its chunk
			break
		}
		flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 1))
		w.Reach(run, event.StreamClosed, 1)
		close(closed)
		_ = flowtest.Result(w, run)
		flowtest.Same(t, "a reader", w.Chunks(run), flowtest.By("streams/go#1/test.work1#1", 1, flowtest.Written(1, 1)))
	})
}

// deaf is a store that answers publications only after the test has closed hears.
type deaf struct {
	store.Store
	asked chan int // number of chunks in each call
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
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	left := make(chan context.Context, 1)
	w.Work(worker.Config{}, flowtest.As(flowtest.Streams, flowtest.Work1.Call), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		short, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		if err := step.Write(short, flowtest.Tokens, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Write returned %v, want the end of its context", err)
		}
		if err := step.Write(short, flowtest.Tokens, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Write with a context that has ended returned %v", err)
		}
		left <- context.WithoutCancel(ctx)
		return n, nil // the worker abandons requests in progress
	}))
	run := flowtest.Start(w, flowtest.Streams, 1)
	_ = flowtest.Result(w, run)
	late := <-left
	if err := step.Write(late, flowtest.Tokens, 3); err == nil || !flowtest.ContainsAll(err.Error(), "attempt has ended") {
		t.Errorf("a write after the end of the attempt: %v", err)
	}
	if err := step.Close(late, flowtest.Tokens); err == nil {
		t.Error("a close after the end of the attempt has no error")
	}
	flowtest.Same(t, "a reader", w.Chunks(run), nil)
}
