package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cschleiden/go-workflows/backend"
	"github.com/cschleiden/go-workflows/backend/monoprocess"
	redisbackend "github.com/cschleiden/go-workflows/backend/redis"
	sqlitebackend "github.com/cschleiden/go-workflows/backend/sqlite"
	"github.com/cschleiden/go-workflows/client"
	goworker "github.com/cschleiden/go-workflows/worker"
	"github.com/cschleiden/go-workflows/workflow"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/lab/versus/internal/task"
)

const goWorkflowsModule = "github.com/cschleiden/go-workflows"

var goWorkflowsOnRedis = &System{
	Name: "go-workflows", Module: goWorkflowsModule, Store: Redis, Settings: appendOnly, Kind: Workflows, Waits: true,
	open: func(ctx context.Context, e Env) (Engine, error) {
		o, err := redis.ParseURL(e.URL)
		if err != nil {
			return nil, err
		}
		c := redis.NewClient(o)
		b, err := redisbackend.NewRedisBackend(c, redisbackend.WithBackendOptions(backend.WithLogger(errorsOnly())))
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return openGoWorkflows(ctx, b, e)
	},
}

// goWorkflowsOnSQLite has the backend for one process, which notifies pollers, as the benchmark of
// go-workflows has.
var goWorkflowsOnSQLite = &System{
	Name: "go-workflows", Module: goWorkflowsModule, Store: SQLite, Kind: Workflows, Waits: true,
	Settings: "WAL, `synchronous=FULL` (default); monoprocess backend",
	open: func(ctx context.Context, e Env) (Engine, error) {
		b := sqlitebackend.NewSqliteBackend(filepath.Join(e.Dir, "runs.db"), sqlitebackend.WithBackendOptions(backend.WithLogger(errorsOnly())))
		return openGoWorkflows(ctx, monoprocess.NewMonoprocessBackend(b), e)
	},
}

func errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

// goWorkflows is an Engine.
type goWorkflows struct {
	client  *client.Client
	worker  *goworker.Worker
	backend backend.Backend
	stop    context.CancelFunc
}

func openGoWorkflows(ctx context.Context, b backend.Backend, e Env) (Engine, error) {
	o := goworker.DefaultOptions
	o.MaxParallelWorkflowTasks, o.MaxParallelActivityTasks = e.Concurrency, e.Concurrency
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	g := &goWorkflows{client: client.New(b), worker: goworker.New(b, &o), backend: b, stop: stop}
	err := errors.Join(
		g.worker.RegisterWorkflow(runActivities), g.worker.RegisterActivity(&activities{probe: e.Probe}), g.worker.Start(ctx),
	)
	if err != nil {
		stop()
		return nil, errors.Join(err, b.Close())
	}
	return g, nil
}

type activities struct{ probe *task.Probe }

// Do executes a step.
func (a *activities) Do(_ context.Context, s task.Step) (string, error) { return a.probe.Do(s), nil }

func runActivities(ctx workflow.Context, in task.Input) (string, error) {
	var a *activities
	if in.Parallel {
		futures := make([]workflow.Future[string], in.Steps)
		for n := range futures {
			futures[n] = workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, a.Do, in.Step(n, in.Data))
		}
		results := make([]string, in.Steps)
		for n, f := range futures {
			var err error
			if results[n], err = f.Get(ctx); err != nil {
				return "", err
			}
		}
		return in.Join(results)
	}
	data := in.Data
	for n := range in.Steps {
		var err error
		if data, err = workflow.ExecuteActivity[string](ctx, workflow.DefaultActivityOptions, a.Do, in.Step(n, data)).Get(ctx); err != nil {
			return "", err
		}
	}
	return data, nil
}

// Start starts a workflow instance.
func (g *goWorkflows) Start(ctx context.Context, in task.Input) (Run, error) {
	i, err := g.client.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: strconv.Itoa(in.Run)}, runActivities, in)
	if err != nil {
		return nil, err
	}
	return runFunc(func(ctx context.Context) (string, error) {
		return client.GetWorkflowResult[string](ctx, g.client, i, time.Minute)
	}), nil
}

// Close stops the worker.
func (g *goWorkflows) Close(context.Context) error {
	g.stop()
	if err := g.worker.WaitForCompletion(); err != nil {
		return fmt.Errorf("stop the worker: %w", err)
	}
	return g.backend.Close()
}
