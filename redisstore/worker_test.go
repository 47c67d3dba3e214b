package redisstore_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Workflows of these tests, in the form that the generator would declare.

type orderArgs struct {
	Order string `json:"order"`
}

type stepFunc = func(context.Context, string) (string, error)

func declare(name string) shim.Step[stepFunc] {
	return shim.NewStep(name, shim.Policy{}, func(f stepFunc) shim.Handler {
		return shim.Handle(func(ctx context.Context, a orderArgs) (string, error) { return f(ctx, a.Order) })
	})
}

func call(ctx workflow.Context, s shim.Step[stepFunc], order string) (string, error) {
	return shim.Call[string](ctx, s, orderArgs{order})
}

var (
	reserve = declare("orders.reserve")
	charge  = declare("orders.charge")
	ship    = declare("orders.ship")

	Fulfil = shim.NewWorkflow[string, string]("orders.fulfil", "order", shim.WorkflowPolicy{})
	Sleep  = shim.NewWorkflow[time.Duration, string]("orders.sleep", "for", shim.WorkflowPolicy{})
	Ask    = shim.NewWorkflow[workflow.None, string]("orders.ask", "", shim.WorkflowPolicy{})

	Answers = workflow.NewTopic[string]("answers")
)

// fulfil executes three steps.
func fulfil(ctx workflow.Context, order string) (string, error) {
	for _, s := range []shim.Step[stepFunc]{reserve, charge, ship} {
		if _, err := call(ctx, s, order); err != nil {
			return "", err
		}
	}
	return order + " shipped", nil
}

func sleep(ctx workflow.Context, d time.Duration) (string, error) {
	return "slept", workflow.Sleep(ctx, d)
}

// ask receives two answers and executes a step between them.
func ask(ctx workflow.Context, _ workflow.None) (string, error) {
	one, err := Answers.Receive(ctx)
	if err != nil {
		return "", err
	}
	if _, err := call(ctx, reserve, one); err != nil {
		return "", err
	}
	two, err := Answers.Receive(ctx)
	return one + " " + two, err
}

// fleet is a store with a client and with workers, which are stopped at the end of the test.
type fleet struct {
	t      *testing.T
	ctx    context.Context
	store  *redisstore.Store
	client *workflow.Client
}

func newFleet(t *testing.T, st *redisstore.Store) *fleet {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	f := &fleet{t: t, ctx: ctx, store: st, client: newClient(st)}
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(f.client.Close(), st.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return f
}

func newClient(st *redisstore.Store) *workflow.Client {
	return workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
}

// work starts a worker on the store st and returns a function that stops it. step replaces the code
// of the steps.
func (f *fleet) work(st *redisstore.Store, cfg worker.Config, step stepFunc) (stop func()) {
	f.t.Helper()
	client := newClient(st)
	w := worker.New(client, cfg)
	for _, s := range []shim.Step[stepFunc]{reserve, charge, ship} {
		s.Bind(w, step)
	}
	shim.BindWorkflow(w, Fulfil, fulfil)
	shim.BindWorkflow(w, Sleep, sleep)
	shim.BindWorkflow(w, Ask, ask)
	ctx, cancel := context.WithCancel(f.ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-worked; err != nil {
			f.t.Errorf("worker: %v", err)
		}
		_ = client.Close()
	}
	f.t.Cleanup(stop)
	return stop
}

func done(context.Context, string) (string, error) { return "done", nil }

// result returns the result of a run, and fails the test if the run fails.
func result[T any](f *fleet, run *workflow.Run[T]) T {
	f.t.Helper()
	got, err := run.Result(f.ctx)
	if err != nil {
		f.t.Fatalf("result of run %s: %v", run.ID(), err)
	}
	return got
}

// sound fails the test if fsck finds a defect.
func sound(t testing.TB, st *redisstore.Store) {
	t.Helper()
	snap, err := st.Inspect(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range fsck.Check(snap) {
		t.Errorf("fsck: %v", found)
	}
}

func openURL(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	st, err := redisstore.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// with returns the URL with an additional parameter.
func with(url, parameter string) string {
	if strings.Contains(url, "?") {
		return url + "&" + parameter
	}
	return url + "?" + parameter
}
