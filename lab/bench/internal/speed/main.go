// Package speed measures the speed of runs on any store.
//
//	go run ./lab/bench speed -store redis -workload chain,latency -count 5
//
// A workload uses the public API with one client and one worker in this process, on a store without
// other users. Its runs are divided into rounds. Only the rounds are measured, without the warm-up,
// the wait for a due time, and the check of every result.
//
// Before the first round and after each one the program measures the limit: the speed of bare
// conditional appends by the same client and the same server, with the concurrency of the workload.
// A disturbance of the machine affects both, so that their ratio is stable.
//
// A tap counts the calls of the store and forwards them. The server provides further counters. The
// tap also determines when a run has ended: when the commit that ends it was answered.
//
// Reading order: measure.go for the measurement of a workload, workload.go for the list of
// workloads, chain.go for one of them, bed.go for the requirements on a store, limit.go for the
// limit.
package speed

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
)

// Main runs the program with its arguments, without the name of the subcommand. It returns the exit
// code: 0, 1 if a measurement failed, or 2 for invalid arguments.
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

// report measures the workloads and prints each result immediately.
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
