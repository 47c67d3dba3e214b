package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// raceCode waits for two steps, a timer and a message, and returns the name of the first.
func raceCode(ctx workflow.Context, _ string) (string, error) {
	msg, timer := note.Case(), workflow.After(5*time.Minute) // shorter than the timeout of a step's attempt
	a := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, work, "a") })
	b := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, work, "b") })
	won, err := workflow.Select(ctx, msg, timer, a, b)
	switch {
	case err != nil:
		return "", err
	case won == msg:
		return "message", nil
	case won == timer:
		return "timer", nil
	case won == a:
		return "a", nil
	}
	return "b", nil
}

func setupRace(e *workflowtest.Env) {
	shim.BindWorkflow(e, order, raceCode)
	bindWork(e)
	e.At(time.Minute, send(e, "hello"))
}

func TestInterleave_FindsEveryWinnerOfARace(t *testing.T) {
	winners := map[string]bool{}
	r := workflowtest.Interleave(t, order, "in", setupRace, 200, workflowtest.AllowUnread(),
		workflowtest.Check(func(_ testing.TB, _ *workflowtest.Env, o workflowtest.Outcome) {
			winners[string(o.Status)+string(o.Result)] = true
		}))
	want := map[string]bool{`completed"message"`: true, `completed"timer"`: true, `completed"a"`: true, `completed"b"`: true, "cancelled": true}
	if d := cmp.Diff(want, winners); d != "" {
		t.Errorf("outcomes (-want +got):\n%s", d)
	}
	if r.Seeds != 200 || r.Orders < 5 || r.Outcomes != 5 || r.Canceled == 0 || r.Failed != 0 {
		t.Errorf("got %+v", r)
	}
}

func TestInterleave_SeesEveryOrderOfThreeSteps(t *testing.T) {
	r := workflowtest.Interleave(t, order, "in", func(e *workflowtest.Env) {
		shim.BindWorkflow(e, order, func(ctx workflow.Context, in string) (string, error) {
			_, err := workflow.Map(ctx, []string{"a", "b", "c"}, callWork)
			return in, err
		})
		bindWork(e)
	}, 200, workflowtest.WithoutCancels())
	if r.Orders != 6 || r.Outcomes != 1 {
		t.Errorf("got %+v, want 6 orders and one outcome", r)
	}
}

func TestInterleave_LeavesCancelsOutIfToldTo(t *testing.T) {
	r := workflowtest.Interleave(t, order, "in", setupRace, 40, workflowtest.AllowUnread(), workflowtest.WithoutCancels())
	if r.Canceled != 0 || r.Outcomes != 4 {
		t.Errorf("got %+v", r)
	}
}

func TestInterleave_ASeedThatFailsFailsAloneInTheSameWay(t *testing.T) {
	var logs [][]string
	test := func(t testing.TB, seeds int, opts ...workflowtest.Option) {
		workflowtest.Interleave(t, order, "in", setupRace, seeds, append(opts, workflowtest.AllowUnread(),
			workflowtest.Check(func(t testing.TB, _ *workflowtest.Env, o workflowtest.Outcome) {
				if string(o.Result) == `"timer"` {
					logs = append(logs, o.Log)
					t.Error("the timer has won")
				}
			}))...)
	}
	all := observe(t, func(t testing.TB) { test(t, 100) })
	m := regexp.MustCompile(`-workflowtest\.seed=(\d+)`).FindStringSubmatch(all)
	if m == nil {
		t.Fatalf("the failure names no seed:\n%s", all)
	}
	seed, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	first := logs[0]
	for range 5 {
		logs = nil
		_ = observe(t, func(t testing.TB) { test(t, 1, workflowtest.Seed(seed)) })
		if len(logs) != 1 {
			t.Fatalf("seed %d alone does not fail", seed)
		}
		if d := cmp.Diff(first, logs[0]); d != "" {
			t.Errorf("seed %d alone gives another log (-with all others +alone):\n%s", seed, d)
		}
	}
}

