// Package shim contains the functions that generated code calls. Do not call them directly:
// annotate functions, and flowgen generates the calls.
//
// Generated code refers to [V1]. If a release cannot support the code of an older generator, it
// removes that constant. That code then does not compile until it is generated again.
package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// V1 is the version of the contract between generated code and this package.
const V1 = 1

// Policy contains the values of a step's directive.
type Policy struct {
	Retry         workflow.RetryPolicy
	Timeout       time.Duration // of an attempt; 0: the default
	NonIdempotent bool
	Fatal         func(error) bool // reports whether an error is permanent; nil: no error is
	Queue         string           // queue whose workers execute the step; empty: the queue of the run

	// Uses returns the limits that an attempt uses. If Uses is nil, the step uses no limits. See
	// [Uses].
	Uses func(args any) []limit.Use
}

// Uses returns a function for Policy.Uses or WorkflowPolicy.Uses. f receives the arguments of the
// step, or the input of the workflow. If the arguments are nil, f receives the zero value.
func Uses[A any](f func(args A) []limit.Use) func(args any) []limit.Use {
	return func(args any) []limit.Use {
		if args == nil {
			var none A
			return f(none)
		}
		return f(args.(A))
	}
}

// WorkflowPolicy contains the values of a workflow's directive.
type WorkflowPolicy struct {
	Queue     string        // empty: the default queue
	Timeout   time.Duration // of a run; 0: none
	Retention time.Duration // of a run that has ended; 0: the store's default
	Children  int           // maximum number of open children of a run; 0: ten
	Schedule  string        // see schedule.Spec.When; empty: no schedule

	// Singleton returns a key. At most one active run has that key. If Singleton is nil, the number
	// of active runs is not limited. Active determines what a start does if a run with the key is
	// active. See [Singleton].
	Singleton func(input any) string
	Active    workflow.ActivePolicy

	// Collect determines which starts share a run. If Collect is nil, each start has its own run.
	// See [Debounce] and [Batch].
	Collect *Collect

	// Priority returns the priority of a run with this input. If Priority is nil, the run has the
	// priority of its parent, or 0. See [Priority].
	Priority    func(input any) int
	StartWithin time.Duration // time within which a run must begin; 0: unlimited

	// Rerun determines how often and when a failed run is rerun automatically. Its Attempts
	// includes the first run. The zero value means that runs are not rerun.
	Rerun workflow.RetryPolicy

	// Fair returns the fairness key of a run with this input, and the share of the key. If Fair is
	// nil, the run has the key and share of its parent, or none. See [Fair].
	Fair func(input any) (key string, share int)

	// Uses returns the limits that a run with this input uses. If Uses is nil, runs use no limits.
	// See [Uses].
	Uses func(input any) []limit.Use

	Pin bool // a run stays on the build that started it while that build has workers
}

// Singleton returns a function for WorkflowPolicy.Singleton.
func Singleton[In any](f func(in In) string) func(input any) string {
	return func(input any) string { return f(input.(In)) }
}

// Collect determines which starts share a run. Create it with [Debounce] or [Batch].
type Collect struct{ g flow.Collect }

func (g *Collect) spec() *flow.Collect {
	if g == nil {
		return nil
	}
	return &g.g
}

// Debounce returns a Collect with which the starts of a key share a run that has the input of the
// last start. The run begins when no start has arrived for the duration quiet. It begins at the
// latest when most has passed since the first start; 0 means that there is no such limit.
func Debounce[In any](key func(in In) string, quiet, most time.Duration) *Collect {
	return &Collect{flow.Collect{Key: func(input any) string { return key(input.(In)) }, Quiet: quiet, Most: most}}
}

// Batch returns a Collect with which the starts of a key share a run whose code receives all their
// inputs, see [BindBatch]. The run begins when there are full starts. It begins at the latest when
// most has passed since the first start.
func Batch[In any](key func(in In) string, full int, most time.Duration) *Collect {
	return &Collect{flow.Collect{Key: func(input any) string { return key(input.(In)) }, All: true, Full: full, Most: most}}
}

// Priority returns a function for WorkflowPolicy.Priority.
func Priority[In any](f func(in In) int) func(input any) int {
	return func(input any) int { return f(input.(In)) }
}

// Fair returns a function for WorkflowPolicy.Fair.
func Fair[In any](f func(in In) (key string, share int)) func(input any) (key string, share int) {
	return func(input any) (string, int) { return f(input.(In)) }
}

// Handler executes a step with its stored arguments.
type Handler func(ctx context.Context, args []byte) (result []byte, err error)

// Step is a step declared by generated code. F is the type of its implementation.
type Step[F any] flow.Step[F, Handler]

func (s Step[F]) in() flow.Step[F, Handler] { return flow.Step[F, Handler](s) }

// StepRef is a [Step] with any type of implementation.
type StepRef interface{ Name() string }

// NewStep declares a step. adapt converts an implementation, or a stand-in for it, into a Handler.
func NewStep[F any](name string, p Policy, adapt func(F) Handler) Step[F] {
	spec := &flow.StepSpec{Name: name, Retry: flow.Retry(p.Retry), Timeout: p.Timeout, NonIdempotent: p.NonIdempotent, Fatal: p.Fatal, Queue: p.Queue, Uses: p.Uses}
	if f := reflect.TypeFor[F](); f.Kind() == reflect.Func && f.NumOut() == 2 {
		spec.Result = f.Out(0)
	}
	return Step[F](flow.NewStep(spec, adapt))
}

// Name returns the stored name of the step.
func (s Step[F]) Name() string { return s.in().Spec().Name }

// Bind registers the implementation of the step in r.
func (s Step[F]) Bind(r workflow.Registrar, impl F) {
	registry(r).BindStep(s.in().Spec(), impl, flow.StepFunc(s.in().Adapt(impl)))
}

