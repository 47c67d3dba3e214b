package otelflow_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/otelflow"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/shim"
	flowstep "github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

type stepArgs struct {
	In int `json:"in"`
}

// step is a step with one parameter, as generated code declares it.
type step struct {
	shim.Step[func(context.Context, int) (int, error)]
}

func newStep(name string) step {
	p := shim.Policy{Retry: workflow.RetryPolicy{Attempts: 10, Initial: time.Millisecond, Max: time.Millisecond}}
	return step{shim.NewStep(name, p, func(f func(context.Context, int) (int, error)) shim.Handler {
		return shim.Handle(func(ctx context.Context, a stepArgs) (int, error) { return f(ctx, a.In) })
	})}
}

func (s step) call(ctx workflow.Context, n int) (int, error) {
	return shim.Call[int](ctx, s.Step, stepArgs{n})
}

// The workflow of the tests: an order reserves goods, waits, ships them in a child, and waits for a
// message.
var (
	order    = shim.NewWorkflow[int, int]("shop.order", "in", shim.WorkflowPolicy{})
	shipment = shim.NewWorkflow[int, int]("shop.shipment", "in", shim.WorkflowPolicy{})
	payment  = shim.NewWorkflow[workflow.RunID, int]("shop.payment", "in", shim.WorkflowPolicy{})
	reserve  = newStep("shop.reserve")
	ship     = newStep("shop.ship")
	paid     = workflow.NewTopic[int]("paid")
	quote    = workflow.NewAsk[int, int]("quote")
)

// badOrder is the input of an order that fails.
const badOrder = -1

var errNoGoods = errors.New("no goods")

func orderCode(ctx workflow.Context, n int) (int, error) {
	quote.Handle(ctx, nil, func(_ workflow.Context, q int) (int, error) { return q * n, nil })
	if _, err := reserve.call(ctx, n); err != nil {
		return 0, err
	}
	if n == badOrder {
		return 0, errNoGoods
	}
	if err := workflow.Sleep(ctx, 20*time.Millisecond); err != nil {
		return 0, err
	}
	shipped, err := shipment.Child(ctx, n)
	if err != nil {
		return 0, err
	}
	amount, err := paid.Receive(ctx)
	return shipped + amount, err
}

func shipmentCode(ctx workflow.Context, n int) (int, error) { return ship.call(ctx, n) }

// paymentCode pays an order.
func paymentCode(ctx workflow.Context, order workflow.RunID) (int, error) {
	return 100, paid.SendFrom(ctx, order, 100)
}

// register binds the code of the workflows. Every second attempt of reserve fails.
func register(w *worker.Worker) {
	shim.BindWorkflow(w, order, orderCode)
	shim.BindWorkflow(w, shipment, shipmentCode)
	shim.BindWorkflow(w, payment, paymentCode)
	var attempts atomic.Int64
	reserve.Bind(w, func(_ context.Context, n int) (int, error) {
		if attempts.Add(1)%2 == 1 {
			return 0, errors.New("out of order")
		}
		return n, nil
	})
	ship.Bind(w, func(_ context.Context, n int) (int, error) { return n, nil })
}

// site is a store with a worker that an observer observes.
type site struct {
	t      *testing.T
	store  store.Store
	client *workflow.Client
	stop   func()
}

func newSite(t *testing.T, observers ...observe.Observer) *site {
	t.Helper()
	return open(t, workflow.ClientConfig{}, worker.Config{Observers: observers})
}

// inner is a step.Interceptor that begins a span around the code of each step.
type inner struct{ trace.Tracer }

func (i inner) InterceptStep(ctx context.Context, _ flowstep.Call, next func(context.Context) error) error {
	ctx, span := i.Start(ctx, "in a step")
	defer span.End()
	return next(ctx)
}

// newInterceptedSite returns a site whose client and worker have a Telemetry as interceptor. The code
// of each step begins a span.
func newInterceptedSite(t *testing.T, o *otelflow.Telemetry, tracer trace.Tracer) *site {
	t.Helper()
	return open(t, workflow.ClientConfig{Interceptors: []workflow.Interceptor{o}}, worker.Config{
		Observers: []observe.Observer{o}, Interceptors: []workflow.Interceptor{o, inner{tracer}},
	})
}

func open(t *testing.T, client workflow.ClientConfig, cfg worker.Config) *site {
	t.Helper()
	s := &site{t: t, store: memstore.New()}
	s.client = workflow.NewClient(s.store, client)
	t.Cleanup(func() {
		s.stop()
		if err := errors.Join(s.client.Close(), s.store.Close()); err != nil {
			t.Error(err)
		}
	})
	s.work(cfg)
	return s
}

// work starts a worker, which the function stop stops.
func (s *site) work(cfg worker.Config) {
	w := worker.New(s.client, cfg)
	register(w)
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	var stopped atomic.Bool
	s.stop = func() {
		if stopped.Swap(true) {
			return
		}
		cancel()
		if err := <-done; err != nil {
			s.t.Error(err)
		}
	}
}

// start starts an order that will be paid.
func (s *site) start(n int, opts ...workflow.StartOption) *workflow.Run[int] {
	s.t.Helper()
	run, err := order.Start(s.t.Context(), s.client, n, opts...)
	if err != nil {
		s.t.Fatal(err)
	}
	if n != badOrder {
		if err := paid.Send(s.t.Context(), run, 100); err != nil {
			s.t.Fatal(err)
		}
	}
	return run
}
