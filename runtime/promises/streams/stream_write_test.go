package streams_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func join(parts ...[]flowtest.Chunk) []flowtest.Chunk {
	var all []flowtest.Chunk
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

func TestFLOW8_ReadersSeeWhatARunAndItsStepsWriteAndTheClose(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
			flowtest.Tokens.Write(ctx, 10)
			if _, err := flowtest.Work1.Call(ctx, n); err != nil {
				return 0, err
			}
			flowtest.Tokens.Write(ctx, 40)
			flowtest.Tokens.Close(ctx)
			flowtest.Tokens.Close(ctx) // the second Close has no effect
			return flowtest.Numbers.Receive(ctx)
		}), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) { return n, flowtest.Writes(ctx, 20, 30) }))
		run := flowtest.Start(w, flowtest.Streams, 1)
		want := join(flowtest.Written(1, 10), flowtest.By("streams/test.work1#1", 1, flowtest.Written(2, 20, 30)), flowtest.Written(4, 40))
		flowtest.Same(t, "a reader that came with the run", w.Chunks(run), want) // the reader ends with the stream, although the run continues
		flowtest.Same(t, "a late reader", w.Chunks(run), want)
		flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 7))
		if got := flowtest.Result(w, run); got != 7 {
			t.Errorf("got %d", got)
		}
		flowtest.Same(t, "a reader after the end", w.Chunks(w.Client.Run(run.ID())), want)
		log := flowtest.Filter(w.Log(run), event.StreamWritten, event.StreamClosed)
		for _, e := range log {
			if e.Payload != nil || e.Name != "tokens" {
				t.Errorf("event %d (%s %s) holds %q, want nothing: chunks are outside of the log", e.Seq, e.Type, e.Name, e.Payload)
			}
		}
		if len(log) != 3 {
			t.Errorf("%d events are about the stream, want 3", len(log))
		}
	})
}

func TestFLOW8_StreamsThatNobodyClosesEndWithTheRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
			flowtest.Tokens.Write(ctx, n)
			return flowtest.Numbers.Receive(ctx)
		}))
		run := flowtest.Start(w, flowtest.Streams, 5)
		got := make(chan []flowtest.Chunk)
		go func() { got <- w.Chunks(run) }()
		for range flowtest.Tokens.Read(w.Ctx, run) { // waits until the step has written its first chunk
			break
		}
		flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 7))
		flowtest.Same(t, "a reader", <-got, flowtest.Written(1, 5))
		other := workflow.NewStream[int]("other")
		for c, err := range other.Read(w.Ctx, run) {
			t.Errorf("a stream that nobody has written to: got %+v, %v", c, err)
		}
	})
}

func TestFLOW8_ChunksOfFailedAttemptsStayAndSayWhoseTheyAre(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
			ctx = workflow.WithStepOptions(ctx, workflow.Retry(flowtest.Quick))
			got, err := flowtest.Work1.Call(ctx, n)
			flowtest.Tokens.Write(workflow.Detached(ctx), 99)
			return got, err
		}), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			a := step.Attempt(ctx)
			err := flowtest.Writes(ctx, 10*a+1, 10*a+2)
			if a < 3 { // the Close of a failed attempt has no effect
				return 0, errors.Join(err, step.Close(ctx, flowtest.Tokens), flowtest.ErrBusy)
			}
			return n, err
		}))
		run := flowtest.Start(w, flowtest.Streams, 1)
		_ = flowtest.Result(w, run)
		key := "streams/test.work1#1"
		flowtest.Same(t, "all attempts", w.Chunks(run), join(flowtest.By(key, 1, flowtest.Written(1, 11, 12)), flowtest.By(key, 2, flowtest.Written(3, 21, 22)),
			flowtest.By(key, 3, flowtest.Written(5, 31, 32)), flowtest.Written(7, 99)))
	})
}

