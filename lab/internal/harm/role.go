package harm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"slices"
	"syscall"

	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Role is a role in which a program starts itself: a worker process.
type Role struct {
	// Name is the first argument of the process.
	Name string
	// Work adds flags to those of every worker. Once they are parsed, the result is called with the
	// records of the worker. It returns the configuration of the worker, and registers its code.
	Work func(flags *flag.FlagSet) func(steps *record.Writer) (worker.Config, func(workflow.Registrar))
}

// exitNotStarted is the exit code of a worker whose Run returned an error. The code after a panic
// differs.
const exitNotStarted = 3

// Play runs the role that args name. ok is false if they name none.
func Play(args []string, stderr io.Writer, roles ...Role) (code int, ok bool) {
	i := slices.IndexFunc(roles, func(r Role) bool { return len(args) > 0 && args[0] == r.Name })
	if i < 0 {
		return 0, false
	}
	if err := roles[i].run(args[1:], stderr); err != nil {
		fmt.Fprintln(stderr, roles[i].Name+":", err)
		return exitNotStarted, true
	}
	return 0, true
}

// run runs a worker until SIGTERM. Its records exist when it handles that.
func (r *Role) run(args []string, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet(r.Name, flag.ContinueOnError)
	name, url, records := flags.String("name", "", ""), flags.String("store", "", ""), flags.String("records", "", "")
	work := r.Work(flags)
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	steps, err := record.NewWriter(*records, *name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, steps.Close()) }()
	st, err := store.Open(ctx, *url)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before it began
		}
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	cfg, register := work(steps)
	cfg.Name = *name
	w := worker.New(workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(stderr, nil))}), cfg)
	register(w)
	return w.Run(ctx)
}
