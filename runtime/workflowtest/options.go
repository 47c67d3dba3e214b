package workflowtest

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Option changes an Env, or a whole exploration.
type Option func(*options)

type options struct {
	store    func(testing.TB) store.Store
	horizon  time.Duration
	patience time.Duration
	quiet    bool // nothing is logged
	queues   []string

	explore exploration
}

// exploration holds the options of CrashEverywhere and Interleave.
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
}

func defaults(opts []Option) options {
	o := options{horizon: 10 * 365 * 24 * time.Hour, patience: 10 * time.Millisecond}
	o.explore.pairs, o.explore.seed = 200, 1
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// WithStore uses the store that open returns, for example one in a file, instead
// of one in memory. Its time is real. open is called once for each Env, which
// closes the store; CrashEverywhere needs a fresh one each time.
func WithStore(open func(t testing.TB) store.Store) Option {
	return func(o *options) { o.store = open }
}

// WithHorizon sets how far virtual time may go; 0 or absent: 10 years. A run
// that reaches it fails the test: a loop of timers never ends by itself.
func WithHorizon(d time.Duration) Option {
	return func(o *options) {
		if d > 0 {
			o.horizon = d
		}
	}
}

// WithPatience sets how long a step whose own code waits for the end of its
// context may do so for real before virtual time goes on; 0 or absent: 10 ms. A
// step that waits for a goroutine of its own and for its context needs more.
func WithPatience(d time.Duration) Option {
	return func(o *options) {
		if d > 0 {
			o.patience = d
		}
	}
}

// WithQueues lets the worker serve these queues, too, beside "default" and those of
// the workflows and steps that are registered: for runs started with
// workflow.WithQueue, and steps called with workflow.Queue.
func WithQueues(names ...string) Option {
	return func(o *options) { o.queues = append(o.queues, names...) }
}

// State tells an exploration what the workflow has changed outside: f is
// called after each execution, and its result must be the same each time. It
// is compared with go-cmp.
func State(f func(e *Env) any) Option {
	return func(o *options) { o.explore.state = f }
}

// Check is called after each execution of an exploration, with the outcome of the
// run. An error that it reports on t fails the exploration, with the point or the seed.
func Check(f func(t testing.TB, e *Env, run Outcome)) Option {
	return func(o *options) { o.explore.check = f }
}

// StartWith starts the run of each execution of an exploration with options, for
// example held ([workflow.WithHold]) or in debug mode.
func StartWith(opts ...workflow.StartOption) Option {
	return func(o *options) { o.explore.start = append(o.explore.start, opts...) }
}

// Pairs sets how many pairs of two crashes CrashEverywhere tries: all of them if
// there are no more, else a choice by seed. Absent: 200; 0: none.
func Pairs(n int) Option { return func(o *options) { o.explore.pairs = max(n, 0) } }

// Sample bounds how many single crashes CrashEverywhere tries: a choice by seed
// if there are more points. 0 or absent: all.
func Sample(n int) Option { return func(o *options) { o.explore.sample = max(n, 0) } }

// Seed sets the seed of every choice; absent: 1. Interleave tries the seeds from
// this one on.
func Seed(n uint64) Option { return func(o *options) { o.explore.seed = n } }

// Crash makes CrashEverywhere try this crash only, or crashes joined by "+". The
// flag -workflowtest.crash does the same.
func Crash(point string) Option { return func(o *options) { o.explore.crash = point } }

// WithoutCancels keeps Interleave from canceling the run with every fourth seed.
func WithoutCancels() Option { return func(o *options) { o.explore.noCancels = true } }

// AllowUnread permits runs that end with messages that were accepted and never
// taken.
func AllowUnread() Option { return func(o *options) { o.explore.unread = true } }

// AllowInterrupted permits that a step fails because the worker died during its
// last attempt. Steps that are declared nonidempotent must fail then, and need no
// permission.
func AllowInterrupted() Option { return func(o *options) { o.explore.interrupted = true } }

// AllowOutlivingCancel permits that a run completes although it was told to end
// while it waited.
func AllowOutlivingCancel() Option { return func(o *options) { o.explore.outlive = true } }
