// Caller is a program that uses a client package only: it starts runs on the SQLite store that
// is its argument, where a worker of another process works.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/flowgen/flowgen/generated/clients/money"
	"github.com/flowgen/flowgen/generated/clients/ordersclient"
	"github.com/flowgen/flowgen/generated/clients/rates"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	err := run(ctx, os.Args[1])
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "caller:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) (err error) {
	st, err := sqlitestore.Open(file)
	if err != nil {
		return err
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	defer func() { err = errors.Join(err, client.Close(), st.Close()) }()
	for _, id := range []string{"7", "declined", "gone"} {
		if err := order(ctx, client, id); err != nil {
			return fmt.Errorf("order %s: %w", id, err)
		}
	}
	return nil
}

// order starts a run, approves it, and prints what it sees of it.
func order(ctx context.Context, client *workflow.Client, id string) error {
	var red ordersclient.Color
	if err := red.UnmarshalText([]byte("RED")); err != nil {
		return err
	}
	run, err := ordersclient.Fulfil.Start(ctx, client, ordersclient.Order{
		ID: id, Base: ordersclient.Base{Tenant: "acme"}, State: ordersclient.Open, Total: money.Of(1250), Rate: rates.Of(7.5),
		Lines:  []ordersclient.Page[ordersclient.Line]{{Items: []ordersclient.Line{{SKU: "a", N: 2}}}},
		Labels: map[ordersclient.Color]string{red: "hot"},
		To:     ordersclient.Point{X: 1, Y: ordersclient.Far},
	})
	if err != nil {
		return err
	}
	state, err := ordersclient.Progress.Wait(ctx, run)
	if err != nil {
		return err
	}
	if err := ordersclient.Approval.Send(ctx, run, ordersclient.Decision{Yes: true, By: "ada"}); err != nil {
		return err
	}
	receipt, err := run.Result(ctx)
	if err != nil {
		var declined *ordersclient.DeclinedError
		fmt.Printf("%s: began as %v, declined %t, gone %t\n", id, state, errors.As(err, &declined) && declined.Order == id, errors.Is(err, ordersclient.ErrGone))
		return nil
	}
	fmt.Printf("%s: began as %v, %v by %s for %v, red is %s\n", receipt.ID, state, receipt.State, receipt.By, receipt.Total, receipt.Labels[red])
	return nil
}
