package engine

import (
	"reflect"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/machine"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// StepSpec describes a step; generated code makes one for each.
type StepSpec struct {
	Name          string
	Retry         Retry
	Timeout       time.Duration // per attempt; 0: the default
	NonIdempotent bool
	Fatal         func(error) bool // errors that are not worth another attempt; may be nil
	Queue         string           // whose workers execute it; empty: that of the run

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

// StepPlan says how to execute a step that workflow code has asked for:
// its directive, changed by the options of the call's context.
type StepPlan struct {
	Spec    *StepSpec
	Retry   Retry
	Timeout time.Duration
	Queue   string  // whose workers execute it; empty: in place, if it uses no limits
	Caller  *Caller // whose step it is, if that is another run; nil: its own

	// Uses are the limits that an attempt uses, Slot is where these are.
	Uses []event.Use
	Slot uint16

	Input, Result string // what errors call them
}

// Caller is the run for which a step is executed by a run of its own: what the
// step's code is told.
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

// What package step offers.
var (
	// NextOf returns where a step.Next[M, R] leads, and why that cannot be taken.
	NextOf func(next any) (machine.Next, error)
	// SetNext lets a *step.Next[M, R] lead somewhere.
	SetNext func(next any, to machine.Next, err error)
)
