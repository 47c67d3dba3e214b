// Package sqlitetoredis uses a SQLite file in development and Redis in production. Only the URL of
// the store differs.
//
//	go run ./examples/recipes -store sqlite:orders.db sqlitetoredis
//	go run ./examples/recipes -store redis://localhost:6379 sqlitetoredis
//
// A second start on the same store finds the order fulfilled. The first start prints:
//
//	order-7 ships
//	order-7 is fulfilled
//
// A URL may contain a password. In production, read it from the environment or from a file with
// secrets.
package sqlitetoredis

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/memstore" // registers the scheme memory:
	_ "github.com/flowgen/flowgen/redisstore"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

// Open opens the store at a URL. It refuses a database with settings that may lose runs. An example
// is a Redis server that does not write to disk or that evicts keys.
func Open(ctx context.Context, url string) (store.Store, error) {
	st, err := store.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	doctor, ok := store.As[store.Doctor](st)
	if !ok {
		return st, nil // This store has no settings that could be wrong.
	}
	report, err := doctor.Examine(ctx)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("examine the store: %w", err), st.Close())
	}
	for _, f := range report.Findings {
		if f.Severity == store.SeverityFail {
			err = errors.Join(err, errors.New(f.String()))
		}
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

// Shop contains the dependencies of the steps.
type Shop struct{ Out io.Writer }

// fulfil does not depend on the store of its log.
//
//flow:workflow
func fulfil(ctx workflow.Context, id string) error { return Ship(ctx, id) }

//flow:step
func (s *Shop) ship(_ context.Context, id string) error {
	_, err := fmt.Fprintln(s.Out, id, "ships")
	return err
}

// Run fulfils an order once for each store. A repeated call finds the order fulfilled.
func Run(ctx context.Context, url string, out io.Writer) (err error) {
	st, err := Open(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() { err = errors.Join(err, client.Close()) }()

	w := worker.New(client, worker.Config{})
	Register(w, &Shop{Out: out})
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { defer cancel(); worked <- w.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	const id = "order-7"
	run, err := Fulfil.Start(ctx, client, id, workflow.WithID(id), workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished}))
	if done, ok := errors.AsType[*workflow.FinishedRunError](err); ok {
		run = Fulfil.Get(client, done.Run)
	} else if err != nil {
		return err
	}
	if _, err := run.Result(ctx); err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, id, "is fulfilled")
	return err
}
