package harm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// The exit codes of the commands.
const (
	ExitSound       = 0
	ExitBroken      = 1
	ExitUsage       = 2
	ExitInterrupted = 130
)

// Options contains the flags that all experiments share.
type Options struct {
	Workers int
	Seed    uint64
	Wait    time.Duration // maximum time until all runs have ended after the last fault
	dir     string
	JSON    bool
}

// Parse parses args. The function add adds flags to the common ones. The values in o are the
// defaults.
func (o *Options) Parse(args []string, add func(*flag.FlagSet)) error {
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.IntVar(&o.Workers, "workers", o.Workers, "")
	flags.Uint64Var(&o.Seed, "seed", 0, "")
	flags.DurationVar(&o.Wait, "wait", o.Wait, "")
	flags.StringVar(&o.dir, "dir", "", "")
	flags.BoolVar(&o.JSON, "json", false, "")
	add(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("%q is not a flag", flags.Arg(0))
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64() >> 1
	}
	return nil
}

// Program is one experiment of a command.
type Program interface {
	// String returns a description of the experiment with its arguments.
	String() string
	// Run executes the experiment and writes logs to dir.
	Run(ctx context.Context, dir string) error
	// Progress returns a description of the current state.
	Progress() string
	// Report prints the outcome. sound is true if every promise was kept.
	Report(stdout io.Writer) (sound bool, err error)
}

// Command is a command line program that executes experiments.
type Command struct {
	Name        string
	Usage, Help string
	// Parse parses the arguments and returns the experiment that they describe.
	Parse func(args []string, stderr io.Writer) (Program, *Options, error)
}

// Main executes the command and returns its exit code. If ctx ends, it returns early. It leaves no
// process behind.
func (c *Command) Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	p, o, err := c.Parse(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, c.Help)
		return ExitSound
	}
	usage := c.Usage
	dir := ""
	if err == nil {
		usage = ""
		dir, err = directory(o.dir, c.Name)
	}
	if err != nil {
		fmt.Fprintf(stderr, "bench %s: %v\n%s", c.Name, err, usage)
		return ExitUsage
	}
	fmt.Fprintf(stderr, "bench %s %s: logs are in %s\n", c.Name, p, dir)
	sound := false
	if err = p.Run(ctx, dir); err == nil && ctx.Err() == nil {
		sound, err = p.Report(stdout)
	}
	switch {
	case ctx.Err() != nil:
		fmt.Fprintf(stderr, "bench %s: interrupted: %s; logs are in %s\n", c.Name, p.Progress(), dir)
		return ExitInterrupted
	case err != nil:
		fmt.Fprintf(stderr, "bench %s: %v; logs are in %s\n", c.Name, err, dir)
		return ExitUsage
	case !sound:
		return ExitBroken
	}
	return ExitSound
}

// directory creates the directory for logs and records. An existing directory must be empty,
// because its contents are used as evidence.
func directory(dir, name string) (string, error) {
	if dir == "" {
		return os.MkdirTemp("", name+"-")
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", fmt.Errorf("make -dir: %w", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		return "", errors.Join(fmt.Errorf("-dir %s is not empty", dir), err)
	}
	return filepath.Abs(dir)
}
