package flow

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Operator is the part of a client that package ops uses.
type Operator interface {
	// Check returns workflow.ErrClientClosed if the client is closed.
	Check() error
	// LogDamage logs the damaged data that the store has omitted from its last answers.
	LogDamage()
	// Persist calls f until it succeeds, so that it outlasts an outage of the store. The name of
	// the operation is used in the log.
	Persist(ctx context.Context, operation string, f func() error) error

	// Unserved reports whether a run waits for a worker while no worker serves its route.
	Unserved(ctx context.Context, r *store.Record) (bool, error)
	// ExplainUnserved returns err. If no worker serves the run, the result also matches
	// workflow.ErrRunUnserved.
	ExplainUnserved(ctx context.Context, run event.RunID, err error) error
	// EndUnserved ends a canceled run that has not begun if no worker serves it. It reports whether
	// it has ended the run.
	EndUnserved(ctx context.Context, run event.RunID) (ended bool, err error)

	// CancelMany requests the cancellation of several runs. It returns a slice with an error or nil
	// for each run.
	CancelMany(ctx context.Context, reason string, runs []event.RunID) []error
	// Terminate ends a run without executing its code.
	Terminate(ctx context.Context, run event.RunID, reason string) error
	// Orders returns the requests of operators that the log of an open run contains.
	Orders(ctx context.Context, run event.RunID) (Orders, error)

	// FindSchedule returns the record of the run that executes a schedule. The error matches
	// [ErrScheduleNotFound] if there is none.
	FindSchedule(ctx context.Context, name string) (store.Record, error)
}

// Orders has the same fields as ops.Orders and can be converted to it.
type Orders struct {
	Paused       bool
	Canceling    bool
	CancelReason string
}

// ErrScheduleNotFound is the value of ops.ErrScheduleNotFound.
var ErrScheduleNotFound = errors.New("ops: schedule not found")

// ScheduleOrder is the stored form of an operator's request to a schedule. It takes effect at the
// time of the request by the store's clock: ticks that were due before that time are processed
// first. S is schedule.Spec, and B is schedule.Backfill.
type ScheduleOrder[S, B any] struct {
	At       time.Time `json:"at"`
	Change   *S        `json:"change,omitempty"`
	Pause    bool      `json:"pause,omitempty"`
	Resume   bool      `json:"resume,omitempty"`
	Note     string    `json:"note,omitempty"`
	Trigger  string    `json:"trigger,omitempty"` // ID of the request to trigger a tick
	Backfill *B        `json:"backfill,omitempty"`
}

type behalfKey struct{}

// OnBehalfOf is the implementation of workflow.OnBehalfOf.
func OnBehalfOf(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, behalfKey{}, store.KeptText(name, store.MaxName))
}

// Behalf returns the name set by OnBehalfOf, or "" if there is none.
func Behalf(ctx context.Context) string {
	name, _ := ctx.Value(behalfKey{}).(string)
	return name
}
