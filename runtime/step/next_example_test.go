package step_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/flowgen/flowgen/examples/guide/machines"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Directory examples/guide/machines contains the machine of these examples.

type till struct{}

func (till) Check(_ context.Context, order string) error {
	if order == "" {
		return machines.ErrNoOrder
	}
	return nil
}
func (till) Ask(context.Context, string, string) error   { return nil }
func (till) Refund(context.Context, string, int64) error { return nil }

func refund(claim machines.Claim) {
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	w := worker.New(client, worker.Config{})
	machines.Register(w, till{}) // generated function
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	outcome, err := machines.Refund.Execute(ctx, client, claim)
	fmt.Printf("%+v %v\n", outcome, err)
	cancel()
	if err := errors.Join(<-done, client.Close(), st.Close()); err != nil {
		fmt.Println(err)
	}
}

// Step check returns r.goPay() as its Next. Step pay returns r.done(…).
func ExampleNext() {
	refund(machines.Claim{Order: "o1", Cents: 500})
	// Output: {Refunded:500 Reminders:0 Why:} <nil>
}

// Step check fails. The directive catch=refuse leads to step refuse, which receives a Failure.
func ExampleFailure() {
	refund(machines.Claim{Cents: 500})
	// Output: {Refunded:0 Reminders:0 Why:no such order} <nil>
}
