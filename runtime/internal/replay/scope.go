package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// ErrNotInTime ends a wait for a message or a payload that had its own timeout. It is an
// ErrTimeout, but not the ErrTimeout of a scope.
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

// LocalIs makes the error of a run that returns it not match context.Canceled or
// context.DeadlineExceeded in other runs, where these would mean the end of their own scope.
func (e *scopeError) LocalIs() {}

// The reasons for the end of a scope.
var (
	ErrCanceled error = &scopeError{"workflow: canceled", context.Canceled}
	ErrTimeout  error = &scopeError{"workflow: timed out", context.DeadlineExceeded}
)

// timeoutError is the ErrTimeout of a scope. Its text states which timeout expired.
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

// LocalIs has the meaning of LocalIs of ErrTimeout.
func (e *timeoutError) LocalIs() {}

// Scope is a set of operations, and of the scopes below it, that are canceled together. The parent
// drops a scope that has ended.
type Scope struct {
	run      *Run
	parent   node[Scope] // node in the parent's list of children
	children list[Scope]
	within   *Scope        // the parent, even after the scope has ended
	due      time.Time     // its own end; zero if it has none
	after    time.Duration // duration until due
	err      error
	ended    Promise
	ops      list[Op] // unresolved operations, in order of creation
}

// CancelReason returns the reason of the cancel that the run has received, or "" if there is none.
func (s *Scope) CancelReason() string { return s.run.state.CancelReason }

// Err returns nil, ErrCanceled or ErrTimeout: exactly these values. The errors of operations that
// the scope has ended also state which timeout expired.
func (s *Scope) Err() error {
	switch s.err.(type) { //nolint:errorlint // it is never wrapped
	case *timeoutError:
		return ErrTimeout
	case deadlockEnd:
		return ErrCanceled
	}
	return s.err
}

// Limit returns the failure of a run that received a cancel because it has reached a limit, such as
// the limit of its log; nil if the run does not end for such a reason.
func (s *Scope) Limit() *event.Failure {
	if s.run.state.CancelRequested || s.run.deadlock != nil {
		return nil
	}
	return s.run.state.Limit
}

// NewScope returns a scope that ends when parent does; with a nil parent it never ends. It belongs
// to the run of b.
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

// NewDeadline is NewScope with an end of its own: at due the scope ends with ErrTimeout. It costs
// one wait in the log.
func (b *Branch) NewDeadline(parent *Scope, due time.Time) *Scope {
	s := b.NewScope(parent)
	if s.err == nil {
		b.limit(s, due, 0)
	}
	return s
}

// NewTimeout is NewDeadline with a duration from the current time.
func (b *Branch) NewTimeout(parent *Scope, after time.Duration) *Scope {
	due := b.Until(after)
	s := b.NewScope(parent)
	if s.err == nil {
		b.limit(s, due, after)
	}
	return s
}

// limit ends the scope at due with ErrTimeout. Its text states the requested duration asked; if
// that is 0, the recorded duration.
func (b *Branch) limit(s *Scope, due time.Time, asked time.Duration) {
	s.after = max(asked, 0)
	if !due.After(b.run.now) {
		s.timedOut()
		return
	}
	op := b.newWait(s, event.WaitDeadline, b.Key("timeout"), "", due)
	op.limits, s.due = s, b.run.state.Open(op.Ref).Due // as it is recorded
	// Recorded times are whole milliseconds, and the current time has no fractions, so the recorded
	// duration is less than two milliseconds longer than the requested one (see Until). Another
	// duration comes from code that was changed since, and the recorded one counts, so the text
	// does not change.
	recorded := s.due.Sub(b.run.present())
	if more := recorded - asked; s != &b.run.root && (asked <= 0 || more < 0 || more >= 2*time.Millisecond) {
		s.after = max(recorded, 0) // in a modified log the end may precede the beginning
	}
}

// timedOut ends the scope because its own timeout expired.
func (s *Scope) timedOut() { s.cancel(&timeoutError{s == &s.run.root, s.after}) }

// Cancel ends the scope with ErrCanceled. It may be called from any branch of the run, and more
// than once. After the end of the run, or while it is being unwound, it does nothing.
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

// cancel ends the scope and those below it, parents first, and then their operations, in order of
// creation. Running steps are only requested to stop: their recorded outcome decides. No user code
// runs meanwhile.
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
		sc.ended.resolve(nil)
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

// mostIgnored is how many operations a branch may begin under ended scopes without waiting in
// between. Each of them returns the error of its scope at once, so code that ignores the error
// would never return control: no other event could take effect, not even a termination.
const mostIgnored = 100_000

// heed counts an operation under an ended scope, and fails the run if the code ignores the end of
// the scope for too long.
//
// The log records that, so that a replay ends at the same operation. If the log continues there,
// the code of another build began fewer operations, and this code continues as well.
func (b *Branch) heed(s *Scope) {
	if s == nil || s.err == nil {
		return
	}
	if b.ignored++; b.ignored < mostIgnored {
		return
	}
	r := b.run
	asked := event.Event{Type: event.CancelRequested, Key: b.path, Failure: &event.Failure{Code: event.CodeEndIgnored}}
	if len(r.feed) > 0 {
		if rec := &r.feed[0]; !r.isCommand(rec) || !sameOperation(rec, &asked) {
			return
		}
	} else {
		asked.Failure.Message = fmt.Sprintf("branch %s has begun %d operations since its context ended (%v), and waited for nothing: "+
			"return once an operation returns the error of the context, or use workflow.Detached for what must be done all the same", b.path, b.ignored, s.Err())
	}
	rec := r.command(&asked, nil)
	b.Fail(rec.Failure)
}
