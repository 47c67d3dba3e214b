package redisstore_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// counter counts the commands that a client sends.
type counter struct {
	all     atomic.Int64
	mu      sync.Mutex
	by      map[string]int // number of calls by command name or script name
	scripts int            // number of executed scripts; a batch counts as its operations
	beats   chan struct{}  // receives a value for each heartbeat; nil if unused
}

func (c *counter) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		err := next(ctx, cmd)
		c.forget(cmd)
		return err
	}
}

func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.count(cmds...)
		err := next(ctx, cmds)
		c.forget(cmds...)
		return err
	}
}

func (c *counter) count(cmds ...redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		c.all.Add(1)
		names := []string{cmd.Name()}
		if names[0] == "evalsha" || names[0] == "eval" {
			names = redisstore.ScriptsOf(cmd.Args())
			c.scripts += len(names)
		}
		if c.by == nil {
			c.by = map[string]int{}
		}
		for _, name := range names {
			c.by[name]++
			if name == "heartbeat" && c.beats != nil {
				c.beats <- struct{}{}
			}
		}
	}
}

// forget subtracts the scripts that a new server refused with NOSCRIPT. Their number depends on the
// speed of the machine.
func (c *counter) forget(cmds ...redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			c.all.Add(-1)
			for _, name := range redisstore.ScriptsOf(cmd.Args()) {
				c.by[name]--
				c.scripts--
			}
		}
	}
}

// counted returns a store and a counter of the commands that the store sends.
func counted(t testing.TB, server *redistest.Server) (*redisstore.Store, *counter) {
	t.Helper()
	client, c := server.Client(t), &counter{}
	client.AddHook(c)
	st, err := redisstore.New(client, redisstore.Config{Prefix: redistest.Prefix()})
	if err != nil {
		t.Fatal(err)
	}
	return st, c
}

func TestCost_AThreeStepRunTakesFewCommands(t *testing.T) {
	const runs = 500
	server := redistest.Shared(t)
	st, starts := counted(t, server)
	f := newFleet(t, st)
	started := make([]*workflow.Run[string], runs)
	for n := range started {
		run, err := Fulfil.Start(f.ctx, f.client, fmt.Sprintf("order-%d", n))
		if err != nil {
			t.Fatal(err)
		}
		started[n] = run
	}
	client := server.Client(t)
	works := &counter{}
	client.AddHook(works)
	own, err := redisstore.New(client, redisstore.Config{Prefix: st.Prefix()})
	if err != nil {
		t.Fatal(err)
	}
	// With fewer slots, runs would have to wait for one and might commit more often.
	stop := f.work(own, worker.Config{Concurrency: runs}, done)
	for _, run := range started {
		result(f, run)
	}
	stop()
	created, work := starts.by["create"], works.by
	all := float64(int64(created)+works.all.Load()) / runs
	t.Logf("a three-step run takes %.2f commands: create %.2f, %v", all, float64(created)/runs, work)
	if all > 6 {
		t.Errorf("a run takes %.2f commands, want at most 6", all)
	}
	commits := work["commit"] + work["append"] + work["finish"]
	const tried = 1 // sent by the doctor when the worker starts
	if created > runs+5 || commits > 5*runs || work["xrange"] > tried {
		t.Errorf("%d runs took %d creates, %d commits and %d reads of logs, want about 1, 4 and 0 each", runs, created, commits, work["xrange"])
	}
	if rest := float64(works.scripts-commits) / runs; rest > 2 {
		t.Errorf("a run takes %.2f scripts beside its commits, want at most 2: %v", rest, work)
	}
	sound(t, st)
	if err := own.Close(); err != nil {
		t.Error(err)
	}
}

var (
	idleWorkers  = flag.Int("idle.workers", 1, "number of workers of TestREC5_AnIdleFleetSendsFewCommands")
	idleSleepers = flag.Int("idle.sleepers", 1_000, "number of runs that sleep meanwhile")
)

func TestREC5_AnIdleFleetSendsFewCommands(t *testing.T) {
	t.Parallel()
	const rounds = 2 // number of measured heartbeats per worker and partition
	st, commands := counted(t, redistest.Shared(t))
	commands.beats = make(chan struct{}, 1<<20)
	f := newFleet(t, st)
	later := make([]workflow.StartRequest[time.Duration], 1000)
	for i := range later {
		later[i] = workflow.StartRequest[time.Duration]{Options: []workflow.StartOption{workflow.WithDelay(time.Hour)}}
	}
	for n := 0; n < *idleSleepers; n += len(later) {
		must(Sleep.StartMany(f.ctx, f.client, later))
	}
	for range *idleWorkers {
		f.work(st, worker.Config{}, done)
	}
	result(f, must(Fulfil.Start(f.ctx, f.client, "order")))
	round := *idleWorkers * st.Partitions()
	await := func(beats int) {
		for range beats {
			select {
			case <-commands.beats:
			case <-f.ctx.Done():
				t.Fatal(f.ctx.Err())
			}
		}
	}
	await(round) // before the measurement, the workers open sessions, claim, and examine the server
	before, began := commands.all.Load(), time.Now()
	await(rounds * round)
	all := float64(commands.all.Load() - before)
	t.Logf("%d idle workers on %d partitions, with %d runs asleep, send %.1f commands per second",
		*idleWorkers, st.Partitions(), *idleSleepers, all/time.Since(began).Seconds())
	// The bound is per heartbeat and not per second, because a busy machine delays heartbeats and
	// commands alike.
	if per := all / float64(rounds*round); per > 4 {
		t.Errorf("an idle worker sends %.1f commands per heartbeat of a partition, want at most 4", per)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
