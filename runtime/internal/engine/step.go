package engine

import (
	"reflect"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/machine"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// StepSpec describes a step. Generated code creates one for each step.
type StepSpec struct {
	Name          string
	Retry         Retry
	Timeout       time.Duration // per attempt; 0: the default
	NonIdempotent bool
	Fatal         func(error) bool // reports errors that must not be retried; may be nil
	Queue         string           // queue whose workers execute it; empty: the queue of the run

	// Result is the type of its result; nil: it has none.
	Result reflect.Type

	// Uses returns the limits that an attempt with these arguments uses; nil: none.
	Uses func(args any) []permits.Use
}

// Retry has the fields of a workflow.RetryPolicy, into which it can be converted.
type Retry struct {
	Attempts  int
	Initial   time.Duration
	Increment time.Duration
	Max       time.Duration
	Factor    float64
	Jitter    float64
	Total     time.Duration
	Waits     int
}

// StepPlan describes how to execute a step call: the directive of the step, changed by the options
// in the context of the call.
type StepPlan struct {
	Spec    *StepSpec
	Retry   Retry
	Timeout time.Duration
	Queue   string  // queue whose workers execute it; empty: in place, if it uses no limits
	Caller  *Caller // the run whose step it is, if that is another run; nil: its own

	// Uses are the limits that an attempt uses, and Slot is the slot in which they are stored.
	Uses []event.Use
	Slot uint16

	Input, Result string // their names in errors
}

// Caller is the run for which a run of its own executes a step, as presented to the step's code.
type Caller struct {
	Run        event.RunID
	WorkflowID string
	Key        string
	Tags       map[string]string
}

// PlanOf returns the plan of a step.
func PlanOf(op *replay.Op) *StepPlan {
	p, _ := op.Meta.(*StepPlan)
	return p
}

// Functions that package step provides.
var (
	// NextOf returns the transition in a step.Next[M, R], or an error if it is invalid.
	NextOf func(next any) (machine.Next, error)
	// SetNext sets the transition of a *step.Next[M, R].
	SetNext func(next any, to machine.Next, err error)
)
