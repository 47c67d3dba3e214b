// Command quickstart processes one order with a durable workflow and prints the events of the run.
// With a store in a file, the program can be killed at any moment. After a restart it continues the
// run, and no completed step is executed twice.
//
//	go run ./examples/quickstart
//	go run -tags sqlite ./examples/quickstart
//
// Without the tag, the run is kept in memory, because the first build of SQLite takes half a minute.
//
// See orders/orders.go for the workflow.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/flowgen/flowgen/examples/quickstart/orders"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/memstore"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

type options struct {
	order      string
	store      string
	effects    string
	crashAfter uint64
}

// defaultStore is the URL of the store. The build tag sqlite replaces it.
var defaultStore = "memory:"

func parse(args []string) (options, error) {
	var o options
	f := flag.NewFlagSet("quickstart", flag.ContinueOnError)
	f.StringVar(&o.store, "store", defaultStore, "`URL` of the store of the run: memory:, or if built with -tags sqlite also sqlite:PATH")
	f.StringVar(&o.order, "order", "order-1001", "`ID` of the order; each is fulfilled once")
	f.StringVar(&o.effects, "effects", "", "append a line \"step-name attempt\" to `FILE` for each execution of a step")
	f.Uint64Var(&o.crashAfter, "crash-after", 0, "kill this process right after the commit that holds event `N` of the log; 0: never")
	f.Usage = func() {
		fmt.Fprint(f.Output(), "Quickstart runs one order through a durable workflow. Kill it and start it again: it carries on.\n\n"+
			"usage: go run [-tags sqlite] ./examples/quickstart [flags]\n\n")
		f.PrintDefaults()
	}
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: see -help", f.Arg(0))
	}
	if o.crashAfter > 0 && o.store == "memory:" {
		return o, errors.New("-crash-after: the process takes a run in memory with it: go run -tags sqlite ./examples/quickstart")
	}
	return o, nil
}

// run starts the order, or finds the run that an earlier process has started. It follows the run
// until it ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	st, err := store.Open(ctx, o.store)
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	client := workflow.NewClient(orders.Crashing(st, o.crashAfter), workflow.ClientConfig{
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	defer func() { _ = client.Close() }()

	// A crash of a worker on another machine is detected after ClaimExpiry. On the same machine
	// with a store in a file, it is detected immediately.
	w := worker.New(client, worker.Config{Heartbeat: time.Second, ClaimExpiry: 5 * time.Second})
	orders.Register(w, &orders.Shop{Effects: o.effects})
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(ctx) }()

	followed := orders.Follow(ctx, client, o.order, out)
	cancel()
	return errors.Join(followed, <-worked)
}
