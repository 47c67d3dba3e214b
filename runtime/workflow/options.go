package workflow

import (
	"fmt"
	"maps"
	"math"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// RunOption configures a new run. It is a StartOption and a ChildOption.
type RunOption func(*runOptions)

// StartOption configures a run that is started by a client.
type StartOption interface{ applyStart(*runOptions) }

// ChildOption configures a run that is started by another run.
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
	ranked     bool          // WithPriority is given
	begin      time.Duration // time within which the run must begin; 0: unlimited
	timeout    time.Duration
	retention  time.Duration
	tags       map[string]string
	close      ParentClose
	hold       time.Duration
	debug      bool
	same       bool // WithSameInput is given
	messages   []func(l *limits, by string, inside bool) (store.Item, error)
	err        error
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
	ParentCloseAbandon = event.CloseAbandon // the child continues independently
	ParentCloseWait    = event.CloseWait    // the end of the parent waits for the child
)

// WithParentClose sets what happens to the child when its parent ends.
func WithParentClose(p ParentClose) ChildOption {
	return childOption(func(r *runOptions) { r.close = p })
}

// WithID gives the run a workflow ID. At any time at most one run per workflow ID is active in the
// whole store, across all workflows and concurrent starts; see [IDPolicy].
func WithID(workflowID string) RunOption { return func(r *runOptions) { r.workflowID = workflowID } }

// WithIDPolicy sets the policy for a workflow ID that is in use.
func WithIDPolicy(p IDPolicy) RunOption { return func(r *runOptions) { r.policy = p } }

// IDPolicy determines what a start does if its workflow ID is in use. The zero value returns the
// active run, and allows reuse of the ID after its run has ended.
type IDPolicy struct {
	Active   ActivePolicy
	Finished FinishedPolicy
}

// ActivePolicy applies to workflow IDs with an active run.
type ActivePolicy = store.ActivePolicy

// FinishedPolicy applies to workflow IDs whose run has ended.
type FinishedPolicy = store.FinishedPolicy

// The policies for active runs.
const (
	UseActive    = store.ActiveUse    // return the active run; Created() is false
	FailActive   = store.ActiveFail   // *ActiveRunError
	CancelActive = store.ActiveCancel // cancel it and the runs waiting for it, start after they have ended
	QueueActive  = store.ActiveQueue  // start after it and the runs waiting for it have ended
	LatestActive = store.ActiveLatest // cancel the runs waiting for it, start after it has ended
)

// The policies for finished runs.
const (
	AllowFinished             = store.FinishedAllow        // start
	AllowFinishedAfterFailure = store.FinishedAllowFailure // *FinishedRunError if it completed
	RejectFinished            = store.FinishedReject       // *FinishedRunError
)

// WithSameInput makes a start that would return the active run of its workflow ID or singleton fail
// with an *[InputDiffersError] if that run was not started with an equal input, as compared by
// [Run.SameInput]. The messages of a failed start are not sent. Policies other than [UseActive]
// never return an existing run, so the option does not affect them.
func WithSameInput() StartOption { return startOption(func(r *runOptions) { r.same = true }) }

// WithQueue places the run on a queue other than the one of its workflow.
func WithQueue(name string) RunOption { return func(r *runOptions) { r.queue = name } }

// WithDelay delays the start of the run, measured by the store's clock. A negative delay is an
// error. If WithStartAt is given as well, the later time applies.
func WithDelay(d time.Duration) RunOption {
	return func(r *runOptions) {
		if d < 0 {
			r.err = fmt.Errorf("WithDelay(%v): the delay must not be negative", d)
		}
		r.delay = d
	}
}

// WithStartAt starts the run at t, or at once if t is in the past. If WithDelay is given as well,
// the later time applies.
func WithStartAt(t time.Time) RunOption { return func(r *runOptions) { r.at = t } }

// WithPriority makes workers claim the run before runs of lower priority. It overrides priority= in
// the directive of the workflow. Without either, a child has the priority of its parent, and any
// other run 0. The start fails with an *InvalidError if n does not fit 32 bits.
func WithPriority(n int) RunOption {
	return func(r *runOptions) { r.priority, r.ranked = n, true }
}

// WithStartBy makes the run fail, with a *[RunError] of code "notstarted", if no worker has begun
// it within d. It overrides startwithin= in the directive of the workflow. The time starts with the
// creation of the run; for a delayed run, when it may begin; for a held run, with its release. The
// code never begins after that time, but a worker must record the end: if all workers are busy, or
// the run waits for a limit or a previous run, it ends when it could begin, and until then
// [RunInfo.StartBy] is in the past. A continuation of the run counts as begun. The time must be
// positive.
func WithStartBy(d time.Duration) RunOption {
	return func(r *runOptions) {
		if d <= 0 {
			r.err = fmt.Errorf("WithStartBy(%v): the duration must be positive", d)
		}
		r.begin = d
	}
}

