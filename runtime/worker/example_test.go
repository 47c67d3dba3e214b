package worker_test

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"
	"time"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// This worker is the only task of its program. Run returns after a signal, once all runs were given
// back.
func ExampleWorker_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()

	st := memstore.New() // or sqlitestore.Open("flows.db")
	client := workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(client, worker.Config{Grace: 30 * time.Second})
	flows.Register(w, &flows.Fleet{}) // generated; see examples/guide/flows

	ctx, cancel := context.WithTimeout(ctx, time.Millisecond) // a deadline instead of a signal, so that the example ends
	defer cancel()
	err := w.Run(ctx)
	fmt.Println(errors.Join(err, client.Close(), st.Close()))
	// Output: <nil>
}

// This worker runs beside the rest of a program. The program must wait for the worker before main
// returns, so that the worker can give its runs back.
func ExampleNew() {
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	w := worker.New(client, worker.Config{})
	flows.Register(w, &flows.Fleet{})

	ctx, stop := context.WithCancel(context.Background())
	worked := make(chan error, 1)
	go func() { worked <- w.Run(ctx) }()

	offer, err := flows.Fastest.Execute(ctx, client, flows.FastestInput{A: "dhl", B: "dhl"})
	fmt.Println(offer.Carrier, err)

	stop()
	fmt.Println(errors.Join(<-worked, client.Close(), st.Close()))
	// Output:
	// dhl <nil>
	// <nil>
}
