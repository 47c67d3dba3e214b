package workflowtest

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Option configures an Env or an exploration.
type Option func(*options)

type options struct {
	store    func(testing.TB) store.Store
	horizon  time.Duration
	patience time.Duration
	quiet    bool // nothing is logged
	queues   []string

	clientInterceptors, workerInterceptors []workflow.Interceptor

	explore exploration
}

// exploration contains the options of CrashEverywhere and Interleave.
type exploration struct {
	state       func(*Env) any
	check       func(t testing.TB, e *Env, run Outcome)
	pairs       int
	sample      int
	seed        uint64
	crash       string
	noCancels   bool
	unread      bool
	interrupted bool
	outlive     bool
	start       []workflow.StartOption
	context     func(context.Context) context.Context // nil: no change
}

func defaults(opts []Option) options {
	o := options{horizon: 10 * 365 * 24 * time.Hour, patience: 10 * time.Millisecond}
	o.explore.pairs, o.explore.seed = 200, 1
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithStore makes the Env use the store that open returns, for example a store in a file, instead
// of the in-memory store. The time of that store is real. open is called once for each Env, which
// closes the store. CrashEverywhere needs a new store for each call.
func WithStore(open func(t testing.TB) store.Store) Option {
	return func(o *options) { o.store = open }
}

// WithHorizon sets the maximum of virtual time since Epoch. The default, also for 0, is 10 years. A
// run that reaches the horizon fails the test, because a loop of timers would never end.
func WithHorizon(d time.Duration) Option {
	return func(o *options) {
		if d > 0 {
			o.horizon = d
		}
	}
}

// WithPatience sets a real time. A step whose own code waits for the end of its context must wait
// that long before virtual time advances. The default, also for 0, is 10 ms. A step that waits both
// for its own goroutine and for its context needs more.
func WithPatience(d time.Duration) Option {
	return func(o *options) {
		if d > 0 {
			o.patience = d
		}
	}
}

// WithQueues makes the worker serve these queues in addition to "default" and the queues of the
// registered workflows and steps. It is needed for runs started with workflow.WithQueue, and for
// steps called with workflow.Queue.
func WithQueues(names ...string) Option {
	return func(o *options) { o.queues = append(o.queues, names...) }
}

// WithInterceptors makes the client of the Env and its workers use these interceptors, each of them
// those that it implements an interface for.
func WithInterceptors(all ...workflow.Interceptor) Option {
	return func(o *options) {
		for _, i := range all {
			if _, ok := i.(workflow.ClientInterceptor); ok {
				o.clientInterceptors = append(o.clientInterceptors, i)
			}
			_, code := i.(workflow.CodeInterceptor)
			if _, attempts := i.(step.Interceptor); code || attempts {
				o.workerInterceptors = append(o.workerInterceptors, i)
			}
		}
	}
}

// State sets a function that returns the external effects of the workflow. An exploration calls f
// after each execution. The results must be equal, as compared by go-cmp.
func State(f func(e *Env) any) Option {
	return func(o *options) { o.explore.state = f }
}

// Check sets a function that an exploration calls after each execution, with the outcome of the
// run. An error that f reports on t fails the exploration. The exploration adds the crash point or
// the seed to the error.
func Check(f func(t testing.TB, e *Env, run Outcome)) Option {
	return func(o *options) { o.explore.check = f }
}

// StartWith sets the options with which explorations start each run, for example held
// ([workflow.WithHold]) or in debug mode.
func StartWith(opts ...workflow.StartOption) Option {
	return func(o *options) { o.explore.start = append(o.explore.start, opts...) }
}

// StartContext sets a function that returns the context with which explorations start each run, for
// example with attributes ([workflow.WithAttribute]).
func StartContext(f func(context.Context) context.Context) Option {
	return func(o *options) { o.explore.context = f }
}

// Pairs sets the maximum number of crash pairs that CrashEverywhere tries. If there are more than n
// pairs, CrashEverywhere selects n of them at random, as determined by the seed. The default is
// 200. If n is 0, no pairs are tried.
func Pairs(n int) Option { return func(o *options) { o.explore.pairs = max(n, 0) } }

// Sample sets how many single crashes CrashEverywhere tries. If there are more crash points, it
// selects n of them at random, determined by the seed. The default, also for 0, is all.
func Sample(n int) Option { return func(o *options) { o.explore.sample = max(n, 0) } }

// Seed sets the seed of all random choices. The default is 1. Interleave tries consecutive seeds,
// beginning with n.
func Seed(n uint64) Option { return func(o *options) { o.explore.seed = n } }

// Crash makes CrashEverywhere try only the crash at this point, or several crashes joined by "+".
// The flag -workflowtest.crash has the same effect.
func Crash(point string) Option { return func(o *options) { o.explore.crash = point } }

// WithoutCancels prevents Interleave from canceling runs.
func WithoutCancels() Option { return func(o *options) { o.explore.noCancels = true } }

// AllowUnread allows runs to end without reading all accepted messages.
func AllowUnread() Option { return func(o *options) { o.explore.unread = true } }

// AllowInterrupted allows a step to fail because the worker crashed during its last attempt. Steps
// declared nonidempotent must fail in this case, and do not need the option.
func AllowInterrupted() Option { return func(o *options) { o.explore.interrupted = true } }

// AllowOutlivingCancel allows a run to complete although it was canceled while it waited.
func AllowOutlivingCancel() Option { return func(o *options) { o.explore.outlive = true } }
