package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// What package workflow offers.
var (
	// ClientOf returns what a worker needs of a *workflow.Client.
	ClientOf func(client any) Client
	// RegistryOf returns the inside of a *workflow.Registry.
	RegistryOf func(registry any) Registry

	// Define makes a *workflow.Definition what spec says.
	Define func(definition any, spec DefinitionSpec)
	// BindWorkflow makes the implementation of a workflow known to a
	// *workflow.Registry: definition is a workflow.Definition[In, Out], and f a
	// func(workflow.Context, In) (Out, error). It panics if the name is taken or the
	// worker has started.
	BindWorkflow func(registry, definition, f any)
	// StandIn lets a test kit execute one step in place of the code of a workflow,
	// whether that is bound before, later or never. The step is named like the
	// workflow; its arguments are the stored input, what it returns is the result of
	// the run, and the error that it returns is that with which the run fails. It is
	// executed again if its worker dies, and for no other reason. fake is a
	// func(context.Context, In) (Out, error), or takes an []In as the code of a workflow does
	// that takes the inputs of several starts; it may be nil. It panics if the worker has
	// started.
	StandIn func(registry, definition, fake any) StepFunc

	// NewPlan returns the plan of a step without options.
	NewPlan func(spec *StepSpec) *StepPlan
	// CallStep asks for a step, waits for it, and reads its result into out, which may
	// be nil. A key replaces the ordinal if keyed. It is a
	//
	//	func(ctx workflow.Context, p *StepPlan, key string, keyed bool, args, out any) error
	//
	// and an any only because workflow.Context cannot be named here. To pass that as an
	// any would cost each step an allocation.
	CallStep any

	// EncodePayload returns the stored form of v, of any size. Errors call it by kind
	// and name together.
	EncodePayload func(kind, name string, v any) ([]byte, error)
	// DecodePayload reads a stored value.
	DecodePayload func(kind, name string, data []byte, into any) error
	// DecodeArgs reads the stored arguments of a step that is executed for another
	// run: perhaps for one of a program of another day. An error that a name was
	// changed is a *[replay.RenamedError].
	DecodeArgs func(run event.RunID, step string, args []byte, into any) error
	// DecodeFields is the same for an object of the fields of a struct. Errors call it what.
	DecodeFields func(run event.RunID, what string, data []byte, into any) error
	// Block says that the code cannot go on with a run. It does not return. It is a
	//
	//	func(ctx workflow.Context, err error)
	Block any

	// StreamOf returns the name of a workflow.Stream[T] and how many chunks it keeps,
	// 0 for all.
	StreamOf func(stream any) (name string, keep int)

	// HookOf returns what a workflow.Hook[T] is that is opened with a []workflow.HookOption by
	// an attempt of a step. The error is a *workflow.InvalidError.
	HookOf func(hook, options any) (attempt.Hook, error)
)

// Client gives a worker access to a client.
type Client interface {
	Store() store.Store
	Logger() *slog.Logger
	// CheckPayload refuses a payload that is larger than the client's limit. Errors
	// call it by kind and name together.
	CheckPayload(kind, name string, size int) error
	// Declare makes the schedules that directives of workflows name what they say. A worker
	// that began later knows better.
	Declare(ctx context.Context, r Registry, began time.Time) error
	// SetAside carries out the pause in the inbox of a run that is in line for permits, without which it waits for its
	// turn. It does nothing if the run waits for something else, or somebody was faster.
	SetAside(ctx context.Context, run event.RunID)
	// Rerun makes the rerun of a run that has failed, as its last event says, unless the run is gone or has one. It returns why
	// none can be made, now or later. Past the deadline it makes none, and the error matches store.ErrStale.
	Rerun(ctx context.Context, run event.RunID, deadline time.Time) (why string, err error)
	// AddHost makes a worker known to the client that it is on: the client hands over
	// to it what it starts. The worker calls leave when it takes no more.
	AddHost(h handover.Host) (leave func())
}

