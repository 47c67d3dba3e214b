package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
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
		fmt.Fprintf(stderr, "bench chaos: %v\n%s", err, usage)
		return exitUsage
	}
	dir, err := directory(o.dir)
	if err != nil {
		fmt.Fprintf(stderr, "bench chaos: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "bench chaos -store %s -runs %d -workers %d -seconds %d -seed %d: logs are in %s\n",
		o.store, o.runs, o.workers, o.seconds, o.seed, dir)
	x := newExperiment(&o, dir, stderr)
	outcome, err := x.run(ctx)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "bench chaos: interrupted: %s; logs are in %s\n", x.progress(), dir)
		return exitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "bench chaos: %v; logs are in %s\n", err, dir)
		return exitUsage
	}
	if err := x.report(outcome, stdout); err != nil {
		fmt.Fprintf(stderr, "bench chaos: %v\n", err)
		return exitUsage
	}
	if !outcome.Sound() {
		return exitBroken
	}
	if !o.keep {
		if err := x.clean(); err != nil {
			fmt.Fprintf(stderr, "bench chaos: %v\n", err)
		}
	}
	return exitSound
}

// directory creates the directory for logs and records. It must be empty, because its contents are
// used as evidence.
func directory(dir string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", "chaos-")
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("make -dir: %w", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return "", errors.Join(fmt.Errorf("-dir %s is not empty", dir), err)
	}
	return filepath.Abs(dir)
}
