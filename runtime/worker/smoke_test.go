package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

type doubleArgs struct {
	N int `json:"n"`
}

var doubleStep = shim.NewStep("smoke.double", shim.Policy{Retry: workflow.RetryPolicy{Initial: time.Millisecond}},
	func(f func(context.Context, int) (int, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, a doubleArgs) (int, error) { return f(ctx, a.N) })
	})

func double(ctx workflow.Context, n int) (int, error) {
	return shim.Call[int](ctx, doubleStep, doubleArgs{n})
}

var approval = workflow.NewTopic[string]("approval")

var smoke = shim.NewWorkflow[int, string]("smoke.smoke", "n", shim.WorkflowPolicy{})

func TestSmoke(t *testing.T) {
	st := memstore.New()
	defer st.Close()
	c := workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(c, worker.Config{})
	fails := 0
	doubleStep.Bind(w, func(_ context.Context, n int) (int, error) {
		if n == 3 && fails < 2 {
			fails++
			return 0, errors.New("not yet")
		}
		return 2 * n, nil
	})
	shim.BindWorkflow(w, smoke, func(ctx workflow.Context, n int) (string, error) {
		a, err := double(ctx, n)
		if err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, 20*time.Millisecond); err != nil {
			return "", err
		}
		all, err := workflow.Map(ctx, []int{1, 2, 3, 4}, double, workflow.Limit(2))
		if err != nil {
			return "", err
		}
		who, err := approval.Receive(ctx, workflow.Timeout(time.Hour))
		if err != nil {
			return "", err
		}
		return fmt.Sprint(a, all, who), nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	wctx, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- w.Run(wctx) }()
	run, err := smoke.Start(ctx, c, 21)
	if err != nil {
		t.Fatal(err)
	}
	if err := approval.Send(ctx, run, "ann"); err != nil {
		t.Fatal(err)
	}
	got, err := run.Result(ctx)
	if err != nil || got != "42 [2 4 6 8]ann" {
		t.Errorf("got %q, %v", got, err)
	}
	for e, err := range run.Events(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		t.Log(e.Seq, e.Time.Format("05.000"), e.Type, e.Key, e.Ref, e.Attempt, string(e.Payload))
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
