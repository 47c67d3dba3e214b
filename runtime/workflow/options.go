package workflow

import (
	"fmt"
	"maps"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// RunOption configures a new run. It is a StartOption and a ChildOption.
type RunOption func(*runOptions)

// StartOption configures a run that is started from outside.
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
	ranked     bool          // WithPriority is given
	begin      time.Duration // in which the run must have begun; 0: at any time
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

// ParentClose decides whether a child ends when its parent ends, in whatever way,
// or continues as a new run.
type ParentClose = event.ParentClose

// The policies for children.
const (
	ParentCloseCancel  = event.CloseCancel  // it is asked to end; the default
	ParentCloseAbandon = event.CloseAbandon // it goes on by itself
	ParentCloseWait    = event.CloseWait    // the parent's end waits for it
)

// WithParentClose sets the policy for the child when its parent ends.
func WithParentClose(p ParentClose) ChildOption {
	return childOption(func(r *runOptions) { r.close = p })
}

// WithID gives the run a workflow id. At most one run of a workflow id is active
// at any time in the whole store, of whatever workflow, however many try to start
// one; see [IDPolicy].
func WithID(workflowID string) RunOption { return func(r *runOptions) { r.workflowID = workflowID } }

// WithIDPolicy says what happens if the workflow id is in use.
func WithIDPolicy(p IDPolicy) RunOption { return func(r *runOptions) { r.policy = p } }

// IDPolicy says what happens to a start whose workflow id is in use. The zero
// value returns the active run, and allows an id again once its run has ended.
type IDPolicy struct {
	Active   ActivePolicy
	Finished FinishedPolicy
}

// ActivePolicy is for workflow ids with an active run.
type ActivePolicy = store.ActivePolicy

// FinishedPolicy is for workflow ids whose run has ended.
type FinishedPolicy = store.FinishedPolicy

// The policies for active runs.
const (
	UseActive    = store.ActiveUse    // return the active run; Created() is false
	FailActive   = store.ActiveFail   // *ActiveRunError
	CancelActive = store.ActiveCancel // cancel it and those that wait for it, and start when they have ended
	QueueActive  = store.ActiveQueue  // start when it and those that wait for it have ended
	LatestActive = store.ActiveLatest // cancel those that wait for it, and start when it has ended
)

// The policies for finished runs.
const (
	AllowFinished             = store.FinishedAllow        // start
	AllowFinishedAfterFailure = store.FinishedAllowFailure // *FinishedRunError if it completed
	RejectFinished            = store.FinishedReject       // *FinishedRunError
)

// WithSameInput lets a start that would return the active run of its workflow id, or of its singleton, fail with an
// *[InputDiffersError] if that run was not started with an equal input, as [Run.SameInput] compares them. Messages of such a
// start are not sent. Other policies than [UseActive] return no other run, and are not affected.
func WithSameInput() StartOption { return startOption(func(r *runOptions) { r.same = true }) }

// WithQueue sends the run to a queue other than that of its workflow.
func WithQueue(name string) RunOption { return func(r *runOptions) { r.queue = name } }

// WithDelay starts the run that much later, by the clock of the store. A
// negative delay is an error. If WithStartAt is given, too, the later one counts.
func WithDelay(d time.Duration) RunOption {
	return func(r *runOptions) {
		if d < 0 {
			r.err = fmt.Errorf("WithDelay(%v): the delay must not be negative", d)
		}
		r.delay = d
	}
}

// WithStartAt starts the run at t; a time that is past means now. If WithDelay
// is given, too, the later one counts.
func WithStartAt(t time.Time) RunOption { return func(r *runOptions) { r.at = t } }

// WithPriority lets the run be claimed before runs of lower priority, instead of what
// priority= in the directive of its workflow says. Without either, a child has the priority
// of its parent, and any other run 0. The start fails with an *InvalidError if n does not
// fit into 32 bits.
func WithPriority(n int) RunOption {
	return func(r *runOptions) { r.priority, r.ranked = n, true }
}

// WithStartBy lets the run fail, with a *[RunError] of the code "notstarted", if no worker has
// begun it within d, instead of what startwithin= in the directive of its workflow says. The
// time counts from its creation; if it is delayed, from when it may begin; if it is held,
// from its release. Its code never begins after that, but a worker writes the end: if all
// are busy, or the run waits for a limit or for a run before it, it ends when its turn
// comes; until then [RunInfo.StartBy] is past. What the run continues as has begun. The time
// must be positive.
func WithStartBy(d time.Duration) RunOption {
	return func(r *runOptions) {
		if d <= 0 {
			r.err = fmt.Errorf("WithStartBy(%v): the duration must be positive", d)
		}
		r.begin = d
	}
}

// WithRunTimeout ends the run's context with ErrTimeout that long after its
// creation, delays included. The time must be positive.
func WithRunTimeout(d time.Duration) RunOption {
	return func(r *runOptions) {
		if d <= 0 {
			r.err = fmt.Errorf("WithRunTimeout(%v): the duration must be positive", d)
		}
		r.timeout = d
	}
}

// WithRetention keeps the run for that long after its end, instead of as long as
// its workflow says; the default is 7 days. Then nothing of it is left. Runs are
// kept for two minutes at least. It holds for the children of the run as well, unless
// they have an option or a directive of their own. The time must be positive.
func WithRetention(d time.Duration) RunOption {
	return func(r *runOptions) {
		if d <= 0 {
			r.err = fmt.Errorf("WithRetention(%v): the duration must be positive: runs that need not be kept can be deleted", d)
		}
		r.retention = d
	}
}

// WithTags adds tags, by which runs can be searched; of two tags of one name the
// later one counts.
func WithTags(tags map[string]string) RunOption {
	return func(r *runOptions) {
		if r.tags == nil {
			r.tags = map[string]string{}
		}
		maps.Copy(r.tags, tags)
	}
}
