package flow

import (
	"time"

	"github.com/flowgen/flowgen/runtime/internal/activity"
)

// These functions are provided by package worker for test kits.
var (
	// Instrument changes a *worker.Worker that has not been started. The worker then relies on the
	// alarms of its clock, however far in the future they are.
	Instrument func(worker any, h TestHooks)
	// Kill ends a *worker.Worker like the death of its process: no code of a run continues, nothing
	// is given back, and there is no grace period. Unlike a death, it unwinds the worker's
	// goroutines. Kill returns at once, and Run returns when the goroutines have ended. The caller
	// must end the contexts of Run and of the steps, and make the store return store.ErrClosed.
	Kill func(worker any)
	// Hasten changes two bounds of a *worker.Worker that has not been started: the sleep of its
	// claim loop, and how long a stop waits for canceled user code. A bound of 0 means no change.
	Hasten func(worker any, sleeps, obeys time.Duration)
	// Slots returns how many slots for steps of a *worker.Worker are taken.
	Slots func(worker any) int
)

// TestHooks configures a worker for a test kit, in addition to its Config.
type TestHooks struct {
	// Registry replaces the worker's own registry, so that several incarnations of a worker share
	// one registry.
	Registry *Registry
	// Activity counts the worker's activities: runs with unhandled inputs, unanswered requests to
	// the store, and attempts. The claim loop is not counted. If Activity is nil, nothing is
	// counted.
	Activity *activity.Counter
	// Chance returns a number in [0, 1) that spreads delays over time.
	Chance func() float64
	// Queues are the queues to serve in addition to the configured queues.
	Queues []string
	// Fingerprint identifies the code of the worker. If it is empty, the fingerprint is computed
	// from the program and its registrations.
	Fingerprint string
}
