package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Config configures a worker. The zero value is the default.
type Config struct {
	// Queues are the queues to serve; empty: the queue of each registered
	// workflow and step, and "default". A queue that only workflow.Queue names must
	// be one of them.
	Queues []string
	// Concurrency bounds how many steps run at once; 0: 256.
	Concurrency int
	// Grace is how long running steps may go on when the worker stops; 0: 10 s.
	Grace time.Duration
	// Heartbeat is how often the worker renews its claims; 0: 5 s.
	Heartbeat time.Duration
	// ClaimExpiry is how long after its last heartbeat a worker is taken for
	// dead; 0: 30 s. It must be at least twice Heartbeat.
	ClaimExpiry time.Duration
	// RunBudget is how long a run may keep its place on the worker while others
	// wait for one; 0: 50 s.
	RunBudget time.Duration
	// Recoveries is how often a run may take its worker with it before it is set
	// aside as failed, with the code "poisoned"; 0: 5. With 1 the first death of a worker
	// poisons whatever it had: at least 2 are needed to tell the guilty from the innocent.
	Recoveries int
	// Parked bounds how many branches of waiting runs are kept in memory, about
	// 13 KB each; 0: 5,000. Beyond it runs are replayed when they wake.
	Parked int
	// Runs bounds how many runs the worker works on at once, not those that wait;
	// 0: Concurrency, but at least 16. More of them wait for one another's steps.
	Runs int
	// MaxLogEvents and MaxLogBytes bound the log of a run; 0: 50,000 events, 50 MB. One that
	// gets longer ends as failed, with the code "loglimit": its context ends as after a cancel,
	// and a fifth as much again is left for what cleans up and undoes. A run that goes on
	// for long continues as new before that; see workflow.ContinueAsNew and LogLength.
	MaxLogEvents int
	MaxLogBytes  int
	// Capacity is how much this worker has of local limits, by their names: see limit.NewLocal.
	// What is not named does not bound it.
	Capacity map[string]int
	// AtOnce bounds how many runs of a queue the worker works on at once, also those that
	// execute a step there; a queue that is not named has no bound of its own. Between
	// queues with bounds and others priorities do not hold.
	AtOnce map[string]int
	// NoHandover lets runs that are started on the worker's own client wait for a
	// claim by any worker. Else this worker begins them at once while it has room,
	// which saves a claim, a commit and two round trips.
	NoHandover bool
	// BlockedAfter is how long code of a workflow may run between two durable
	// operations before the worker reports it; 0: 5 s.
	BlockedAfter time.Duration
	// Logger is used by the worker; nil: that of the client.
	Logger *slog.Logger
	// BaseContext returns the context that those of the steps are made from;
	// nil: context.Background(). It is called once.
	BaseContext func() context.Context
	// Name tells people which worker this is; empty: host name and process id.
	Name string
}

func (c Config) withDefaults(client *slog.Logger) Config {
	pick := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	count := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	pick(&c.Grace, 10*time.Second)
	pick(&c.Heartbeat, 5*time.Second)
	pick(&c.ClaimExpiry, 30*time.Second)
	pick(&c.RunBudget, 50*time.Second)
	pick(&c.BlockedAfter, 5*time.Second)
	count(&c.Concurrency, 256)
	count(&c.Recoveries, 5)
	count(&c.Parked, 5_000)
	count(&c.MaxLogEvents, 50_000)
	count(&c.MaxLogBytes, 50_000_000)
	count(&c.Runs, max(c.Concurrency, 16))
	if c.Logger == nil {
		c.Logger = client
	}
	if c.Name == "" {
		host, _ := os.Hostname()
		c.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	return c
}

// ErrStopping is the cause of a step's context that ends because the worker does.
var ErrStopping = errors.New("worker is stopping")

// errEnded is the cause of a step's context whose run has ended without it.
var errEnded = errors.New("the run has ended")

// errLost is the cause of a step's context whose run was taken over.
var errLost = workflow.ErrClaimLost
