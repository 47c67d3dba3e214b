package workflow

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
)

// RunOption configures a new run. It is a StartOption and a ChildOption.
type RunOption func(*runOptions)

// StartOption configures a run that a client starts.
type StartOption interface{ applyStart(*runOptions) }

// ChildOption configures a run that another run starts.
type ChildOption interface{ applyChild(*runOptions) }

func (o RunOption) applyStart(r *runOptions) { o(r) }
func (o RunOption) applyChild(r *runOptions) { o(r) }

type runOptions struct {
	workflowID string
	policy     IDPolicy
	queue      string
	delay      time.Duration
	at         time.Time
	priority   int
	ranked     bool          // WithPriority was given
	begin      time.Duration // time within which the run must begin; 0: unlimited
	timeout    time.Duration
	retention  time.Duration
	tags       map[string]string
	close      ParentClose
	hold       time.Duration
	debug      bool
	same       bool // WithSameInput was given
	messages   []func(ctx context.Context, l *flow.Limits, inside bool) (store.Item, error)
	err        error
}

// optionsOf returns the options that opts set.
func optionsOf[O ~func(*T), T any](opts []O) (o T) {
	for _, opt := range opts {
		opt(&o)
	}
	return o
}

// positive returns the duration of an option. It sets an error if d is not positive.
func (o *runOptions) positive(option string, d time.Duration) time.Duration {
	if d <= 0 {
		o.err = fmt.Errorf("%s(%v): the duration must be positive", option, d)
	}
	return d
}

type startOption func(*runOptions)

func (o startOption) applyStart(r *runOptions) { o(r) }

type childOption func(*runOptions)

func (o childOption) applyChild(r *runOptions) { o(r) }

// ParentClose determines what happens to a child when its parent ends in any way or continues as
// new.
type ParentClose = event.ParentClose

// The policies for children.
const (
	ParentCloseCancel  = event.CloseCancel  // the child is asked to cancel; the default
	ParentCloseAbandon = event.CloseAbandon // the child continues without its parent
	ParentCloseWait    = event.CloseWait    // the parent ends when the child has ended
)

// WithParentClose sets what happens to the child when its parent ends.
func WithParentClose(p ParentClose) ChildOption {
	return childOption(func(r *runOptions) { r.close = p })
}

// WithID gives the run a workflow ID. At any time, at most one run with a workflow ID is active in
// the whole store, across all workflows and concurrent starts. See [IDPolicy].
func WithID(workflowID string) RunOption { return func(r *runOptions) { r.workflowID = workflowID } }

// WithIDPolicy determines what the start does if its workflow ID is in use.
func WithIDPolicy(p IDPolicy) RunOption { return func(r *runOptions) { r.policy = p } }

// IDPolicy determines what a start does if its workflow ID is in use. The zero value returns the
// active run, and allows reuse of the ID after the run has ended.
type IDPolicy struct {
	Active   ActivePolicy
	Finished FinishedPolicy
}

// ActivePolicy determines what a start does if a run with its workflow ID is active.
type ActivePolicy = store.ActivePolicy

// FinishedPolicy determines what a start does if a run with its workflow ID has ended.
type FinishedPolicy = store.FinishedPolicy

// The policies for active runs.
const (
	UseActive    = store.ActiveUse    // return the active run; Created() is false
	FailActive   = store.ActiveFail   // fail with an *ActiveRunError
	CancelActive = store.ActiveCancel // cancel the active run and the runs that wait for it, and start after they have ended
	QueueActive  = store.ActiveQueue  // start after the active run and the runs that wait for it have ended
	LatestActive = store.ActiveLatest // cancel the runs that wait for the active run, and start after that run has ended
)

// The policies for runs that have ended.
const (
	AllowFinished             = store.FinishedAllow        // start
	AllowFinishedAfterFailure = store.FinishedAllowFailure // fail with a *FinishedRunError if the run completed
	RejectFinished            = store.FinishedReject       // fail with a *FinishedRunError
)

// WithSameInput changes a start that would return the active run of its workflow ID or singleton.
// If that run was not started with an equal input, as compared by [Run.SameInput], the start fails
// with an *[InputDiffersError]. The messages of a failed start are not sent. Policies other than
// [UseActive] never return an existing run, so the option does not affect them.
func WithSameInput() StartOption { return startOption(func(r *runOptions) { r.same = true }) }

// WithQueue sets the queue of the run, instead of the queue of its workflow.
func WithQueue(name string) RunOption {
	return func(r *runOptions) {
		if err := event.CheckQueue(name); err != nil {
			r.err = fmt.Errorf("WithQueue: %w", err)
		}
		r.queue = name
	}
}

