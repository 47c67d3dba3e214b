package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// ErrNotInTime is the error of a wait for a message or a payload whose own timeout has passed. It
// matches ErrTimeout, but it is not the error of a scope.
var ErrNotInTime error = notInTimeError{}

type notInTimeError struct{}

func (notInTimeError) Error() string { return "workflow: nothing was received in time" }
func (notInTimeError) Unwrap() error { return ErrTimeout }

type scopeError struct {
	text string
	is   error
}

func (e *scopeError) Error() string        { return e.text }
func (e *scopeError) Is(target error) bool { return target == e.is }

// LocalIs marks Is as valid only in this process. If a run returns the error, it does not match
// context.Canceled or context.DeadlineExceeded in other runs, where a match would mean that their
// own scope has ended.
func (e *scopeError) LocalIs() {}

// The reasons for the end of a scope.
var (
	ErrCanceled error = &scopeError{"workflow: canceled", context.Canceled}
	ErrTimeout  error = &scopeError{"workflow: timed out", context.DeadlineExceeded}
)

// timeoutError is the error of a scope that has timed out. Its text contains the timeout.
type timeoutError struct {
	ofRun bool
	after time.Duration
}

func (e *timeoutError) Error() string {
	if e.ofRun {
		return fmt.Sprintf("%v: the run took longer than its timeout of %v", ErrTimeout, e.after)
	}
	return fmt.Sprintf("%v: its context had %v", ErrTimeout, e.after)
}

func (e *timeoutError) Unwrap() error { return ErrTimeout }

// LocalIs marks Is as valid only in this process, like for ErrTimeout.
func (e *timeoutError) LocalIs() {}

// Scope is a set of operations and child scopes that are canceled together. When a scope ends, its
// parent drops it.
type Scope struct {
	run      *Run
	parent   node[Scope] // node in the parent's list of children
	children list[Scope]
	within   *Scope        // the parent; remains set after the scope has ended
	due      time.Time     // end of the scope's own timeout; zero if it has none
	after    time.Duration // duration of the timeout
	err      error
	ended    Promise
	ops      list[Op] // unresolved operations, in order of creation
}

// CancelReason returns the reason of the cancel that the run has received. It returns "" if there
// was none.
func (s *Scope) CancelReason() string { return s.run.state.CancelReason }

// Err returns nil, ErrCanceled or ErrTimeout, and never an error that wraps one of these. In
// contrast, the errors of operations that the scope has ended also contain the timeout that has
// passed.
func (s *Scope) Err() error {
	switch s.err.(type) { //nolint:errorlint // it is never wrapped
	case *timeoutError:
		return ErrTimeout
	case deadlockEnd:
		return ErrCanceled
	}
	return s.err
}

// Limit returns the failure of a run that received a cancel because it reached a limit, such as the
// limit of its log. It returns nil if the run received no such cancel.
func (s *Scope) Limit() *event.Failure {
	if s.run.state.CancelRequested || s.run.deadlock != nil {
		return nil
	}
	return s.run.state.Limit
}

// NewScope returns a scope of the run that ends when parent ends. If parent is nil, the scope never
// ends by itself.
func (b *Branch) NewScope(parent *Scope) *Scope {
	b.enter()
	s := &Scope{run: b.run, within: parent}
	switch {
	case parent == nil:
	case parent.err != nil:
		s.err, s.ended.done = parent.err, true
	default:
		parent.children.push(&s.parent, s)
	}
	return s
}

// NewDeadline is like NewScope, but the scope also ends at due, with ErrTimeout. This takes one
// wait in the log.
func (b *Branch) NewDeadline(parent *Scope, due time.Time) *Scope {
	s := b.NewScope(parent)
	if s.err == nil {
		b.limit(s, due, 0)
	}
	return s
}

// NewTimeout is like NewDeadline. The scope ends when the duration after has passed.
func (b *Branch) NewTimeout(parent *Scope, after time.Duration) *Scope {
	due := b.Until(after)
	s := b.NewScope(parent)
	if s.err == nil {
		b.limit(s, due, after)
	}
	return s
}

// limit makes the scope end at due with ErrTimeout. The text of the error contains the requested
// duration asked. If asked is 0, it contains the recorded duration.
func (b *Branch) limit(s *Scope, due time.Time, asked time.Duration) {
	s.after = max(asked, 0)
	if !due.After(b.run.now) {
		s.timedOut()
		return
	}
	op := b.newWait(s, event.WaitDeadline, b.Key("timeout"), "", due)
	op.limits, s.due = s, b.run.state.Open(op.Ref).Due // the recorded due time
	// Recorded times are whole milliseconds, and so is the current time. So the recorded duration
	// exceeds the requested one by less than two milliseconds (see Until). If the difference is
	// larger, the code has changed since. The recorded duration then counts, so that the text does
	// not change.
	recorded := s.due.Sub(b.run.present())
	if more := recorded - asked; s != &b.run.root && (asked <= 0 || more < 0 || more >= 2*time.Millisecond) {
		s.after = max(recorded, 0) // in a modified log the deadline may precede the beginning of the scope
	}
}

// TimeLimitKey returns the key of the wait that limits the duration of a run. name is the last
// element of the workflow's name.
func TimeLimitKey(name string) string { return name + "/timeout#1" }

// timedOut ends the scope because its own timeout has passed.
func (s *Scope) timedOut() { s.cancel(&timeoutError{s == &s.run.root, s.after}) }

// Cancel ends the scope with ErrCanceled. Any branch of the run may call it, and more than once. It
// does nothing after the end of the run or while the run is being unwound.
func (s *Scope) Cancel() {
	r := s.run
	if !onCoroutine() {
		r.stop(r.name)
	}
	switch {
	case r.dying || r.err != nil:
		return
	case r.current == nil:
		panic(&MisuseError{"workflow: a CancelFunc was called from outside of the workflow's code"})
	case r.pure != "":
		panic(&MisuseError{"workflow: a CancelFunc was called inside of " + r.pure + ": " +
			"a replay does not call the function of Record again, and would not cancel"})
	}
	s.cancel(ErrCanceled)
}

// cancel ends the scope and the scopes below it, parents first, and then their operations in order
// of creation. Running steps are only requested to stop: their recorded outcome decides. No user
// code runs during the call.
func (s *Scope) cancel(err error) {
	if s.err != nil {
		return
	}
	s.parent.remove()
	scopes := s.mark(err, nil)
	var ops []*Op
	for _, sc := range scopes {
		for n := sc.ops.first; n != nil; n = n.next {
			ops = append(ops, n.item)
		}
	}
	slices.SortFunc(ops, func(a, b *Op) int { return cmp.Compare(a.Ref, b.Ref) })
	for _, op := range ops {
		op.cancel()
		if s.run.err != nil {
			return
		}
	}
	for _, sc := range scopes {
		sc.ended.Resolve(nil)
	}
}

func (s *Scope) mark(err error, all []*Scope) []*Scope {
	s.err = err
	all = append(all, s)
	for c := s.children.pop(); c != nil; c = s.children.pop() {
		all = c.mark(err, all)
	}
	return all
}
