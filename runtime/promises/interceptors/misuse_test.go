package interceptors_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// misuse is a way of breaking the rules of interceptors. C is the type of the context.
type misuse[C any] struct {
	name, want string
	do         func(ctx C, next func(C) error) error
}

// misuses returns the ways that are possible for each kind of interceptor.
func misuses[C any]() []misuse[C] {
	return []misuse[C]{
		{"never", "returned nil without calling next", func(C, func(C) error) error { return nil }},
		{"twice", "called next twice", func(ctx C, next func(C) error) error { return errors.Join(next(ctx), next(ctx)) }},
		{"twice, hidden", "called next twice", func(ctx C, next func(C) error) error {
			err := next(ctx)
			_ = next(ctx)
			return err
		}},
	}
}

// hidden is the misuse of an interceptor around an operation that fails.
func hidden[C any]() misuse[C] {
	return misuse[C]{"hides an error", "returned nil although next had failed", func(ctx C, next func(C) error) error {
		_ = next(ctx)
		return nil
	}}
}

func TestOPS8_AMisuseOfAClientInterceptorIsATypedError(t *testing.T) {
	all := append(misuses[context.Context](), misuse[context.Context]{"nil context", "called next with a nil context", func(_ context.Context, next func(context.Context) error) error {
		return next(nil) //nolint:staticcheck // the mistake of this test
	}}, hidden[context.Context]())
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{Interceptors: []workflow.Interceptor{
				clientFunc(func(ctx context.Context, _ *workflow.ClientCall, next func(context.Context) error) error {
					return m.do(ctx, next)
				}),
			}})
			var opts []workflow.StartOption
			if m.name == hidden[int]().name {
				opts = append(opts, workflow.WithTags(map[string]string{"\xff": ""}))
			}
			_, err := doubles.Start(w.Ctx, w.Client, 1, opts...)
			var wrong *workflow.InterceptorError
			if !errors.As(err, &wrong) || wrong.Misuse != m.want || wrong.Interceptor != "interceptors_test.clientFunc" {
				t.Errorf("the start returned %v", err)
			}
			most := 1
			if m.name == "never" || len(opts) > 0 || m.name == "nil context" {
				most = 0
			}
			if runs := w.List(workflow.Filter{}); len(runs) != most {
				t.Errorf("the start has created %v", runs)
			}
		})
	}
}

// TestOPS8_AClientOperationHasEndedWhenItReturns proves that an operation does not return while an
// interceptor still executes it on a goroutine.
func TestOPS8_AClientOperationHasEndedWhenItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &flowtest.Between{Store: memstore.New()}
		entered := make(chan struct{})
		var left atomic.Bool
		st.Around = func(_ context.Context, op string, _ any, do func() error) error {
			if op != "create" {
				return do()
			}
			close(entered)
			synctest.Wait() // the interceptor has returned, and the start waits
			defer left.Store(true)
			return do()
		}
		w := flowtest.NewWorld(t, st, workflow.ClientConfig{Interceptors: []workflow.Interceptor{
			clientFunc(func(ctx context.Context, _ *workflow.ClientCall, next func(context.Context) error) error {
				go func() { _ = next(ctx) }()
				<-entered
				return nil
			}),
		}})
		_, err := doubles.Start(w.Ctx, w.Client, 1)
		if !left.Load() {
			t.Error("the start has returned before the request to the store")
		}
		var wrong *workflow.InterceptorError
		if !errors.As(err, &wrong) || wrong.Misuse != "returned while next was running" {
			t.Errorf("the start returned %v", err)
		}
	})
}