// WithDelay delays the start of the run, measured by the clock of the store. A negative delay is an
// error. If WithStartAt is also given, the later time applies.
func WithDelay(d time.Duration) RunOption {
	return func(r *runOptions) {
		if d < 0 {
			r.err = fmt.Errorf("WithDelay(%v): the delay must not be negative", d)
		}
		r.delay = d
	}
}

// WithStartAt starts the run at t, or at once if t is in the past. If WithDelay is also given, the
// later time applies.
func WithStartAt(t time.Time) RunOption { return func(r *runOptions) { r.at = t } }

// WithPriority makes workers claim the run before runs of lower priority. It takes precedence over
// priority= in the directive of the workflow. Without either, a child has the priority of its
// parent, and any other run has priority 0. The start fails with an *InvalidError if n does not fit
// into 32 bits.
func WithPriority(n int) RunOption {
	return func(r *runOptions) { r.priority, r.ranked = n, true }
}

// WithStartBy makes the run fail, with a *[RunError] of code "notstarted", if no worker has begun
// it within d, which must be positive. It takes precedence over startwithin= in the directive of
// the workflow. The time starts with the creation of the run, with the start time of a delayed run,
// or with the release of a held run.
//
// The code never begins after that time, but a worker must record the end. If all workers are busy,
// or the run waits for a limit or a previous run, the run ends when it could begin. Until then,
// [RunInfo.StartBy] is in the past. A continuation of the run counts as begun.
func WithStartBy(d time.Duration) RunOption {
	return func(r *runOptions) { r.begin = r.positive("WithStartBy", d) }
}

// WithRunTimeout ends the context of the run with ErrTimeout after d, counted from the creation of
// the run and including delays. d must be positive.
func WithRunTimeout(d time.Duration) RunOption {
	return func(r *runOptions) { r.timeout = r.positive("WithRunTimeout", d) }
}

// WithRetention sets how long the run is kept after its end, instead of the retention of its
// workflow. The default is 7 days. After that time, all data of the run is deleted. Runs are kept
// for at least two minutes. The option also applies to the children of the run, unless they have
// their own option or directive. d must be positive.
func WithRetention(d time.Duration) RunOption {
	return func(r *runOptions) {
		if d <= 0 {
			r.err = fmt.Errorf("WithRetention(%v): the duration must be positive: delete the runs that need not be kept", d)
		}
		r.retention = d
	}
}

// WithTags adds tags by which runs can be found. If a tag is given twice, the later value applies.
func WithTags(tags map[string]string) RunOption {
	return func(r *runOptions) {
		if r.tags == nil {
			r.tags = map[string]string{}
		}
		maps.Copy(r.tags, tags)
	}
}

// RetryPolicy determines how often and when a failed attempt of a step is retried. Zero fields have
// the default values. The zero RetryPolicy allows 4 attempts, with delays of 1 s, 2 s and 4 s.
type RetryPolicy struct {
	// Attempts is the maximum number of attempts; 0 means 4, and 1 means no retry. Attempts that a
	// crash of their worker has interrupted count. Attempts that ended with the shutdown of their
	// worker do not count. The first Waits attempts that return a step.RetryAfter do not count.
	Attempts int
	// Initial is the delay before the second attempt; 0 means 1 s.
	Initial time.Duration
	// Increment is added to the delay for each further attempt (linear backoff). 0 means that
	// nothing is added.
	Increment time.Duration
	// Max is the maximum delay; 0 means 1 minute, or Initial if that is longer.
	Max time.Duration
	// Factor multiplies the delay for each further attempt; 0 means 2, or 1 if Increment is set.
	Factor float64
	// Jitter is the random fraction of the delay, from 0 to 1.
	Jitter float64
	// Total is the maximum time from the creation of the step to the start of its last attempt; 0
	// means that there is no maximum.
	Total time.Duration
	// Waits is the number of attempts that may return step.RetryAfter without counting towards
	// Attempts; 0 means 100. Further attempts that return a step.RetryAfter count like failed
	// attempts, so that the step ends eventually.
	Waits int
}

// MaxAttempts returns the maximum number of attempts. It is at least 1.
func (p RetryPolicy) MaxAttempts() int { return flow.Retry(p).MaxAttempts() }

// MaxWaits returns the number of attempts that may return step.RetryAfter without counting.
func (p RetryPolicy) MaxWaits() int { return flow.Retry(p).MaxWaits() }

// Delay returns the time between attempt n, counted from 1, and the next attempt. random is a
// number in [0, 1) that determines the jitter.
func (p RetryPolicy) Delay(n int, random float64) time.Duration {
	return flow.Retry(p).Delay(n, random)
}
