// Package speed measures the speed of runs on any store.
//
//	go run ./lab/bench speed -store redis -workload chain,latency -count 5
//
// A workload uses the public API with one client and one worker in this process. The store has no
// other users. The runs of a workload are divided into rounds. Only the rounds are measured. The
// warm-up, the wait for a due time, and the check of every result are not.
//
// Before the first round and after each round the program measures the limit. The limit is the
// number of conditional appends per second without the engine, by the same client on the same
// server, with the concurrency of the workload. A disturbance of the machine affects both
// measurements, so that their ratio is stable.
//
// A tap counts the calls of the store and forwards them. The server provides further counters. The
// tap also determines when a run has ended, which is the time of the response to the commit that
// ends it.
//
// Read the files in this order: measure.go (the measurement of a workload), workload.go (the list of
// workloads), chain.go (an example of a workload), bed.go (the requirements on a store), limit.go
// (the limit).
package speed

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
)

// Main runs the program with its arguments, without the name of the subcommand. It returns the exit
// code. The exit code is 0 on success, 1 if a measurement failed, or 2 if the arguments are
// invalid.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "speed:", err)
		return 2
	}
	if err := run(ctx, o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "speed:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	stop, err := startProfiles(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	t, err := openTarget(ctx, o.store)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.close()) }()
	p := newProgress(stderr, o.progress)
	defer p.done()
	if o.plot != "" {
		return sweep(ctx, t, o, p, stdout)
	}
	return report(ctx, t, o, p, stdout)
}

// report measures the workloads and prints each result as soon as it is available.
func report(ctx context.Context, t target, o *options, p *progress, stdout io.Writer) error {
	out := newPrinter(stdout, o)
	for _, w := range o.workloads {
		var results []*Result
		for n := range o.count {
			p.sayf("%s: measurement %d of %d", w.name, n+1, o.count)
			r, err := measure(ctx, t, w, o, p)
			if err != nil {
				return fmt.Errorf("measure %s on %s: %w", w.name, t.name(), err)
			}
			results = append(results, r)
		}
		p.done()
		if err := out.print(median(results)); err != nil {
			return fmt.Errorf("print the result of %s: %w", w.name, err)
		}
	}
	return nil
}
