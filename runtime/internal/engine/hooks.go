package engine

import (
	"time"

	"github.com/flowgen/flowgen/runtime/internal/activity"
)

// What package worker offers to test kits.
var (
	// Instrument changes a *worker.Worker that does not run yet. It trusts the alarms
	// of its clock from then on, however far they are.
	Instrument func(worker any, h TestHooks)
	// Kill ends a *worker.Worker as the death of its process would, but for its
	// goroutines, which are unwound: no code of a run goes on, nothing is given back,
	// and nothing waits for a grace period. It returns at once; Run returns when the
	// goroutines have ended. The caller ends the contexts of Run and of the steps, and
	// lets the store answer with store.ErrClosed.
	Kill func(worker any)
	// Hasten bounds, for a *worker.Worker that does not run yet, how long its claim loop
	// sleeps, and how long a stop waits for users' code that was told to end; 0: no change.
	Hasten func(worker any, sleeps, obeys time.Duration)
)

// TestHooks configure a worker for a test kit, beside its Config.
type TestHooks struct {
	// Registry replaces the worker's own, so that several lives of a worker share one.
	Registry Registry
	// Activity counts what the worker is busy with: runs that have something to
	// do, requests to the store without an answer, attempts. The claim loop
	// is not counted. Nil: nothing is counted.
	Activity *activity.Counter
	// Chance returns numbers in [0, 1) that spread delays.
	Chance func() float64
	// Queues are served beside those that the configuration says.
	Queues []string
	// Fingerprint names the code; empty: the program and what is registered.
	Fingerprint string
}

// SpecOf returns what the directive of a shim.Step[F] says. Package shim sets it.
var SpecOf func(step any) *StepSpec
