package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// soak asks for the full size of what is otherwise tested on a small scale.
var soak = flag.Bool("soak", false, "run the tests of streams with 100,000 chunks and thousands of readers")

func scale(small, full int) int {
	if *soak {
		return full
	}
	return small
}

// takesLong gives a test more time than most.
func (w *world) takesLong() {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*patience)
	w.t.Cleanup(cancel)
	w.ctx = ctx
}

// five writes 10, 20, … 50 and waits for a message.
var five = as(streams, func(ctx workflow.Context, n int) (int, error) {
	for i := range 5 {
		tokens.Write(ctx, 10*(i+1))
	}
	return numbers.Receive(ctx)
})

func TestFLOW8_ReadersStartAtAnyIndexAlsoFromTheEnd(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, five)
		run := start(w, streams, 5)
		w.reach(run, event.WaitCreated, 1)
		order(t, numbers.Send(w.ctx, run, 1))
		_ = result(w, run)
		all := written(1, 10, 20, 30, 40, 50)
		for name, tt := range map[string]struct {
			opts []workflow.ReadOption
			want []chunk
		}{
			"all":            {nil, all},
			"from the start": {[]workflow.ReadOption{workflow.From(0)}, all},
			"from 1":         {[]workflow.ReadOption{workflow.From(1)}, all},
			"from 3":         {[]workflow.ReadOption{workflow.From(3)}, all[2:]},
			"from behind":    {[]workflow.ReadOption{workflow.From(9)}, nil},
			"index -1":       {[]workflow.ReadOption{workflow.FromEnd(1)}, all[4:]},
			"the last 4":     {[]workflow.ReadOption{workflow.FromEnd(4)}, all[1:]},
			"more than all":  {[]workflow.ReadOption{workflow.FromEnd(400)}, all},
			"only new":       {[]workflow.ReadOption{workflow.FromEnd(0)}, nil},
		} {
			same(t, name, w.chunks(run, tt.opts...), tt.want)
			same(t, name+", with the same options again", w.chunks(run, tt.opts...), tt.want)
		}
	})
}

func TestFLOW8_FromTheEndFollowsLive(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		code := func(ctx workflow.Context, n int) (int, error) {
			for {
				v, err := numbers.Receive(ctx)
				if err != nil || v == 0 {
					return n, err
				}
				tokens.Write(ctx, v)
			}
		}
		w.work(worker.Config{}, as(streams, code))
		run := start(w, streams, 1)
		order(t, numbers.Send(w.ctx, run, 1))
		order(t, numbers.Send(w.ctx, run, 2))
		w.reach(run, event.StreamWritten, 2)
		var got []chunk
		for c, err := range tokens.Read(w.ctx, run, workflow.FromEnd(1)) {
			order(t, err)
			got = append(got, chunk{Index: c.Index, Value: c.Value})
			if c.Value < 5 { // the answer to each chunk is the next one, and then the end
				order(t, numbers.Send(w.ctx, run, (c.Value+1)%5))
			}
		}
		same(t, "a reader", got, written(2, 2, 3, 4))
	})
}

func TestFLOW8_ReadersMissNothingAndSeeNothingTwice(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		const n = 400
		w.work(worker.Config{}, as(streams, work1.Call), work1.as(func(ctx context.Context, _ int) (int, error) {
			for i := range n {
				if err := writes(ctx, i); err != nil {
					return 0, err
				}
			}
			return n, step.Close(ctx, tokens)
		}))
		run := start(w, streams, n)
		var readers sync.WaitGroup
		got := make([][]chunk, 9)
		for i := range got {
			readers.Go(func() {
				switch i % 3 {
				case 0:
					got[i] = w.chunks(run)
				case 1:
					got[i] = w.inPieces(run, 7)
				default: // comes late
					w.reach(run, event.StepStarted, 1)
					got[i] = w.chunks(run)
				}
			})
		}
		readers.Wait()
		var want []chunk
		for i := range n {
			want = append(want, chunk{uint64(i + 1), i, "streams/test.work1#1", 1})
		}
		for i := range got {
			same(t, fmt.Sprint("reader ", i), got[i], want)
		}
	})
}

