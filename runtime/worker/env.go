package worker

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/store"
)

// env is the environment that the parts of a worker share. It refers to none of them.
type env struct {
	lifecycle
	cfg      Config
	store    store.Store
	clock    store.Clock
	log      *slog.Logger
	damage   store.DamageTeller // nil if the store reports no damage
	base     context.Context    // parent of the steps' contexts
	activity *activity.Counter  // nil except in a test kit
	chance   func() float64     // in [0, 1)

	// Bounds that only tests and the test kit change.
	lookAgain time.Duration // how long a run loop relies on an alarm
	waitMost  time.Duration // how long the claim loop sleeps
	obeys     time.Duration // how long the worker waits for code that was canceled

	fit    string // fingerprint of the code
	build  string // the build that events name; empty if it does not identify the program
	routes []store.Route
	serves map[store.Route]bool
}

// lifecycle is the state of a worker's shutdown.
type lifecycle struct {
	stopping atomic.Bool     // the worker claims nothing more and gives back its runs
	ending   atomic.Bool     // the grace period is over
	hard     atomic.Bool     // nothing waits for steps, and nothing is retried, any more
	killed   atomic.Bool     // see engine.Kill
	io       context.Context // ends when the worker no longer waits for the store
	cutOff   context.CancelFunc
	work     sync.WaitGroup // goroutines that use the store
}

// hardStop bounds how long the worker waits for work that should end at once.
const hardStop = 2 * time.Second

// partitionOf returns the partition that a run belongs to.
func (e *env) partitionOf(run event.RunID) int { return int(run.Slot()) % e.store.Partitions() }

// logRestored logs runs that the store had lost and a heartbeat has restored. It names the first
// ten; their audit trails have the rest.
func (e *env) logRestored(partition int, runs []event.RunID) {
	if len(runs) > 0 {
		e.log.Warn("runs were put back that no worker would have found: the store has lost keys", "worker", e.cfg.Name, "partition", partition,
			"count", len(runs), "runs", runs[:min(len(runs), 10)], "fix", "execute flowctl doctor, and flowctl fsck for what else is lost")
	}
}

// tellDamage logs damaged data that the store has found and skipped.
func (e *env) tellDamage() { outage.LogDamage(e.log, e.damage, slog.String("worker", e.cfg.Name)) }
