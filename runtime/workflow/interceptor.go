package workflow

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/internal/flow"
)

// Interceptor wraps operations, for example to authorize, measure or report them. It implements one
// or more of [ClientInterceptor], [CodeInterceptor] and step.Interceptor. ClientConfig.Interceptors
// uses the first interface and worker.Config.Interceptors the others, so that one value can be in
// both. Interceptors are called in the order of the slice: the first one is the outermost.
//
// The parameter next of each method executes the rest: the interceptors after this one, and then the
// operation. An interceptor calls next at most once, before it returns, and returns an error if next
// has failed. It may return an error instead of calling next, which prevents the operation. An
// interceptor that does not keep these rules makes the operation fail with an [*InterceptorError].
// The runtime's own runs and steps are not intercepted.
type Interceptor any

// ClientInterceptor wraps the starts, messages, payloads of hooks and questions that a client sends.
type ClientInterceptor interface {
	// InterceptClient wraps one operation. next must be called with ctx or a context derived from
	// it. A panic reaches the caller of the operation.
	InterceptClient(ctx context.Context, call *ClientCall, next func(context.Context) error) error
}

// CodeInterceptor wraps the code of workflows.
type CodeInterceptor interface {
	// InterceptWorkflow wraps the code of the run to which ctx belongs, see [Info]. It is part of
	// the code of the workflow: a replay executes it again, and it must make the same decisions. It
	// should not perform durable operations, because a changed list of interceptors would then block
	// open runs. next must be called with ctx or a context derived from it, in the same branch.
	//
	// Misuse blocks the run, so that a corrected program can continue it. A panic fails the run, as
	// in all workflow code. If the interceptor recovers a panic of the workflow, the run ends with
	// the error that the interceptor returns.
	InterceptWorkflow(ctx Context, next func(Context) error) error
}

// Operation is the kind of a [ClientCall].
type Operation string

// The operations that a [ClientInterceptor] wraps.
const (
	OperationStart Operation = "start" // Start, Execute and each request of StartMany
	OperationSend  Operation = "send"  // Topic.Send
	OperationHook  Operation = "hook"  // Hook.Send, Hook.Fail, SendToHook, FailHook and CallHook
	OperationAsk   Operation = "ask"   // Ask.Ask
)

// ClientCall describes an operation of a client. Fields that are not known yet are empty.
type ClientCall struct {
	Operation Operation
	// Name is the stored name of the workflow to start, or the name of the topic, hook or ask. For a
	// hook whose sender has only the token it is set when next has returned.
	Name string
	// Run is the run that receives the request. It is set when next has returned.
	Run RunID
	// Created reports, when next has returned, that a start has created a run and not found one.
	Created bool
}

// InterceptorError reports that an interceptor has broken the rules of [Interceptor]. Interceptor is
// its type, Misuse what it did, and Err the error that it hid, or nil.
type InterceptorError = flow.InterceptorError

// clientInterceptors are the interceptors of a client with their names for errors.
type clientInterceptors struct {
	all   []ClientInterceptor
	names []string
}

// newClientInterceptors returns the interceptors of all that wrap operations of clients. It panics if
// an element wraps nothing.
func newClientInterceptors(all []Interceptor) (c clientInterceptors) {
	for n, i := range all {
		if own, ok := i.(ClientInterceptor); ok {
			c.all, c.names = append(c.all, own), append(c.names, fmt.Sprintf("%T", i))
			continue
		}
		panic(fmt.Sprintf("workflow: NewClient: Interceptors[%d] is a %T, which is no ClientInterceptor: implement InterceptClient, or give it to worker.Config only", n, i))
	}
	return c
}

// intercept executes an operation through the interceptors of the client.
func (c *client) intercept(ctx context.Context, call *ClientCall, code func(context.Context) error) error {
	l := flow.Links[context.Context]{
		Names: c.interceptors.names, Code: code, Check: nilContext,
		Wait: true, // the operation must not write its outcome after the caller has received one
		Call: func(i int, ctx context.Context, next func(context.Context) error) error {
			return c.interceptors.all[i].InterceptClient(ctx, call, next)
		},
	}
	return l.Intercept(ctx)
}

func nilContext(ctx context.Context) string {
	if ctx == nil {
		return "called next with a nil context"
	}
	return ""
}

// intercepts reports whether operations must be executed with intercept. They are executed directly
// otherwise, because a function for intercept is an allocation.
func (c *client) intercepts() bool { return len(c.interceptors.all) > 0 }

// mostNested bounds how many starts are nested in each other. Each uses a few kilobytes of stack.
const mostNested = 1000

// startThrough starts runs through the interceptors, with one request to the store for mostNested
// starts.
func (d Definition[In, Out]) startThrough(ctx context.Context, c *client, requests []StartRequest[In]) ([]Started[Out], error) {
	var all []Started[Out]
	for part := range slices.Chunk(requests, mostNested) {
		started, err := d.startNested(ctx, c, part)
		if err != nil {
			return nil, err
		}
		all = append(all, started...)
	}
	return all, nil
}

// startNested calls the interceptors of each request inside of those of the request before, so that
// one request to the store creates all runs. An interceptor that refuses a start therefore prevents
// all of them.
func (d Definition[In, Out]) startNested(ctx context.Context, c *client, requests []StartRequest[In]) (all []Started[Out], err error) {
	contexts := make([]context.Context, len(requests))
	var from func(i int)
	from = func(i int) {
		if i == len(requests) {
			all, err = d.startAll(c, requests, func(i int) context.Context { return contexts[i] })
			return
		}
		call := &ClientCall{Operation: OperationStart, Name: d.Name()}
		failed := c.intercept(ctx, call, func(ctx context.Context) error {
			contexts[i] = ctx
			if from(i + 1); err != nil {
				return err
			}
			if all[i].Err == nil {
				call.Run, call.Created = all[i].Run.ID(), all[i].Run.Created()
			}
			return all[i].Err
		})
		switch {
		case all == nil:
			err = failed
		case failed != nil:
			all[i] = Started[Out]{Err: failed}
		}
	}
	from(0)
	return all, err
}