// Adapt converts a stand-in for the implementation into a Handler.
func (s Step[F]) Adapt(standIn F) Handler { return s.in().Adapt(standIn) }

// Handle returns a Handler that calls f, which returns a result and an error.
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
		return flow.EncodePayload("result of step ", stepName(ctx), v)
	}
}

// HandleErr returns a Handler that calls f, which returns only an error.
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
		return flow.DecodeArgs(a.Log, a.Step, args, into)
	}
	return flow.DecodePayload("input of step ", stepName(ctx), args, into)
}

// stepName returns the name of the step to which ctx belongs, for error texts.
func stepName(ctx context.Context) string {
	if a := attempt.From(ctx); a != nil {
		return a.Step
	}
	return "outside of a worker"
}

// Call executes a step from workflow code and returns its result.
func Call[R, F, A any](ctx workflow.Context, s Step[F], args A) (R, error) {
	var r R
	err := flow.Call(flow.Context(ctx), s.in().Plan(), "", false, args, &r)
	return r, err
}

// CallErr executes a step that returns only an error.
func CallErr[F, A any](ctx workflow.Context, s Step[F], args A) error {
	return flow.Call(flow.Context(ctx), s.in().Plan(), "", false, args, nil)
}

// CallKey is like Call, for a step with a declared key.
func CallKey[R, F, A any](ctx workflow.Context, s Step[F], key string, args A) (R, error) {
	var r R
	err := flow.Call(flow.Context(ctx), s.in().Plan(), key, true, args, &r)
	return r, err
}

// CallKeyErr is like CallErr, for a step with a declared key.
func CallKeyErr[F, A any](ctx workflow.Context, s Step[F], key string, args A) error {
	return flow.Call(flow.Context(ctx), s.in().Plan(), key, true, args, nil)
}

// Key returns a declared key as text.
func Key(v any) string { return fmt.Sprint(v) }

// Receiver checks the receiver of steps before they are bound. what describes the receiver. If it
// is missing, Receiver panics, because a worker that cannot execute its steps must not start. In an
// Env of package workflowtest it does not panic. There the test fails when a step is called that
// has no stand-in.
func Receiver(r workflow.Registrar, what string, missing bool, steps ...StepRef) {
	if !missing {
		return
	}
	for _, s := range steps {
		if !registry(r).MissingReceiver(what, s.Name()) {
			panic(fmt.Sprintf("Register: %s is nil, but step %s needs it: pass a value", what, s.Name()))
		}
	}
}

// NewWorkflow declares a workflow. param is the name of its only input. It is empty if In is None
// or a generated struct that contains all inputs.
func NewWorkflow[In, Out any](name, param string, p WorkflowPolicy) workflow.Definition[In, Out] {
	return workflow.Definition[In, Out](flow.NewDefinition(&flow.DefinitionSpec{
		Name: name, Param: param, Queue: cmp.Or(p.Queue, workflow.DefaultQueue), Timeout: p.Timeout, Retention: p.Retention, Children: p.Children, Schedule: p.Schedule,
		Singleton: p.Singleton, Active: p.Active, Collect: p.Collect.spec(), Priority: p.Priority, Fair: p.Fair, StartWithin: p.StartWithin, Uses: p.Uses,
		Rerun: flow.Retry(p.Rerun), In: stored[In](), Out: stored[Out](), Pin: p.Pin,
	}))
}

// stored returns the type of an input or a result.
func stored[T any]() reflect.Type {
	if t := reflect.TypeFor[T](); t != reflect.TypeFor[workflow.None]() {
		return t
	}
	return reflect.TypeFor[flow.Nothing]()
}

func registry(r workflow.Registrar) *flow.Registry { return (*flow.Registry)(r.Registry()) }

// BindWorkflow registers the implementation of a workflow in r.
func BindWorkflow[In, Out any](r workflow.Registrar, d workflow.Definition[In, Out], f func(workflow.Context, In) (Out, error)) {
	bind(r, d, f)
}

// bind registers the implementation f of a workflow. Stored is the type of its stored input.
func bind[Stored, In, Out any](r workflow.Registrar, d workflow.Definition[In, Out], f func(workflow.Context, Stored) (Out, error)) {
	spec := flow.Definition(d).Spec()
	registry(r).BindWorkflow(spec, f, flow.CodeOf[workflow.None](spec, func(ctx flow.Context, in Stored) (Out, error) {
		return f(workflow.Context(ctx), in)
	}))
}

// Node describes a node of a graph in the catalog. Programs that draw runs use it.
type Node = store.CatalogNode

// BindGraph registers the implementation of a workflow that executes a graph of these nodes. Only
// the implementation determines the behavior of runs. The nodes are stored in the catalog.
func BindGraph[In, Out any](r workflow.Registrar, d workflow.Definition[In, Out], f func(workflow.Context, In) (Out, error), nodes ...Node) {
	bind(r, d, f)
	registry(r).DescribeGraph(d.Name(), nodes)
}

// BindBatch registers the implementation of a workflow that receives the inputs of several starts,
// see [Batch].
func BindBatch[In, Out any](r workflow.Registrar, d workflow.Definition[In, Out], f func(workflow.Context, []In) (Out, error)) {
	bind(r, d, f)
}

// RegisterError sets the name under which an error type is stored.
func RegisterError[T error](name string) { failure.RegisterType(reflect.TypeFor[T](), name) }

// RegisterSentinel sets the name under which an error value is stored.
func RegisterSentinel(name string, err error) { failure.RegisterSentinel(name, err) }

// AsFatal reports whether an error of type T is in the chain of err.
func AsFatal[T error](err error) bool {
	var t T
	return errors.As(err, &t)
}
