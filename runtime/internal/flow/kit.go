package flow

import (
	"time"

	"github.com/flowgen/flowgen/runtime/internal/activity"
)

// Kit is the part of a worker that only test kits and package invoke use. It belongs to the registry
// that the worker creates. A test kit sets fields before Run, which reads them when it begins. A zero
// field changes nothing. The worker sets Kill, Slots and Invoker when it is created.
type Kit struct {
	// Registry replaces the worker's own registry, so that several incarnations of a worker share
	// one registry. The worker then relies on the alarms of its clock, however far in the future
	// they are. It does not write the catalogue and does not declare schedules.
	Registry *Registry
	// Activity counts the worker's activities: runs with unhandled inputs, unanswered requests to
	// the store, and attempts. The claim loop is not counted. If Activity is nil, nothing is
	// counted.
	Activity *activity.Counter
	// Chance returns a number in [0, 1) that spreads delays over time. If it is nil, the numbers
	// are random.
	Chance func() float64
	// Queues are the queues to serve in addition to the configured queues.
	Queues []string
	// Fingerprint identifies the code of the worker. If it is empty, the fingerprint is computed
	// from the program and its registrations.
	Fingerprint string
	// Sleeps is the longest sleep of the claim loop, Obeys is how long a stop waits for canceled
	// user code, and Stuck is how long a loop of a live worker may make no progress. 0 means no
	// change.
	Sleeps, Obeys, Stuck time.Duration
	// Moves is the interval at which the worker checks whether pinned runs must move. 0 means no
	// change.
	Moves time.Duration

	// Kill ends the worker like the death of its process: no code of a run continues, nothing is
	// given back, and there is no grace period. Unlike a death, it unwinds the worker's goroutines.
	// Kill returns at once, and Run returns when the goroutines have ended. The caller must end the
	// contexts of Run and of the steps, and make the store return store.ErrClosed.
	Kill func()
	// Slots returns how many slots for steps are taken.
	Slots func() int
	// Invoker executes single runs instead of all runs of the worker's routes.
	Invoker Invoker
}

// Kit returns the kit of the worker that owns the registry.
func (r *Registry) Kit() *Kit { return &r.kit }
