package endure

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/flowgen/flowgen/bench/internal/endure/flows"
	"github.com/flowgen/flowgen/bench/internal/fleet"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/redisstore" // for the store of the experiment
)

// The other roles of the program, which it starts itself.
const (
	roleWorker = "endure-worker"
	roleGuard  = "endure-guard"
)

// exitFailed is the exit code of a worker whose Run returned an error; one that
// panics has another.
const exitFailed = 3

// Role plays the part that the program has started itself for, if args name one. ok
// is false if they do not.
func Role(args []string, stderr io.Writer) (code int, ok bool) {
	switch {
	case len(args) > 0 && args[0] == roleGuard:
		fleet.Watch(os.Stdin)
		return 0, true
	case len(args) == 0 || args[0] != roleWorker:
		return 0, false
	}
	if err := work(args[1:], stderr); err != nil {
		fmt.Fprintln(stderr, roleWorker+":", err)
		return exitFailed, true
	}
	return 0, true
}

// work is the life of a worker process, until SIGTERM.
func work(args []string, stderr io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	flags := flag.NewFlagSet(roleWorker, flag.ContinueOnError)
	name := flags.String("name", "", "")
	url := flags.String("store", "", "")
	flags.IntVar(&flows.Build, "build", 1, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	st, err := store.Open(ctx, *url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(stderr, nil))})
	w := worker.New(client, worker.Config{Name: *name})
	flows.Register(w)
	// One program plays all builds: they differ in the code that they register.
	mark := shim.NewWorkflow[workflow.None, workflow.None](fmt.Sprintf("endure.build-%d", flows.Build), "", shim.WorkflowPolicy{})
	shim.BindWorkflow(w, mark, func(workflow.Context, workflow.None) (workflow.None, error) { return workflow.None{}, nil })
	return w.Run(ctx)
}
