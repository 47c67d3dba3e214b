package flows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestFLOW1_BranchesShareVariablesWithoutLocks proves that branches can share a variable without
// locks, because only one branch executes at a time. The race detector would report two branches
// that execute concurrently.
func TestFLOW1_BranchesShareVariablesWithoutLocks(t *testing.T) {
	shared := flowtest.Flow[int, []int]("shared")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Work1.As(func(_ context.Context, n int) (int, error) { return n, nil }),
			flowtest.As(shared, func(ctx workflow.Context, n int) ([]int, error) {
				var order []int
				var branches []*workflow.Future[workflow.None]
				for i := range n {
					branches = append(branches, workflow.GoErr(ctx, func(ctx workflow.Context) error {
						for range 3 {
							v, err := flowtest.Work1.Call(ctx, i)
							if err != nil {
								return err
							}
							order = append(order, v)
						}
						return nil
					}))
				}
				_, err := workflow.All(ctx, branches...)
				return order, err
			}))
		got := flowtest.Result(w, flowtest.Start(w, shared, 20))
		slices.Sort(got)
		var want []int
		for i := range 20 {
			want = append(want, i, i, i)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// branches starts a branch for each number. The branch ends when the gate of its number is open.
func branches(ctx workflow.Context, numbers ...int) []*workflow.Future[int] {
	var all []*workflow.Future[int]
	for _, n := range numbers {
		all = append(all, workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
			return flowtest.Work1.Call(workflow.WithStepOptions(ctx, workflow.Retry(workflow.RetryPolicy{Attempts: 1})), n)
		}))
	}
	return all
}

func describe(v any, err error) string {
	if err == nil {
		return fmt.Sprint(v)
	}
	for n := range 8 {
		if flowtest.ContainsAll(err.Error(), fmt.Sprint("odd ", n)) {
			return fmt.Sprint("error ", n)
		}
	}
	return err.Error()
}

