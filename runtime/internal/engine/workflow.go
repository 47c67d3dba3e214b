package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Functions that package workflow provides.
var (
	// ClientOf returns the engine's interface of a *workflow.Client.
	ClientOf func(client any) Client
	// RegistryOf returns the engine's interface of a *workflow.Registry.
	RegistryOf func(registry any) Registry

	// Define sets a *workflow.Definition from spec.
	Define func(definition any, spec DefinitionSpec)
	// BindWorkflow registers the implementation of a workflow with a *workflow.Registry: definition
	// is a workflow.Definition[In, Out], and f a func(workflow.Context, In) (Out, error). It panics
	// if the name is taken or the worker has started.
	BindWorkflow func(registry, definition, f any)
	// StandIn makes a test kit's step replace the code of a workflow, whether the code is bound
	// before, later or never. The step has the name of the workflow; its argument is the stored
	// input, its result is the result of the run, and its error is the error with which the run
	// fails. It is repeated only if its worker dies. fake is a func(context.Context, In) (Out,
	// error), or takes an []In like the code of a workflow that takes the inputs of several starts;
	// it may be nil. StandIn panics if the worker has started.
	StandIn func(registry, definition, fake any) StepFunc

	// NewPlan returns the plan of a step without options.
	NewPlan func(spec *StepSpec) *StepPlan
	// CallStep creates a step, waits for it, and decodes its result into out, which may be nil. If
	// keyed is set, key replaces the ordinal. It is a
	//
	//	func(ctx workflow.Context, p *StepPlan, key string, keyed bool, args, out any) error
	//
	// and an any only because workflow.Context cannot be named here. Passing the context as an any
	// would cost each step an allocation.
	CallStep any

	// EncodePayload returns the stored form of v, of any size. Errors name it by kind and name.
	EncodePayload func(kind, name string, v any) ([]byte, error)
	// DecodePayload decodes a stored value.
	DecodePayload func(kind, name string, data []byte, into any) error
	// DecodeArgs decodes the stored arguments of a step that is executed for another run, which may
	// belong to a program of another version. The error for a changed name is a
	// *[replay.RenamedError].
	DecodeArgs func(run event.RunID, step string, args []byte, into any) error
	// DecodeFields does the same for an object with the fields of a struct. Errors name it what.
	DecodeFields func(run event.RunID, what string, data []byte, into any) error
	// Block blocks the run of the code with err. It does not return. It is a
	//
	//	func(ctx workflow.Context, err error)
	Block any

	// StreamOf returns the name of a workflow.Stream[T] and how many chunks it keeps, 0 for all.
	StreamOf func(stream any) (name string, keep int)

	// HookOf returns the hook for a workflow.Hook[T] that an attempt of a step opens with a
	// []workflow.HookOption. The error is a *workflow.InvalidError.
	HookOf func(hook, options any) (attempt.Hook, error)
)

// Client gives a worker, and package ops, access to a client.
type Client interface {
	Operator
	Store() store.Store
	Logger() *slog.Logger
	// CheckPayload returns an error for a payload that is larger than the client's limit. Errors
	// name it by kind and name.
	CheckPayload(kind, name string, size int) error
	// Declare creates or updates the schedules that the directives of workflows declare. The
	// declaration of the worker that began last wins.
	Declare(ctx context.Context, r Registry, began time.Time) error
	// SetAside carries out the pause in the inbox of a run in a limiter queue, which would
	// otherwise wait for its permits first. It does nothing if the run waits for something else, or
	// if another client or worker has done it already.
	SetAside(ctx context.Context, run event.RunID)
	// Rerun creates the rerun of a failed run that its last event requests, unless the run is gone
	// or has one. If no rerun can be created, now or later, it returns the reason. After the
	// deadline it creates none, and the error matches store.ErrStale.
	Rerun(ctx context.Context, run event.RunID, deadline time.Time) (why string, err error)
	// AddHost makes the client pass its local starts to a worker. The worker calls leave when it
	// accepts no more.
	AddHost(h localstart.Host) (leave func())
}

