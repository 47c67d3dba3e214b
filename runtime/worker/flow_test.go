package worker_test

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
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Nothing but the order of the log protects the variable; the race detector
// would see two branches at once.
func TestFLOW1_BranchesShareVariablesWithoutLocks(t *testing.T) {
	shared := flow[int, []int]("shared")
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, work1.as(func(_ context.Context, n int) (int, error) { return n, nil }),
			as(shared, func(ctx workflow.Context, n int) ([]int, error) {
				var order []int
				var branches []*workflow.Future[workflow.None]
				for i := range n {
					branches = append(branches, workflow.GoErr(ctx, func(ctx workflow.Context) error {
						for range 3 {
							v, err := work1.Call(ctx, i)
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
		got := result(w, start(w, shared, 20))
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

// gates are steps that complete when the test says so.
type gates struct{ open [8]chan struct{} }

func newGates() *gates {
	g := &gates{}
	for i := range g.open {
		g.open[i] = make(chan struct{})
	}
	return g
}

// pass waits for its gate and returns n, or an error if n is odd.
func (g *gates) pass(ctx context.Context, n int) (int, error) {
	select {
	case <-g.open[n]:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if n%2 == 1 {
		return 0, fmt.Errorf("odd %d: %w", n, errFatal)
	}
	return n, nil
}

var errFatal = errors.New("fatal")

// branches starts a branch for each number, which passes its gate.
func branches(ctx workflow.Context, numbers ...int) []*workflow.Future[int] {
	var all []*workflow.Future[int]
	for _, n := range numbers {
		all = append(all, workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
			return work1.Call(workflow.WithStepOptions(ctx, workflow.Retry(workflow.RetryPolicy{Attempts: 1})), n)
		}))
	}
	return all
}

func describe(v any, err error) string {
	if err == nil {
		return fmt.Sprint(v)
	}
	for n := range 8 {
		if containsAll(err.Error(), fmt.Sprint("odd ", n)) {
			return fmt.Sprint("error ", n)
		}
	}
	return err.Error()
}

// The combinators see futures in the order in which the log says that they
// ended; which is the order in which the gates are opened.
func TestFLOW2_CombinatorsTakeFuturesInTheOrderOfTheLog(t *testing.T) {
	for name, tt := range map[string]struct {
		open []int // gates
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
		"Map":           {[]int{4, 2, 0}, func(ctx workflow.Context) string { return describe(workflow.Map(ctx, []int{0, 2, 4}, work1.Call)) }, "[0 2 4]"},
		"Map of none":   {nil, func(ctx workflow.Context) string { return describe(workflow.Map(ctx, nil, work1.Call)) }, "[]"},
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
			return fmt.Sprint(errors.Is(err, errFatal), containsAll(err.Error(), "odd 1", "odd 3"))
		}, "false true"},
		"Settled": {[]int{3, 0}, func(ctx workflow.Context) string {
			o := workflow.Settled(ctx, branches(ctx, 0, 3)...)
			return describe(o[0].Value, o[0].Err) + ", " + describe(o[1].Value, o[1].Err)
		}, "0, error 3"},
		"MapSettled": {[]int{3, 0}, func(ctx workflow.Context) string {
			ctx = workflow.WithStepOptions(ctx, workflow.Retry(workflow.RetryPolicy{Attempts: 1}))
			o := workflow.MapSettled(ctx, []int{0, 3}, work1.Call)
			return describe(o[0].Value, o[0].Err) + ", " + describe(o[1].Value, o[1].Err)
		}, "0, error 3"},
		"Map cancels the rest": {[]int{1}, func(ctx workflow.Context) string {
			ctx = workflow.WithStepOptions(ctx, workflow.Retry(workflow.RetryPolicy{Attempts: 1}))
			_, err := workflow.Map(ctx, []int{0, 1, 2}, work1.Call)
			return describe("", err) + fmt.Sprint(", ", ctx.Err())
		}, "error 1, <nil>"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newMemory(t)
			g := newGates()
			combine := flow[workflow.None, string]("combine")
			w.work(worker.Config{}, work1.as(g.pass), as(combine, func(ctx workflow.Context, _ workflow.None) (string, error) { return tt.f(ctx), nil }))
			run := start(w, combine, workflow.None{})
			for i, n := range tt.open {
				close(g.open[n])
				if i < len(tt.open)-1 {
					w.settled(run, i+1)
				}
			}
			if got := result(w, run); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// settled waits until n steps of a run have ended.
func (w *world) settled(run follows, n int) {
	w.t.Helper()
	for _, err := range w.client.Run(run.ID()).Events(w.ctx, workflow.Types(event.StepCompleted, event.StepFailed)) {
		if err != nil {
			w.t.Fatal(err)
		}
		if n--; n == 0 {
			return
		}
	}
	w.t.Fatal("the run ended before")
}

func TestFLOW2_MapWorksOnAsManyItemsAtOnceAsItsLimitSays(t *testing.T) {
	limited := flow[int, []int]("limited")
	for limit, want := range map[int]int{1: 1, 3: 3, 0: 4, 9: 4} {
		w := newMemory(t)
		g := newGates()
		w.work(worker.Config{}, work1.as(g.pass), as(limited, func(ctx workflow.Context, limit int) ([]int, error) {
			return workflow.Map(ctx, []int{0, 2, 4, 6}, work1.Call, workflow.Limit(limit))
		}))
		run := start(w, limited, limit)
		w.reach(run, event.StepStarted, want)
		if n := len(filter(w.log(run), event.StepCreated)); n != want {
			t.Errorf("limit %d: %d items at once, want %d", limit, n, want)
		}
		if limit == 3 { // the last item takes the place of the first that ends
			close(g.open[2])
			w.reach(run, event.StepCreated, 4)
			g.open[2] = make(chan struct{})
		}
		for _, n := range []int{6, 4, 2, 0} {
			close(g.open[n])
		}
		if diff := cmp.Diff([]int{0, 2, 4, 6}, result(w, run)); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

func TestFLOW2_GetEndsWithItsContextAndTheFutureGoesOn(t *testing.T) {
	patient := flow[int, int]("patient")
	w := newMemory(t)
	w.work(worker.Config{}, as(patient, func(ctx workflow.Context, n int) (int, error) {
		f := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return numbers.Receive(ctx) })
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
	run := start(w, patient, 1)
	w.reach(run, event.WaitCompleted, 1)
	if err := numbers.Send(w.ctx, run, 7); err != nil {
		t.Fatal(err)
	}
	if got := result(w, run); got != 7 {
		t.Errorf("got %d", got)
	}
}

func TestFLOW2_ForEachReturnsTheFirstFailureAndBeginsNoMore(t *testing.T) {
	each := flow[workflow.None, string]("each")
	w := newMemory(t)
	var begun atomic.Int32
	w.work(worker.Config{}, as(each, func(ctx workflow.Context, _ workflow.None) (string, error) {
		err := workflow.ForEach(ctx, []int{0, 1, 2, 3, 4, 5}, func(ctx workflow.Context, n int) error {
			begun.Add(1)
			if n == 2 {
				return errors.New("enough")
			}
			return workflow.Sleep(ctx, time.Millisecond)
		}, workflow.Limit(1))
		return fmt.Sprint(err), nil
	}))
	if got := result(w, start(w, each, workflow.None{})); got != "enough" || begun.Load() != 3 {
		t.Errorf("got %q after %d items, want enough after 3", got, begun.Load())
	}
}

func TestFLOW2_SelectTakesFuturesTimersAndMessages(t *testing.T) {
	selects := flow[workflow.None, []string]("selects")
	w := newVirtual(t)
	g := newGates()
	w.work(worker.Config{}, work1.as(g.pass), as(selects, func(ctx workflow.Context, _ workflow.None) ([]string, error) {
		future, message, timer := branches(ctx, 2)[0], wake.Case(), workflow.After(6*time.Minute)
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
	run := start(w, selects, workflow.None{})
	w.reach(run, event.WaitCreated, 2)
	w.clock.Advance(4 * time.Minute)
	if err := wake.Send(w.ctx, run, "message"); err != nil {
		t.Fatal(err)
	}
	w.reach(run, event.MessageReceived, 1)
	close(g.open[2])
	w.reach(run, event.StepCompleted, 1)
	w.clock.Advance(2 * time.Minute) // the timer keeps its due time over the rounds
	w.reach(run, event.WaitCompleted, 6)
	if err := wake.Send(w.ctx, run, "again"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"message", "2", "timer", "again"}, result(w, run)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFLOW2_SelectPrefersTheFirstOfThoseThatAreReadyAndTakesNothingFromTheOthers(t *testing.T) {
	ties := flow[workflow.None, string]("ties")
	other := workflow.NewTopic[string]("other")
	w := newMemory(t)
	run := start(w, ties, workflow.None{})
	for _, topic := range []workflow.Topic[string]{other, wake} {
		if err := topic.Send(w.ctx, run, "for "+topic.Name()); err != nil {
			t.Fatal(err)
		}
	}
	w.work(worker.Config{}, as(ties, func(ctx workflow.Context, _ workflow.None) (string, error) {
		if err := workflow.Sleep(ctx, time.Millisecond); err != nil { // both messages are there
			return "", err
		}
		a, b, now := wake.Case(), other.Case(), workflow.After(0)
		if won, err := workflow.Select(ctx, a, b, now); won != workflow.Case(a) || err != nil {
			return "", fmt.Errorf("first: %v, %w", won, err)
		}
		if won, err := workflow.Select(ctx, now, b); won != workflow.Case(now) || err != nil {
			return "", fmt.Errorf("second: %v, %w", won, err)
		}
		v, ok, err := other.TryReceive(ctx)
		if _, more, _ := wake.TryReceive(ctx); more {
			return "", errors.New("a message was delivered twice")
		}
		return fmt.Sprint(a.Value(), ", ", v, ok), err
	}))
	if got := result(w, run); got != "for wake, for othertrue" {
		t.Errorf("got %q", got)
	}
}