// TestFLOW2_CombinatorsTakeFuturesInTheOrderOfTheLog proves that Select, Any, All and the other
// combinators process futures in the order in which these ended according to the log. This is the
// order in which the test opens the gates.
func TestFLOW2_CombinatorsTakeFuturesInTheOrderOfTheLog(t *testing.T) {
	for name, tt := range map[string]struct {
		open []int // numbers of the gates, in the order in which they are opened
		f    func(workflow.Context) string
		want string
	}{
		"All":           {[]int{2, 0}, func(ctx workflow.Context) string { return describe(workflow.All(ctx, branches(ctx, 0, 2)...)) }, "[0 2]"},
		"All of none":   {nil, func(ctx workflow.Context) string { return describe(workflow.All[int](ctx)) }, "[]"},
		"All fails":     {[]int{3}, func(ctx workflow.Context) string { return describe(workflow.All(ctx, branches(ctx, 0, 1, 3, 5)...)) }, "error 3"},
		"First":         {[]int{4}, func(ctx workflow.Context) string { return describe(workflow.First(ctx, branches(ctx, 0, 4, 2)...)) }, "4"},
		"First fails":   {[]int{1}, func(ctx workflow.Context) string { return describe(workflow.First(ctx, branches(ctx, 0, 1)...)) }, "error 1"},
		"First of none": {nil, func(ctx workflow.Context) string { return describe(workflow.First[int](ctx)) }, "workflow: no futures were given"},
		"Any":           {[]int{1, 4}, func(ctx workflow.Context) string { return describe(workflow.Any(ctx, branches(ctx, 0, 1, 4)...)) }, "4"},
		"Any of none":   {nil, func(ctx workflow.Context) string { return describe(workflow.Any[int](ctx)) }, "workflow: no futures were given"},
		"Map": {[]int{4, 2, 0}, func(ctx workflow.Context) string {
			return describe(workflow.Map(ctx, []int{0, 2, 4}, flowtest.Work1.Call))
		}, "[0 2 4]"},
		"Map of none": {nil, func(ctx workflow.Context) string { return describe(workflow.Map(ctx, nil, flowtest.Work1.Call)) }, "[]"},
		"Get twice": {[]int{2}, func(ctx workflow.Context) string {
			f := branches(ctx, 2)[0]
			_, _ = f.Get(ctx)
			return describe(f.Get(ctx))
		}, "2"},
		"in another branch": {[]int{2}, func(ctx workflow.Context) string {
			f := branches(ctx, 2)[0]
			g := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return f.Get(ctx) })
			return describe(g.Get(ctx))
		}, "2"},
		"Any fails": {[]int{3, 1}, func(ctx workflow.Context) string {
			_, err := workflow.Any(ctx, branches(ctx, 1, 3)...)
			return fmt.Sprint(errors.Is(err, flowtest.ErrFatal), flowtest.ContainsAll(err.Error(), "odd 1", "odd 3"))
		}, "false true"},
		"Settled": {[]int{3, 0}, func(ctx workflow.Context) string {
			o := workflow.Settled(ctx, branches(ctx, 0, 3)...)
			return describe(o[0].Value, o[0].Err) + ", " + describe(o[1].Value, o[1].Err)
		}, "0, error 3"},
		"MapSettled": {[]int{3, 0}, func(ctx workflow.Context) string {
			ctx = workflow.WithStepOptions(ctx, workflow.Retry(workflow.RetryPolicy{Attempts: 1}))
			o := workflow.MapSettled(ctx, []int{0, 3}, flowtest.Work1.Call)
			return describe(o[0].Value, o[0].Err) + ", " + describe(o[1].Value, o[1].Err)
		}, "0, error 3"},
		"Map cancels the rest": {[]int{1}, func(ctx workflow.Context) string {
			ctx = workflow.WithStepOptions(ctx, workflow.Retry(workflow.RetryPolicy{Attempts: 1}))
			_, err := workflow.Map(ctx, []int{0, 1, 2}, flowtest.Work1.Call)
			return describe("", err) + fmt.Sprint(", ", ctx.Err())
		}, "error 1, <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewMemory(t)
			g := flowtest.NewGates()
			combine := flowtest.Flow[workflow.None, string]("combine")
			w.Work(worker.Config{}, flowtest.Work1.As(g.Pass), flowtest.As(combine, func(ctx workflow.Context, _ workflow.None) (string, error) { return tt.f(ctx), nil }))
			run := flowtest.Start(w, combine, workflow.None{})
			for i, n := range tt.open {
				close(g.Open[n])
				if i < len(tt.open)-1 {
					w.Settled(run, i+1)
				}
			}
			if got := flowtest.Result(w, run); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestFLOW2_MapWorksOnAsManyItemsAtOnceAsItsLimitSays(t *testing.T) {
	limited := flowtest.Flow[int, []int]("limited")
	for limit, want := range map[int]int{1: 1, 3: 3, 0: 4, 9: 4} {
		w := flowtest.NewMemory(t)
		g := flowtest.NewGates()
		w.Work(worker.Config{}, flowtest.Work1.As(g.Pass), flowtest.As(limited, func(ctx workflow.Context, limit int) ([]int, error) {
			return workflow.Map(ctx, []int{0, 2, 4, 6}, flowtest.Work1.Call, workflow.Limit(limit))
		}))
		run := flowtest.Start(w, limited, limit)
		w.Reach(run, event.StepStarted, want)
		if n := len(flowtest.Filter(w.Log(run), event.StepCreated)); n != want {
			t.Errorf("limit %d: %d items at once, want %d", limit, n, want)
		}
		if limit == 3 { // the fourth item begins when one of the three ends
			close(g.Open[2])
			w.Reach(run, event.StepCreated, 4)
			g.Open[2] = make(chan struct{})
		}
		for _, n := range []int{6, 4, 2, 0} {
			close(g.Open[n])
		}
		if diff := cmp.Diff([]int{0, 2, 4, 6}, flowtest.Result(w, run)); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

func TestFLOW2_GetEndsWithItsContextAndTheFutureGoesOn(t *testing.T) {
	patient := flowtest.Flow[int, int]("patient")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(patient, func(ctx workflow.Context, n int) (int, error) {
		f := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return flowtest.Numbers.Receive(ctx) })
		short, stop := workflow.WithTimeout(ctx, time.Millisecond)
		defer stop()
		if _, err := f.Get(short); !errors.Is(err, workflow.ErrTimeout) || f.Done() {
			t.Errorf("Get: %v, done %v", err, f.Done())
		}
		if _, err := workflow.All(short, f); !errors.Is(err, workflow.ErrTimeout) {
			t.Errorf("All: %v", err)
		}
		if o := workflow.Settled(short, f); !errors.Is(o[0].Err, workflow.ErrTimeout) {
			t.Errorf("Settled: %v", o)
		}
		if _, err := workflow.Select(short, f); !errors.Is(err, workflow.ErrTimeout) {
			t.Errorf("Select: %v", err)
		}
		return f.Get(ctx)
	}))
	run := flowtest.Start(w, patient, 1)
	w.Reach(run, event.WaitCompleted, 1)
	if err := flowtest.Numbers.Send(w.Ctx, run, 7); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != 7 {
		t.Errorf("got %d", got)
	}
}

