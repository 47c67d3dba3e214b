package flow

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// StepSpec describes a step. Generated code creates one StepSpec for each step. shim.Policy documents
// the fields that both types have.
type StepSpec struct {
	Name          string
	Retry         Retry
	Timeout       time.Duration
	NonIdempotent bool
	Fatal         func(error) bool
	Queue         string
	Uses          func(args any) []permits.Use
	Result        reflect.Type // nil: the step has no result
}

// StepFunc is the implementation of a step. Its arguments and result are in their stored form.
type StepFunc func(ctx context.Context, args []byte) (result []byte, err error)

// StepPlan describes how to execute a step call. It combines the directive of the step with the
// options in the context of the call.
type StepPlan struct {
	Spec    *StepSpec
	Retry   Retry
	Timeout time.Duration
	Bounded bool    // whether the directive or the call sets Timeout; otherwise it is the default
	Queue   string  // queue whose workers execute the step; if empty, the run executes a step without limits itself
	Caller  *Caller // the run that calls the step, if another run executes it; nil if the calling run executes it

	// Uses are the limits that an attempt uses. Slot is the slot in which these limits are stored.
	Uses []event.Use
	Slot uint16

	Input, Result string // names of the input and of the result in errors
}

// Caller is the run on whose behalf another run executes a step. The step's code sees the caller's
// data.
type Caller struct {
	Run        event.RunID
	WorkflowID string
	Workflow   string // empty if an earlier version of the runtime has requested the step
	Key        string
	Tags       map[string]string
}

// PlanOf returns the plan of a step operation.
func PlanOf(op *replay.Op) *StepPlan {
	p, _ := op.Meta.(*StepPlan)
	return p
}

// Step is the representation of a shim.Step[F]. H is shim.Handler.
type Step[F, H any] struct{ s *declaredStep[F, H] }

type declaredStep[F, H any] struct {
	plan  *StepPlan
	adapt func(F) H
}

// NewStep returns a step. adapt converts an implementation into a handler.
func NewStep[F, H any](spec *StepSpec, adapt func(F) H) Step[F, H] {
	return Step[F, H]{&declaredStep[F, H]{plan: NewPlan(spec), adapt: adapt}}
}

// Spec returns the description of the step.
func (s Step[F, H]) Spec() *StepSpec { return s.s.plan.Spec }

// Plan returns the plan of a call without options.
func (s Step[F, H]) Plan() *StepPlan { return s.s.plan }

// Adapt converts an implementation into a handler.
func (s Step[F, H]) Adapt(f F) H { return s.s.adapt(f) }

// Stream is the representation of a workflow.Stream.
type Stream struct{ s *StreamSpec }

// StreamSpec describes a stream.
type StreamSpec struct {
	Name string
	Keep int // number of last chunks to keep; 0: all
}

// NewStream returns the stream that spec describes.
func NewStream(spec *StreamSpec) Stream { return Stream{spec} }

// Name returns the name of the stream, which is empty for the zero Stream.
func (s Stream) Name() string {
	if s.s == nil {
		return ""
	}
	return s.s.Name
}

// Spec returns the description of the stream. It panics for the zero Stream.
func (s Stream) Spec() *StreamSpec {
	Declared("Stream", s.Name())
	return s.s
}

// ErrClaimLost is the value of workflow.ErrClaimLost.
var ErrClaimLost = errors.New("workflow: the claim of the run was lost")
