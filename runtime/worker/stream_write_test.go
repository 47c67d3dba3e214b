package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var tokens = workflow.NewStream[int]("tokens")

// chunk has the fields of a chunk that the tests compare.
type chunk struct {
	Index   uint64
	Value   int
	Step    string
	Attempt int
}

// chunks reads tokens to the end.
func (w *world) chunks(of follows, opts ...workflow.ReadOption) []chunk {
	w.t.Helper()
	all, err := w.read(of, opts...)
	if err != nil {
		w.t.Errorf("read stream of %s: %v", of.ID(), err)
	}
	return all
}

// read reads tokens to the end, or to an error.
func (w *world) read(of follows, opts ...workflow.ReadOption) (all []chunk, err error) {
	for c, err := range tokens.Read(w.ctx, of, opts...) {
		if err != nil {
			return all, err
		}
		if c.Step != "" && c.Run != of.ID() {
			w.t.Errorf("chunk %d is of run %s, want %s", c.Index, c.Run, of.ID())
		}
		all = append(all, chunk{c.Index, c.Value, c.Step, c.Attempt})
	}
	return all, nil
}

// written are chunks of the code of a run: from and those that follow.
func written(from int, values ...int) []chunk {
	var all []chunk
	for i, v := range values {
		all = append(all, chunk{Index: uint64(from + i), Value: v})
	}
	return all
}

// by says that a step has written the chunks.
func by(step string, attempt int, chunks []chunk) []chunk {
	for i := range chunks {
		chunks[i].Step, chunks[i].Attempt = step, attempt
	}
	return chunks
}

func join(parts ...[]chunk) []chunk {
	var all []chunk
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// same compares what was read.
func same(t *testing.T, what string, got, want []chunk) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// writes adds to tokens, from a step.
func writes(ctx context.Context, values ...int) error {
	for _, v := range values {
		if err := step.Write(ctx, tokens, v); err != nil {
			return err
		}
	}
	return nil
}

var streams = flow[int, int]("streams")

func TestFLOW8_ReadersSeeWhatARunAndItsStepsWriteAndTheClose(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
			tokens.Write(ctx, 10)
			if _, err := work1.Call(ctx, n); err != nil {
				return 0, err
			}
			tokens.Write(ctx, 40)
			tokens.Close(ctx)
			tokens.Close(ctx) // does nothing
			return numbers.Receive(ctx)
		}), work1.as(func(ctx context.Context, n int) (int, error) { return n, writes(ctx, 20, 30) }))
		run := start(w, streams, 1)
		want := join(written(1, 10), by("streams/test.work1#1", 1, written(2, 20, 30)), written(4, 40))
		same(t, "a reader that came with the run", w.chunks(run), want) // ends with the close: the run goes on
		same(t, "a late reader", w.chunks(run), want)
		order(t, numbers.Send(w.ctx, run, 7))
		if got := result(w, run); got != 7 {
			t.Errorf("got %d", got)
		}
		same(t, "a reader after the end", w.chunks(w.client.Run(run.ID())), want)
		log := filter(w.log(run), event.StreamWritten, event.StreamClosed)
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
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
			tokens.Write(ctx, n)
			return numbers.Receive(ctx)
		}))
		run := start(w, streams, 5)
		got := make(chan []chunk)
		go func() { got <- w.chunks(run) }()
		for range tokens.Read(w.ctx, run) { // the chunk is there
			break
		}
		order(t, numbers.Send(w.ctx, run, 7))
		same(t, "a reader", <-got, written(1, 5))
		other := workflow.NewStream[int]("other")
		for c, err := range other.Read(w.ctx, run) {
			t.Errorf("a stream that nobody has written to: got %+v, %v", c, err)
		}
	})
}

func TestFLOW8_ChunksOfFailedAttemptsStayAndSayWhoseTheyAre(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
			ctx = workflow.WithStepOptions(ctx, workflow.Retry(quick))
			got, err := work1.Call(ctx, n)
			tokens.Write(workflow.Detached(ctx), 99)
			return got, err
		}), work1.as(func(ctx context.Context, n int) (int, error) {
			a := step.Attempt(ctx)
			err := writes(ctx, 10*a+1, 10*a+2)
			if a < 3 { // what a failed attempt has closed is open
				return 0, errors.Join(err, step.Close(ctx, tokens), errBusy)
			}
			return n, err
		}))
		run := start(w, streams, 1)
		_ = result(w, run)
		key := "streams/test.work1#1"
		same(t, "all attempts", w.chunks(run), join(by(key, 1, written(1, 11, 12)), by(key, 2, written(3, 21, 22)),
			by(key, 3, written(5, 31, 32)), written(7, 99)))
	})
}

func TestFLOW8_AStepClosesAStreamWithItsCompletion(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
			if _, err := work1.Call(ctx, n); err != nil {
				return 0, err
			}
			return numbers.Receive(ctx)
		}), work1.as(func(ctx context.Context, n int) (int, error) {
			err := errors.Join(writes(ctx, 1), step.Close(ctx, tokens), step.Close(ctx, tokens))
			if late := writes(ctx, 2); !errors.Is(late, workflow.ErrStreamClosed) {
				err = errors.Join(err, fmt.Errorf("a write behind the close: %w", late))
			}
			page := 0
			for _, read := range tokens.Read(ctx, w.client.Run(stepRun(ctx)), workflow.From(1)) {
				err = errors.Join(err, read)
				page++
				break
			}
			return n + page, err
		}))
		run := start(w, streams, 1)
		same(t, "a reader", w.chunks(run), by("streams/test.work1#1", 1, written(1, 1)))
		closed := filter(w.log(run), event.StreamClosed, event.StepCompleted)
		if len(closed) != 2 || closed[0].Type != event.StreamClosed || closed[0].Attempt != 1 || closed[1].Seq != closed[0].Seq+1 {
			t.Errorf("the log says %+v, want the close just before the completion", closed)
		}
		order(t, numbers.Send(w.ctx, run, 7))
		_ = result(w, run)
	})
}

