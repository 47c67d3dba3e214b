package peer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/flowgen/flowgen/lab/versus/internal/task"
)

const riverModule = "github.com/riverqueue/river"

var riverOnPostgreSQL = &System{
	Name: "River", Module: riverModule, Store: PostgreSQL, Kind: Jobs, Waits: true,
	Settings: synced + "; `FetchCooldown` 100 ms (default); 20 connections each of client and worker",
	open:     func(ctx context.Context, e Env) (Engine, error) { return openRiver(ctx, e, 0) },
}

// riverOften fetches as often as River permits. The throughput and the latency with the default are
// limited by the time between two fetches.
var riverOften = &System{
	Name: "River (1 ms)", Module: riverModule, Store: PostgreSQL, Kind: Jobs, Waits: true,
	Settings: synced + "; `FetchCooldown` 1 ms; 20 connections each of client and worker",
	open:     func(ctx context.Context, e Env) (Engine, error) { return openRiver(ctx, e, river.FetchCooldownMin) },
}

// riverEngine is an Engine. Its client and its worker have connections of their own, as those of
// different processes have: fetches would wait for inserts otherwise.
type riverEngine struct {
	pools  []*pgxpool.Pool
	client *river.Client[pgx.Tx] // inserts
	worker *river.Client[pgx.Tx]
	cancel func() // ends the subscription

	mu    sync.Mutex
	ended map[int64]chan struct{} // per job; closed when it has ended
}

type jobArgs struct {
	Step task.Step `json:"step"`
}

// Kind returns the name of the job.
func (jobArgs) Kind() string { return "step" }

type jobWorker struct {
	river.WorkerDefaults[jobArgs]
	probe *task.Probe
}

// Work executes a job.
func (w *jobWorker) Work(_ context.Context, job *river.Job[jobArgs]) error {
	w.probe.Do(job.Args.Step)
	return nil
}

func openRiver(ctx context.Context, e Env, cooldown time.Duration) (Engine, error) {
	r := &riverEngine{ended: map[int64]chan struct{}{}}
	if err := r.open(ctx, e, cooldown); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *riverEngine) open(ctx context.Context, e Env, cooldown time.Duration) error {
	inserts, err1 := r.connect(ctx, e.URL)
	works, err2 := r.connect(ctx, e.URL)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	migrator, err := rivermigrate.New(works, &rivermigrate.Config{Logger: errorsOnly()})
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return fmt.Errorf("create the tables: %w", err)
	}
	workers := river.NewWorkers()
	river.AddWorker(workers, &jobWorker{probe: e.Probe})
	queues := map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: e.Concurrency}}
	// A client that inserts notifies workers at most once per cooldown, so both have the same one.
	r.client, err1 = river.NewClient(inserts, &river.Config{FetchCooldown: cooldown, Logger: errorsOnly()})
	r.worker, err2 = river.NewClient(works, &river.Config{FetchCooldown: cooldown, Queues: queues, Workers: workers, Logger: errorsOnly()})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	events, cancel := r.worker.SubscribeConfig(&river.SubscribeConfig{ChanSize: 100_000, Kinds: []river.EventKind{river.EventKindJobCompleted}})
	r.cancel = cancel
	go func() {
		for event := range events {
			close(r.end(event.Job.ID))
		}
	}()
	return r.worker.Start(context.WithoutCancel(ctx))
}

// connect returns a driver with as many connections as DBOS has by default.
func (r *riverEngine) connect(ctx context.Context, url string) (*riverpgxv5.Driver, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 20
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	r.pools = append(r.pools, pool)
	return riverpgxv5.New(pool), nil
}

func (r *riverEngine) close() {
	if r.cancel != nil {
		r.cancel()
	}
	for _, p := range r.pools {
		p.Close()
	}
}

// end returns the channel that is closed when the job has ended.
func (r *riverEngine) end(id int64) chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended[id] == nil {
		r.ended[id] = make(chan struct{})
	}
	return r.ended[id]
}

// Start inserts a job.
func (r *riverEngine) Start(ctx context.Context, in task.Input) (Run, error) {
	if in.Steps != 1 {
		return nil, errors.New("a job has one step")
	}
	inserted, err := r.client.Insert(ctx, jobArgs{in.Step(0, in.Data)}, nil)
	if err != nil {
		return nil, err
	}
	ended := r.end(inserted.Job.ID)
	return runFunc(func(ctx context.Context) (string, error) {
		select {
		case <-ended:
			return "", nil
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}), nil
}

// Close stops the worker.
func (r *riverEngine) Close(ctx context.Context) error {
	defer r.close()
	return r.worker.Stop(ctx)
}
