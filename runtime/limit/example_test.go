package limit_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	gpu      = limit.New("example.gpu", limit.Config{AtOnce: 4})
	customer = limit.NewKeyed[string]("example.customer", limit.Config{AtOnce: 1})
	memory   = limit.NewLocal("example.memory")
)

// using returns a workflow that uses limits, as the generator declares it for uses=.
func using(name string, uses func(in string) []limit.Use) workflow.Definition[string, string] {
	return shim.NewWorkflow[string, string](name, "in", shim.WorkflowPolicy{Uses: shim.Uses(uses)})
}

// serve calls f with a client while a worker executes the workflow d.
func serve(cfg worker.Config, d workflow.Definition[string, string], f func(context.Context, *workflow.Client) error) {
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	w := worker.New(client, cfg)
	shim.BindWorkflow(w, d, func(_ workflow.Context, in string) (string, error) { return in + " is done", nil })
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	err := f(ctx, client)
	stop()
	if err := errors.Join(err, <-done, client.Close(), st.Close()); err != nil {
		fmt.Println(err)
	}
}

// At most four permits are in use at once across all workers. A start that needs more is refused.
func ExampleNew() {
	render := using("example.render", func(in string) []limit.Use { return []limit.Use{gpu.Use(len(in))} }) // uses=GPU:…
	serve(worker.Config{}, render, func(ctx context.Context, c *workflow.Client) error {
		fmt.Println(render.Execute(ctx, c, "hall"))
		_, err := render.Execute(ctx, c, "palace")
		heavy, ok := errors.AsType[*limit.LimitError](err)
		fmt.Println(ok, heavy.Weight, "of", heavy.AtOnce)
		return nil
	})
	// Output:
	// hall is done <nil>
	// true 6 of 4
}

// Each customer has one run at a time.
func ExampleNewKeyed() {
	bill := using("example.bill", func(in string) []limit.Use { return []limit.Use{customer.For(in).Use(1)} }) // uses=PerCustomer(in)
	serve(worker.Config{}, bill, func(ctx context.Context, c *workflow.Client) error {
		if err := ops.New(c).Limits().Pause(ctx, customer.For("acme")); err != nil {
			return err
		}
		waits, err := bill.Start(ctx, c, "acme")
		if err != nil {
			return err
		}
		fmt.Println(bill.Execute(ctx, c, "initech"))
		info, err := waits.Info(ctx)
		fmt.Println(info.Waits, err)
		if err := ops.New(c).Limits().Resume(ctx, customer.For("acme")); err != nil {
			return err
		}
		fmt.Println(waits.Result(ctx))
		return nil
	})
	// Output:
	// initech is done <nil>
	// [example.customer/acme] <nil>
	// acme is done <nil>
}

// Each worker has as much memory as its configuration declares.
func ExampleNewLocal() {
	index := using("example.index", func(string) []limit.Use { return []limit.Use{memory.Use(512)} }) // uses=Memory:512
	cfg := worker.Config{Capacity: map[string]int{"example.memory": 8192}}
	serve(cfg, index, func(ctx context.Context, c *workflow.Client) error {
		fmt.Println(index.Execute(ctx, c, "the shelf"))
		return nil
	})
	// Output: the shelf is done <nil>
}
