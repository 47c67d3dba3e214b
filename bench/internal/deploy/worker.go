package deploy

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
	"time"

	"github.com/flowgen/flowgen/bench/internal/fleet"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"

	_ "github.com/flowgen/flowgen/redisstore"  // for redis://…
	_ "github.com/flowgen/flowgen/sqlitestore" // for sqlite:…
)

// The other roles of the program, which it starts itself.
const (
	roleWorker = "deploy-worker"
	roleGuard  = "deploy-guard"
)

// Role plays the part that the program has started itself for, if args name one.
func Role(args []string, stderr io.Writer) (code int, ok bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case roleGuard:
		fleet.Watch(os.Stdin)
		return 0, true
	case roleWorker:
		if err := workerProcess(args[1:], stderr); err != nil {
			fmt.Fprintln(stderr, roleWorker+":", err)
			return exitBroken, true
		}
		return 0, true
	}
	return 0, false
}

// workerProcess works until SIGTERM.
func workerProcess(args []string, stderr io.Writer) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var b build
	flags := flag.NewFlagSet(roleWorker, flag.ContinueOnError)
	name := flags.String("name", "", "")
	url := flags.String("store", "", "")
	flags.BoolVar(&b.changed, "changed", false, "")
	flags.BoolVar(&b.version, "version", false, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	st, err := store.Open(ctx, *url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(stderr, nil))})
	w := worker.New(client, worker.Config{
		Name: *name, Concurrency: 400, Grace: 500 * time.Millisecond,
		Heartbeat: time.Second, ClaimExpiry: 5 * time.Second,
	})
	b.register(w)
	return w.Run(ctx)
}
