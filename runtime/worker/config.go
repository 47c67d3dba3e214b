package worker

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/flowgen/flowgen/internal/environ"
	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Config configures a worker. The zero value is the default.
type Config struct {
	// Queues are the queues to serve. If Queues is empty, the worker serves the queue of each
	// registered workflow and step, and "default". A queue that is named only by workflow.Queue
	// must be listed.
	Queues []string `env:"FLOWGEN_WORKER_QUEUES"`
	// Concurrency bounds how many steps run at once. The default is 256.
	Concurrency int `env:"FLOWGEN_WORKER_CONCURRENCY" default:"256"`
	// Grace is how long running steps may continue when the worker stops. The default is 10 s.
	Grace time.Duration `env:"FLOWGEN_WORKER_GRACE" default:"10s"`
	// Heartbeat is the interval at which the worker renews its claims. The default is 5 s.
	Heartbeat time.Duration `env:"FLOWGEN_WORKER_HEARTBEAT" default:"5s"`
	// ClaimExpiry is the time after its last heartbeat at which a worker is considered dead. It
	// must be at least twice Heartbeat. The default is 30 s.
	ClaimExpiry time.Duration `env:"FLOWGEN_WORKER_CLAIM_EXPIRY" default:"30s"`
	// RunBudget is how long a run may keep its slot on the worker while other runs wait for a slot.
	// The default is 50 s.
	RunBudget time.Duration `env:"FLOWGEN_WORKER_RUN_BUDGET" default:"50s"`
	// Recoveries is how many times the worker of a run may die without progress of the run before
	// the run fails with the code "poisoned". The default is 5. With 1, the first death of a worker
	// poisons every run that the worker owned. To separate the run that kills workers from the
	// others, Recoveries must be at least 2.
	Recoveries int `env:"FLOWGEN_WORKER_RECOVERIES" default:"5"`
	// Parked bounds how many branches of waiting runs are kept in memory. A branch takes about 13
	// KB. The default is 5,000. Runs beyond the bound are replayed when they wake.
	Parked int `env:"FLOWGEN_WORKER_PARKED" default:"5000"`
	// Runs bounds how many runs the worker executes at once, not counting runs that wait. The
	// default is Concurrency, but at least 16. With a higher value, more runs wait for each other's
	// steps.
	Runs int `env:"FLOWGEN_WORKER_RUNS"`
	// MaxLogEvents bounds the number of events in the log of a run. The default is 50,000. A run
	// whose log reaches a bound fails with the code "loglimit". Its context ends as after a cancel,
	// and the run may use another fifth of the bound for cleanup and compensation. A long-lived run
	// should continue as new before that; see Definition.ContinueAsNew and LogLength in package
	// workflow.
	MaxLogEvents int `env:"FLOWGEN_WORKER_MAX_LOG_EVENTS" default:"50000"`
	// MaxLogBytes bounds the size of the log of a run in bytes, as MaxLogEvents bounds the number of
	// its events. The default is 50 MB.
	MaxLogBytes int `env:"FLOWGEN_WORKER_MAX_LOG_BYTES" default:"50MB" form:"size"`
	// Capacity is this worker's capacity of local limits, by limit name; see limit.NewLocal. A
	// limit without an entry does not bound the worker.
	Capacity map[string]int `env:"FLOWGEN_WORKER_CAPACITY"`
	// AtOnce bounds how many runs of a queue the worker executes at once, by queue name. Runs that
	// execute a step in the queue count as well. A queue without an entry has no bound of its own.
	// Priorities do not hold between queues with a bound and other queues.
	AtOnce map[string]int `env:"FLOWGEN_WORKER_AT_ONCE"`
	// NoLocalStart disables local starts: runs that are started on the worker's own client then
	// wait for a claim by any worker. By default this worker begins such runs at once while it has
	// free capacity, which saves a claim, a commit and two round trips.
	NoLocalStart bool `env:"FLOWGEN_WORKER_NO_LOCAL_START" default:"false"`
	// BlockedAfter is how long workflow code may run between two durable operations before the
	// worker logs a warning. The default is 5 s.
	BlockedAfter time.Duration `env:"FLOWGEN_WORKER_BLOCKED_AFTER" default:"5s"`
	// Observers receive what the worker commits, in the order of the slice; see package observe.
	Observers []observe.Observer
	// Alerts determines when operators are notified of runs that need attention. The zero value
	// notifies of nothing and costs nothing.
	Alerts alert.Config
	// Pin pins all runs that the client of the worker starts, and not only those of workflows whose
	// directive has the flag pin. A pinned run stays on the build that started it while that build
	// has workers.
	Pin bool `env:"FLOWGEN_WORKER_PIN" default:"false"`
	// Logger is the worker's logger. The default is the client's logger.
	Logger *slog.Logger
	// BaseContext returns the parent of the contexts of steps. It is called once. The default is
	// context.Background().
	BaseContext func() context.Context
	// Interceptors wrap the code of workflows and the attempts of steps. Each must be a
	// workflow.CodeInterceptor or a step.Interceptor. The first one is the outermost.
	Interceptors []workflow.Interceptor
	// Name identifies the worker for operators. The default consists of the host name and the
	// process ID.
	Name string `env:"FLOWGEN_WORKER_NAME"`
	// Build names the build of the program: 1 to 64 letters, digits or . _ - +, for example the tag
	// of its image. Runs record it and operators manage deployments by it; see ops.Client.Deploys.
	// The default is the beginning of the hash of the commit from which the program was built, or
	// of a hash of the program.
	Build string `env:"FLOWGEN_WORKER_BUILD"`
}