func TestFLOW8_AStepClosesAStreamWithItsCompletion(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
			if _, err := flowtest.Work1.Call(ctx, n); err != nil {
				return 0, err
			}
			return flowtest.Numbers.Receive(ctx)
		}), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			err := errors.Join(flowtest.Writes(ctx, 1), step.Close(ctx, flowtest.Tokens), step.Close(ctx, flowtest.Tokens))
			if late := flowtest.Writes(ctx, 2); !errors.Is(late, workflow.ErrStreamClosed) {
				err = errors.Join(err, fmt.Errorf("a write behind the close: %w", late))
			}
			page := 0
			for _, read := range flowtest.Tokens.Read(ctx, w.Client.Run(stepRun(ctx)), workflow.From(1)) {
				err = errors.Join(err, read)
				page++
				break
			}
			return n + page, err
		}))
		run := flowtest.Start(w, flowtest.Streams, 1)
		flowtest.Same(t, "a reader", w.Chunks(run), flowtest.By("streams/test.work1#1", 1, flowtest.Written(1, 1)))
		closed := flowtest.Filter(w.Log(run), event.StreamClosed, event.StepCompleted)
		if len(closed) != 2 || closed[0].Type != event.StreamClosed || closed[0].Attempt != 1 || closed[1].Seq != closed[0].Seq+1 {
			t.Errorf("the log says %+v, want the close just before the completion", closed)
		}
		flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, 7))
		_ = flowtest.Result(w, run)
	})
}

func stepRun(ctx context.Context) workflow.RunID {
	c, _ := step.Current(ctx)
	return c.RunID
}

// TestFLOW8_AReplayWritesNothingTwice proves that a replay publishes no chunk twice. Each message
// is processed by a worker that must replay the run.
func TestFLOW8_AReplayWritesNothingTwice(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		code := []flowtest.Binding{flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
			for i := range n {
				flowtest.Tokens.Write(ctx, 10*i)
				if _, err := flowtest.Work1.Call(ctx, i); err != nil {
					return i, err
				}
				if _, err := flowtest.Numbers.Receive(ctx); err != nil {
					return i, err
				}
			}
			return n, nil
		}), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) { return n, flowtest.Writes(ctx, 10*n+1) })}
		run := flowtest.Start(w, flowtest.Streams, 3)
		var want []flowtest.Chunk
		for i := range 3 {
			wk := w.Work(worker.Config{}, code...)
			w.Reach(run, event.WaitCreated, i+1)
			wk.Stop()
			flowtest.Order(t, flowtest.Numbers.Send(w.Ctx, run, i))
			want = join(want, flowtest.Written(2*i+1, 10*i), flowtest.By(fmt.Sprintf("streams/test.work1#%d", i+1), 1, flowtest.Written(2*i+2, 10*i+1)))
		}
		w.Work(worker.Config{}, code...)
		_ = flowtest.Result(w, run)
		flowtest.Same(t, "a reader", w.Chunks(run), want)
	})
}

func TestFLOW8_ARunThatContinuesGoesOnWithTheStreams(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
			flowtest.Tokens.Write(ctx, n)
			if n < 4 {
				if _, err := flowtest.Work1.Call(ctx, n); err != nil {
					return 0, err
				}
				return 0, flowtest.Streams.ContinueAsNew(ctx, n+1)
			}
			flowtest.Tokens.Close(ctx)
			return n, nil
		}), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) { return n, flowtest.Writes(ctx, 10*n) }))
		run := flowtest.Start(w, flowtest.Streams, 1)
		var values []int
		var runs = map[workflow.RunID]bool{}
		for c, err := range flowtest.Tokens.Read(w.Ctx, run) {
			flowtest.Order(t, err)
			values = append(values, c.Value)
			if c.Run != "" {
				runs[c.Run] = true
			}
		}
		if diff := cmp.Diff([]int{1, 10, 2, 20, 3, 30, 4}, values); diff != "" {
			t.Errorf("the chain wrote (-want +got):\n%s", diff)
		}
		if len(runs) != 3 || !runs[run.ID()] {
			t.Errorf("the chunks of steps are of the runs %v, want 3, the first among them", runs)
		}
		want := []ops.StreamInfo{{ID: event.StreamID(run.ID(), flowtest.Tokens.Name()), Name: flowtest.Tokens.Name(), First: 1, Last: 7, Ended: true}}
		for id := range runs {
			var listed []ops.StreamInfo
			for s, err := range ops.New(w.Client).Streams(w.Ctx, id, "") {
				flowtest.Order(t, err)
				listed = append(listed, s)
			}
			if diff := cmp.Diff(want, listed); diff != "" {
				t.Errorf("the streams of run %s of the chain (-want +got):\n%s", id, diff)
			}
		}
	})
}