func TestInterleave_TellsStatesOfOneOutcomeApart(t *testing.T) {
	var l *ledger
	got := observe(t, func(t testing.TB) {
		workflowtest.Interleave(t, order, "in", func(e *workflowtest.Env) {
			l = &ledger{}
			shim.BindWorkflow(e, order, func(ctx workflow.Context, in string) (string, error) {
				a := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, work, "a") })
				b := workflow.Go(ctx, func(ctx workflow.Context) (string, error) { return call(ctx, work, "b") })
				_, err := workflow.All(ctx, a, b)
				return in, err
			})
			work.Bind(e, func(_ context.Context, arg string) (string, error) {
				l.add(arg)
				return arg, nil
			})
		}, 40, workflowtest.WithoutCancels(), workflowtest.State(func(*workflowtest.Env) any { return l.entries }))
	})
	if m, _ := regexp.MatchString(`the same outcome, completed "in", but what State returned differs`, got); !m {
		t.Errorf("got %q", got)
	}
}

func TestInterleave_NeedsVirtualTime(t *testing.T) {
	got := observe(t, func(t testing.TB) {
		workflowtest.Interleave(t, order, "in", setupRace, 1, workflowtest.AllowUnread(),
			workflowtest.WithStore(func(testing.TB) store.Store { return memstore.New() }))
	})
	if m, _ := regexp.MatchString("needs virtual time: leave WithStore out", got); !m {
		t.Errorf("got %q", got)
	}
}

func TestWithStore_TimeIsReal(t *testing.T) {
	env, run := start(t, callWork, bindWork, workflowtest.WithStore(func(testing.TB) store.Store { return memstore.New() }))
	if got, err := run.Result(t.Context()); got != "in" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if d := time.Since(env.Now()); d < 0 || d > time.Minute {
		t.Errorf("the clock is %v off", d)
	}
	if got := observe(t, func(t testing.TB) {
		env, _ := start(t, callWork, bindWork, workflowtest.WithStore(func(testing.TB) store.Store { return memstore.New() }))
		env.Advance(time.Hour)
	}); got == "" {
		t.Error("Advance passes although time is real")
	}
}

func TestSleep_OutsideOfAnEnvIsReal(t *testing.T) {
	began := time.Now()
	if err := workflowtest.Sleep(t.Context(), time.Millisecond); err != nil || time.Since(began) < time.Millisecond {
		t.Errorf("slept %v, %v", time.Since(began), err)
	}
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if err := workflowtest.Sleep(ctx, time.Hour); !errors.Is(err, ended) {
		t.Errorf("got %v, want the cause", err)
	}
}

func TestEnv_StepsMayStartRunsAndWaitForThem(t *testing.T) {
	child := flow("tests.child")
	env, run := start(t, callWork, func(e *workflowtest.Env) {
		shim.BindWorkflow(e, child, func(ctx workflow.Context, in string) (string, error) {
			return in + "!", workflow.Sleep(ctx, time.Minute)
		})
		work.Bind(e, func(ctx context.Context, arg string) (string, error) { return child.Execute(ctx, e.Client(), arg) })
	})
	if got, err := run.Result(t.Context()); got != "in!" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if d := env.Now().Sub(workflowtest.Epoch); d != time.Minute {
		t.Errorf("virtual time: got %v, want a minute", d)
	}
}

func TestEnv_FollowsSeveralRunsAtOnce(t *testing.T) {
	env := workflowtest.New(t)
	shim.BindWorkflow(env, order, func(ctx workflow.Context, in string) (string, error) {
		d, err := time.ParseDuration(in)
		if err != nil {
			return "", err
		}
		return in, workflow.Sleep(ctx, d)
	})
	results := make(chan string, 5)
	for n := range 5 {
		go func() {
			got, err := order.Execute(t.Context(), env.Client(), fmt.Sprintf("%dh", 5-n))
			results <- fmt.Sprint(got, err)
		}()
	}
	got := map[string]bool{}
	for range 5 {
		got[<-results] = true
	}
	want := map[string]bool{"1h<nil>": true, "2h<nil>": true, "3h<nil>": true, "4h<nil>": true, "5h<nil>": true}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
}