// inPieces reads a stream to its end, with a new reader every n chunks.
func (w *world) inPieces(run follows, n int) (all []chunk) {
	for next := uint64(1); ; {
		before := next
		for c, err := range tokens.Read(w.ctx, run, workflow.From(next)) {
			if err != nil {
				w.t.Error(err)
			}
			all = append(all, chunk{c.Index, c.Value, c.Step, c.Attempt})
			if next = c.Index + 1; len(all)%n == 0 {
				break
			}
		}
		if next == before {
			return all
		}
	}
}

// Many goroutines of one step write one stream, and three readers follow: one to
// the end, one in pieces, one that comes when half of it is there.
func TestFLOW8_ThreeReadersFollowAStepThatWritesVeryManyChunks(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		const writers = 100
		n := scale(3_000, 100_000) / writers
		w.takesLong()
		w.work(worker.Config{}, as(streams, work1.Call), work1.as(func(ctx context.Context, _ int) (int, error) {
			var all sync.WaitGroup
			errs := make([]error, writers)
			for i := range writers {
				all.Go(func() {
					for j := range n {
						errs[i] = errors.Join(errs[i], writes(ctx, i*n+j))
					}
				})
			}
			all.Wait()
			return n, errors.Join(append(errs, step.Close(ctx, tokens))...)
		}))
		begun := time.Now()
		run := start(w, streams, n)
		var readers sync.WaitGroup
		got := make([][]chunk, 3)
		readers.Go(func() { got[0] = w.chunks(run) })
		readers.Go(func() { got[1] = w.inPieces(run, 1009) })
		readers.Go(func() {
			for c := range tokens.Read(w.ctx, run) {
				if c.Index == uint64(writers*n/2) {
					break
				}
			}
			got[2] = w.chunks(run)
		})
		readers.Wait()
		t.Logf("%d chunks to 3 readers in %v", writers*n, time.Since(begun))
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Error("the second reader saw other chunks than the first")
		}
		if diff := cmp.Diff(got[0], got[2]); diff != "" {
			t.Error("the third reader saw other chunks than the first")
		}
		next := make([]int, writers) // each writer's own are in order
		for i, c := range got[0] {
			by := c.Value / n
			if c.Index != uint64(i+1) || c.Value != by*n+next[by] {
				t.Fatalf("chunk %d has index %d and value %d, want value %d", i+1, c.Index, c.Value, by*n+next[by])
			}
			next[by]++
		}
		if len(got[0]) != writers*n {
			t.Errorf("got %d chunks, want %d", len(got[0]), writers*n)
		}
	})
}

func TestFLOW8_BreakingOutReleasesEverythingAndAnErrorIsTheLastPair(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, five)
		run := start(w, streams, 5)
		for c, err := range tokens.Read(w.ctx, run) {
			if c.Index != 1 || err != nil {
				t.Errorf("got %d, %v", c.Index, err)
			}
			break // goleak looks at the rest
		}
		ctx, cancel := context.WithCancel(w.ctx)
		var last error
		pairs := 0
		for c, err := range tokens.Read(ctx, run) {
			pairs++
			if last = err; c.Index == 5 {
				cancel()
			}
			if err != nil && c != (workflow.Chunk[int]{}) {
				t.Errorf("beside the error stands %+v", c)
			}
		}
		cancel()
		if pairs != 6 || !errors.Is(last, context.Canceled) || !containsAll(last.Error(), "tokens") {
			t.Errorf("got %d pairs, the last with %v; want 6, with context.Canceled and the stream", pairs, last)
		}
	})
}

