package shim

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// V1 is the version of the contract between generated code and this package.
const V1 = 1

// Policy has the values of the directive of a step.
type Policy struct {
	Retry         workflow.RetryPolicy
	Timeout       time.Duration // per attempt; 0: the default
	NonIdempotent bool
	Fatal         func(error) bool // errors that are not worth another attempt; may be nil
	Queue         string           // whose workers execute it; empty: that of the run

	// Uses returns the limits that an attempt uses; nil: none. See [Uses].
	Uses func(args any) []limit.Use
}

// Uses returns a function for Policy.Uses, or WorkflowPolicy.Uses, from one of the arguments
// of the step, or of the input of the workflow.
func Uses[A any](f func(args A) []limit.Use) func(args any) []limit.Use {
	return func(args any) []limit.Use { return f(args.(A)) }
}

// WorkflowPolicy has the values of the directive of a workflow.
type WorkflowPolicy struct {
	Queue     string        // empty: the default
	Timeout   time.Duration // of a run; 0: none
	Retention time.Duration // of a finished run; 0: the store's default
	Children  int           // of a run at once; 0: workflow.DefaultChildren
	Schedule  string        // workflow.Schedule.When; empty: workers do not start it by the clock

	// Uses returns the limits that a run with an input uses; nil: none. See [Uses].
	Uses func(input any) []limit.Use
}

// Handler executes a step on its stored arguments.
type Handler func(ctx context.Context, args []byte) (result []byte, err error)

// Step is a step as the generated code declares it. F is the type of its
// implementation.
type Step[F any] struct{ s *declared[F] }

type declared[F any] struct {
	spec  *engine.StepSpec
	plan  *engine.StepPlan
	adapt func(F) Handler
}

func init() {
	engine.SpecOf = func(step any) *engine.StepSpec { return step.(interface{ spec() *engine.StepSpec }).spec() }
}

// StepRef is a step of any type.
type StepRef interface{ Name() string }

// NewStep declares a step. adapt turns an implementation, or a stand-in for it,
// into a Handler.
func NewStep[F any](name string, p Policy, adapt func(F) Handler) Step[F] {
	spec := &engine.StepSpec{Name: name, Retry: engine.Retry(p.Retry), Timeout: p.Timeout, NonIdempotent: p.NonIdempotent, Fatal: p.Fatal, Queue: p.Queue, Uses: p.Uses}
	return Step[F]{&declared[F]{spec: spec, plan: engine.NewPlan(spec), adapt: adapt}}
}

// Name returns the stored name of the step.
func (s Step[F]) Name() string { return s.s.spec.Name }

func (s Step[F]) spec() *engine.StepSpec { return s.s.spec }

// Bind makes the implementation known to r.
func (s Step[F]) Bind(r workflow.Registrar, impl F) {
	engine.RegistryOf(r.Registry()).BindStep(s.s.spec, impl, engine.StepFunc(s.s.adapt(impl)))
}

// Adapt turns a stand-in for the implementation into what executes the step on
// its stored arguments.
func (s Step[F]) Adapt(standIn F) Handler { return s.s.adapt(standIn) }

// Handle adapts a function with a result.
func Handle[A, R any](f func(context.Context, A) (R, error)) Handler {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		var a A
		if err := decodeArgs(ctx, args, &a); err != nil {
			return nil, err
		}
		v, err := f(ctx, a)
		if err != nil {
			return nil, err
		}
		return engine.EncodePayload("result of step ", stepName(ctx), v)
	}
}

// HandleErr adapts a function that returns only an error.
func HandleErr[A any](f func(context.Context, A) error) Handler {
	return func(ctx context.Context, args []byte) ([]byte, error) {
		var a A
		if err := decodeArgs(ctx, args, &a); err != nil {
			return nil, err
		}
		return nil, f(ctx, a)
	}
}

func decodeArgs(ctx context.Context, args []byte, into any) error {
	if a := attempt.From(ctx); a != nil && a.Log != a.Run {
		return engine.DecodeArgs(a.Log, a.Step, args, into)
	}
	return engine.DecodePayload("input of step ", stepName(ctx), args, into)
}

// stepName returns the step that ctx belongs to, for messages.
func stepName(ctx context.Context) string {
	if a := attempt.From(ctx); a != nil {
		return a.Step
	}
	return "outside of a worker"
}

var callStep = engine.CallStep.(func(ctx workflow.Context, p *engine.StepPlan, key string, keyed bool, args, out any) error)

// Call runs a step from workflow code and returns its result.
func Call[R, F, A any](ctx workflow.Context, s Step[F], args A) (R, error) {
	var r R
	err := callStep(ctx, s.s.plan, "", false, args, &r)
	return r, err
}

// CallErr runs a step that returns only an error.
func CallErr[F, A any](ctx workflow.Context, s Step[F], args A) error {
	return callStep(ctx, s.s.plan, "", false, args, nil)
}

// CallKey is Call for a step with a declared key.
func CallKey[R, F, A any](ctx workflow.Context, s Step[F], key string, args A) (R, error) {
	var r R
	err := callStep(ctx, s.s.plan, key, true, args, &r)
	return r, err
}

// CallKeyErr is CallErr for a step with a declared key.
func CallKeyErr[F, A any](ctx workflow.Context, s Step[F], key string, args A) error {
	return callStep(ctx, s.s.plan, key, true, args, nil)
}

// Key returns the text of a declared key.
func Key(v any) string { return fmt.Sprint(v) }

// Receiver checks the receiver of steps before they are bound. It panics if the
// receiver is missing: a worker that cannot execute its steps must not start. A
// test kit is told instead, and fails when one of the steps is called that has
// no stand-in.
func Receiver(r workflow.Registrar, what string, missing bool, steps ...StepRef) {
	if !missing {
		return
	}
	for _, s := range steps {
		if !engine.RegistryOf(r.Registry()).MissingReceiver(what, s.Name()) {
			panic(fmt.Sprintf("Register: %s is nil, but step %s needs it: pass a value", what, s.Name()))
		}
	}
}

// NewWorkflow declares a workflow. param is the name of its only input, or empty
// if In is None or a generated struct of all inputs.
func NewWorkflow[In, Out any](name, param string, p WorkflowPolicy) (d workflow.Definition[In, Out]) {
	engine.Define(&d, engine.DefinitionSpec{
		Name: name, Param: param, Queue: p.Queue, Timeout: p.Timeout, Retention: p.Retention, Children: p.Children, Schedule: p.Schedule, Uses: p.Uses,
	})
	return d
}

// BindWorkflow makes the implementation of a workflow known to r.
func BindWorkflow[In, Out any](r workflow.Registrar, d workflow.Definition[In, Out], f func(workflow.Context, In) (Out, error)) {
	engine.BindWorkflow(r.Registry(), d, f)
}

// RegisterError gives an error type the name under which it is stored.
func RegisterError[T error](name string) { failure.RegisterType(reflect.TypeFor[T](), name) }

// RegisterSentinel gives an error value the name under which it is stored.
func RegisterSentinel(name string, err error) { failure.RegisterSentinel(name, err) }

// AsFatal reports whether an error of type T is in the chain of err.
func AsFatal[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}
