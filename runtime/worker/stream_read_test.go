package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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
			return n, errors.Join(errors.Join(errs...), step.Close(ctx, tokens))
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