func TestFLOW8_ReadersAreToldWhatIsWrong(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, five)
		run := start(w, streams, 5)
		w.reach(run, event.WaitCreated, 1)
		nobody := w.client.Run(event.NewRunID(time.Now(), 7))
		if _, err := w.read(nobody); !errors.Is(err, workflow.ErrRunNotFound) {
			t.Errorf("no such run: got %v", err)
		}
		if _, err := w.read(run, workflow.Types(event.RunCreated)); err == nil || !containsAll(err.Error(), "Types") {
			t.Errorf("types: got %v", err)
		}
		var payload *workflow.PayloadError
		for c, err := range workflow.NewStream[string]("tokens").Read(w.ctx, run, workflow.From(2)) {
			if !errors.As(err, &payload) || payload.What != "chunk 2 of stream tokens" || c.Index != 0 {
				t.Errorf("another type: got %+v, %v", c, err)
			}
		}
		if payload == nil {
			t.Error("chunks of another type are no error")
		}
	})
}

func TestFLOW8_ToolsReadStreamsWithoutTheirType(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, five)
	run := start(w, streams, 5, workflow.WithID("five"))
	w.reach(run, event.WaitCreated, 1)
	for c, err := range w.client.RunByID("five").ReadStream(w.ctx, "tokens", workflow.FromEnd(1)) {
		if diff := cmp.Diff(workflow.Chunk[json.RawMessage]{Index: 5, Value: json.RawMessage("50")}, c); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		break
	}
}

var latest = workflow.NewStream[int]("tokens", workflow.KeepLast(3))

func TestRUN15_AReaderIsToldThatItsNextChunkOfAStreamIsNotKept(t *testing.T) {
	for name, code := range map[string]func(ctx workflow.Context, n int) (int, error){
		"the run writes": func(ctx workflow.Context, n int) (int, error) {
			for i := range n {
				latest.Write(ctx, i)
			}
			return n, nil
		},
		"a step writes": work1.Call,
	} {
		t.Run(name, func(t *testing.T) {
			onEveryStore(t, func(t *testing.T, w *world) {
				w.work(worker.Config{}, as(streams, code), work1.as(func(ctx context.Context, n int) (int, error) {
					for i := range n {
						if err := step.Write(ctx, latest, i); err != nil {
							return 0, err
						}
					}
					return n, nil
				}))
				run := start(w, streams, 10)
				_ = result(w, run)
				values := func(opts ...workflow.ReadOption) (all []int, err error) {
					for c, err := range latest.Read(w.ctx, run, opts...) {
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

// A reader that is slower than the writers of a stream that keeps little.
func TestRUN15_ASlowReaderIsToldThatItFellBehindAStream(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
			latest.Write(ctx, 0)
			if _, err := numbers.Receive(ctx); err != nil {
				return 0, err
			}
			for i := range n {
				latest.Write(ctx, i+1)
			}
			return n, nil
		}))
		run := start(w, streams, 8)
		var got []uint64
		for more := true; more; {
			more = false
			for c, err := range latest.Read(w.ctx, run, workflow.From(uint64(len(got)+1))) {
				if lag, ok := errors.AsType[*workflow.LagError](err); ok {
					if lag.Wanted != 2 || lag.Next != 7 {
						t.Fatalf("got %+v, want that chunk 2 is gone and 7 is next", lag)
					}
					return
				}
				order(t, err)
				if got = append(got, c.Index); len(got) == 1 { // it takes its time over the first one
					order(t, numbers.Send(w.ctx, run, 1))
					_ = result(w, run)
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
	runs := make([]*workflow.Run[int], 10)
	for i := range runs {
		runs[i] = start(w, streams, 3)
	}
	var readers sync.WaitGroup
	var counts [10]sync.WaitGroup // of readers that have not seen the first chunk
	for i := range counts {
		counts[i].Add(n / len(counts))
	}
	for i := range n {
		readers.Go(func() {
			run, got := runs[i%len(runs)], 0
			for c, err := range tokens.Read(w.ctx, run) {
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
			order(t, numbers.Send(w.ctx, run, 1))
		}
	}
	clients, err := server.Client(t).Info(w.ctx, "clients").Result()
	order(t, err)
	var connected int
	for line := range strings.Lines(clients) {
		_, _ = fmt.Sscanf(line, "connected_clients:%d", &connected)
	}
	readers.Wait()
	if connected == 0 || connected > 10+3 { // the store's, its listener, the worker's wait, and who asks
		t.Errorf("%d readers hold %d connections", n, connected)
	}
}
