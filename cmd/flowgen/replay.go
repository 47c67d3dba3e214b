package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/flowgen/flowgen/internal/gate"
)

const replayHelp = `flowgen replay replays runs of a live store against the current code, before it is
deployed, and reports the runs that it would block. It changes nothing in the store
and executes no steps.

usage: flowgen replay -store URL [flags] [packages]

  -store URL     URL of the store, such as sqlite:orders.db or redis://host:6379
  -driver P      import path of the package that opens the URL's scheme, if it is not
                 one of flowgen's
  -workflow W    only runs of the workflow with this stored name
  -status S,T    only runs with one of these statuses (default: open runs)
  -sample N      maximum number of runs (default 500): the oldest and the newest of
                 each workflow and status, then a random sample; 0: all runs
  -seed N        seed of the random sample (default: a new one, which is printed)
  -save DIR      write the logs of incompatible runs to DIR, for workflowtest.Replay
  -json          print the report as one JSON object

The default is all packages of the module below the current directory.

Exit codes: 0 all runs are compatible; 1 some are not; 2 usage error, or the code does
not compile; 3 the store cannot be read.
`

// exitStore is the exit code for a store that cannot be read.
const exitStore = 3

// runReplay executes flowgen replay and returns the exit code.
func runReplay(ctx context.Context, args []string, dir string, stdout, stderr io.Writer) int {
	cfg := gate.Config{Dir: dir}
	var statuses string
	var asJSON bool
	flags := flag.NewFlagSet("flowgen replay", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&cfg.URL, "store", "", "")
	flags.StringVar(&cfg.Driver, "driver", "", "")
	flags.StringVar(&cfg.Workflow, "workflow", "", "")
	flags.StringVar(&statuses, "status", "", "")
	flags.IntVar(&cfg.Size, "sample", 500, "")
	flags.Uint64Var(&cfg.Seed, "seed", rand.Uint64N(1_000_000), "")
	flags.StringVar(&cfg.Save, "save", "", "")
	flags.BoolVar(&asJSON, "json", false, "")
	patterns, err := flagsAndPackages(flags, args)
	if err == nil && cfg.URL == "" {
		err = errors.New("-store is missing: give the URL of the store")
	}
	if err != nil {
		return refuse("flowgen replay", replayHelp, err, stdout, stderr)
	}
	cfg.Patterns = patterns
	if statuses != "" {
		cfg.Statuses = strings.Split(statuses, ",")
	}
	report, err := gate.Run(ctx, cfg)
	if err == nil {
		err = printReplay(report, asJSON, stdout)
	}
	switch {
	case errors.Is(err, gate.ErrStore):
		fmt.Fprintf(stderr, "flowgen replay: %v\n", err)
		return exitStore
	case err != nil:
		fmt.Fprintf(stderr, "flowgen replay: %v\n", err)
		return exitUsage
	case len(report.Misfits) > 0:
		return exitMistake
	}
	return exitOK
}

func printReplay(report *gate.Report, asJSON bool, stdout io.Writer) error {
	if asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "\t")
		return enc.Encode(report)
	}
	misfits := 0
	for _, g := range report.Misfits {
		misfits += g.Count
		if _, err := fmt.Fprintf(stdout, "%s: %d runs do not fit: %s (%s)\n", g.Workflow, g.Count, g.Divergence, strings.Join(g.Runs, ", ")); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(stdout, "%d runs replayed (seed %d): %d do not fit\n", report.Replayed, report.Seed, misfits)
	return err
}
