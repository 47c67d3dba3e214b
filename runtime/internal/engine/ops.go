package engine

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Operator gives package ops access to a client.
type Operator interface {
	// Check returns workflow.ErrClientClosed if the client is closed.
	Check() error
	// LogDamage logs the damaged data that the store has left out of its last answers.
	LogDamage()
	// Persist calls f until it succeeds, waiting out an outage of the store. The name of the
	// operation is for the log.
	Persist(ctx context.Context, operation string, f func() error) error

	// Unserved reports whether a run waits for a worker and no worker serves its route.
	Unserved(ctx context.Context, r *store.Record) (bool, error)
	// ExplainUnserved returns err, which also matches workflow.ErrRunUnserved if no worker serves
	// the run.
	ExplainUnserved(ctx context.Context, run event.RunID, err error) error
	// EndUnserved ends a run that was asked to cancel and has not begun, if no worker serves it.
	EndUnserved(ctx context.Context, run event.RunID) (ended bool, err error)

	// CancelMany requests the cancellation of several runs. It returns one error or nil for each.
	CancelMany(ctx context.Context, reason string, runs []event.RunID) []error
	// Terminate ends a run without executing its code.
	Terminate(ctx context.Context, run event.RunID, reason string) error
	// Orders returns the requests to an open run that its log contains.
	Orders(ctx context.Context, run event.RunID) (Orders, error)

	// FindSchedule returns the record of the run of a schedule. The error matches
	// [ErrScheduleNotFound] if there is none.
	FindSchedule(ctx context.Context, name string) (store.Record, error)
}

// Orders has the fields of an ops.Orders, into which it can be converted.
type Orders struct {
	Paused       bool
	Canceling    bool
	CancelReason string
}

// ErrScheduleNotFound is ops.ErrScheduleNotFound.
var ErrScheduleNotFound = errors.New("ops: schedule not found")

// ScheduleOrder is an operator's request to a schedule, as it is stored. It takes effect at the time
// when it was given, by the store's clock: ticks due before that are processed first. S is
// workflow.Schedule, and B is workflow.Backfill.
type ScheduleOrder[S, B any] struct {
	At       time.Time `json:"at"`
	Change   *S        `json:"change,omitempty"`
	Pause    bool      `json:"pause,omitempty"`
	Resume   bool      `json:"resume,omitempty"`
	Note     string    `json:"note,omitempty"`
	Trigger  string    `json:"trigger,omitempty"` // ID of the trigger
	Backfill *B        `json:"backfill,omitempty"`
}

type behalfKey struct{}

// OnBehalfOf is workflow.OnBehalfOf.
func OnBehalfOf(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, behalfKey{}, store.KeptText(name, store.MaxName))
}

// Behalf returns the name set by OnBehalfOf, or "" if there is none.
func Behalf(ctx context.Context) string {
	name, _ := ctx.Value(behalfKey{}).(string)
	return name
}
