// Package admin measures typical queries of operators on a store with a realistic number of runs.
// The queries are lists with one filter and with several filters, searches for a workflow that does
// not exist, and counts. Each figure has a budget.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	_ "github.com/flowgen/flowgen/memstore"   // registers the scheme memory:
	_ "github.com/flowgen/flowgen/redisstore" // registers the scheme redis:
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	_ "github.com/flowgen/flowgen/sqlitestore" // registers the scheme sqlite:
)

// The exit codes of the command.
const (
	exitMeasured = 0
	exitFailed   = 1 // a measurement failed or a budget was missed
	exitUsage    = 2
)

// options contains the command line arguments.
type options struct {
	store string
	runs  int
	times int
	json  bool
	check bool
}

// Main executes the command and returns its exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, f := &options{}, flag.NewFlagSet("admin", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.store, "store", "redis,sqlite", "comma-separated stores to measure: redis, which starts a server without persistence, sqlite, which creates a file in a temporary directory, memory")
	f.IntVar(&o.runs, "runs", 100_000, "number of `RUNS` in the store")
	f.IntVar(&o.times, "times", 100, "number of `TIMES` that each query is executed")
	f.BoolVar(&o.json, "json", false, "print one JSON object per figure")
	f.BoolVar(&o.check, "check", true, "exit with 1 if a budget is missed")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitMeasured
	case err == nil && (f.NArg() > 0 || o.runs < 1 || o.times < 1 || slices.ContainsFunc(strings.Split(o.store, ","), unknown)):
		err = errors.New("want -store with redis, sqlite or memory, separated by commas, and -runs and -times of at least 1")
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench admin: %v: see -help\n", err)
		return exitUsage
	}
	missed := 0
	for kind := range strings.SplitSeq(o.store, ",") {
		n, failed := measure(ctx, kind, o, stdout, stderr)
		missed += n
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", kind, failed))
		}
	}
	if err == nil && missed > 0 && o.check {
		err = fmt.Errorf("%d budgets were missed", missed)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench admin: %v\n", err)
		return exitFailed
	}
	return exitMeasured
}

func unknown(kind string) bool { return kind != "redis" && kind != "sqlite" && kind != "memory" }

// measure fills a store of the given kind and measures all queries. It returns the number of missed
// budgets.
func measure(ctx context.Context, kind string, o *options, stdout, stderr io.Writer) (missed int, err error) {
	s, end, err := open(ctx, kind)
	if err != nil {
		return 0, err
	}
	client := workflow.NewClient(s, workflow.ClientConfig{})
	defer func() { err = errors.Join(err, client.Close(), s.Close(), end()) }()
	var middle time.Time
	begin := time.Now()
	err = fill(ctx, s, o.runs, func(done int) {
		if middle.IsZero() && done >= o.runs/2 {
			middle = s.Clock().Now()
		}
		if done%100_000 == 0 {
			fmt.Fprintf(stderr, "%s: %d runs, %v\n", kind, done, time.Since(begin).Round(time.Second))
		}
	})
	if err != nil {
		return 0, fmt.Errorf("fill the store: %w", err)
	}
	if !o.json {
		fmt.Fprintf(stdout, "%d runs on %s, %d times each\n%-40s %9s %9s %9s %7s %7s\n", o.runs, kind, o.times, "", "p50 ms", "p99 ms", "budget", "found", "looked")
	}
	all, err := questions(s, client, middle)
	if err != nil {
		return 0, err
	}
	for _, q := range all {
		f, err := ask(ctx, q, o.times)
		if err != nil {
			return missed, err
		}
		f.Store, f.Runs = kind, o.runs
		if f.Missed {
			missed++
		}
		if err := show(stdout, f, o.json); err != nil {
			return missed, err
		}
	}
	return missed, nil
}

func show(w io.Writer, f Figure, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(f)
	}
	verdict := ""
	switch {
	case f.Missed:
		verdict = "missed"
	case f.Partial:
		verdict = "partial"
	}
	_, err := fmt.Fprintf(w, "%-40s %9.2f %9.2f %9.0f %7d %7d %s\n", f.What, f.P50ms, f.P99ms, f.BudgetMs, f.Found, f.Looked, verdict)
	return err
}

// open creates an empty store of the given kind. end closes and removes it.
func open(ctx context.Context, kind string) (s store.Store, end func() error, err error) {
	url, end := "memory:", func() error { return nil }
	switch kind {
	case "redis":
		site, err := harm.Open(ctx, "", "redis")
		if err != nil {
			return nil, nil, err
		}
		url, end = site.URL, func() error { site.Close(); return nil }
	case "sqlite":
		dir, err := os.MkdirTemp("", "admin-")
		if err != nil {
			return nil, nil, err
		}
		url, end = "sqlite:"+filepath.Join(dir, "runs.db"), func() error { return os.RemoveAll(dir) }
	}
	if s, err = store.Open(ctx, url); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open %s: %w", kind, err), end())
	}
	return s, end, nil
}
