// Command recipes runs small programs, each of which solves one problem.
//
//	go run ./examples/recipes                                     list the recipes
//	go run ./examples/recipes payment                             run one in memory
//	go run ./examples/recipes -store sqlite:recipes.db payment    run it on a file
//
// Each recipe is a package in a subdirectory. The package comment describes the recipe and its
// output. Copy the file with the name of the package. demo.go runs the recipe with simulated
// services. This file selects a recipe, and opens the store and the client.
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

	"github.com/flowgen/flowgen/examples/recipes/approval"
	"github.com/flowgen/flowgen/examples/recipes/failuregroup"
	"github.com/flowgen/flowgen/examples/recipes/llmstream"
	"github.com/flowgen/flowgen/examples/recipes/migrate"
	"github.com/flowgen/flowgen/examples/recipes/monitoring"
	"github.com/flowgen/flowgen/examples/recipes/nightly"
	"github.com/flowgen/flowgen/examples/recipes/payment"
	"github.com/flowgen/flowgen/examples/recipes/ratelimited"
	"github.com/flowgen/flowgen/examples/recipes/rolling"
	"github.com/flowgen/flowgen/examples/recipes/sqlitetoredis"
	"github.com/flowgen/flowgen/examples/recipes/tenants"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/memstore"
	_ "github.com/flowgen/flowgen/redisstore"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

type recipe struct {
	name, shows string
	run         func(ctx context.Context, url string, out io.Writer) error
}

var recipes = []recipe{
	{"approval", "a question to a person, answered in the web console", with(approval.Run)},
	{"failuregroup", "a retry of all runs with one cause, after its fix", with(failuregroup.Run)},
	{"llmstream", "the answer of a language model, streamed to HTTP clients", with(llmstream.Run)},
	{"migrate", "workflows instead of a table of jobs and a cron", with(migrate.Run)},
	{"monitoring", "the state of a store as JSON, for probes and dashboards", with(monitoring.Run)},
	{"nightly", "a report each night, also of nights without a worker", with(nightly.Run)},
	{"payment", "a charge that happens once although its process dies", with(payment.Run)},
	{"ratelimited", "a service that answers 429 with Retry-After", with(ratelimited.Run)},
	{"rolling", "a new release beside the old one, with runs under way", with(rolling.Run)},
	{"sqlitetoredis", "SQLite in development and Redis in production", sqlitetoredis.Run},
	{"tenants", "a limit for each tenant, so that none delays the others", with(tenants.Run)},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "recipes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	f := flag.NewFlagSet("recipes", flag.ContinueOnError)
	url := f.String("store", "memory:", "`URL` of where runs are kept: memory:, sqlite:PATH or redis://HOST:PORT")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() == 0 {
		for _, r := range recipes {
			_, _ = fmt.Fprintf(out, "%-14s %s\n", r.name, r.shows)
		}
		return nil
	}
	for _, r := range recipes {
		if r.name == f.Arg(0) {
			return r.run(ctx, *url, out)
		}
	}
	return fmt.Errorf("there is no recipe %q: the program lists them if it is run without arguments", f.Arg(0))
}

// with returns a function that opens the store and the client of a recipe and calls run.
func with(run func(ctx context.Context, client *workflow.Client, out io.Writer) error) func(context.Context, string, io.Writer) error {
	return func(ctx context.Context, url string, out io.Writer) error {
		st, err := store.Open(ctx, url)
		if err != nil {
			return err
		}
		client := workflow.NewClient(st, workflow.ClientConfig{
			Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		})
		return errors.Join(run(ctx, client, out), client.Close(), st.Close())
	}
}
