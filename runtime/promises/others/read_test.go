package others_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	level  = workflow.NewValue[int]("others.level")
	lines  = workflow.NewStream[string]("others.lines")
	last   = workflow.NewStream[string]("others.last", workflow.KeepLast(2))
	turn   = workflow.NewTopic[int]("others.turn")
	shows  = flowtest.Flow[int, int]("others.shows")
	reads  = flowtest.Flow[workflow.RunID, []string]("others.reads")
	absent = event.RunID("wrun_01JGFJJZ00000000000000000A")
)

// show writes n lines to two streams. Then it sets the value level to each number that it receives,
// until it receives a negative number.
func show(ctx workflow.Context, n int) (int, error) {
	for range n {
		lines.Write(ctx, strings.Repeat("x", 1000))
		last.Write(ctx, fmt.Sprint("line ", n))
	}
	for {
		v, err := turn.Receive(ctx)
		if err != nil || v < 0 {
			return v, err
		}
		level.Set(ctx, v)
	}
}

func send(t *testing.T, w *flowtest.World, run workflow.Target, v int) {
	t.Helper()
	if err := turn.Send(w.Ctx, run, v); err != nil {
		t.Fatal(err)
	}
}

func TestRUN19_CodeReadsFromAnotherRunAndAReplaySeesTheSame(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		look := func(ctx workflow.Context, other workflow.OtherRun) (string, error) {
			status, err := workflow.StatusOf(ctx, other)
			if err != nil {
				return "", err
			}
			v, set, err := level.GetFrom(ctx, other)
			if err != nil {
				return "", err
			}
			part, err := lines.ReadFrom(ctx, other, workflow.FromEnd(1))
			if err != nil {
				return "", err
			}
			return fmt.Sprintln(status, v, set, len(part.Chunks), part.Next, part.Ended), nil
		}
		code := flowtest.As(reads, func(ctx workflow.Context, id workflow.RunID) (all []string, err error) {
			for range 3 {
				seen, err := look(ctx, workflow.Other(id))
				if err != nil {
					return nil, err
				}
				all = append(all, seen)
				if _, err := turn.Receive(ctx); err != nil {
					return nil, err
				}
			}
			return all, nil
		})
		first := w.Work(worker.Config{}, code, flowtest.As(shows, show))
		other := flowtest.Start(w, shows, 3)
		w.Reach(other, event.WaitCreated, 1)
		run := flowtest.Start(w, reads, other.ID())
		w.Reach(run, event.WaitCreated, 1)
		first.Stop()
		w.Work(worker.Config{}, code, flowtest.As(shows, show))
		send(t, w, other, 7)
		w.Reach(other, event.WaitCreated, 2)
		send(t, w, run, 0)
		w.Reach(run, event.WaitCreated, 2)
		send(t, w, other, -1)
		flowtest.Result(w, other)
		send(t, w, run, 0)
		w.Reach(run, event.WaitCreated, 3)
		send(t, w, run, 0)
		want := []string{"waiting 0 false 1 4 false\n", "waiting 7 true 1 4 false\n", "completed 7 true 1 4 true\n"}
		if diff := cmp.Diff(want, flowtest.Result(w, run)); diff != "" {
			t.Errorf("seen (-want +got):\n%s", diff)
		}
		w.Healthy()
	})
}

func TestRUN19_AStreamOfAnotherRunIsReadInParts(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(shows, show), flowtest.As(reads, func(ctx workflow.Context, id workflow.RunID) (all []string, err error) {
			parts, chunks, next := 0, 0, uint64(0)
			for {
				part, err := lines.ReadFrom(ctx, workflow.Other(id), workflow.From(next))
				if err != nil {
					return nil, err
				}
				for _, c := range part.Chunks {
					if chunks++; c.Index != uint64(chunks) || len(c.Value) != 1000 {
						return nil, fmt.Errorf("chunk %d has index %d", chunks, c.Index)
					}
				}
				parts++
				if next = part.Next; part.Ended {
					break
				}
			}
			_, err = last.ReadFrom(ctx, workflow.Other(id), workflow.From(1))
			var lag *workflow.LagError
			if !errors.As(err, &lag) || lag.Next != 499 {
				return nil, fmt.Errorf("chunk 1 of a stream that keeps 2: %w", err)
			}
			_, err = lines.ReadFrom(ctx, workflow.Other(id), workflow.Types(event.StepCreated))
			return []string{fmt.Sprint(chunks, parts > 2, err != nil)}, nil
		}))
		other := flowtest.Start(w, shows, 500)
		send(t, w, other, -1)
		flowtest.Result(w, other)
		if diff := cmp.Diff([]string{"500 true true"}, flowtest.Result(w, flowtest.Start(w, reads, other.ID()))); diff != "" {
			t.Errorf("seen (-want +got):\n%s", diff)
		}
	})
}

func TestRUN19_AMissingRunIsATypedError(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(reads, func(ctx workflow.Context, id workflow.RunID) (all []string, err error) {
			other := workflow.Other(id)
			_, status := workflow.StatusOf(ctx, other)
			_, _, get := level.GetFrom(ctx, other)
			_, wait := level.WaitFrom(ctx, other)
			_, read := lines.ReadFrom(ctx, other)
			for _, err := range []error{status, get, wait, read} {
				if !errors.Is(err, workflow.ErrRunNotFound) {
					all = append(all, fmt.Sprint(err))
				}
			}
			if _, err := workflow.StatusOf(ctx, workflow.Other("order-7")); err == nil || errors.Is(err, workflow.ErrRunNotFound) {
				all = append(all, "no run id")
			}
			return all, nil
		}))
		if got := flowtest.Result(w, flowtest.Start(w, reads, absent)); len(got) != 0 {
			t.Errorf("other errors: %q", got)
		}
	})
}
