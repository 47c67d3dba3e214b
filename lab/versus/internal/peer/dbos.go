package peer

import (
	"context"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	_ "github.com/dbos-inc/dbos-transact-golang/dbos/driver/sqlite" // registers SQLite

	"github.com/flowgen/flowgen/lab/versus/internal/task"
)

const dbosModule = "github.com/dbos-inc/dbos-transact-golang"

var dbosOnSQLite = &System{
	Name: "DBOS", Module: dbosModule, Store: SQLite, Settings: "WAL, `synchronous=NORMAL` (default)", Kind: Workflows, Waits: true,
	open: func(ctx context.Context, e Env) (Engine, error) {
		return openDBOS(ctx, "sqlite:"+filepath.Join(e.Dir, "runs.db"), e)
	},
}

var dbosOnPostgreSQL = &System{
	Name: "DBOS", Module: dbosModule, Store: PostgreSQL, Settings: synced + "; 20 connections (default)", Kind: Workflows, Waits: true,
	open: func(ctx context.Context, e Env) (Engine, error) { return openDBOS(ctx, e.URL, e) },
}

// dbosEngine is an Engine. A workflow begins in the process that starts it, without a queue.
type dbosEngine struct {
	ctx   dbos.Context
	probe *task.Probe
}

func openDBOS(ctx context.Context, url string, e Env) (Engine, error) {
	c, err := dbos.NewContext(context.WithoutCancel(ctx), dbos.Config{AppName: "versus", DatabaseURL: url, Logger: errorsOnly()})
	if err != nil {
		return nil, err
	}
	d := &dbosEngine{ctx: c, probe: e.Probe}
	dbos.RegisterWorkflow(c, d.run, dbos.WithWorkflowName("run"))
	return d, dbos.Launch(c)
}

func (d *dbosEngine) run(ctx dbos.Context, in task.Input) (string, error) {
	if in.Parallel {
		outcomes := make([]<-chan dbos.StepOutcome[string], in.Steps)
		for n := range outcomes {
			var err error
			if outcomes[n], err = dbos.Go(ctx, d.step(in.Step(n, in.Data))); err != nil {
				return "", err
			}
		}
		results := make([]string, in.Steps)
		for n, outcome := range outcomes {
			o := <-outcome
			if o.Err != nil {
				return "", o.Err
			}
			results[n] = o.Result
		}
		return in.Join(results)
	}
	data := in.Data
	for n := range in.Steps {
		var err error
		if data, err = dbos.RunAsStep(ctx, d.step(in.Step(n, data))); err != nil {
			return "", err
		}
	}
	return data, nil
}

func (d *dbosEngine) step(s task.Step) dbos.Step[string] {
	return func(context.Context) (string, error) { return d.probe.Do(s), nil }
}

// Start starts a workflow.
func (d *dbosEngine) Start(_ context.Context, in task.Input) (Run, error) {
	handle, err := dbos.RunWorkflow(d.ctx, d.run, in, dbos.WithWorkflowID(strconv.Itoa(in.Run)))
	if err != nil {
		return nil, err
	}
	return runFunc(func(context.Context) (string, error) { return handle.GetResult(dbos.WithHandleTimeout(time.Minute)) }), nil
}

// Close ends DBOS.
func (d *dbosEngine) Close(context.Context) error { return dbos.Shutdown(d.ctx, 10*time.Second) }
