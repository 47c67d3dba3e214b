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
	// Queues are the queues to serve. Empty means the queue of each registered workflow and step,
	// and "default". A queue that is only named by workflow.Queue must be listed.
	Queues []string
	// Concurrency bounds how many steps run at once; 0: 256.
	Concurrency int
	// Grace is how long running steps may continue when the worker stops; 0: 10 s.
	Grace time.Duration
	// Heartbeat is how often the worker renews its claims; 0: 5 s.
	Heartbeat time.Duration
	// ClaimExpiry is how long after its last heartbeat a worker is considered dead; 0: 30 s. It
	// must be at least twice Heartbeat.
	ClaimExpiry time.Duration
	// RunBudget is how long a run may keep its slot on the worker while other runs wait for one; 0:
	// 50 s.
	RunBudget time.Duration
	// Recoveries is how many deaths of its worker a run may go through without progress before it
	// fails with the code "poisoned"; 0: 5. With 1 the first death of a worker poisons every run
	// that it owned. Telling the run that kills workers from the others takes at least 2.
	Recoveries int
	// Parked bounds how many branches of waiting runs are kept in memory, about 13 KB each; 0:
	// 5,000. Runs beyond the bound are replayed when they wake.
	Parked int
	// Runs bounds how many runs the worker works on at once, not counting runs that wait; 0:
	// Concurrency, but at least 16. A higher value makes more runs wait for each other's steps.
	Runs int
	// MaxLogEvents and MaxLogBytes bound the log of a run; 0: 50,000 events, 50 MB. A run whose log
	// grows longer fails with the code "loglimit": its context ends as after a cancel, and it may
	// use a fifth of the bound more for cleanup and compensation. A long-lived run should continue
	// as new before that; see workflow.ContinueAsNew and LogLength.
	MaxLogEvents int
	MaxLogBytes  int
	// Capacity is this worker's capacity of local limits, by limit name; see limit.NewLocal. A
	// limit that is not named does not bound the worker.
	Capacity map[string]int
	// AtOnce bounds how many runs of a queue the worker works on at once, including runs that
	// execute a step there. A queue that is not named has no bound of its own. Priorities do not
	// hold between queues with bounds and other queues.
	AtOnce map[string]int
	// NoLocalStart makes runs that are started on the worker's own client wait for a claim by any
	// worker. By default this worker begins them at once while it has free capacity, which saves a
	// claim, a commit and two round trips.
	NoLocalStart bool
	// BlockedAfter is how long workflow code may run between two durable operations before the
	// worker reports it; 0: 5 s.
	BlockedAfter time.Duration
	// Logger is used by the worker; nil: the client's logger.
	Logger *slog.Logger
	// BaseContext returns the parent of the steps' contexts; nil: context.Background(). It is
	// called once.
	BaseContext func() context.Context
	// Name identifies the worker for operators; empty: host name and process id.
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

// ErrStopping is the cause of a step's context that ends because the worker stops.
var ErrStopping = errors.New("worker is stopping")

// errEnded is the cause of a step's context whose run ended before the step did.
var errEnded = errors.New("the run has ended")

// errLost is the cause of a step's context whose run was claimed by another worker.
var errLost = workflow.ErrClaimLost