// Registry holds the workflows and steps that a worker knows. It is safe for
// concurrent use.
type Registry interface {
	// BindStep makes the implementation of a step known. It panics if the name is
	// taken or the worker has started.
	BindStep(spec *StepSpec, impl any, call StepFunc)
	// DescribeGraph says which nodes a workflow has that is known by now and executes a graph.
	DescribeGraph(workflow string, nodes []store.CatalogNode)
	// MissingReceiver says that the receiver of a step is nil. It reports false if
	// nobody wants to know: the step must not be registered then.
	MissingReceiver(what, step string) bool
	// Seal ends registration: the worker has started.
	Seal()

	// WorkflowNames returns the names of the workflows, each with the queue that its
	// directive names, sorted.
	WorkflowNames() []store.Route
	// Catalog returns what the code says of each workflow, by name, without a build: one version of each.
	Catalog() []store.CatalogEntry
	// Scheduled reports whether the directive of a workflow names a schedule.
	Scheduled() bool
	// Rerun says how often a failed run of a workflow is tried again.
	Rerun(workflow string) Retry
	// LimitedSteps returns the names of the steps that use limits, sorted. Each call is a run
	// of its own, in the queue of the run that calls.
	LimitedSteps() []string

	// StepRuns returns the routes of the runs that execute a step for other runs, in
	// these queues; without any, one for each step that has a queue of its own.
	// Sorted.
	StepRuns(queues []string) []store.Route
	// Code returns a line for each workflow and step that says which function it is
	// bound to, sorted: part of the fingerprint of what a worker runs.
	Code() []string
	// HookToken makes the token of a hook, from the run and the key of what opens it.
	HookToken(run event.RunID, key string) string
	// Step returns the implementation of a step.
	Step(name string) (StepFunc, bool)
	// Program returns the code of a workflow, and the last element of its name. The
	// code has the limits of the client, and logs to logger.
	Program(name string, c Client, logger *slog.Logger) (program replay.Program, short string, ok bool)

	// Observe lets a test kit stand between a worker and what is registered. It is
	// called before the worker starts.
	Observe(o Observer)
}

// Observer has the functions of a test kit that are called around registered steps and
// workflows. Nil functions do nothing.
type Observer struct {
	// Wrap returns what a worker calls for the name of a step, and for its
	// implementation if there is one (else nil); nil says that the step is not known.
	Wrap func(name string, spec *StepSpec, impl StepFunc) StepFunc
	// Secret makes the tokens of hooks, so that they are the same each time: of 22
	// characters, from the run and the key of the operation.
	Secret func(run event.RunID, key string) string
	// Missing is told the steps whose receiver is nil.
	Missing func(what, step string)
	// Losers is told what branches took that had lost a race (replay.Run.Losers), when
	// the code of a run has returned; nil: nobody is.
	Losers func(workflow string, taken []string)
}

// DefinitionSpec has the values of the directive of a workflow.
type DefinitionSpec struct {
	Name, Param        string
	Queue              string // empty: the default
	Timeout, Retention time.Duration
	Children           int    // at once; 0: the default
	Schedule           string // by which the clock starts it; empty: none
	// Singleton returns the key by which a run with this input is the only active one, and
	// Active says what a start does that finds one; nil: it is not the only one.
	Singleton func(input any) string
	Active    store.ActivePolicy
	// Gather lets starts share a run; nil: each has its own.
	Gather *Gather
	// Priority returns that of a run with this input; nil: that of its parent, or 0.
	Priority    func(input any) int
	StartWithin time.Duration // in which a run must have begun; 0: at any time
	// Rerun says how often a failed run is tried again, whose attempts count the first run; the
	// zero value: never.
	Rerun Retry
	// Fair returns the fair key of a run with this input, and its share; nil: those of its
	// parent, or none.
	Fair func(input any) (key string, share int)
	// Uses returns the limits that a run with this input uses, from its first claim to its
	// end; nil: none.
	Uses func(input any) []permits.Use
}

// Gather says which starts of a workflow share a run, and until when they may join it.
type Gather struct {
	Key func(input any) string // of the starts that share one
	// All says that the code takes the inputs of all of them, else that of the last one.
	All bool
	// Quiet is how long nothing must have joined, Most how long the run waits at most, and
	// Full how many starts it takes; 0: that does not count.
	Quiet, Most time.Duration
	Full        int
}

// StepFunc is the implementation of a step: from arguments to result, both in
// their stored form.
type StepFunc func(ctx context.Context, args []byte) (result []byte, err error)

// BlockedKey is the key of the step data in which a worker says why a run is blocked.
const BlockedKey = "flowgen.blocked"
