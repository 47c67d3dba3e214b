package worker_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	wire "github.com/flowgen/flowgen/runtime/internal/chunk"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	films = flow[int, int]("films")
	film  = as(films, func(ctx workflow.Context, n int) (int, error) {
		tokens.Write(ctx, 10)
		_, err := gpu.Call(ctx, n)
		if err != nil {
			return 0, err
		}
		return numbers.Receive(ctx)
	})
)

func TestSTEP10_AStepOnAnotherQueueWritesToTheStreamsOfItsCaller(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		farm(w, film, func(ctx context.Context, n int) (string, error) {
			if a := step.Attempt(ctx); a < n {
				return "", errors.Join(writes(ctx, 10*a+11), step.Close(ctx, tokens), errBusy)
			}
			return "", errors.Join(writes(ctx, 30, 31), step.Close(ctx, tokens))
		})
		run := start(w, films, 2)
		key := "films/test.gpu#1"
		same(t, "a reader", w.chunks(run), join(written(1, 10), by(key, 1, written(2, 21)), by(key, 2, written(3, 30, 31))))
		order(t, numbers.Send(w.ctx, run, 7))
		_ = result(w, run)
		for _, e := range filter(w.log(run), event.StreamWritten, event.StreamClosed) {
			if e.Payload != nil || e.Attempt > 0 && e.Key != key {
				t.Errorf("event %d: %s of %s with %d bytes, want the key of the step and no chunk", e.Seq, e.Type, e.Key, len(e.Payload))
			}
		}
	})
}

func TestSTEP10_AStepOnAnotherQueueIsToldThatTheStreamIsClosedOrTheCallerHasEnded(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		begun, ended := make(chan struct{}), make(chan struct{})
		errs := make(chan error, 2)
		ends := as(films, func(ctx workflow.Context, n int) (int, error) {
			tokens.Close(ctx)
			workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return gpu.Call(ctx, n) })
			return numbers.Receive(ctx)
		})
		farm(w, ends, func(ctx context.Context, n int) (string, error) {
			close(begun)
			errs <- writes(ctx, 1)
			<-ended
			errs <- step.Write(context.WithoutCancel(ctx), workflow.NewStream[int]("other"), 1)
			return "", nil
		})
		run := start(w, films, 1)
		<-begun
		if err := <-errs; !errors.Is(err, workflow.ErrStreamClosed) {
			t.Errorf("got %v, want ErrStreamClosed", err)
		}
		order(t, numbers.Send(w.ctx, run, 7))
		_ = result(w, run)
		close(ended)
		if err := <-errs; !errors.Is(err, workflow.ErrClaimLost) && !errors.Is(err, workflow.ErrCanceled) { // the cancel may be faster
			t.Errorf("got %v, want ErrClaimLost", err)
		}
	})
}

// lateChunk puts a chunk into the inbox of a run just before that ends.
type lateChunk struct {
	store.Store
	item store.Item
	once sync.Once
}

func (s *lateChunk) Unwrap() store.Store { return s.Store }

func (s *lateChunk) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	var err error
	for _, c := range commits {
		if c.Effect == store.EffectFinish {
			s.once.Do(func() { _, err = s.Deliver(ctx, store.Deliver{Run: c.Run, Item: s.item}) })
		}
	}
	if err != nil {
		return nil, err
	}
	return s.Store.Commit(ctx, commits)
}

func TestSTEP10_ChunksThatCameWhenTheCodeHadEndedAreReadAllTheSame(t *testing.T) {
	batch := wire.Batch{Bodies: [][]byte{wire.Append(nil, &wire.Chunk{Value: []byte("7"), Run: "r", Key: "k", Attempt: 1})}}
	body, err := event.AppendItem(nil, &event.Event{Type: event.StreamWritten, Name: "tokens", Key: "k", Attempt: 1, Payload: batch.Encode()})
	order(t, err)
	st := &lateChunk{Store: memstore.New(), item: store.Item{ID: "late", Scope: store.ScopeRun, Body: body}}
	w := newWorld(t, st, workflow.ClientConfig{})
	w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
		tokens.Write(ctx, n)
		return n, nil
	}))
	run := start(w, streams, 1)
	_ = result(w, run)
	var values []int
	for c, err := range tokens.Read(w.ctx, run) {
		order(t, err)
		values = append(values, c.Value)
	}
	if diff := cmp.Diff([]int{1, 7}, values); diff != "" {
		t.Errorf("the stream holds (-want +got):\n%s", diff)
	}
	log := w.log(run)
	if last := log[len(log)-1]; len(last.Unread) > 0 {
		t.Errorf("the last event says that %v was not taken", last.Unread)
	}
}
