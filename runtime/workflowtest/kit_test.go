package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stepFunc is the type of the steps of these tests.
type stepFunc = func(ctx context.Context, arg string) (string, error)

type stepArgs struct {
	Arg string `json:"arg"`
}

// newStep declares a step, as generated code does.
func newStep(name string, p shim.Policy) shim.Step[stepFunc] {
	return shim.NewStep(name, p, func(f stepFunc) shim.Handler {
		return shim.Handle(func(ctx context.Context, a stepArgs) (string, error) { return f(ctx, a.Arg) })
	})
}

var (
	charge = newStep("shop.charge", shim.Policy{})
	ship   = newStep("shop.ship", shim.Policy{NonIdempotent: true, Retry: workflow.RetryPolicy{Attempts: 1}})
	pack   = newStep("shop.pack", shim.Policy{})
)

func call(ctx workflow.Context, s shim.Step[stepFunc], arg string) (string, error) {
	return shim.Call[string](ctx, s, stepArgs{arg})
}

// flow declares a workflow with a string input, as generated code does.
func flow(name string) workflow.Definition[string, string] {
	return shim.NewWorkflow[string, string](name, "in", shim.WorkflowPolicy{})
}

func echo(_ context.Context, arg string) (string, error) { return arg, nil }

var (
	order    = flow("shop.order")
	approval = workflow.NewTopic[string]("approval")
)

// orderCode processes an order, from the payment to the parcel service.
func orderCode(ctx workflow.Context, in string) (string, error) {
	paid, err := call(ctx, charge, in)
	if err != nil {
		return "", err
	}
	if err := workflow.Sleep(ctx, 24*time.Hour); err != nil {
		return "", err
	}
	by, err := approval.Receive(ctx, workflow.Timeout(72*time.Hour))
	if err != nil {
		return "", err
	}
	boxes, err := workflow.Map(ctx, []string{"a", "b", "c"}, func(ctx workflow.Context, item string) (string, error) {
		return call(ctx, pack, item)
	})
	if err != nil {
		return "", err
	}
	label, err := call(ctx, ship, fmt.Sprint(boxes))
	var failed *workflow.StepError
	if errors.As(err, &failed) && failed.Code == "interrupted" {
		return "look after " + in, nil
	}
	return fmt.Sprintf("%s by %s: %s", paid, by, label), err
}

// ledger records the effects of steps.
type ledger struct {
	mu      sync.Mutex
	entries []string
}

func (l *ledger) add(entry string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries = append(l.entries, entry)
}

func setupOrder(e *workflowtest.Env) {
	shim.BindWorkflow(e, order, orderCode)
	for _, s := range []shim.Step[stepFunc]{charge, ship, pack} {
		s.Bind(e, echo)
	}
	e.At(48*time.Hour, func(ctx context.Context) {
		if err := approval.Send(ctx, e.Run(), "ann"); err != nil {
			panic(err)
		}
	})
}

func TestNew_JumpsOverTime(t *testing.T) {
	env := workflowtest.New(t)
	setupOrder(env)
	got, err := order.Execute(t.Context(), env.Client(), "o1")
	if want := "o1 by ann: [a b c]"; got != want || err != nil {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if d := env.Now().Sub(workflowtest.Epoch); d != 48*time.Hour {
		t.Errorf("virtual time: got %v, want 48h", d)
	}
}
