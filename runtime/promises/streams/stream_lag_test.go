package streams_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var latest = workflow.NewStream[int]("tokens", workflow.KeepLast(3))

func TestRUN15_AReaderIsToldThatItsNextChunkOfAStreamIsNotKept(t *testing.T) {
	for name, code := range map[string]func(ctx workflow.Context, n int) (int, error){
		"the run writes": func(ctx workflow.Context, n int) (int, error) {
			for i := range n {
				latest.Write(ctx, i)
			}
			return n, nil
		},
		"a step writes": flowtest.Work1.Call,
	} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				w.Work(worker.Config{}, flowtest.As(flowtest.Streams, code), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
					for i := range n {
						if err := step.Write(ctx, latest, i); err != nil {
							return 0, err
						}
					}
					return n, nil
				}))
				run := flowtest.Start(w, flowtest.Streams, 10)
				_ = flowtest.Result(w, run)
				values := func(opts ...workflow.ReadOption) (all []int, err error) {
					for c, err := range latest.Read(w.Ctx, run, opts...) {
						if err != nil {
							return all, err
						}
						all = append(all, c.Value)
					}
					return all, nil
				}
				got, err := values(workflow.From(2))
				var lag *workflow.LagError
				if len(got) > 0 || !errors.As(err, &lag) || *lag != (workflow.LagError{Run: run.ID(), Stream: "tokens", Wanted: 2, Next: 8}) {
					t.Fatalf("from 2: got %v, %v", got, err)
				}
				for from, opts := range map[string][]workflow.ReadOption{
					"where the error says": {workflow.From(lag.Next)}, "the start": nil, "the end": {workflow.FromEnd(20)},
				} {
					if got, err := values(opts...); err != nil || !cmp.Equal(got, []int{7, 8, 9}) {
						t.Errorf("from %s: got %v, %v, want the last three", from, got, err)
					}
				}
			})
		})
	}
}

// TestRUN15_ASlowReaderIsToldThatItFellBehindAStream proves that a reader gets a LagError if it is
// slower than the writers of a stream that keeps few chunks.
func TestRUN15_ASlowReaderIsToldThatItFellBehindAStream(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
			latest.Write(ctx, 0)
			if _, err := flowtest.Numbers.Receive(ctx); err != nil {
				return 0, err
			}
			for i := range n {
				latest.Write(ctx, i+1)
			}
			return n, nil
		}))
		run := flowtest.Start(w, flowtest.Streams, 8)
		var got []uint64
		for more := true; more; {
			more = false
			for c, err := range latest.Read(w.Ctx, run, workflow.From(uint64(len(got)+1))) {
				if lag, ok := errors.AsType[*workflow.LagError](err); ok {
					if lag.Wanted != 2 || lag.Next != 7 {
						t.Fatalf("got %+v, want that chunk 2 is gone and 7 is next", lag)
					}
					return
				}
				flowtest.Order(t, err)
				if got = append(got, c.Index); len(got) == 1 { // while the reader processes the first chunk, the others are written
					flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 1))
					_ = flowtest.Result(w, run)
				}
			}
		}
		t.Errorf("got %v and no error", got)
	})
}

func TestRUN15_ThousandsOfReadersShareFewConnections(t *testing.T) {
	n := scale(1_000, 5_000)
	server := redistest.Start(t)
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
	runs := make([]*workflow.Run[int], 10)
	for i := range runs {
		runs[i] = flowtest.Start(w, flowtest.Streams, 3)
	}
	var readers sync.WaitGroup
	var counts [10]sync.WaitGroup // by run: readers that have not received the first chunk
	for i := range counts {
		counts[i].Add(n / len(counts))
	}
	for i := range n {
		readers.Go(func() {
			run, got := runs[i%len(runs)], 0
			for c, err := range flowtest.Tokens.Read(w.Ctx, run) {
				if err != nil || c.Value != got {
					t.Errorf("reader %d: got %d, %v, want %d", i, c.Value, err, got)
				}
				if got++; got == 1 {
					counts[i%len(runs)].Done()
				}
			}
			if got != 3 {
				t.Errorf("reader %d: %d chunks, want 3", i, got)
			}
		})
	}
	for i, run := range runs {
		counts[i].Wait()
		for range 3 {
			flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 1))
		}
	}
	clients, err := server.Client(t).Info(w.Ctx, "clients").Result()
	flowtest.Order(t, err)
	var connected int
	for line := range strings.Lines(clients) {
		_, _ = fmt.Sscanf(line, "connected_clients:%d", &connected)
	}
	readers.Wait()
	if connected == 0 || connected > 10+3 { // 10 of the store, its listener, the wait of the worker, and the client of this query
		t.Errorf("%d readers hold %d connections", n, connected)
	}
}
