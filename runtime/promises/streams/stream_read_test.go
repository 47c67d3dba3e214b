package streams_test

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
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// soak makes tests of streams use their full size. By default they use a small one.
var soak = flag.Bool("soak", false, "run the tests of streams with 100,000 chunks and thousands of readers")

func scale(small, full int) int {
	if *soak {
		return full
	}
	return small
}

// five writes the values 10, 20, 30, 40 and 50 and then waits for a number.
var five = flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
	for i := range 5 {
		flowtest.Tokens.Write(ctx, 10*(i+1))
	}
	return flowtest.Numbers.Receive(ctx)
})

func TestFLOW8_ReadersStartAtAnyIndexAlsoFromTheEnd(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, five)
		run := flowtest.Start(w, flowtest.Streams, 5)
		w.Reach(run, event.WaitCreated, 1)
		flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 1))
		_ = flowtest.Result(w, run)
		all := flowtest.Written(1, 10, 20, 30, 40, 50)
		for name, tt := range map[string]struct {
			opts []workflow.ReadOption
			want []flowtest.Chunk
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
			flowtest.Same(t, name, w.Chunks(run, tt.opts...), tt.want)
			flowtest.Same(t, name+", with the same options again", w.Chunks(run, tt.opts...), tt.want)
		}
	})
}

func TestFLOW8_FromTheEndFollowsLive(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		code := func(ctx workflow.Context, n int) (int, error) {
			for {
				v, err := flowtest.Numbers.Receive(ctx)
				if err != nil || v == 0 {
					return n, err
				}
				flowtest.Tokens.Write(ctx, v)
			}
		}
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, code))
		run := flowtest.Start(w, flowtest.Streams, 1)
		flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 1))
		flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 2))
		w.Reach(run, event.StreamWritten, 2)
		var got []flowtest.Chunk
		for c, err := range flowtest.Tokens.Read(w.Ctx, run, workflow.FromEnd(1)) {
			flowtest.Order(t, err)
			got = append(got, flowtest.Chunk{Index: c.Index, Value: c.Value})
			if c.Value < 5 { // each chunk makes the test send the next number; 0 ends the run
				flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, (c.Value+1)%5))
			}
		}
		flowtest.Same(t, "a reader", got, flowtest.Written(2, 2, 3, 4))
	})
}

func TestFLOW8_ReadersMissNothingAndSeeNothingTwice(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		const n = 400
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, flowtest.Work1.Call), flowtest.Work1.As(func(ctx context.Context, _ int) (int, error) {
			for i := range n {
				if err := flowtest.Writes(ctx, i); err != nil {
					return 0, err
				}
			}
			return n, step.Close(ctx, flowtest.Tokens)
		}))
		run := flowtest.Start(w, flowtest.Streams, n)
		var readers sync.WaitGroup
		got := make([][]flowtest.Chunk, 9)
		for i := range got {
			readers.Go(func() {
				switch i % 3 {
				case 0:
					got[i] = w.Chunks(run)
				case 1:
					got[i] = inPieces(w, run, 7)
				default: // begins to read after the step has started
					w.Reach(run, event.StepStarted, 1)
					got[i] = w.Chunks(run)
				}
			})
		}
		readers.Wait()
		var want []flowtest.Chunk
		for i := range n {
			want = append(want, flowtest.Chunk{Index: uint64(i + 1), Value: i, Step: "streams/test.work1#1", Attempt: 1})
		}
		for i := range got {
			flowtest.Same(t, fmt.Sprint("reader ", i), got[i], want)
		}
	})
}

