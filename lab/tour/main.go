// Command tour demonstrates all operations and states of runs on a store of your choice. It
// executes a series of workflows. For each requirement it prints the ID, the requirement, and the
// observation:
//
//	go run ./lab/tour                       # in memory
//	go run ./lab/tour -store sqlite:tour.db
//	go run ./lab/tour -store redis          # starts a server
//	go run ./lab/tour -store redis://127.0.0.1:6379 -chaos
//
// The exit code is 0 only if all requirements are met. With -chaos the workers are separate
// processes, which are killed at random during the tour.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if workerWanted() {
		exit(workerProcess(ctx))
	}
	opts, err := parse(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err == nil {
		err = run(ctx, opts, os.Stdout, os.Stderr)
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "tour:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// options contains the command line flags.
type options struct {
	store    string
	chaos    bool
	seed     uint64
	json     bool
	verbose  bool
	messages int
	kills    int
	timeout  time.Duration
}

func parse(args []string, out io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("tour", flag.ContinueOnError)
	f.SetOutput(out)
	f.StringVar(&o.store, "store", "memory:", "URL of the store: memory:, sqlite:PATH or redis://…, or redis, which starts a server")
	f.BoolVar(&o.chaos, "chaos", false, "kill workers at random (not with memory:)")
	f.Uint64Var(&o.seed, "seed", 1, "random seed of -chaos")
	f.BoolVar(&o.json, "json", false, "print one JSON object per row")
	f.BoolVar(&o.verbose, "v", false, "print the logs of the workers")
	f.IntVar(&o.messages, "messages", 10_000, "number of messages to the run that continues as new every 100 messages; a multiple of 400")
	f.IntVar(&o.kills, "kills", 10, "with -chaos: minimum number of times that a worker is killed")
	f.DurationVar(&o.timeout, "timeout", 5*time.Minute, "time limit of the tour")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	switch {
	case f.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	case o.messages <= 0 || o.messages%400 != 0:
		return o, fmt.Errorf("-messages %d: want a multiple of 400", o.messages)
	case o.chaos && o.store == "memory:":
		return o, errors.New("-chaos needs a store that outlives a process: sqlite or redis")
	}
	return o, nil
}

// run opens the store, starts the workers, and visits the stops.
func run(ctx context.Context, o options, out, logs io.Writer) (err error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	dir, err := os.MkdirTemp("", "flowgen-tour-")
	if err != nil {
		return fmt.Errorf("make a directory for the tour: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.store == "redis" {
		site, err := harm.Open(ctx, "", o.store)
		if err != nil {
			return err
		}
		defer site.Close()
		o.store = site.URL
	}
	st, err := store.Open(ctx, o.store)
	if err != nil {
		return fmt.Errorf("open store %s: %w", o.store, err)
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	bank, err := openBank(ctx, filepath.Join(dir, "bank.db"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bank.DB.Close()) }()
	if !o.verbose {
		logs = io.Discard
	}
	client, err := harm.NewClient(st, logs)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	crew := &crew{url: o.store, bank: bank, bankPath: filepath.Join(dir, "bank.db"), client: client, logs: logs}
	if err := crew.begin(ctx, o.chaos); err != nil {
		return err
	}
	t := &tour{ctx: ctx, client: client, store: st, bank: bank, messages: o.messages, report: newReport(out, o.json)}
	if o.chaos {
		crew.harass(ctx, o.seed)
	}
	round := 1
	t.visit(stops, round)
	for o.chaos && crew.kills.Load() < int64(o.kills) && len(t.report.failed) == 0 {
		round++
		t.visit(stops, round)
	}
	if o.chaos {
		t.row("REC2", "all of this holds while workers are killed", func() (string, error) {
			return fmt.Sprintf("all of this held %d times while workers were killed %d times", round, crew.kills.Load()), nil
		})
	}
	err = crew.end()
	t.row("REC8", "the store is sound", t.sound)
	return errors.Join(err, t.report.end())
}
