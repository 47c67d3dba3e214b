package flows_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Inputs of a workflow with several parameters, as the generator declares them before and after a
// change of the parameters.
type (
	paidByCustomer struct {
		Customer string `json:"customer"`
		Cents    int    `json:"cents"`
	}
	paidByPayer struct {
		Payer string `json:"payer"`
		Cents int    `json:"cents"`
	}
	paidByKept struct {
		Payer string `json:"customer"`
		Cents int    `json:"cents"`
	}
	paidWithNote struct {
		Customer string `json:"customer"`
		Cents    int    `json:"cents"`
		Note     string `json:"note"`
	}
	paidNothing struct {
		Customer string `json:"customer"`
	}
	paidPerhaps struct {
		Payer string `json:"payer,omitempty"`
		Cents int    `json:"cents"`
	}
)

// orderBy returns a workflow with an input of type In, and its binding. The code waits for a
// message and returns the input as text.
func orderBy[In any](param string) (workflow.Definition[In, string], flowtest.Binding) {
	d := shim.NewWorkflow[In, string]("renamed.order", param, shim.WorkflowPolicy{})
	return d, func(r workflow.Registrar) {
		shim.BindWorkflow(r, d, func(ctx workflow.Context, in In) (string, error) {
			_, err := flowtest.Wake.Receive(ctx)
			return fmt.Sprintf("%+v", in), err
		})
	}
}

// renames returns a test that starts a run with parameter names of type A. It checks that code with
// the names of B blocks the run. It then completes the run with code that has new names but keeps
// the stored names (C).
func renames[A, B, C any](was, is, kept string, in A, want string, words ...string) func(t *testing.T, w *flowtest.World) {
	return func(t *testing.T, w *flowtest.World) {
		old, oldCode := orderBy[A](was)
		_, newCode := orderBy[B](is)
		_, keptCode := orderBy[C](kept)
		first := w.Work(worker.Config{Parked: 1}, oldCode)
		run := flowtest.Start(w, old, in)
		w.Reach(run, event.WaitCreated, 1)
		first.Stop()
		second := w.Work(worker.Config{}, newCode, flowtest.DoWork1)
		if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		w.BlockedAs(run, words...)
		second.Stop()
		w.Work(worker.Config{}, keptCode, flowtest.DoWork1, countStep)
		if got := flowtest.Result(w, run); got != want {
			t.Errorf("with the name kept: got %s, want %s", got, want)
		}
	}
}

var countStep = flowtest.AStep[int, int]("renamed-count", shim.Policy{}).As(func(_ context.Context, n int) (int, error) { return n, nil })

func TestVER1_InputWithARenamedParameterIsBlocked(t *testing.T) {
	t.Run("one of several", func(t *testing.T) {
		flowtest.OnEveryStore(t, renames[paidByCustomer, paidByPayer, paidByKept]("", "", "", paidByCustomer{"ann", 700},
			"{Payer:ann Cents:700}", `"customer"`, `"payer"`, "wire=payer:customer on its //flow:workflow"))
	})
	t.Run("the only one", func(t *testing.T) {
		flowtest.OnEachStore(t, renames[string, string, string]("customer", "payer", "customer", "ann",
			"ann", `"customer"`, `"payer"`, "wire=payer:customer"))
	})
	t.Run("a field of a parameter", func(t *testing.T) {
		flowtest.OnEachStore(t, renames[paidByCustomer, paidByPayer, paidByKept]("order", "order", "order", paidByCustomer{"ann", 700},
			"{Payer:ann Cents:700}", `"customer" in order`, `"payer"`, "tag the field with `json:\"customer\"`"))
	})
	t.Run("a field in a list", func(t *testing.T) {
		flowtest.OnEachStore(t, renames[[]paidByCustomer, []paidByPayer, []paidByKept]("all", "all", "all", []paidByCustomer{{"ann", 700}},
			"[{Payer:ann Cents:700}]", `"customer" in all[0]`))
	})
}