func TestOPS8_AMisuseOfAStepInterceptorFailsTheAttempt(t *testing.T) {
	late := make(chan func() error, 10)
	all := append(misuses[context.Context](), hidden[context.Context](), misuse[context.Context]{
		"replaces the context", "called next with a context that is not derived from its own",
		func(_ context.Context, next func(context.Context) error) error { return next(context.Background()) },
	}, misuse[context.Context]{
		"late", "returned nil without calling next",
		func(ctx context.Context, next func(context.Context) error) error {
			late <- func() error { return next(ctx) }
			return nil
		},
	}, misuse[context.Context]{
		"panics", "", func(context.Context, func(context.Context) error) error { panic("interceptor") },
	})
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			var executed atomic.Int32
			w := flowtest.NewMemory(t)
			d := flowtest.Flow[int, int]("misused")
			w.Work(worker.Config{Interceptors: []workflow.Interceptor{
				stepFunc(func(ctx context.Context, _ step.Call, next func(context.Context) error) error {
					return m.do(ctx, next)
				}),
			}}, flowtest.As(d, code), double.As(func(_ context.Context, n int) (int, error) {
				if executed.Add(1); m.name == hidden[int]().name {
					return 0, errRefused
				}
				return n, nil
			}))
			run := flowtest.Start(w, d, 1)
			f := flowtest.Failure(w, run)
			if m.want == "" {
				if !strings.Contains(f.Error(), "panic: interceptor") {
					t.Errorf("the run failed with %v", f)
				}
				return
			}
			if !strings.Contains(f.Error(), "interceptor interceptors_test.stepFunc "+m.want) {
				t.Errorf("the run failed with %v", f)
			}
			if n := len(flowtest.Filter(w.Log(run), event.StepStarted)); n != 2 {
				t.Errorf("%d attempts, want 2", n)
			}
			for range len(late) {
				var wrong *workflow.InterceptorError
				if err := (<-late)(); !errors.As(err, &wrong) || wrong.Misuse != "called next after it had returned" {
					t.Errorf("a late call returned %v", err)
				}
			}
			if m.name == "never" || m.name == "late" || m.name == "replaces the context" {
				if executed.Load() != 0 {
					t.Errorf("the step was executed %d times", executed.Load())
				}
			}
		})
	}
}

func TestOPS8_AMisuseOfACodeInterceptorBlocksTheRunUntilItIsCorrected(t *testing.T) {
	all := append(misuses[workflow.Context](), hidden[workflow.Context](), misuse[workflow.Context]{
		"zero context", "called next with the Context of another branch: pass on its own Context, or one derived from it",
		func(_ workflow.Context, next func(workflow.Context) error) error { return next(workflow.Context{}) },
	}, misuse[workflow.Context]{
		"recovers and hides", "returned nil although next had failed",
		func(ctx workflow.Context, next func(workflow.Context) error) error {
			defer func() { _ = recover() }()
			return next(ctx)
		},
	})
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			w := flowtest.NewMemory(t)
			d := flowtest.Flow[int, int]("misused.code")
			fails := m.name == hidden[int]().name
			bind := []flowtest.Binding{flowtest.As(d, func(ctx workflow.Context, n int) (int, error) {
				switch {
				case fails:
					return 0, errRefused
				case m.name == "recovers and hides":
					panic("boom")
				}
				return double.Call(ctx, n)
			}), double.As(twice)}
			bad := w.Work(worker.Config{Interceptors: []workflow.Interceptor{codeFunc(m.do)}}, bind...)
			run := flowtest.Start(w, d, 4)
			w.BlockedAs(run, "interceptor interceptors_test.codeFunc "+m.want)
			bad.Stop()
			w.Work(worker.Config{}, bind...)
			if fails || m.name == "recovers and hides" {
				flowtest.Failure(w, run)
			} else if got := flowtest.Result(w, run); got != 8 {
				t.Errorf("the result of the corrected program is %d", got)
			}
		})
	}
}

func TestOPS8_AnOuterInterceptorCannotHideTheMisuseOfAnInnerOne(t *testing.T) {
	w := flowtest.NewMemory(t)
	d := flowtest.Flow[int, int]("misused.inside")
	w.Work(worker.Config{Interceptors: []workflow.Interceptor{
		codeFunc(func(ctx workflow.Context, next func(workflow.Context) error) error {
			if next(ctx) != nil {
				return errRefused
			}
			return nil
		}),
		codeFunc(func(workflow.Context, func(workflow.Context) error) error { return nil }),
	}}, flowtest.As(d, code), double.As(twice))
	w.BlockedAs(flowtest.Start(w, d, 1), "interceptor interceptors_test.codeFunc returned nil without calling next")
}
