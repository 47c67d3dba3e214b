package streams_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// unwritable is a type that cannot be encoded.
type unwritable struct{ C chan int }

func TestFLOW8_AValueThatCannotBeStoredEndsTheRun(t *testing.T) {
	odd := workflow.NewStream[any]("odd")
	for name, tt := range map[string]struct {
		value any
		text  string
	}{
		"unencodable": {unwritable{}, "chan int"},
		"too large":   {strings.Repeat("x", 1100), "1102 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{MaxPayload: 1000})
			var after, deferred, undone bool
			w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
				workflow.Compensate(ctx, func(workflow.Context) error {
					undone = true
					return nil
				})
				defer func() { deferred = recover() == nil }()
				odd.Write(ctx, tt.value)
				after = true
				return n, nil
			}))
			run := flowtest.Start(w, flowtest.Streams, 1)
			err := flowtest.Failure(w, run)
			var payload *workflow.PayloadError
			if err.Code != event.CodePayload || !errors.As(err, &payload) || !flowtest.ContainsAll(err.Reason, "chunk of stream odd", tt.text) {
				t.Errorf("got %v, want a *PayloadError that says %s", err, tt.text)
			}
			if after || !deferred || !undone {
				t.Errorf("code behind the call ran: %t, deferred calls: %t, compensations: %t; want false, true, true", after, deferred, undone)
			}
		})
	}
}

func TestFLOW8_AStepIsToldThatAValueCannotBeStored(t *testing.T) {
	odd := workflow.NewStream[any]("odd")
	for name, value := range map[string]any{"unencodable": unwritable{}, "too large": strings.Repeat("x", 1100)} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{MaxPayload: 1000})
			w.Work(worker.Config{}, flowtest.As(flowtest.Streams, flowtest.Work1.Call), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
				return n, step.Write(ctx, odd, value)
			}))
			var payload *workflow.PayloadError
			err := flowtest.Failure(w, flowtest.Start(w, flowtest.Streams, 1))
			if !errors.As(err, &payload) || payload.What != "chunk of stream odd" || err.Code != event.CodePayload {
				t.Errorf("got %v, want a *PayloadError about the chunk", err)
			}
		})
	}
}

// greatest is a store that records the number of publishing commits, and the largest number of
// chunks in one commit.
type greatest struct {
	store.Store
	commits, chunks atomic.Int64
}

func (s *greatest) Unwrap() store.Store { return s.Store }

func (s *greatest) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	for i := range commits {
		n := int64(len(commits[i].Publish))
		s.chunks.Store(max(n, s.chunks.Load()))
		s.commits.Add(min(n, 1))
	}
	return s.Store.Commit(ctx, commits)
}

func TestFLOW8_CodeThatWritesVeryMuchIsCommittedInParts(t *testing.T) {
	for name, tt := range map[string]struct{ n, size, commits, chunks int }{
		"many":  {2500, 1, 3, 1000},
		"large": {6, 1 << 20, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			st := &greatest{Store: memstore.New()}
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{WarnPayload: 2 << 20})
			text := workflow.NewStream[string]("text")
			w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
				for range n {
					text.Write(ctx, strings.Repeat("x", tt.size))
				}
				return flowtest.Work1.Call(ctx, n)
			}), flowtest.Work1.As(func(_ context.Context, n int) (int, error) { return n, nil }))
			run := flowtest.Start(w, flowtest.Streams, tt.n)
			_ = flowtest.Result(w, run)
			n := uint64(0)
			for c, err := range text.Read(w.Ctx, run) {
				flowtest.Order(t, err)
				if n++; c.Index != n || len(c.Value) != tt.size {
					t.Fatalf("chunk %d has index %d and %d bytes", n, c.Index, len(c.Value))
				}
			}
			if n != uint64(tt.n) || st.commits.Load() != int64(tt.commits) || st.chunks.Load() != int64(tt.chunks) {
				t.Errorf("%d chunks in %d commits of at most %d, want %d in %d of %d", n, st.commits.Load(), st.chunks.Load(), tt.n, tt.commits, tt.chunks)
			}
		})
	}
}

func TestFLOW8_ADebuggedRunWritesOneChunkPerCommand(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
		flowtest.Tokens.Write(ctx, 1)
		flowtest.Tokens.Write(ctx, 2)
		flowtest.Tokens.Close(ctx)
		return n, nil
	}))
	run := flowtest.Start(w, flowtest.Streams, 1, workflow.WithDebug())
	for i, want := range []event.Type{event.StreamWritten, event.StreamWritten, event.StreamClosed} {
		w.Status(run, workflow.StatusPaused)
		if n := len(flowtest.Filter(w.Log(run), event.StreamWritten, event.StreamClosed)); n != i {
			t.Fatalf("%d operations after %d commands", n, i)
		}
		flowtest.Order(t, run.Step(w.Ctx))
		w.Reach(run, want, 1+i%2)
	}
	_ = flowtest.Result(w, run)
}

func TestFLOW8_MistakesPanicWithTheFix(t *testing.T) {
	for name, f := range map[string]func(){
		"want 1 to":      func() { workflow.NewStream[int]("") },
		"last chunk":     func() { workflow.KeepLast(0) },
		"NewStream":      func() { workflow.Stream[int]{}.Read(t.Context(), nil) },
		"outside of a":   func() { _ = step.Write(t.Context(), flowtest.Tokens, 1) },
		"Close was call": func() { _ = step.Close(t.Context(), flowtest.Tokens) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, name) {
					t.Errorf("got panic %q", text)
				}
			}()
			f()
		})
	}
	if flowtest.Tokens.Name() != "tokens" {
		t.Errorf("the name is %q", flowtest.Tokens.Name())
	}
}
