// Command release executes runs with the release of flowgen that it is built with. A test builds it
// with an earlier release.
//
//	release URL      runs a worker on the store until SIGTERM
//	release URL RUN  prints the status of a run
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	_ "github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	st, err := store.Open(ctx, args[0])
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	defer func() { _ = client.Close() }()
	if len(args) > 1 {
		info, err := client.Run(workflow.RunID(args[1])).Info(ctx)
		fmt.Println(info.Status)
		return err
	}
	w := worker.New(client, worker.Config{Name: "old", Heartbeat: 50 * time.Millisecond, ClaimExpiry: time.Second})
	shim.BindWorkflow(w, shim.NewWorkflow[int, []string]("test.pins.fitting", "in", shim.WorkflowPolicy{}),
		func(workflow.Context, int) ([]string, error) { return []string{"old", "old"}, nil })
	shim.BindWorkflow(w, shim.NewWorkflow[int, string]("test.pins.plain", "in", shim.WorkflowPolicy{}),
		func(workflow.Context, int) (string, error) { return "old", nil })
	return w.Run(ctx)
}
