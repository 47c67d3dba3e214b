package flow

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Invoker is the part of a worker that package invoke uses instead of Run. A worker that is used as
// an Invoker has no session of its own: each invocation has one, and so has each dispatch.
type Invoker interface {
	// Prepare ends the registration and returns what the registry contains. Invoke must not be called
	// before.
	Prepare() (Prepared, error)
	// Fingerprint identifies the code and the keys, which may change while the process runs.
	Fingerprint() string
	// Declare creates or updates the schedules that directives declare, writes the catalogue, and
	// registers the build. It makes one attempt. A process should repeat it every ten minutes.
	Declare(ctx context.Context) error
	// Scan creates alerts for the conditions that are not the end of a run. It does nothing if another
	// process with the same rules has scanned within the last 45 s.
	Scan(ctx context.Context) error
	// Invoke executes one run until it leaves, or until the budget of the invocation is exhausted. If
	// stop is closed, it gives the run back earlier.
	Invoke(ctx context.Context, i Invocation, stop <-chan struct{}) (Invoked, error)
	// Dispatch does what a worker does besides executing runs, and offers ready runs, until ctx ends.
	Dispatch(ctx context.Context, d Dispatch) error
}

// Prepared describes the code that a worker can execute.
type Prepared struct {
	Routes []store.Route
	Build  string
	Steps  []*StepSpec // steps of users that the worker executes, sorted by name
}

// Invocation is a request to execute one run.
type Invocation struct {
	Run event.RunID
	// Budget is the longest time of an attempt, and the time after which the invocation begins nothing
	// new.
	Budget time.Duration
	// Lease is the time after which the store considers the invocation dead.
	Lease time.Duration
	// Enter admits the run to the process, or returns a *[BusyError]. Its result must be called
	// afterwards. A suspect run may have killed its process repeatedly, so it must be executed alone.
	Enter func(suspect bool) (leave func(), err error)
}

// Invoked is how an invocation left its run.
type Invoked struct {
	Effect store.Effect // EffectNone: the invocation has lost the run, or has given it back without a commit
	Due    time.Time    // for EffectPark; zero: none
	Why    string       // for EffectBlock
}

// Dispatch describes the functions that execute runs on behalf of a dispatcher.
type Dispatch struct {
	Routes      []store.Route // routes that the functions serve
	Fingerprint string        // fingerprint of the code of the functions
	// Most is the maximum number of runs that are executed at once.
	Most int
	// Free returns how many further runs may be offered.
	Free func() int
	// Offer is called with a ready run of the routes. It returns false if it declines the run, which
	// will then be offered again.
	Offer func(run event.RunID) bool
	// Away reports whether the functions have not answered for a while. Other builds may then execute
	// the runs that are pinned to their build.
	Away func() bool
	// Changed receives a value when Free or the answers of Offer may have changed.
	Changed <-chan struct{}
}

// RouteError is the error of an invocation of a run that the worker does not serve.
type RouteError struct {
	Route store.Route
}

func (e *RouteError) Error() string {
	return "workflow " + e.Route.Workflow + " on queue " + e.Route.Queue + " is not served by this function"
}

// BusyError is the error of an invocation that the process cannot execute at present. Nothing was
// changed.
type BusyError struct{ Message, Fix string }

func (e *BusyError) Error() string { return e.Message }

// NotReadyError is the error of an invocation of a run that has nothing to do at present.
type NotReadyError struct {
	State store.QueueState
	Due   time.Time // of a parked run; zero: none
}

func (e *NotReadyError) Error() string { return "the run is " + e.State.String() }