// Registry contains the workflows and steps of a worker. It is safe for concurrent use.
type Registry interface {
	// BindStep registers the implementation of a step. It panics if the name is taken or the worker
	// has started.
	BindStep(spec *StepSpec, impl any, call StepFunc)
	// DescribeGraph records the nodes of a registered workflow that executes a graph.
	DescribeGraph(workflow string, nodes []store.CatalogNode)
	// MissingReceiver records that the receiver of a step is nil. It reports false if no test kit
	// handles that; the step must not be registered then.
	MissingReceiver(what, step string) bool
	// Seal ends registration because the worker has started.
	Seal()

	// WorkflowNames returns the names of the workflows, each with the queue in its directive,
	// sorted.
	WorkflowNames() []store.Route
	// Catalog returns the catalogue entry of each workflow, by name: one version each, without a
	// build.
	Catalog() []store.CatalogEntry
	// Scheduled reports whether the directive of a workflow declares a schedule.
	Scheduled() bool
	// Rerun returns the policy for reruns of a workflow's failed runs.
	Rerun(workflow string) Retry
	// LimitedSteps returns the names of the steps that use limits, sorted. Each call of such a step
	// is executed by a run of its own, in the queue of the calling run.
	LimitedSteps() []string

	// StepRuns returns the routes of the runs that execute a step for other runs, in the given
	// queues; without queues, one for each step that has its own queue. They are sorted.
	StepRuns(queues []string) []store.Route
	// Code returns a line for each workflow and step with the function it is bound to, sorted. The
	// lines are part of the fingerprint of a worker's code.
	Code() []string
	// HookToken returns the token of a hook, from the run and the key of the operation that opens
	// it.
	HookToken(run event.RunID, key string) string
	// Step returns the implementation of a step.
	Step(name string) (StepFunc, bool)
	// Program returns the code of a workflow, and the last element of its name. The code uses the
	// limits of the client and logs to logger.
	Program(name string, c Client, logger *slog.Logger) (program replay.Program, short string, ok bool)

	// Observe registers a test kit's observer. It is called before the worker starts.
	Observe(o Observer)
}

// Observer contains functions of a test kit that are called around registered steps and workflows.
// Nil functions do nothing.
type Observer struct {
	// Wrap returns the function that a worker calls for the step of that name, given its
	// implementation, or nil if it has none. If Wrap returns nil, the step is unknown.
	Wrap func(name string, spec *StepSpec, impl StepFunc) StepFunc
	// Secret returns the token of a hook, so that tokens are reproducible: 22 characters, from the
	// run and the key of the operation.
	Secret func(run event.RunID, key string) string
	// Missing is called with the steps whose receiver is nil.
	Missing func(what, step string)
	// Losers is called when the code of a run has returned, with what was taken by branches that
	// had lost a race (replay.Run.Losers). It may be nil.
	Losers func(workflow string, taken []string)
}

// DefinitionSpec contains the values of the directive of a workflow.
type DefinitionSpec struct {
	Name, Param        string
	Queue              string // empty: the default
	Timeout, Retention time.Duration
	Children           int    // maximum number at the same time; 0: the default
	Schedule           string // schedule of the workflow; empty: none
	// Singleton returns the key for which a run with this input is the only active one, and Active
	// is the policy for a start that finds an active run. Nil means that the workflow is not a
	// singleton.
	Singleton func(input any) string
	Active    store.ActivePolicy
	// Gather makes starts share a run; nil: each has its own.
	Collect *Collect
	// Priority returns the priority of a run with this input; nil: the priority of its parent, or
	// 0.
	Priority    func(input any) int
	StartWithin time.Duration // time within which a run must begin; 0: no limit
	// Rerun is the policy for reruns of a failed run. Its attempts include the first run; the zero
	// value means no reruns.
	Rerun Retry
	// Fair returns the fairness key of a run with this input, and its share; nil: those of its
	// parent, or none.
	Fair func(input any) (key string, share int)
	// Uses returns the limits that a run with this input uses from its first claim to its end; nil:
	// none.
	Uses func(input any) []permits.Use
}

// Gather determines which starts of a workflow share a run, and until when they may join it.
type Collect struct {
	Key func(input any) string // of the starts that share a run
	// All reports that the code takes the inputs of all these starts; otherwise it takes the last
	// one's.
	All bool
	// Quiet is how long no start must have joined, Most is how long the run waits at most, and Full
	// is how many starts it takes. A zero value disables the condition.
	Quiet, Most time.Duration
	Full        int
}

// StepFunc is the implementation of a step, from arguments to result, both in their stored form.
type StepFunc func(ctx context.Context, args []byte) (result []byte, err error)

// BlockedKey is the key of the step data in which a worker records why a run is blocked.
const BlockedKey = "flowgen.blocked"
