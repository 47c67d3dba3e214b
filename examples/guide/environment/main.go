// Command environment is a worker that is configured by environment variables.
package main

import (
	"context"
	"errors"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/flowgen/flowgen/examples/guide/flows"
	_ "github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) (err error) {
	clientConfig, clientErr := workflow.ClientConfigFromEnv()
	workerConfig, workerErr := worker.ConfigFromEnv()
	if err := errors.Join(clientErr, workerErr); err != nil {
		return err
	}
	workerConfig.Logger = slog.New(slog.NewJSONHandler(os.Stderr, nil)) // Code can change all fields.

	st, err := store.OpenFromEnv(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(st, clientConfig)
	defer func() { err = errors.Join(err, client.Close()) }()

	w := worker.New(client, workerConfig)
	flows.Register(w, &flows.Fleet{})
	return w.Run(ctx)
}
