package endure

import (
	"flag"
	"fmt"
	"io"

	"github.com/flowgen/flowgen/lab/bench/internal/endure/flows"
	"github.com/flowgen/flowgen/lab/bench/internal/fleet"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// The other roles of the program, in which it starts itself.
const (
	roleWorker = "endure-worker"
	roleGuard  = "endure-guard"
)

// exitFailed is the exit code of a worker whose Run returned an error. The code after a panic
// differs.
const exitFailed = 3

// Role runs the role that args name. ok is false if they name none.
func Role(args []string, stderr io.Writer) (code int, ok bool) {
	roles := fleet.Roles{Guard: roleGuard, Worker: roleWorker, Work: work, Failed: exitFailed}
	return roles.Play(args, stderr)
}

// work runs a worker until SIGTERM.
func work(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet(roleWorker, flag.ContinueOnError)
	name := flags.String("name", "", "")
	url := flags.String("store", "", "")
	flags.IntVar(&flows.Build, "build", 1, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := fleet.UntilStopped()
	defer stop()
	return fleet.Work(ctx, *url, stderr, worker.Config{Name: *name}, func(r workflow.Registrar) {
		flows.Register(r)
		// The same program simulates all builds, which differ in the registered code.
		mark := shim.NewWorkflow[workflow.None, workflow.None](fmt.Sprintf("endure.build-%d", flows.Build), "", shim.WorkflowPolicy{})
		shim.BindWorkflow(r, mark, func(workflow.Context, workflow.None) (workflow.None, error) { return workflow.None{}, nil })
	})
}
