package worker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The inputs of a workflow of two parameters, as flowgen writes them, on several days.
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

// orderBy is a workflow with an input of this type, which waits and then prints it.
func orderBy[In any](param string) (workflow.Definition[In, string], binding) {
	d := shim.NewWorkflow[In, string]("renamed.order", param, shim.WorkflowPolicy{})
	return d, func(r workflow.Registrar) {
		shim.BindWorkflow(r, d, func(ctx workflow.Context, in In) (string, error) {
			_, err := wake.Receive(ctx)
			return fmt.Sprintf("%+v", in), err
		})
	}
}

// blockedAs waits until a run is blocked, and checks that its reason has the words.
func (w *world) blockedAs(run follows, words ...string) {
	w.t.Helper()
	w.status(run, workflow.StatusBlocked)
	info, err := w.client.Run(run.ID()).Info(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, word := range words {
		if !strings.Contains(info.Blocked, word) {
			w.t.Errorf("the run is blocked without saying %q:\n%s", word, info.Blocked)
		}
	}
	if strings.Contains(info.Blocked, "workflow.Version") {
		w.t.Errorf("the advice does not fit a name that was changed:\n%s", info.Blocked)
	}
}

// renames starts a run under one code, has it blocked by another, and completed by a
// third that has kept the name.
func renames[A, B, C any](was, is, kept string, in A, want string, words ...string) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		old, oldCode := orderBy[A](was)
		_, newCode := orderBy[B](is)
		_, keptCode := orderBy[C](kept)
		first := w.work(worker.Config{Parked: 1}, oldCode)
		run := start(w, old, in)
		w.reach(run, event.WaitCreated, 1)
		first.stop()
		second := w.work(worker.Config{}, newCode, doWork1)
		if err := wake.Send(w.ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		w.blockedAs(run, words...)
		second.stop()
		w.work(worker.Config{}, keptCode, doWork1, countStep)
		if got := result(w, run); got != want {
			t.Errorf("with the name kept: got %s, want %s", got, want)
		}
	}
}

var countStep = aStep[int, int]("renamed-count", shim.Policy{}).as(func(_ context.Context, n int) (int, error) { return n, nil })

func TestVER1_InputWithARenamedParameterIsBlocked(t *testing.T) {
	t.Run("one of several", func(t *testing.T) {
		onEveryStore(t, renames[paidByCustomer, paidByPayer, paidByKept]("", "", "", paidByCustomer{"ann", 700},
			"{Payer:ann Cents:700}", `"customer"`, `"payer"`, "wire=payer:customer on its //flow:workflow"))
	})
	t.Run("the only one", func(t *testing.T) {
		onEachStore(t, renames[string, string, string]("customer", "payer", "customer", "ann",
			"ann", `"customer"`, `"payer"`, "wire=payer:customer"))
	})
	t.Run("a field of a parameter", func(t *testing.T) {
		onEachStore(t, renames[paidByCustomer, paidByPayer, paidByKept]("order", "order", "order", paidByCustomer{"ann", 700},
			"{Payer:ann Cents:700}", `"customer" in order`, `"payer"`, "tag the field with `json:\"customer\"`"))
	})
	t.Run("a field in a list", func(t *testing.T) {
		onEachStore(t, renames[[]paidByCustomer, []paidByPayer, []paidByKept]("all", "all", "all", []paidByCustomer{{"ann", 700}},
			"[{Payer:ann Cents:700}]", `"customer" in all[0]`))
	})
}