func stepRun(ctx context.Context) workflow.RunID {
	c, _ := step.Current(ctx)
	return c.RunID
}

// A worker that has nothing of the run in memory replays it after each message.
func TestFLOW8_AReplayWritesNothingTwice(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		code := []binding{as(streams, func(ctx workflow.Context, n int) (int, error) {
			for i := range n {
				tokens.Write(ctx, 10*i)
				if _, err := work1.Call(ctx, i); err != nil {
					return i, err
				}
				if _, err := numbers.Receive(ctx); err != nil {
					return i, err
				}
			}
			return n, nil
		}), work1.as(func(ctx context.Context, n int) (int, error) { return n, writes(ctx, 10*n+1) })}
		run := start(w, streams, 3)
		var want []chunk
		for i := range 3 {
			wk := w.work(worker.Config{}, code...)
			w.reach(run, event.WaitCreated, i+1)
			wk.stop()
			order(t, numbers.Send(w.ctx, run, i))
			want = join(want, written(2*i+1, 10*i), by(fmt.Sprintf("streams/test.work1#%d", i+1), 1, written(2*i+2, 10*i+1)))
		}
		w.work(worker.Config{}, code...)
		_ = result(w, run)
		same(t, "a reader", w.chunks(run), want)
	})
}

func TestFLOW8_ARunThatContinuesGoesOnWithTheStreams(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
			tokens.Write(ctx, n)
			if n < 4 {
				if _, err := work1.Call(ctx, n); err != nil {
					return 0, err
				}
				return 0, streams.ContinueAsNew(ctx, n+1)
			}
			tokens.Close(ctx)
			return n, nil
		}), work1.as(func(ctx context.Context, n int) (int, error) { return n, writes(ctx, 10*n) }))
		run := start(w, streams, 1)
		var values []int
		var runs = map[workflow.RunID]bool{}
		for c, err := range tokens.Read(w.ctx, run) {
			order(t, err)
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
	})
}

// What one run of a chain, or a step, has closed is closed for all.
func TestFLOW8_WritingToAClosedStreamIsAMistakeThatSaysSo(t *testing.T) {
	for name, code := range map[string]func(ctx workflow.Context, n int) (int, error){
		"closed by the code": func(ctx workflow.Context, n int) (int, error) {
			tokens.Close(ctx)
			tokens.Write(ctx, n)
			return n, nil
		},
		"closed by a step": func(ctx workflow.Context, n int) (int, error) {
			_, err := work1.Call(ctx, n)
			tokens.Write(ctx, n)
			return n, err
		},
		"closed by the run before": func(ctx workflow.Context, n int) (int, error) {
			if n == 1 {
				tokens.Close(ctx)
				return 0, streams.ContinueAsNew(ctx, 2)
			}
			tokens.Write(ctx, n)
			return n, nil
		},
		"closed by the run before the one before": func(ctx workflow.Context, n int) (int, error) {
			if n == 1 {
				tokens.Close(ctx)
			}
			if n < 3 {
				return 0, streams.ContinueAsNew(ctx, n+1)
			}
			tokens.Write(ctx, n)
			return n, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEachStore(t, func(t *testing.T, w *world) {
				w.work(worker.Config{}, as(streams, code), work1.as(func(ctx context.Context, n int) (int, error) { return n, step.Close(ctx, tokens) }))
				run := start(w, streams, 1)
				if err := failure(w, run); err.Code != event.CodePanic || !containsAll(err.Reason, "tokens", "closed") {
					t.Errorf("got %v, want a panic that names the stream", err)
				}
				same(t, "a reader", w.chunks(run), nil)
			})
		})
	}
}

func TestFLOW8_AForkedRunBeginsWithEmptyStreams(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(streams, func(ctx workflow.Context, n int) (int, error) {
			for i := range n {
				tokens.Write(ctx, i)
				if _, err := work1.Call(ctx, i); err != nil {
					return 0, err
				}
			}
			return n, nil
		}), work1.as(func(ctx context.Context, n int) (int, error) {
			if n == 1 {
				return n, errors.Join(writes(ctx, 10+n), step.Close(ctx, workflow.NewStream[int]("other")))
			}
			return n, writes(ctx, 10+n)
		}))
		run := start(w, streams, 3)
		_ = result(w, run)
		if n := len(w.chunks(run)); n != 6 {
			t.Errorf("the old run has written %d chunks, want 6", n)
		}
		again, err := run.Fork(w.ctx, "streams/test.work1#3")
		order(t, err)
		if got := result(w, again); got != 3 {
			t.Errorf("the new run returns %d", got)
		}
		same(t, "the new run", w.chunks(again), by("streams/test.work1#3", 1, written(1, 12)))
		if n := len(w.chunks(run)); n != 6 {
			t.Errorf("the old run now has %d chunks, want 6", n)
		}
		if closed := filter(w.log(again), event.StreamClosed); len(closed) != 1 || closed[0].Name != "other" {
			t.Errorf("the new log keeps %+v, want what step 2 has closed", closed)
		}
	})
}