// TestFLOW8_WritingToAClosedStreamIsAMistakeThatSaysSo proves that writing to a closed stream fails
// with an error that explains the mistake. The stream may have been closed by the code, by a step,
// or by an earlier run of the chain.
func TestFLOW8_WritingToAClosedStreamIsAMistakeThatSaysSo(t *testing.T) {
	for name, code := range map[string]func(ctx workflow.Context, n int) (int, error){
		"closed by the code": func(ctx workflow.Context, n int) (int, error) {
			flowtest.Tokens.Close(ctx)
			flowtest.Tokens.Write(ctx, n)
			return n, nil
		},
		"closed by a step": func(ctx workflow.Context, n int) (int, error) {
			_, err := flowtest.Work1.Call(ctx, n)
			flowtest.Tokens.Write(ctx, n)
			return n, err
		},
		"closed by the run before": func(ctx workflow.Context, n int) (int, error) {
			if n == 1 {
				flowtest.Tokens.Close(ctx)
				return 0, flowtest.Streams.ContinueAsNew(ctx, 2)
			}
			flowtest.Tokens.Write(ctx, n)
			return n, nil
		},
		"closed by the run before the one before": func(ctx workflow.Context, n int) (int, error) {
			if n == 1 {
				flowtest.Tokens.Close(ctx)
			}
			if n < 3 {
				return 0, flowtest.Streams.ContinueAsNew(ctx, n+1)
			}
			flowtest.Tokens.Write(ctx, n)
			return n, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
				w.Work(worker.Config{}, flowtest.As(flowtest.Streams, code), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) { return n, step.Close(ctx, flowtest.Tokens) }))
				run := flowtest.Start(w, flowtest.Streams, 1)
				if err := flowtest.Failure(w, run); err.Code != event.CodePanic || !flowtest.ContainsAll(err.Reason, "tokens", "closed") {
					t.Errorf("got %v, want a panic that names the stream", err)
				}
				flowtest.Same(t, "a reader", w.Chunks(run), nil)
			})
		})
	}
}

func TestFLOW8_AForkedRunBeginsWithEmptyStreams(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(flowtest.Streams, func(ctx workflow.Context, n int) (int, error) {
			for i := range n {
				flowtest.Tokens.Write(ctx, i)
				if _, err := flowtest.Work1.Call(ctx, i); err != nil {
					return 0, err
				}
			}
			return n, nil
		}), flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			if n == 1 {
				return n, errors.Join(flowtest.Writes(ctx, 10+n), step.Close(ctx, workflow.NewStream[int]("other")))
			}
			return n, flowtest.Writes(ctx, 10+n)
		}))
		run := flowtest.Start(w, flowtest.Streams, 3)
		_ = flowtest.Result(w, run)
		if n := len(w.Chunks(run)); n != 6 {
			t.Errorf("the old run has written %d chunks, want 6", n)
		}
		again, err := run.Fork(w.Ctx, "streams/test.work1#3")
		flowtest.Order(t, err)
		if got := flowtest.Result(w, again); got != 3 {
			t.Errorf("the new run returns %d", got)
		}
		flowtest.Same(t, "the new run", w.Chunks(again), flowtest.By("streams/test.work1#3", 1, flowtest.Written(1, 12)))
		if n := len(w.Chunks(run)); n != 6 {
			t.Errorf("the old run now has %d chunks, want 6", n)
		}
		if closed := flowtest.Filter(w.Log(again), event.StreamClosed); len(closed) != 1 || closed[0].Name != "other" {
			t.Errorf("the new log keeps %+v, want what step 2 has closed", closed)
		}
	})
}
