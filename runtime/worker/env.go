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

// env has what every part of a worker works with. It knows none of the parts.
type env struct {
	lifecycle
	cfg      Config
	store    store.Store
	clock    store.Clock
	log      *slog.Logger
	damage   store.DamageTeller // nil: the store tells of none
	base     context.Context    // the contexts of the steps are made from it
	activity *activity.Counter  // nil but in a test kit
	chance   func() float64     // in [0, 1)

	// Bounds that only tests and their kit change.
	lookAgain time.Duration // how long a run loop trusts an alarm
	waitMost  time.Duration // how long the claim loop sleeps
	obeys     time.Duration // how long what was told to end is waited for

	fit    string // fingerprint of the code
	build  string // as much of it as events say; empty: it does not tell programs apart
	routes []store.Route
	serves map[store.Route]bool
}

// lifecycle says how far a worker is with its end.
type lifecycle struct {
	stopping atomic.Bool     // it claims nothing more, and gives back what it has
	ending   atomic.Bool     // the grace period is over
	hard     atomic.Bool     // nothing waits for steps any more, and nothing is tried again
	killed   atomic.Bool     // see engine.Kill
	io       context.Context // ends when the worker waits for the store no more
	cutOff   context.CancelFunc
	work     sync.WaitGroup // goroutines that ask the store
}

// hardStop bounds how long the worker waits for what should end at once.
const hardStop = 2 * time.Second

// partitionOf returns the partition that a run belongs to.
func (e *env) partitionOf(run event.RunID) int { return int(run.Slot()) % e.store.Partitions() }

// logRestored logs runs that the store had lost and a heartbeat has put back: the first ten, their audit trails have the rest.
func (e *env) logRestored(partition int, runs []event.RunID) {
	if len(runs) > 0 {
		e.log.Warn("runs were put back that no worker would have found: the store has lost keys", "worker", e.cfg.Name, "partition", partition,
			"count", len(runs), "runs", runs[:min(len(runs), 10)], "fix", "execute flowctl doctor, and flowctl fsck for what else is lost")
	}
}

// tellDamage logs what the store has come across and left out.
func (e *env) tellDamage() { outage.LogDamage(e.log, e.damage, slog.String("worker", e.cfg.Name)) }
