package worker

import (
	"math"

	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/internal/seam"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Lab is what a test kit decides about a worker, beside its configuration.
type Lab struct {
	// Registry replaces the worker's own, so that several lives of a worker share one.
	Registry *workflow.Registry
	// Activity counts what the worker is busy with: runs that have something to
	// do, requests to the store that are to be answered, attempts. The claim loop
	// is not counted. Nil: nobody wants to know.
	Activity *activity.Counter
	// Chance returns numbers in [0, 1) that spread delays.
	Chance func() float64
	// Queues are served beside those that the configuration says.
	Queues []string
	// Fingerprint names the code; empty: the program and what is registered.
	Fingerprint string
}

// NewLab returns a worker for a test kit. It trusts the alarms of its clock,
// however far they are.
func NewLab(_ seam.Gate, c *workflow.Client, cfg Config, lab Lab) *Worker {
	w := New(c, cfg)
	w.registry, w.activity, w.chance, w.fit = lab.Registry, lab.Activity, lab.Chance, lab.Fingerprint
	w.queues = lab.Queues
	w.lookAgain = math.MaxInt64
	return w
}

// Kill ends the worker as the death of its process would, but for its
// goroutines, which are unwound: no code of a run goes on, nothing is given back,
// and nothing waits for a grace period. It returns at once; Run returns when the
// goroutines have ended. The caller ends the contexts of Run and of the steps,
// and lets the store answer with store.ErrClosed.
func Kill(_ seam.Gate, w *Worker) { w.killed.Store(true) }
