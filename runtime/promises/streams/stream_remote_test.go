package streams_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"

	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestSTEP10_AStepOnAnotherQueueWritesToTheStreamsOfItsCaller(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		flowtest.Farm(w, flowtest.Film, func(ctx context.Context, n int) (string, error) {
			if a := step.Attempt(ctx); a < n {
				return "", errors.Join(flowtest.Writes(ctx, 10*a+11), step.Close(ctx, flowtest.Tokens), flowtest.ErrBusy)
			}
			return "", errors.Join(flowtest.Writes(ctx, 30, 31), step.Close(ctx, flowtest.Tokens))
		})
		run := flowtest.Start(w, flowtest.Films, 2)
		key := "films/test.gpu#1"
		flowtest.Same(t, "a reader", w.Chunks(run), join(flowtest.Written(1, 10), flowtest.By(key, 1, flowtest.Written(2, 21)), flowtest.By(key, 2, flowtest.Written(3, 30, 31))))
		flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 7))
		_ = flowtest.Result(w, run)
		for _, e := range flowtest.Filter(w.Log(run), event.StreamWritten, event.StreamClosed) {
			if e.Payload != nil || e.Attempt > 0 && e.Key != key {
				t.Errorf("event %d: %s of %s with %d bytes, want the key of the step and no chunk", e.Seq, e.Type, e.Key, len(e.Payload))
			}
		}
	})
}

func TestSTEP10_AStepOnAnotherQueueIsToldThatTheStreamIsClosedOrTheCallerHasEnded(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun, ended := make(chan struct{}), make(chan struct{})
		errs := make(chan error, 2)
		ends := flowtest.As(flowtest.Films, func(ctx workflow.Context, n int) (int, error) {
			flowtest.Tokens.Close(ctx)
			workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return flowtest.Gpu.Call(ctx, n) })
			return flowtest.Numbers.Receive(ctx)
		})
		flowtest.Farm(w, ends, func(ctx context.Context, n int) (string, error) {
			close(begun)
			errs <- flowtest.Writes(ctx, 1)
			<-ended
			errs <- step.Write(context.WithoutCancel(ctx), workflow.NewStream[int]("other"), 1)
			return "", nil
		})
		run := flowtest.Start(w, flowtest.Films, 1)
		<-begun
		if err := <-errs; !errors.Is(err, workflow.ErrStreamClosed) {
			t.Errorf("got %v, want ErrStreamClosed", err)
		}
		flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 7))
		_ = flowtest.Result(w, run)
		close(ended)
		if err := <-errs; !errors.Is(err, workflow.ErrClaimLost) && !errors.Is(err, workflow.ErrCanceled) { // the step may notice the cancel before the loss of the claim
			t.Errorf("got %v, want ErrClaimLost", err)
		}
	})
}

// lateChunk is a store that delivers a chunk to the inbox of a run just before the run ends.
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
	batch := effects.Batch{Bodies: [][]byte{effects.AppendChunk(nil, &effects.Chunk{Value: []byte("7"), Run: "r", Key: "k", Attempt: 1})}}
	body, err := event.AppendItem(nil, &event.Event{Type: event.StreamWritten, Name: "tokens", Key: "k", Attempt: 1, Payload: batch.Encode()})
	flowtest.Order(t, err)
	st := &lateChunk{Store: memstore.New(), item: store.Item{ID: "late", Scope: store.ScopeRun, Body: body}}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
		flowtest.Tokens.Write(ctx, n)
		return n, nil
	}))
	run := flowtest.Start(w, flowtest.Streams, 1)
	_ = flowtest.Result(w, run)
	var values []int
	for c, err := range flowtest.Tokens.Read(w.Ctx, run) {
		flowtest.Order(t, err)
		values = append(values, c.Value)
	}
	if diff := cmp.Diff([]int{1, 7}, values); diff != "" {
		t.Errorf("the stream holds (-want +got):\n%s", diff)
	}
	log := w.Log(run)
	if last := log[len(log)-1]; len(last.Unread) > 0 {
		t.Errorf("the last event says that %v was not taken", last.Unread)
	}
}
