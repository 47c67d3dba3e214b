package deploy

import (
	"flag"
	"io"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/fleet"
	"github.com/flowgen/flowgen/runtime/worker"
)

// The other roles of the program, in which it starts itself.
const (
	roleWorker = "deploy-worker"
	roleGuard  = "deploy-guard"
)

// Role runs the role that args name. ok is false if they name none.
func Role(args []string, stderr io.Writer) (code int, ok bool) {
	roles := fleet.Roles{Guard: roleGuard, Worker: roleWorker, Work: workerProcess, Failed: exitBroken}
	return roles.Play(args, stderr)
}

// workerProcess runs a worker until SIGTERM.
func workerProcess(args []string, stderr io.Writer) error {
	var b build
	flags := flag.NewFlagSet(roleWorker, flag.ContinueOnError)
	name := flags.String("name", "", "")
	url := flags.String("store", "", "")
	flags.BoolVar(&b.changed, "changed", false, "")
	flags.BoolVar(&b.version, "version", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := fleet.UntilStopped()
	defer stop()
	return fleet.Work(ctx, *url, stderr, worker.Config{
		Name: *name, Concurrency: 400, Grace: 500 * time.Millisecond,
		Heartbeat: time.Second, ClaimExpiry: 5 * time.Second,
	}, b.register)
}
