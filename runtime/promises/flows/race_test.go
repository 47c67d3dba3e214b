package flows_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestFLOW2_TheWinnersOfRacesAreTheSameInEveryReplay proves that races between steps and messages
// have the same winners in a replay. It runs ten rounds on two workers, one after the other.
func TestFLOW2_TheWinnersOfRacesAreTheSameInEveryReplay(t *testing.T) {
	races := flowtest.Flow[int, []int]("races")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		var executions flowtest.Seen[[]int]
		code := []flowtest.Binding{
			flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
				if n%2 == 0 && step.Attempt(ctx) == 1 {
					return 0, flowtest.ErrBusy
				}
				return n, nil
			}),
			flowtest.As(races, func(ctx workflow.Context, rounds int) ([]int, error) {
				var winners []int
				for range rounds {
					v, err := race(ctx)
					if err != nil {
						return nil, err
					}
					winners = append(winners, v...)
				}
				executions.Add(winners)
				_, err := flowtest.Wake.Receive(ctx)
				return winners, err
			}),
		}
		first := w.Work(worker.Config{}, code...)
		run := flowtest.Start(w, races, 10)
		for n := range 10 {
			if err := flowtest.Numbers.Send(w.Ctx, run, 100+n); err != nil {
				t.Fatal(err)
			}
		}
		w.Eventually("the races are over", func() bool {
			info, err := run.Info(w.Ctx)
			return err == nil && info.Status == workflow.StatusWaiting && executions.Len() > 0
		})
		first.Stop()
		w.Work(worker.Config{}, code...)
		if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		got := flowtest.Result(w, run)
		all := executions.Get()
		if len(all) < 2 {
			t.Errorf("the code was executed %d times: nothing was replayed", len(all))
		}
		for i, winners := range all {
			if diff := cmp.Diff(got, winners); diff != "" {
				t.Errorf("execution %d (-result +execution):\n%s", i+1, diff)
			}
		}
		if n := len(flowtest.Filter(w.Log(run), event.RunStarted)); n != 1 {
			t.Errorf("the run was started %d times", n)
		}
	})
}

// race lets five branches race with a message. It returns the winner, and then the order of the
// others.
func race(ctx workflow.Context) ([]int, error) {
	var fs []*workflow.Future[int]
	var open []workflow.Case
	for n := range 5 {
		f := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.Work1.Call(ctx, n) })
		fs, open = append(fs, f), append(open, f)
	}
	message := flowtest.Numbers.Case()
	open = append(open, message)
	won, err := workflow.Select(ctx, open...)
	if err != nil {
		return nil, err
	}
	order := []int{-1}
	if won == workflow.Case(message) {
		order[0] = message.Value()
	}
	first, err := workflow.First(ctx, fs...)
	if err != nil {
		return nil, err
	}
	success, err := workflow.Any(ctx, fs...)
	if err != nil {
		return nil, err
	}
	all, err := workflow.All(ctx, fs...)
	return append(append(order, first, success), all...), err
}