func TestFLOW2_ForEachReturnsTheFirstFailureAndBeginsNoMore(t *testing.T) {
	each := flowtest.Flow[workflow.None, string]("each")
	w := flowtest.NewMemory(t)
	var begun atomic.Int32
	w.Work(worker.Config{}, flowtest.As(each, func(ctx workflow.Context, _ workflow.None) (string, error) {
		err := workflow.ForEach(ctx, []int{0, 1, 2, 3, 4, 5}, func(ctx workflow.Context, n int) error {
			begun.Add(1)
			if n == 2 {
				return errors.New("enough")
			}
			return workflow.Sleep(ctx, time.Millisecond)
		}, workflow.Limit(1))
		return fmt.Sprint(err), nil
	}))
	if got := flowtest.Result(w, flowtest.Start(w, each, workflow.None{})); got != "enough" || begun.Load() != 3 {
		t.Errorf("got %q after %d items, want enough after 3", got, begun.Load())
	}
}

func TestFLOW2_SelectTakesFuturesTimersAndMessages(t *testing.T) {
	selects := flowtest.Flow[workflow.None, []string]("selects")
	w := flowtest.NewVirtual(t)
	g := flowtest.NewGates()
	w.Work(worker.Config{}, flowtest.Work1.As(g.Pass), flowtest.As(selects, func(ctx workflow.Context, _ workflow.None) ([]string, error) {
		future, message, timer := branches(ctx, 2)[0], flowtest.Wake.Case(), workflow.After(6*time.Minute)
		var order []string
		open := []workflow.Case{future, message, timer}
		for len(order) < 4 {
			won, err := workflow.Select(ctx, open...)
			if err != nil {
				return order, err
			}
			switch won {
			case future:
				v, err := future.Get(ctx)
				order = append(order, describe(v, err))
				open = slices.DeleteFunc(open, func(c workflow.Case) bool { return c == future })
			case message:
				order = append(order, message.Value())
			case timer:
				order = append(order, "timer")
			}
		}
		return order, nil
	}))
	run := flowtest.Start(w, selects, workflow.None{})
	w.Reach(run, event.WaitCreated, 2)
	w.Clock.Advance(4 * time.Minute)
	if err := flowtest.Wake.Send(w.Ctx, run, "message"); err != nil {
		t.Fatal(err)
	}
	w.Reach(run, event.MessageReceived, 1)
	close(g.Open[2])
	w.Reach(run, event.StepCompleted, 1)
	w.Clock.Advance(2 * time.Minute) // the timer keeps its due time in later iterations
	w.Reach(run, event.WaitCompleted, 6)
	if err := flowtest.Wake.Send(w.Ctx, run, "again"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"message", "2", "timer", "again"}, flowtest.Result(w, run)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFLOW2_SelectPrefersTheFirstOfThoseThatAreReadyAndTakesNothingFromTheOthers(t *testing.T) {
	ties := flowtest.Flow[workflow.None, string]("ties")
	other := workflow.NewTopic[string]("other")
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, ties, workflow.None{})
	for _, topic := range []workflow.Topic[string]{other, flowtest.Wake} {
		if err := topic.Send(w.Ctx, run, "for "+topic.Name()); err != nil {
			t.Fatal(err)
		}
	}
	w.Work(worker.Config{}, flowtest.As(ties, func(ctx workflow.Context, _ workflow.None) (string, error) {
		if err := workflow.Sleep(ctx, time.Millisecond); err != nil { // when the sleep ends, both messages have arrived
			return "", err
		}
		a, b, now := flowtest.Wake.Case(), other.Case(), workflow.After(0)
		if won, err := workflow.Select(ctx, a, b, now); won != workflow.Case(a) || err != nil {
			return "", fmt.Errorf("first: %v, %w", won, err)
		}
		if won, err := workflow.Select(ctx, now, b); won != workflow.Case(now) || err != nil {
			return "", fmt.Errorf("second: %v, %w", won, err)
		}
		v, ok, err := other.TryReceive(ctx)
		if _, more, _ := flowtest.Wake.TryReceive(ctx); more {
			return "", errors.New("a message was delivered twice")
		}
		return fmt.Sprint(a.Value(), ", ", v, ok), err
	}))
	if got := flowtest.Result(w, run); got != "for wake, for othertrue" {
		t.Errorf("got %q", got)
	}
}
