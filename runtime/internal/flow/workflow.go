package flow

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

// These functions are provided by package workflow.
var (
	// ClientOf returns the engine's interface of a *workflow.Client.
	ClientOf func(client any) Client
	// RegistryOf returns the engine's interface of a *workflow.Registry.
	RegistryOf func(registry any) Registry

	// Define initializes a *workflow.Definition from spec.
	Define func(definition any, spec DefinitionSpec)
	// BindWorkflow registers the implementation of a workflow with a *workflow.Registry. definition
	// is a workflow.Definition[In, Out], and f is a func(workflow.Context, In) (Out, error).
	// BindWorkflow panics if the name is taken or the worker has started.
	BindWorkflow func(registry, definition, f any)
	// StandIn makes a test kit's step replace the code of a workflow, whether the code is bound
	// before, later or never. The step has the name of the workflow. Its argument is the stored
	// input, its result is the result of the run, and its error is the error with which the run
	// fails. The step is repeated only if its worker dies.
	//
	// fake is a func(context.Context, In) (Out, error), or takes an []In like the code of a
	// workflow that takes the inputs of several starts. It may be nil. StandIn panics if the worker
	// has started.
	StandIn func(registry, definition, fake any) StepFunc

	// HookOf returns the hook that an attempt of a step opens, from a workflow.Hook[T] and a
	// []workflow.HookOption. The error is a *workflow.InvalidError.
	HookOf func(hook, options any) (attempt.Hook, error)
)

// Client is the part of a client that a worker and package ops use.
type Client interface {
	Operator
	Store() store.Store
	Logger() *slog.Logger
	// CheckPayload returns an error if a payload is larger than the client's limit. Errors name the
	// payload by kind and name.
	CheckPayload(kind, name string, size int) error
	// Declare creates or updates the schedules that the directives of workflows declare. The
	// declaration of the worker that began last takes precedence.
	Declare(ctx context.Context, r Registry, began time.Time) error
	// SetAside carries out a pause that is in the inbox of a run in a limiter queue. Without
	// SetAside, the run would have to wait for its permits first. SetAside does nothing if the run
	// is not in a limiter queue, or if another client or worker has carried out the pause.
	SetAside(ctx context.Context, run event.RunID)
	// Rerun creates the rerun that the last event of a failed run requests, unless the run was
	// deleted or has a rerun. If no rerun can ever be created, Rerun returns the reason. After the
	// deadline it creates none, and the error matches store.ErrStale.
	Rerun(ctx context.Context, run event.RunID, deadline time.Time) (why string, err error)
	// AddHost makes the client pass its local starts to a worker. The worker calls leave when it
	// accepts no further starts.
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
	// handles nil receivers. The step must not be registered in that case.
	MissingReceiver(what, step string) bool
	// Seal ends the registration. The worker calls it when it starts.
	Seal()

	// WorkflowNames returns the names of the workflows with the queues in their directives, sorted
	// by name.
	WorkflowNames() []store.Route
	// Catalog returns the catalogue entry of each workflow, sorted by name. Each entry has one
	// version, without a build.
	Catalog() []store.CatalogEntry
	// Scheduled reports whether the directive of any workflow declares a schedule.
	Scheduled() bool
	// Rerun returns the retry policy for failed runs of a workflow.
	Rerun(workflow string) Retry
	// LimitedSteps returns the names of the steps that use limits, sorted. Each call of such a step
	// is executed by a separate run in the queue of the calling run.
	LimitedSteps() []string

	// StepRuns returns the sorted routes of the runs that execute a step for other runs, in the
	// given queues. Without queues it returns one route for each step that has its own queue.
	StepRuns(queues []string) []store.Route
	// Code returns a sorted line for each workflow and step, with the function to which it is
	// bound. The lines are part of the fingerprint of a worker's code.
	Code() []string
	// HookToken returns the token of a hook. key is the key of the operation that opens the hook.
	HookToken(run event.RunID, key string) string
	// Step returns the implementation of a step. It reports false if the step is not registered.
	Step(name string) (StepFunc, bool)
	// Program returns the code of a workflow and the last element of the workflow's name. The code
	// uses the limits of the client and logs to logger. Program reports false if the workflow is
	// not registered.
	Program(name string, c Client, logger *slog.Logger) (program replay.Program, short string, ok bool)

	// Observe registers a test kit's observer. It must be called before the worker starts.
	Observe(o Observer)
}

// Observer contains functions of a test kit. They are called around registered steps and workflows.
// A nil function has no effect.
type Observer struct {
	// Wrap returns the function that a worker calls for a step. impl is the implementation of the
	// step, or nil if it has none. If Wrap returns nil, the step counts as not registered.
	Wrap func(name string, spec *StepSpec, impl StepFunc) StepFunc
	// Secret returns the token of a hook, so that tokens are reproducible. The token has 22
	// characters and depends on the run and the key of the operation.
	Secret func(run event.RunID, key string) string
	// Missing is called with each step whose receiver is nil.
	Missing func(what, step string)
	// Losers is called when the code of a run has returned. taken lists the messages that were
	// taken by branches that had lost a race; see replay.Run.Losers.
	Losers func(workflow string, taken []string)
}

// DefinitionSpec contains the values of the directive of a workflow.
type DefinitionSpec struct {
	Name, Param        string
	Queue              string // empty means the default
	Timeout, Retention time.Duration
	Children           int    // maximum number of open children; 0 means the default
	Schedule           string // schedule of the workflow; empty if it has none
	// Singleton returns the singleton key of a run with this input: at most one run with the key is
	// active. Active is the policy for a start that finds an active run. If Singleton is nil, the
	// workflow is not a singleton.
	Singleton func(input any) string
	Active    store.ActivePolicy
	// Collect makes starts share a run. If it is nil, each start has its own run.
	Collect *Collect
	// Priority returns the priority of a run with this input. If it is nil, a run has the priority
	// of its parent, or 0.
	Priority    func(input any) int
	StartWithin time.Duration // time within which a run must begin; 0 means no limit
	// Rerun is the retry policy for failed runs. Its attempts include the first run. The zero value
	// means that failed runs are not rerun.
	Rerun Retry
	// Fair returns the fairness key of a run with this input, and the share of the key. If it is
	// nil, a run has the key and share of its parent, or none.
	Fair func(input any) (key string, share int)
	// Uses returns the limits that a run with this input uses from its first claim to its end. It
	// is nil if the workflow uses no limits.
	Uses func(input any) []permits.Use
}

// Collect determines which starts of a workflow share a run, and how long they may join it.
type Collect struct {
	Key func(input any) string // key of the starts that share a run
	// All is set if the code takes the inputs of all starts that share the run. Otherwise the code
	// takes the input of the last start.
	All bool
	// The run begins when no start has joined it for Quiet, when it has waited for Most, or when
	// Full starts have joined it. A zero value disables the condition.
	Quiet, Most time.Duration
	Full        int
}

// StepFunc is the implementation of a step. Its arguments and result are in their stored form.
type StepFunc func(ctx context.Context, args []byte) (result []byte, err error)

// BlockedKey is the key of the step data that contains the reason for which a run is blocked.
const BlockedKey = "flowgen.blocked"
