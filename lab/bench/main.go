// Command bench measures flowgen, and tests its resilience under disturbances. Run it with -help
// for a list of commands.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/flowgen/flowgen/lab/bench/internal/admin"
	"github.com/flowgen/flowgen/lab/bench/internal/chaos"
	"github.com/flowgen/flowgen/lab/bench/internal/deploy"
	"github.com/flowgen/flowgen/lab/bench/internal/endure"
	"github.com/flowgen/flowgen/lab/bench/internal/functions"
	"github.com/flowgen/flowgen/lab/bench/internal/limits"
	"github.com/flowgen/flowgen/lab/bench/internal/speed"
	"github.com/flowgen/flowgen/lab/internal/harm"
)

const help = `bench measures the performance of flowgen and injects faults to test its durability.

usage: bench COMMAND [flags]

  admin      measure the queries of operators on a store with many runs
  chaos      inject faults into a fleet of worker processes and check that nothing was lost
  deploy     replace workers by workers with changed code and report the outcomes of the runs
  endure     deploy, restart, delete keys and repair for hours, and report what was lost
  functions  execute runs by functions that are killed at each commit
  limits     measure limits and schedules, and compare each figure with its budget
  speed      measure the costs of workflows: time, round trips, memory

For details use bench COMMAND -help.
`

const exitUsage = 2

// commands contains the subcommands by name.
var commands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) int{
	"admin":     admin.Main,
	"chaos":     chaos.Command.Main,
	"deploy":    deploy.Main,
	"endure":    endure.Command.Main,
	"functions": functions.Command.Main,
	"limits":    limits.Main,
	"speed":     speed.Main,
}

func main() {
	if code, ok := functions.Play(os.Args[1:], os.Stderr); ok {
		os.Exit(code)
	}
	if code, ok := harm.Play(os.Args[1:], os.Stderr, chaos.Worker, deploy.Worker, deploy.RampWorker, endure.Worker); ok {
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run executes a command and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, help)
		return exitUsage
	}
	switch args[0] {
	case "help", "-help", "--help", "-h":
		fmt.Fprint(stdout, help)
		return 0
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(stderr, "bench: there is no command %q\n%s", args[0], help)
		return exitUsage
	}
	return command(ctx, args[1:], stdout, stderr)
}
