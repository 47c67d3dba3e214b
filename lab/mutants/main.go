// Command mutants disables the guards of the engine one at a time, and verifies for each guard that a
// test fails.
//
// The table contains two groups of mutants. The first disables the rules F1 to L12 of the store
// contract in each store with its own code for the rule. The second disables the decisions of the
// engine that keep runs safe. A mutant replaces a text in one file. The compiler receives the
// mutated file as an overlay, so that the tree is not modified. A mutant whose tests all pass has
// survived, which means that a test is missing. A mutant whose text does not occur exactly once, or
// that does not compile, is stale, and the table must be corrected.
//
// # Two proofs of each guard
//
//   - A guard of package protocol, which the memory and SQLite stores use, has a behavior in the
//     conformance suite. If the model checker covers the operation, the guard also has a seeded bug
//     in protocol/check. The faulty stores in the tests of package storetest prove that these
//     behaviors fail for any faulty store. All of these tests take seconds and are part of every
//     test run.
//   - A guard of a Redis script or of the worker has a mutant in the table, with the names of the
//     tests. All mutants together take half an hour, so only make mutants runs them.
//
// Read mutant.go for the definition of a mutant and the rules to cover, and campaign.go for the
// execution. memory.go and the files beside it contain the table. make mutants writes the results
// to build/mutants.md.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

const usage = `mutants disables one guard of the engine at a time and checks that a test fails. It
does not change the source tree. The exit code is 1 if a mutant survives, hangs, does
not compile or no longer matches the source.

usage: go run ./lab/mutants [flags]

`

const (
	exitFound = 1
	exitUsage = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// options contains the flags of the command.
type options struct {
	only    *regexp.Regexp
	list    bool
	json    bool
	write   string
	limit   time.Duration
	verbose bool
	all     bool
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("mutants", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.Usage = func() {
		fmt.Fprint(stderr, usage)
		f.PrintDefaults()
	}
	only := f.String("run", "", "test only the mutants whose ID matches this `regexp`, for example F1/redis")
	f.BoolVar(&o.list, "list", false, "list the mutants without testing them")
	f.BoolVar(&o.json, "json", false, "print one JSON object per mutant instead of a line")
	f.StringVar(&o.write, "write", "", "write the results as a page to this `file`")
	f.DurationVar(&o.limit, "limit", time.Minute, "time limit for the tests of one mutant, without compilation")
	f.BoolVar(&o.verbose, "v", false, "also print the output of the tests that killed a mutant")
	f.BoolVar(&o.all, "all", false, "run all tests of the package, without a baseline, and print those that fail")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", f.Arg(0))
	}
	var err error
	if o.only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("read -run: %w", err)
	}
	return o, nil
}

// run executes the command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil {
		var found int
		if found, err = conduct(ctx, o, stdout, stderr); err == nil && found == 0 {
			return 0
		} else if err == nil {
			return exitFound
		}
	}
	fmt.Fprintf(stderr, "mutants: %v\n", err)
	return exitUsage
}

// conduct tests the selected mutants and returns the number that were not killed.
func conduct(ctx context.Context, o options, stdout, stderr io.Writer) (found int, err error) {
	table := Table()
	chosen := slices.DeleteFunc(slices.Clone(table), func(m Mutant) bool { return !o.only.MatchString(m.ID) })
	if len(chosen) == 0 {
		return 0, errors.New("no mutant matches -run: see -list")
	}
	if o.list {
		for i := range chosen {
			fmt.Fprintf(stdout, "%-40s %s\n", chosen[i].ID, chosen[i].Disabled)
		}
		return 0, nil
	}
	root, err := moduleRoot(ctx)
	if err != nil {
		return 0, err
	}
	scratch, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return 0, fmt.Errorf("make a directory for mutants: %w", err)
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	c := &campaign{root: root, scratch: scratch, limit: o.limit, notes: os.Stderr, verbose: o.verbose, all: o.all, mutants: chosen}
	start := time.Now()
	if !o.all {
		fmt.Fprintf(stderr, "baseline: running the tests of %d mutants unmutated\n", len(chosen))
		if err := c.baseline(ctx, chosen); err != nil {
			return 0, err
		}
		fmt.Fprintf(stderr, "baseline: all pass (%.0f s)\n", time.Since(start).Seconds())
	}
	results := make([]Result, 0, len(chosen))
	for i := range chosen {
		r := c.try(ctx, &chosen[i])
		if ctx.Err() != nil {
			break // The earlier results are kept.
		}
		if r.Verdict != Killed {
			found++
		}
		report(o, stdout, r, i+1, len(chosen))
		results = append(results, r)
	}
	fmt.Fprintf(stderr, "%d of %d mutants killed in %.0f s\n", len(results)-found, len(chosen), time.Since(start).Seconds())
	if o.write != "" && !o.all {
		err = WritePage(o.write, table, results)
	}
	return found, errors.Join(ctx.Err(), err)
}

// report prints a line for the result of mutant n.
func report(o options, stdout io.Writer, r Result, n, of int) {
	if o.json {
		b, err := json.Marshal(r)
		if err != nil {
			b = fmt.Appendf(nil, "%q", err)
		}
		fmt.Fprintf(stdout, "%s\n", b)
		return
	}
	fmt.Fprintf(stdout, "%3d/%d %-8s %5.1fs %-40s %s\n", n, of, r.Verdict, r.Took.Seconds(), r.ID, r.Killer)
	if r.Detail != "" {
		fmt.Fprintf(stdout, "\t%s\n", strings.ReplaceAll(strings.TrimSpace(r.Detail), "\n", "\n\t"))
	}
}

// moduleRoot returns the directory of the module that contains the working directory.
func moduleRoot(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("find the module: run the program in the repository")
	}
	return filepath.Dir(mod), nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