// ConfigFromEnv returns the configuration in the FLOWGEN_WORKER_* environment variables, which the
// tags of the fields name. Fields without a variable are zero, and the program may change all
// fields before it calls [New]. Errors are *[store.UnknownVariableError] and
// *[store.VariableError], possibly joined.
func ConfigFromEnv() (Config, error) {
	var c Config
	if err := environ.Load(&c); err != nil {
		return Config{}, err
	}
	d := c.withDefaults(nil)
	if err := d.checkExpiry(); err != nil {
		return Config{}, &store.VariableError{
			Name: "FLOWGEN_WORKER_CLAIM_EXPIRY", Value: d.ClaimExpiry.String(), What: fmt.Sprintf("is %v while FLOWGEN_WORKER_HEARTBEAT is %v", d.ClaimExpiry, d.Heartbeat),
			Want: "at least twice the heartbeat", Err: err,
		}
	}
	if err := d.checkQueues(); err != nil {
		return Config{}, &store.VariableError{
			Name: "FLOWGEN_WORKER_QUEUES", Value: strings.Join(d.Queues, ","), What: "names a queue that contains " + event.PinMark, Want: "other names", Err: err,
		}
	}
	if err := d.checkBuild(); err != nil {
		return Config{}, &store.VariableError{
			Name: "FLOWGEN_WORKER_BUILD", Value: d.Build, What: "is not the name of a build", Want: fmt.Sprintf("1 to %d letters, digits or . _ - +", deploy.MaxID), Err: err,
		}
	}
	return c, nil
}

// Check returns a *[store.InvalidError] or an *[alert.ConfigError] if [New] refuses the configuration.
func (c Config) Check() error {
	c = c.withDefaults(nil)
	return cmp.Or(c.checkExpiry(), c.checkBuild(), c.checkQueues(), checkInterceptors(c.Interceptors), c.Alerts.Check())
}

func (c Config) checkQueues() error {
	for _, queue := range c.Queues {
		if event.CheckQueue(queue) != nil {
			return &store.InvalidError{What: "queue", Value: queue, Reason: fmt.Sprintf("contains %q, which separates a queue from a build: use another name in Queues", event.PinMark)}
		}
	}
	return nil
}

func (c Config) checkExpiry() error {
	if c.ClaimExpiry < 2*c.Heartbeat {
		return &store.InvalidError{
			What: "ClaimExpiry", Value: c.ClaimExpiry.String(),
			Reason: fmt.Sprintf("is less than twice Heartbeat %v: a healthy worker would be considered dead: raise it, or lower Heartbeat", c.Heartbeat),
		}
	}
	return nil
}

func (c Config) checkBuild() error {
	if c.Build == "" {
		return nil
	}
	return deploy.CheckID(c.Build)
}

func (c Config) withDefaults(client *slog.Logger) Config {
	environ.SetDefaults(&c)
	if c.Runs <= 0 {
		c.Runs = max(c.Concurrency, 16)
	}
	if c.Logger == nil {
		c.Logger = client
	}
	if c.Name == "" {
		host, _ := os.Hostname()
		c.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	return c
}

// ErrStopping is the cause of a step's context that ends because the worker is stopping.
var ErrStopping = runloop.ErrStopping
