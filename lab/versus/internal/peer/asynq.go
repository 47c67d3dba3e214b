package peer

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/hibiken/asynq"

	"github.com/flowgen/flowgen/lab/versus/internal/task"
)

const asynqModule = "github.com/hibiken/asynq"

var asynqOnRedis = &System{
	Name: "asynq", Module: asynqModule, Store: Redis, Kind: Jobs, Settings: appendOnly + "; `TaskCheckInterval` 1 s (default)",
	open: func(_ context.Context, e Env) (Engine, error) { return openAsynq(e, 0) },
}

// asynqOften looks for tasks more often when the queue is empty. The latency with the default is
// the time between two looks.
var asynqOften = &System{
	Name: "asynq (10 ms)", Module: asynqModule, Store: Redis, Kind: Jobs, Settings: appendOnly + "; `TaskCheckInterval` 10 ms",
	open: func(_ context.Context, e Env) (Engine, error) { return openAsynq(e, 10*time.Millisecond) },
}

// asynqEngine is an Engine.
type asynqEngine struct {
	client    *asynq.Client
	server    *asynq.Server
	inspector *asynq.Inspector
}

func openAsynq(e Env, interval time.Duration) (Engine, error) {
	o, err := asynq.ParseRedisURI(e.URL)
	if err != nil {
		return nil, err
	}
	a := &asynqEngine{
		client: asynq.NewClient(o), inspector: asynq.NewInspector(o),
		server: asynq.NewServer(o, asynq.Config{Concurrency: e.Concurrency, TaskCheckInterval: interval, LogLevel: asynq.ErrorLevel}),
	}
	mux := asynq.NewServeMux()
	mux.HandleFunc("step", func(_ context.Context, t *asynq.Task) error {
		var s task.Step
		if err := json.Unmarshal(t.Payload(), &s); err != nil {
			return err
		}
		e.Probe.Do(s)
		return nil
	})
	if err := a.server.Start(mux); err != nil {
		return nil, errors.Join(err, a.client.Close(), a.inspector.Close())
	}
	return a, nil
}

// Start enqueues a task.
func (a *asynqEngine) Start(ctx context.Context, in task.Input) (Run, error) {
	if in.Steps != 1 {
		return nil, errors.New("a task has one step")
	}
	payload, err := json.Marshal(in.Step(0, in.Data))
	if err != nil {
		return nil, err
	}
	id := strconv.Itoa(in.Run)
	if _, err := a.client.EnqueueContext(ctx, asynq.NewTask("step", payload), asynq.TaskID(id)); err != nil {
		return nil, err
	}
	return runFunc(func(ctx context.Context) (string, error) { return "", a.await(ctx, id) }), nil
}

// await waits until a task is deleted, which it is when it has succeeded. There is no call that
// waits for it.
func (a *asynqEngine) await(ctx context.Context, id string) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := a.inspector.GetTaskInfo("default", id); err != nil {
			if errors.Is(err, asynq.ErrTaskNotFound) {
				return nil
			}
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Close stops the server.
func (a *asynqEngine) Close(context.Context) error {
	a.server.Shutdown()
	return errors.Join(a.client.Close(), a.inspector.Close())
}
