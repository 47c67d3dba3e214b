// Command program is the example of the guide for a main function. It runs a worker and starts a run.
package main

import (
	"context"
	"errors"
	"log"
	"os"
	"os/signal"
	"syscall"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "orders.db"); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, file string) (err error) {
	st, err := sqlitestore.Open(file) // Alternatives are memstore.New() and redisstore.Open("redis://…").
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() { err = errors.Join(err, client.Close()) }()

	w := worker.New(client, worker.Config{})
	flows.Register(w, &flows.Fleet{}) // Register is generated. The dependencies of the steps are fields of the receivers.

	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() {
		defer cancel() // Without its worker, the program has nothing to do.
		worked <- w.Run(ctx)
	}()
	// Run returns after the grace period. The client and the store are closed after that.
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	return serve(ctx, client)
}

// serve represents the rest of the program, such as an HTTP server that starts runs.
func serve(ctx context.Context, client *workflow.Client) error {
	run, err := flows.Fastest.Start(ctx, client, flows.FastestInput{A: "dhl", B: "ups"}, workflow.WithID("offer-42"))
	if err != nil {
		return err
	}
	offer, err := run.Result(ctx) // The result has the type that the workflow returns.
	if err != nil {
		return err
	}
	log.Printf("%s carries it for %d cents", offer.Carrier, offer.Cents)
	return nil
}