// changes returns a test that starts a run with an input of type A, and completes it with code that
// has an input of type B.
func changes[A, B any](was, is string, in A, want string) func(t *testing.T, w *flowtest.World) {
	return func(t *testing.T, w *flowtest.World) {
		old, oldCode := orderBy[A](was)
		_, newCode := orderBy[B](is)
		first := w.Work(worker.Config{Parked: 1}, oldCode)
		run := flowtest.Start(w, old, in)
		w.Reach(run, event.WaitCreated, 1)
		first.Stop()
		w.Work(worker.Config{}, newCode, flowtest.DoWork1)
		if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestVER1_InputWithANameMoreOrLessGoesOn(t *testing.T) {
	in := paidByCustomer{"ann", 700}
	t.Run("one more", func(t *testing.T) {
		flowtest.OnEachStore(t, changes[paidByCustomer, paidWithNote]("", "", in, "{Customer:ann Cents:700 Note:}"))
	})
	t.Run("one less", func(t *testing.T) {
		flowtest.OnEachStore(t, changes[paidByCustomer, paidNothing]("", "", in, "{Customer:ann}"))
	})
	t.Run("from one to several", func(t *testing.T) {
		flowtest.OnEachStore(t, changes[string, paidByCustomer]("customer", "", "ann", "{Customer:ann Cents:0}"))
	})
	t.Run("from several to one", func(t *testing.T) {
		flowtest.OnEachStore(t, changes[paidByCustomer, string]("", "customer", in, "ann"))
	})
	t.Run("from none to one", func(t *testing.T) {
		flowtest.OnEachStore(t, changes[workflow.None, string]("", "customer", workflow.None{}, ""))
	})
	t.Run("from one to none", func(t *testing.T) {
		flowtest.OnEachStore(t, changes[string, workflow.None]("customer", "", "ann", "{}"))
	})
	t.Run("another one that may be empty", func(t *testing.T) {
		flowtest.OnEachStore(t, changes[paidByCustomer, paidPerhaps]("", "", in, "{Payer: Cents:700}"))
	})
	t.Run("another case", func(t *testing.T) {
		flowtest.OnEachStore(t, changes[string, string]("orderId", "orderID", "o1", "o1"))
	})
}

// paying returns a step whose arguments have type A.
func paying[A any](p shim.Policy) shim.Step[func(context.Context, A) (string, error)] {
	return shim.NewStep("renamed.pay", p, func(f func(context.Context, A) (string, error)) shim.Handler {
		return shim.Handle(f)
	})
}

// payBy binds a step whose arguments have type A, and a workflow that calls the step with args.
func payBy[A any](p shim.Policy, args A) flowtest.Binding {
	step := paying[A](p)
	return func(r workflow.Registrar) {
		flowtest.As(flowtest.Flow[int, string]("renamed-pay"), func(ctx workflow.Context, _ int) (string, error) {
			s, err := shim.Call[string](ctx, step, args)
			if err != nil {
				return "", err
			}
			_, err = flowtest.Wake.Receive(ctx)
			return s, err
		})(r)
		step.Bind(r, func(_ context.Context, a A) (string, error) { return fmt.Sprintf("%+v", a), nil })
	}
}

func TestVER1_StepWithARenamedParameterSaysSo(t *testing.T) {
	for name, p := range map[string]shim.Policy{"in place": {}, "on a queue": {Queue: "default"}} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				first := w.Work(worker.Config{Parked: 1}, payBy(p, paidByCustomer{"ann", 700}))
				run := flowtest.Start(w, flowtest.Flow[int, string]("renamed-pay"), 1)
				w.Reach(run, event.WaitCreated, 1)
				first.Stop()
				second := w.Work(worker.Config{}, payBy(p, paidByPayer{"ann", 700}), flowtest.DoWork1)
				if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
					t.Fatal(err)
				}
				w.BlockedAs(run, `"customer"`, `"payer"`, "wire=payer:customer on its //flow:step", "renamed_test.go:")
				second.Stop()
				w.Work(worker.Config{}, payBy(p, paidByKept{"ann", 700}), flowtest.DoWork1, countStep)
				if got, want := flowtest.Result(w, run), "{Customer:ann Cents:700}"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

// TestVER1_StepOnAQueueDoesNotTakeArgumentsOfAnotherName proves that a worker does not execute a
// step if the caller passes arguments of other names. The caller and the step are executed by
// workers of different builds, on different queues.
func TestVER1_StepOnAQueueDoesNotTakeArgumentsOfAnotherName(t *testing.T) {
	p := shim.Policy{Queue: "renamed", NonIdempotent: true, Retry: workflow.RetryPolicy{Attempts: 1}}
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		calling := paying[paidByCustomer](p)
		caller := flowtest.Flow[int, string]("renamed-remote")
		w.Work(worker.Config{Queues: []string{"default"}}, flowtest.As(caller, func(ctx workflow.Context, _ int) (string, error) {
			return shim.Call[string](ctx, calling, paidByCustomer{"ann", 700})
		}))
		newer := w.Work(worker.Config{Queues: []string{"renamed"}}, payBy(p, paidByPayer{}))
		run := flowtest.Start(w, caller, 1)
		child := workflow.RunID("")
		w.Eventually("the run of the step is blocked", func() bool {
			for info, err := range w.Client.List(w.Ctx, workflow.Filter{Statuses: []workflow.Status{workflow.StatusBlocked}, Internal: true}) {
				if err == nil {
					child = info.ID
				}
			}
			return child != ""
		})
		w.BlockedAs(w.Client.Run(child), `"customer"`, `"payer"`, "wire=payer:customer on its //flow:step")
		newer.Stop()
		w.Work(worker.Config{Queues: []string{"renamed"}}, payBy(p, paidByKept{}), countStep)
		if got, want := flowtest.Result(w, run), "{Payer:ann Cents:700}"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
