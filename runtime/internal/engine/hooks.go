package engine

import (
	"time"

	"github.com/flowgen/flowgen/runtime/internal/activity"
)

// Functions that package worker provides to test kits.
var (
	// Instrument changes a *worker.Worker that does not run yet. From then on the worker relies on
	// the alarms of its clock, however far ahead they are.
	Instrument func(worker any, h TestHooks)
	// Kill ends a *worker.Worker like the death of its process, except that its goroutines are
	// unwound: no code of a run continues, nothing is given back, and there is no grace period. It
	// returns at once; Run returns when the goroutines have ended. The caller must end the contexts
	// of Run and of the steps, and make the store return store.ErrClosed.
	Kill func(worker any)
	// Hasten sets, for a *worker.Worker that does not run yet, the maximum sleep of its claim loop,
	// and how long a stop waits for canceled user code; 0: no change.
	Hasten func(worker any, sleeps, obeys time.Duration)
)

// TestHooks configure a worker for a test kit, in addition to its Config.
type TestHooks struct {
	// Registry replaces the worker's own registry, so that several incarnations of a worker share
	// one.
	Registry Registry
	// Activity counts the worker's activities: runs that have something to do, unanswered requests
	// to the store, and attempts. The claim loop is not counted. Nil: nothing is counted.
	Activity *activity.Counter
	// Chance returns numbers in [0, 1) that spread delays.
	Chance func() float64
	// Queues are served in addition to the configured queues.
	Queues []string
	// Fingerprint identifies the code; empty: the program and its registrations.
	Fingerprint string
}

// SpecOf returns the spec of a shim.Step[F]. Package shim sets it.
var SpecOf func(step any) *StepSpec
