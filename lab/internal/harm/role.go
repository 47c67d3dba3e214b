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
	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Role describes a worker process that a program starts by executing itself.
type Role struct {
	// Name is the first argument of the process.
	Name string
	// Work adds the flags of the role to the flags of every worker. After the flags have been
	// parsed, the returned function is called with the writer for the records of the worker. It
	// returns the configuration of the worker and a function that registers the code.
	Work func(flags *flag.FlagSet) func(steps *record.Writer) (worker.Config, func(workflow.Registrar))
}

// exitNotStarted is the exit code of a worker whose Run returned an error. It differs from the exit
// code after a panic.
const exitNotStarted = 3

// Play executes the role that args name. ok is false if they name no role.
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

// run runs a worker until it receives SIGTERM. The record file of the worker exists as soon as the
// worker handles the signal.
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
			return nil // The worker was stopped before it began.
		}
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	cfg, register := work(steps)
	cfg.Name = *name
	client, err := NewClient(st, stderr)
	if err != nil {
		return err
	}
	w := worker.New(client, cfg)
	register(w)
	return w.Run(ctx)
}

// Codec returns the codec that the environment configures. It returns nil if the environment has no keys.
func Codec() (store.Codec, error) {
	cfg, err := codec.ConfigFromEnv()
	if err != nil || cfg.Keys == nil {
		return nil, err
	}
	return codec.New(cfg)
}

// NewClient returns a client that logs to logs and has the codec that [Codec] returns.
func NewClient(st store.Store, logs io.Writer) (*workflow.Client, error) {
	c, err := Codec()
	if err != nil {
		return nil, err
	}
	return workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(logs, nil)), Codec: c}), nil
}
