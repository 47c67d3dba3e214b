// Package peer executes the same runs with flowgen and with other systems, each through an adapter
// that uses the system as its documentation describes.
package peer

import (
	"context"
	"runtime/debug"

	"github.com/flowgen/flowgen/lab/versus/internal/task"
)

// System is a system on a store.
type System struct {
	Name     string // name of the system, with the setting that differs from that of another row
	Module   string // path of its Go module
	Store    Store
	Settings string // durability, and settings that are not defaults, for the report
	Kind     Kind
	// Waits reports whether the system has a call that waits for the result or the end of a run.
	Waits bool

	open func(ctx context.Context, e Env) (Engine, error)
}

// Store is the kind of a store.
type Store string

// The stores.
const (
	Redis      Store = "Redis"
	SQLite     Store = "SQLite"
	PostgreSQL Store = "PostgreSQL"
)

// Kind is the set of workloads that a system executes.
type Kind int

// The kinds.
const (
	Workflows Kind = iota // workflows of many steps
	Jobs                  // single jobs
	Both                  // workflows, and workflows of one step that are compared with jobs
)

// Env is the environment of an engine.
type Env struct {
	URL         string // URL of the server, of an empty database; empty for SQLite
	Dir         string // an empty directory for files
	Concurrency int    // maximum number of steps, and of runs, that execute at the same time
	Probe       *task.Probe
}

// Engine is a client and a worker of a system, in this process.
type Engine interface {
	// Start starts a run. When it returns, the run is in the store.
	Start(ctx context.Context, in task.Input) (Run, error)
	// Close stops the worker and closes the store.
	Close(ctx context.Context) error
}

// Run is a started run.
type Run interface {
	// Result waits until the store has the end of the run. It returns the result, or for jobs, which
	// have none, an empty text.
	Result(ctx context.Context) (string, error)
}

// Open opens the system with an empty store and starts a worker.
func (s *System) Open(ctx context.Context, e Env) (Engine, error) { return s.open(ctx, e) }

// Version returns the version of the system in this program.
func (s *System) Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == s.Module {
			if m.Replace != nil {
				return "this tree"
			}
			return m.Version
		}
	}
	return "unknown"
}

// Systems contains all systems. Those of one store follow each other.
var Systems = []*System{
	flowgenOnRedis, goWorkflowsOnRedis, asynqOnRedis, asynqOften,
	flowgenOnSQLite, dbosOnSQLite, flowgenOnSQLiteFull, goWorkflowsOnSQLite,
	dbosOnPostgreSQL, riverOnPostgreSQL, riverOften,
}

// ID identifies the system in options.
func (s *System) ID() string { return s.Name + "@" + string(s.Store) }

// runFunc is a Run.
type runFunc func(ctx context.Context) (string, error)

// Result calls f.
func (f runFunc) Result(ctx context.Context) (string, error) { return f(ctx) }

// The durability of the servers, which all systems share.
const (
	appendOnly = "`appendonly yes`, `appendfsync everysec`"
	synced     = "`fsync on`, `synchronous_commit on`"
)
