package limits_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestPOOL3_AStepThatIsTooHeavyFailsAtOnce(t *testing.T) {
	heavy := flowtest.AStep[int, int]("limits.tooheavy", using(func(n int) []limit.Use { return []limit.Use{gpu.Use(n)} }))
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) { return heavy.Call(ctx, n) }),
			heavy.As(func(_ context.Context, n int) (int, error) { return n, nil }))
		e := flowtest.Failure(w, flowtest.Start(w, renders, 3))
		if text := e.Error(); e.Code != "overlimit" || !strings.Contains(text, "test.gpu") || !strings.Contains(text, "a weight of 3") {
			t.Errorf("a step that is too heavy: got %v with code %s, want code overlimit, the limit and the weight", e, e.Code)
		}
	})
}

func TestPOOL3_AStepThatIsTooHeavyForItsNextAttemptSaysWhy(t *testing.T) {
	less := limit.New("test.less", limit.Config{AtOnce: 2})
	policy := using(func(int) []limit.Use { return []limit.Use{less.Use(2)} })
	policy.Retry = workflow.RetryPolicy{Attempts: 5, Initial: time.Millisecond}
	step := flowtest.AStep[int, int]("limits.heaviernext", policy)
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var begun atomic.Int64
		w.Work(worker.Config{}, flowtest.As(renders, func(ctx workflow.Context, n int) (int, error) { return step.Call(ctx, n) }),
			step.As(func(ctx context.Context, _ int) (int, error) {
				begun.Add(1)
				return 0, errors.Join(errors.New("not yet"), ops.New(w.Client).Limits().Set(ctx, less, limit.Config{AtOnce: 1}))
			}))
		e := flowtest.Failure(w, flowtest.Start(w, renders, 1))
		if text := e.Error(); !strings.Contains(text, "2 of test.less") || !strings.Contains(text, "after 1 attempt") || begun.Load() != 1 {
			t.Errorf("after %d attempts: got %v, want it to say after the first one that the limit allows less", begun.Load(), e)
		}
	})
}

func TestPOOL3_WhatIsTooHeavyIsRefusedBeforeAWorkerHasDeclaredTheLimit(t *testing.T) {
	late := limit.New("test.late", limit.Config{AtOnce: 2})
	heavy := flowtest.LimitedFlow[int, int]("limits.late", func(n int) []limit.Use { return []limit.Use{late.Use(n)} })
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		refused := func(when string, want limit.LimitError) {
			t.Helper()
			for _, opts := range [][]workflow.StartOption{nil, {workflow.WithID("a")}, {workflow.WithID("b")}, {workflow.WithID("c")}, {workflow.WithID("d")}} {
				_, err := heavy.Start(w.Ctx, w.Client, 3, opts...)
				var got *limit.LimitError
				if !errors.As(err, &got) || *got != want {
					t.Errorf("%s, with %d options: got %v, want %v", when, len(opts), err, &want)
				}
			}
		}
		weighs := limit.LimitError{Limit: store.LimitID{Name: "test.late"}, Weight: 3, AtOnce: 2}
		refused("a start before the limit is declared", weighs)
		fits := flowtest.Start(w, heavy, 2)
		w.Work(worker.Config{}, flowtest.As(heavy, func(_ workflow.Context, n int) (int, error) { return n, nil }))
		if got := flowtest.Result(w, fits); got != 2 {
			t.Errorf("a run that fits: got %d", got)
		}
		refused("a start once it is declared", weighs)
		if err := ops.New(w.Client).Limits().Set(w.Ctx, late, limit.Config{AtOnce: 3}); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, flowtest.Start(w, heavy, 3, workflow.WithID("e"))); got != 3 {
			t.Errorf("a run that fits what was set: got %d", got)
		}
	})
}

// TestPOOL3_WhatIsTooHeavyForALimitThatIsDeclaredLaterEndsWithItsCode proves that a run whose
// weight exceeds a limit declared later fails with the code overlimit. Its start cannot be refused,
// because the starting process does not have the declaration of the limit.
func TestPOOL3_WhatIsTooHeavyForALimitThatIsDeclaredLaterEndsWithItsCode(t *testing.T) {
	unknown := limit.New("test.unknown", limit.Config{AtOnce: 3})
	heavy := flowtest.LimitedFlow[int, int]("limits.unknown", func(int) []limit.Use { return []limit.Use{unknown.Use(3)} })
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		runs := []*workflow.Run[int]{flowtest.Start(w, heavy, 1)}
		for _, id := range []string{"a", "b", "c", "d"} { // on a store with several partitions, some of these runs get their permits through another run
			runs = append(runs, flowtest.Start(w, heavy, 1, workflow.WithID(id)))
		}
		if err := ops.New(w.Client).Limits().Set(w.Ctx, unknown, limit.Config{AtOnce: 2}); err != nil {
			t.Fatal(err)
		}
		w.Work(worker.Config{}, flowtest.As(heavy, func(_ workflow.Context, n int) (int, error) { return n, nil }))
		for i, run := range runs {
			if e := flowtest.Failure(w, run); e.Code != "overlimit" {
				t.Errorf("run %d: got %v with code %s, want code overlimit", i, e, e.Code)
			}
		}
	})
}

func TestPOOL3_WhatIsTooHeavyForALoweredLimitEndsWithItsCode(t *testing.T) {
	scarce := limit.New("test.scarce", limit.Config{AtOnce: 2})
	held := flowtest.LimitedFlow[int, int]("limits.scarce", func(int) []limit.Use { return []limit.Use{scarce.Use(2)} })
	topic := workflow.NewTopic[int]("go")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(held, func(ctx workflow.Context, _ int) (int, error) { return topic.Receive(ctx) }))
		first := flowtest.Start(w, held, 1)
		w.Eventually("the first has its permits", func() bool {
			info, err := first.Info(w.Ctx)
			return err == nil && info.Status == workflow.StatusWaiting
		})
		second := flowtest.Start(w, held, 2)
		if err := ops.New(w.Client).Limits().Set(w.Ctx, scarce, limit.Config{AtOnce: 1}); err != nil {
			t.Fatal(err)
		}
		if e := flowtest.Failure(w, second); e.Code != "overlimit" {
			t.Errorf("the second ended with %v, want code overlimit", e)
		}
		if err := topic.Send(w.Ctx, first, 9); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, first); got != 9 {
			t.Errorf("the first: got %d", got)
		}
	})
}
