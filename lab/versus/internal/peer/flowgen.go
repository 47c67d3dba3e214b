package peer

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/flowgen/flowgen/lab/versus/internal/peer/flows"
	"github.com/flowgen/flowgen/lab/versus/internal/task"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

const flowgenModule = "github.com/flowgen/flowgen"

var flowgenOnRedis = &System{
	Name: "flowgen", Module: flowgenModule, Store: Redis, Settings: appendOnly, Kind: Both, Waits: true,
	open: func(_ context.Context, e Env) (Engine, error) {
		st, err := redisstore.Open(e.URL)
		if err != nil {
			return nil, err
		}
		return openFlowgen(st, e), nil
	},
}

var flowgenOnSQLite = &System{
	Name: "flowgen", Module: flowgenModule, Store: SQLite, Settings: "WAL, `synchronous=NORMAL` (default)", Kind: Both, Waits: true,
	open: func(_ context.Context, e Env) (Engine, error) { return openSQLite(e, sqlitestore.Normal) },
}

var flowgenOnSQLiteFull = &System{
	Name: "flowgen (FULL)", Module: flowgenModule, Store: SQLite, Settings: "WAL, `synchronous=FULL`", Kind: Both, Waits: true,
	open: func(_ context.Context, e Env) (Engine, error) { return openSQLite(e, sqlitestore.Full) },
}

func openSQLite(e Env, mode sqlitestore.Synchronous) (Engine, error) {
	st, err := sqlitestore.OpenWith(filepath.Join(e.Dir, "runs.db"), sqlitestore.Config{Synchronous: mode})
	if err != nil {
		return nil, err
	}
	return openFlowgen(st, e), nil
}

// flowgen is an Engine.
type flowgen struct {
	client *workflow.Client
	store  store.Store
	stop   context.CancelFunc
	worked chan error
}

func openFlowgen(st store.Store, e Env) *flowgen {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	f := &flowgen{client: workflow.NewClient(st, workflow.ClientConfig{Logger: log}), store: st, worked: make(chan error, 1)}
	w := worker.New(f.client, worker.Config{Concurrency: e.Concurrency})
	flows.Register(w, &flows.Work{Probe: e.Probe})
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	go func() { f.worked <- w.Run(ctx) }()
	return f
}

// Start starts a run.
func (f *flowgen) Start(ctx context.Context, in task.Input) (Run, error) {
	return flows.Run.Start(ctx, f.client, in)
}

// Close stops the worker.
func (f *flowgen) Close(context.Context) error {
	f.stop()
	return errors.Join(<-f.worked, f.client.Close(), f.store.Close())
}
