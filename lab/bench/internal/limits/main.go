// Package limits measures the costs of limits and schedules, and how exactly they keep their
// guarantees of time and order. Each row has figures. A figure has a budget, and for comparison the
// result of the same program without limits in the same execution.
//
//	go run ./lab/bench limits
//	go run ./lab/bench limits -row waiting -waiting 100000
//	go run ./lab/bench limits -store memory: -json
//
// Read the files in this order: options.go (the rows), figure.go (the figures), place.go (the store),
// crew.go (the workers), rates.go (an example of a row).
package limits

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

// The exit codes of the command.
const (
	exitMeasured = 0
	exitFailed   = 1 // a measurement failed, or a budget was missed with -check
	exitUsage    = 2
)

// Main executes the command and returns its exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		o.help(stdout)
		return exitMeasured
	case err != nil:
		fmt.Fprintf(stderr, "bench limits: %v: see -help\n", err)
		return exitUsage
	}
	missed, err := measure(ctx, o, stdout, stderr)
	if err != nil {
		fmt.Fprintf(stderr, "bench limits: %v\n", err)
		return exitFailed
	}
	if missed > 0 && o.check {
		fmt.Fprintf(stderr, "bench limits: %d budgets were missed\n", missed)
		return exitFailed
	}
	return exitMeasured
}

// measure prints the figures of all rows and returns the number of missed budgets.
func measure(ctx context.Context, o *options, stdout, stderr io.Writer) (missed int, err error) {
	s := &session{options: o, stderr: stderr}
	if s.dir, err = os.MkdirTemp("", "limits-"); err != nil {
		return 0, fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	out := newPrinter(stdout, o.json)
	for _, r := range o.rows {
		if reason := r.lacks(o); reason != "" {
			if err := out.print(Figure{Row: r.name, What: r.about, Store: o.kind(), Verdict: reason}); err != nil {
				return missed, err
			}
			continue
		}
		s.sayf("%s: %s", r.name, r.about)
		figures, err := r.measure(ctx, s)
		if err != nil {
			return missed, fmt.Errorf("measure %s on %s: %w", r.name, o.kind(), err)
		}
		for _, f := range figures {
			f.Row, f.Store = r.name, o.kind()
			if f.judge(); f.Verdict == verdictMissed {
				missed++
			}
			if err := out.print(f); err != nil {
				return missed, err
			}
		}
	}
	return missed, nil
}

// session is one execution of the program.
type session struct {
	*options
	stderr io.Writer
	dir    string
	places int
}

// sayf prints a progress message to standard error.
func (s *session) sayf(format string, args ...any) {
	if s.progress {
		fmt.Fprintf(s.stderr, "limits: "+format+"\n", args...)
	}
}