// WithRunTimeout ends the run's context with ErrTimeout after d, counted from the creation of the
// run and including delays. The time must be positive.
func WithRunTimeout(d time.Duration) RunOption {
	return func(r *runOptions) {
		if d <= 0 {
			r.err = fmt.Errorf("WithRunTimeout(%v): the duration must be positive", d)
		}
		r.timeout = d
	}
}

// WithRetention sets how long the run is kept after its end, instead of the retention of its
// workflow; the default is 7 days. After that, all its data is deleted. Runs are kept for at least
// two minutes. The option also applies to the children of the run, unless they have their own
// option or directive. The time must be positive.
func WithRetention(d time.Duration) RunOption {
	return func(r *runOptions) {
		if d <= 0 {
			r.err = fmt.Errorf("WithRetention(%v): the duration must be positive: runs that need not be kept can be deleted", d)
		}
		r.retention = d
	}
}

// WithTags adds tags, which can be used to search for runs. If a tag is given twice, the later
// value applies.
func WithTags(tags map[string]string) RunOption {
	return func(r *runOptions) {
		if r.tags == nil {
			r.tags = map[string]string{}
		}
		maps.Copy(r.tags, tags)
	}
}

// RetryPolicy determines how often and when a failed attempt of a step is retried. The zero value
// is the default: 4 attempts, with delays of 1 s, 2 s, 4 s, …, at most 1 minute. Zero fields have
// their defaults.
type RetryPolicy struct {
	// Attempts is the maximum number of attempts; 0 means 4, and 1 means no retry. Attempts
	// interrupted by the death of their worker count. Attempts ended by the shutdown of their
	// worker do not count, nor do the first Waits attempts that returned a step.RetryAfter.
	Attempts int
	// Initial is the delay before the second attempt; 0 means 1 s.
	Initial time.Duration
	// Increment is added to the delay for each further attempt (linear backoff); 0 means none.
	Increment time.Duration
	// Max bounds the delay; 0 means 1 minute, or Initial if that is longer.
	Max time.Duration
	// Factor multiplies the delay for each further attempt; 0 means 2, or 1 if Increment is set.
	Factor float64
	// Jitter is the random fraction of the delay, from 0 to 1.
	Jitter float64
	// Total bounds the time from the creation of the step; 0 means no bound. An attempt that could
	// not start within it is not made.
	Total time.Duration
	// Waits is how many attempts may return step.RetryAfter without counting towards Attempts; 0
	// means 100. Beyond that, an attempt that returns a step.RetryAfter counts like any failed
	// attempt, so that the step ends eventually.
	Waits int
}

// maxDelay is the largest float64 that fits a Duration.
const maxDelay = float64(math.MaxInt64 - 1<<9)

// DefaultAttemptTimeout is the time limit of an attempt of a step that sets no other.
const DefaultAttemptTimeout = 10 * time.Minute

// The defaults of a [RetryPolicy].
const (
	defaultAttempts   = 4
	defaultWaits      = 100
	defaultInitial    = time.Second
	defaultMaxBackoff = time.Minute
	defaultFactor     = 2.0
)

// MaxAttempts returns the maximum number of attempts, at least 1.
func (p RetryPolicy) MaxAttempts() int {
	if p.Attempts <= 0 {
		return defaultAttempts
	}
	return p.Attempts
}

// MaxWaits returns how many attempts may return step.RetryAfter without being counted.
func (p RetryPolicy) MaxWaits() int {
	if p.Waits <= 0 {
		return defaultWaits
	}
	return p.Waits
}

// Delay returns the time between attempt n, counted from 1, and the next one. random is a number in
// [0, 1) that determines the jitter.
func (p RetryPolicy) Delay(n int, random float64) time.Duration {
	first, limit, factor := p.Initial, p.Max, p.Factor
	if first <= 0 {
		first = defaultInitial
	}
	if limit <= 0 {
		limit = max(defaultMaxBackoff, first)
	}
	if factor <= 0 {
		factor = defaultFactor
		if p.Increment > 0 {
			factor = 1
		}
	}
	d := float64(first)
	for i := 1; i < n && d < float64(limit); i++ {
		next := d*factor + float64(p.Increment)
		if next == d || next <= 0 { // the delay stays constant
			d = next
			break
		}
		d = next
	}
	if !(d < float64(limit)) { // also true for NaN
		d = float64(limit)
	}
	if j := min(max(p.Jitter, 0), 1); j > 0 {
		d *= 1 - j*random
	}
	return time.Duration(min(max(d, 0), maxDelay))
}