// TestFLOW8_ThreeReadersFollowAStepThatWritesVeryManyChunks proves that three readers get the same
// chunks of a stream to which a hundred goroutines of one step write. One reader reads to the end,
// one reads in pieces, and one begins in the middle.
func TestFLOW8_ThreeReadersFollowAStepThatWritesVeryManyChunks(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		const writers = 100
		n := scale(3_000, 100_000) / writers
		w.TakesLong()
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, flowtest.Work1.Call), flowtest.Work1.As(func(ctx context.Context, _ int) (int, error) {
			var all sync.WaitGroup
			errs := make([]error, writers)
			for i := range writers {
				all.Go(func() {
					for j := range n {
						errs[i] = errors.Join(errs[i], flowtest.Writes(ctx, i*n+j))
					}
				})
			}
			all.Wait()
			return n, errors.Join(errors.Join(errs...), step.Close(ctx, flowtest.Tokens))
		}))
		begun := time.Now()
		run := flowtest.Start(w, flowtest.Streams, n)
		var readers sync.WaitGroup
		got := make([][]flowtest.Chunk, 3)
		readers.Go(func() { got[0] = w.Chunks(run) })
		readers.Go(func() { got[1] = inPieces(w, run, 1009) })
		readers.Go(func() {
			for c := range flowtest.Tokens.Read(w.Ctx, run) {
				if c.Index == uint64(writers*n/2) {
					break
				}
			}
			got[2] = w.Chunks(run)
		})
		readers.Wait()
		t.Logf("%d chunks to 3 readers in %v", writers*n, time.Since(begun))
		if diff := cmp.Diff(got[0], got[1]); diff != "" {
			t.Error("the second reader saw other chunks than the first")
		}
		if diff := cmp.Diff(got[0], got[2]); diff != "" {
			t.Error("the third reader saw other chunks than the first")
		}
		next := make([]int, writers) // the next value of each writer, whose chunks must be in order
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
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, five)
		run := flowtest.Start(w, flowtest.Streams, 5)
		for c, err := range flowtest.Tokens.Read(w.Ctx, run) {
			if c.Index != 1 || err != nil {
				t.Errorf("got %d, %v", c.Index, err)
			}
			break // goleak checks that everything is released
		}
		ctx, cancel := context.WithCancel(w.Ctx)
		var last error
		pairs := 0
		for c, err := range flowtest.Tokens.Read(ctx, run) {
			pairs++
			if last = err; c.Index == 5 {
				cancel()
			}
			if err != nil && c != (workflow.Chunk[int]{}) {
				t.Errorf("beside the error stands %+v", c)
			}
		}
		cancel()
		if pairs != 6 || !errors.Is(last, context.Canceled) || !flowtest.ContainsAll(last.Error(), "tokens") {
			t.Errorf("got %d pairs, the last with %v; want 6, with context.Canceled and the stream", pairs, last)
		}
	})
}

func TestFLOW8_ReadersAreToldWhatIsWrong(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, five)
		run := flowtest.Start(w, flowtest.Streams, 5)
		w.Reach(run, event.WaitCreated, 1)
		nobody := w.Client.Run(event.NewRunID(time.Now(), 7))
		if _, err := w.Read(nobody); !errors.Is(err, workflow.ErrRunNotFound) {
			t.Errorf("no such run: got %v", err)
		}
		if _, err := w.Read(run, workflow.Types(event.RunCreated)); err == nil || !flowtest.ContainsAll(err.Error(), "Types") {
			t.Errorf("types: got %v", err)
		}
		var payload *workflow.PayloadError
		for c, err := range workflow.NewStream[string]("tokens").Read(w.Ctx, run, workflow.From(2)) {
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
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, five)
	run := flowtest.Start(w, flowtest.Streams, 5, workflow.WithID("five"))
	w.Reach(run, event.WaitCreated, 1)
	for c, err := range w.Client.RunByID("five").ReadStream(w.Ctx, "tokens", workflow.FromEnd(1)) {
		if diff := cmp.Diff(workflow.Chunk[json.RawMessage]{Index: 5, Value: json.RawMessage("50")}, c); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		break
	}
}

// inPieces reads a stream to its end. It uses a new reader after every n chunks.
func inPieces(w *flowtest.World, run flowtest.Follows, n int) (all []flowtest.Chunk) {
	for next := uint64(1); ; {
		before := next
		for c, err := range flowtest.Tokens.Read(w.Ctx, run, workflow.From(next)) {
			if err != nil {
				w.T.Error(err)
			}
			all = append(all, flowtest.Chunk{Index: c.Index, Value: c.Value, Step: c.Step, Attempt: c.Attempt})
			if next = c.Index + 1; len(all)%n == 0 {
				break
			}
		}
		if next == before {
			return all
		}
	}
}
