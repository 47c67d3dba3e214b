package endure

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// Exit codes of the command.
const (
	exitSound       = 0
	exitBroken      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// Main executes the command and returns its exit code. If ctx ends, it returns early and leaves no
// process behind.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, help)
		return exitSound
	case err != nil:
		fmt.Fprintf(stderr, "bench endure: %v\n%s", err, usage)
		return exitUsage
	}
	if o.dir == "" {
		o.dir, err = os.MkdirTemp("", "endure-")
	} else {
		err = os.MkdirAll(o.dir, 0o750)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench endure: make -dir: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "bench endure -duration %v -workers %d -rate %v -seed %d: logs are in %s\n", o.duration, o.workers, o.rate, o.seed, o.dir)
	e := newExperiment(&o, stderr)
	switch err = e.run(ctx); {
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "bench endure: interrupted: %s\n", e.progress())
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "bench endure: %v\n", err)
		return exitUsage
	}
	r := e.judge()
	if err := r.print(stdout, stderr, o.json); err != nil {
		fmt.Fprintf(stderr, "bench endure: %v\n", err)
		return exitUsage
	}
	if r.Lost > 0 || len(r.Problems) > 0 {
		return exitBroken
	}
	return exitSound
}
