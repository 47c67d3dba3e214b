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
	"github.com/flowgen/flowgen/runtime/store"
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
// of the step, or of the input of the workflow. Of nil it gives what f does of the zero value.
func Uses[A any](f func(args A) []limit.Use) func(args any) []limit.Use {
	return func(args any) []limit.Use {
		if args == nil {
			var none A
			return f(none)
		}
		return f(args.(A))
	}
}

// WorkflowPolicy has the values of the directive of a workflow.
type WorkflowPolicy struct {
	Queue     string        // empty: the default
	Timeout   time.Duration // of a run; 0: none
	Retention time.Duration // of a finished run; 0: the store's default
	Children  int           // of a run at once; 0: workflow.DefaultChildren
	Schedule  string        // workflow.Schedule.When; empty: workers do not start it by the clock

	// Singleton returns the key by which a run with an input is the only active one, nil: it
	// is not. See [Singleton]. Active says what a start does that finds an active run.
	Singleton func(input any) string
	Active    workflow.ActivePolicy

	// Gather lets starts share a run; nil: each has its own. See [Debounce] and [Batch].
	Gather *Gather

	// Priority returns that of a run with an input; nil: that of its parent, or 0. See [Priority].
	Priority    func(input any) int
	StartWithin time.Duration // in which a run must have begun; 0: at any time

	// Rerun says how often, and after which delays, a failed run is tried again as a new one:
	// Attempts counts the first run. The zero value is never.
	Rerun workflow.RetryPolicy

	// Fair returns the fair key of a run with an input, and its share; nil: those of its parent,
	// or none. See [Fair].
	Fair func(input any) (key string, share int)

	// Uses returns the limits that a run with an input uses; nil: none. See [Uses].
	Uses func(input any) []limit.Use
}

// Singleton returns a function for WorkflowPolicy.Singleton.
func Singleton[In any](f func(in In) string) func(input any) string {
	return func(input any) string { return f(input.(In)) }
}

// Gather says which starts share a run.
type Gather struct{ g engine.Gather }

func (g *Gather) spec() *engine.Gather {
	if g == nil {
		return nil
	}
	return &g.g
}

// Debounce lets the starts of a key share a run, which has the input of the last one. It
// begins when none has come for quiet, and at the latest most after the first; 0: at any time.
func Debounce[In any](key func(in In) string, quiet, most time.Duration) *Gather {
	return &Gather{engine.Gather{Key: func(input any) string { return key(input.(In)) }, Quiet: quiet, Most: most}}
}

// Batch lets the starts of a key share a run, whose code takes the inputs of all of them, see
// [BindBatch]. It begins with so many of them, and at the latest most after the first.
func Batch[In any](key func(in In) string, full int, most time.Duration) *Gather {
	return &Gather{engine.Gather{Key: func(input any) string { return key(input.(In)) }, All: true, Full: full, Most: most}}
}

// Priority returns a function for WorkflowPolicy.Priority.
func Priority[In any](f func(in In) int) func(input any) int {
	return func(input any) int { return f(input.(In)) }
}

// Fair returns a function for WorkflowPolicy.Fair.
func Fair[In any](f func(in In) (key string, share int)) func(input any) (key string, share int) {
	return func(input any) (string, int) { return f(input.(In)) }
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
	if f := reflect.TypeFor[F](); f.Kind() == reflect.Func && f.NumOut() == 2 {
		spec.Result = f.Out(0)
	}
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
		Name: name, Param: param, Queue: p.Queue, Timeout: p.Timeout, Retention: p.Retention, Children: p.Children, Schedule: p.Schedule,
		Singleton: p.Singleton, Active: p.Active, Gather: p.Gather.spec(), Priority: p.Priority, Fair: p.Fair, StartWithin: p.StartWithin, Uses: p.Uses,
		Rerun: engine.Retry(p.Rerun),
	})
	return d
}

// BindWorkflow makes the implementation of a workflow known to r.
func BindWorkflow[In, Out any](r workflow.Registrar, d workflow.Definition[In, Out], f func(workflow.Context, In) (Out, error)) {
	engine.BindWorkflow(r.Registry(), d, f)
}

// Node is a node of a graph as the generator knows it: the catalogue has it, for whoever draws runs.
type Node = store.CatalogNode

// BindGraph makes the implementation of a workflow known to r that executes a graph of these nodes, each after those that it
// needs. The implementation decides what runs do: nodes are for the catalogue alone.
func BindGraph[In, Out any](r workflow.Registrar, d workflow.Definition[In, Out], f func(workflow.Context, In) (Out, error), nodes ...Node) {
	engine.BindWorkflow(r.Registry(), d, f)
	engine.RegistryOf(r.Registry()).DescribeGraph(d.Name(), nodes)
}

// BindBatch makes the implementation of a workflow known to r that takes the inputs of several
// starts: see [Batch].
func BindBatch[In, Out any](r workflow.Registrar, d workflow.Definition[In, Out], f func(workflow.Context, []In) (Out, error)) {
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