// changes starts a run under one code, and completes it under another.
func changes[A, B any](was, is string, in A, want string) func(t *testing.T, w *world) {
	return func(t *testing.T, w *world) {
		old, oldCode := orderBy[A](was)
		_, newCode := orderBy[B](is)
		first := w.work(worker.Config{Parked: 1}, oldCode)
		run := start(w, old, in)
		w.reach(run, event.WaitCreated, 1)
		first.stop()
		w.work(worker.Config{}, newCode, doWork1)
		if err := wake.Send(w.ctx, run, "go"); err != nil {
			t.Fatal(err)
		}
		if got := result(w, run); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestVER1_InputWithANameMoreOrLessGoesOn(t *testing.T) {
	in := paidByCustomer{"ann", 700}
	t.Run("one more", func(t *testing.T) {
		onEachStore(t, changes[paidByCustomer, paidWithNote]("", "", in, "{Customer:ann Cents:700 Note:}"))
	})
	t.Run("one less", func(t *testing.T) {
		onEachStore(t, changes[paidByCustomer, paidNothing]("", "", in, "{Customer:ann}"))
	})
	t.Run("from one to several", func(t *testing.T) {
		onEachStore(t, changes[string, paidByCustomer]("customer", "", "ann", "{Customer:ann Cents:0}"))
	})
	t.Run("from several to one", func(t *testing.T) {
		onEachStore(t, changes[paidByCustomer, string]("", "customer", in, "ann"))
	})
	t.Run("from none to one", func(t *testing.T) {
		onEachStore(t, changes[workflow.None, string]("", "customer", workflow.None{}, ""))
	})
	t.Run("from one to none", func(t *testing.T) {
		onEachStore(t, changes[string, workflow.None]("customer", "", "ann", "{}"))
	})
	t.Run("another one that may be empty", func(t *testing.T) {
		onEachStore(t, changes[paidByCustomer, paidPerhaps]("", "", in, "{Payer: Cents:700}"))
	})
	t.Run("another case", func(t *testing.T) {
		onEachStore(t, changes[string, string]("orderId", "orderID", "o1", "o1"))
	})
}

// paying is a step with arguments of this type.
func paying[A any](p shim.Policy) shim.Step[func(context.Context, A) (string, error)] {
	return shim.NewStep("renamed.pay", p, func(f func(context.Context, A) (string, error)) shim.Handler {
		return shim.Handle(f)
	})
}

// payBy binds a workflow that calls the step, and the step.
func payBy[A any](p shim.Policy, args A) binding {
	step := paying[A](p)
	return func(r workflow.Registrar) {
		as(flow[int, string]("renamed-pay"), func(ctx workflow.Context, _ int) (string, error) {
			s, err := shim.Call[string](ctx, step, args)
			if err != nil {
				return "", err
			}
			_, err = wake.Receive(ctx)
			return s, err
		})(r)
		step.Bind(r, func(_ context.Context, a A) (string, error) { return fmt.Sprintf("%+v", a), nil })
	}
}

func TestVER1_StepWithARenamedParameterSaysSo(t *testing.T) {
	for name, p := range map[string]shim.Policy{"in place": {}, "on a queue": {Queue: "default"}} {
		t.Run(name, func(t *testing.T) {
			onEveryStore(t, func(t *testing.T, w *world) {
				first := w.work(worker.Config{Parked: 1}, payBy(p, paidByCustomer{"ann", 700}))
				run := start(w, flow[int, string]("renamed-pay"), 1)
				w.reach(run, event.WaitCreated, 1)
				first.stop()
				second := w.work(worker.Config{}, payBy(p, paidByPayer{"ann", 700}), doWork1)
				if err := wake.Send(w.ctx, run, "go"); err != nil {
					t.Fatal(err)
				}
				w.blockedAs(run, `"customer"`, `"payer"`, "wire=payer:customer on its //flow:step", "renamed_test.go:")
				second.stop()
				w.work(worker.Config{}, payBy(p, paidByKept{"ann", 700}), doWork1, countStep)
				if got, want := result(w, run), "{Customer:ann Cents:700}"; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		})
	}
}

// The step of another queue is executed by a worker of another build than that of the
// run that calls it.
func TestVER1_StepOnAQueueDoesNotTakeArgumentsOfAnotherName(t *testing.T) {
	p := shim.Policy{Queue: "renamed", NonIdempotent: true, Retry: workflow.RetryPolicy{Attempts: 1}}
	onEveryStore(t, func(t *testing.T, w *world) {
		calling := paying[paidByCustomer](p)
		caller := flow[int, string]("renamed-remote")
		w.work(worker.Config{Queues: []string{"default"}}, as(caller, func(ctx workflow.Context, _ int) (string, error) {
			return shim.Call[string](ctx, calling, paidByCustomer{"ann", 700})
		}))
		newer := w.work(worker.Config{Queues: []string{"renamed"}}, payBy(p, paidByPayer{}))
		run := start(w, caller, 1)
		child := workflow.RunID("")
		w.eventually("the run of the step is blocked", func() bool {
			for info, err := range w.client.List(w.ctx, workflow.Filter{Statuses: []workflow.Status{workflow.StatusBlocked}, Internal: true}) {
				if err == nil {
					child = info.ID
				}
			}
			return child != ""
		})
		w.blockedAs(w.client.Run(child), `"customer"`, `"payer"`, "wire=payer:customer on its //flow:step")
		newer.stop()
		w.work(worker.Config{Queues: []string{"renamed"}}, payBy(p, paidByKept{}), countStep)
		if got, want := result(w, run), "{Payer:ann Cents:700}"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}
