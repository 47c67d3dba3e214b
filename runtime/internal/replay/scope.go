package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// ErrNotInTime ends a wait for a message or a payload that was given a time of its own.
// It is an ErrTimeout, but not that of a scope.
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

// LocalIs says that a run which returns the error does not match context.Canceled or
// context.DeadlineExceeded in others: there that would be their own end.
func (e *scopeError) LocalIs() {}

// The ways in which a scope ends.
var (
	ErrCanceled error = &scopeError{"workflow: canceled", context.Canceled}
	ErrTimeout  error = &scopeError{"workflow: timed out", context.DeadlineExceeded}
)

// timeoutError is the ErrTimeout of a scope: it says which time is over.
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

// LocalIs is that of ErrTimeout.
func (e *timeoutError) LocalIs() {}

// Scope is a set of operations, and the scopes below it, that are canceled together.
// A scope that has ended is no longer known to its parent.
type Scope struct {
	run      *Run
	parent   node[Scope] // its place among the parent's children
	children list[Scope]
	within   *Scope        // the parent, also after it has ended
	due      time.Time     // its own end; zero: it has none
	after    time.Duration // how much time that was
	err      error
	ended    Promise
	ops      list[Op] // that are not resolved, in order of creation
}

// CancelReason returns why somebody has asked the run to end; empty: nobody has, or has
// said why.
func (s *Scope) CancelReason() string { return s.run.state.CancelReason }

// Err returns nil, ErrCanceled or ErrTimeout: these very values. The errors of what the
// scope has ended also say which time was over.
func (s *Scope) Err() error {
	switch s.err.(type) { //nolint:errorlint // it is never wrapped
	case *timeoutError:
		return ErrTimeout
	case deadlockEnd:
		return ErrCanceled
	}
	return s.err
}

// Limit returns the failure of a run that was asked to end because its log has become too long;
// nil if the run does not end for such a reason.
func (s *Scope) Limit() *event.Failure {
	if s.run.state.CancelRequested || s.run.deadlock != nil {
		return nil
	}
	return s.run.state.Limit
}

// NewScope returns a scope that ends when parent does; a nil parent means
// never. It counts for the run of b.
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

// NewDeadline is NewScope with an end of its own: at due the scope ends with
// ErrTimeout. It costs one wait in the log.
func (b *Branch) NewDeadline(parent *Scope, due time.Time) *Scope {
	s := b.NewScope(parent)
	if s.err == nil {
		b.limit(s, due, 0)
	}
	return s
}

// NewTimeout is NewDeadline with the time from now until the end.
func (b *Branch) NewTimeout(parent *Scope, after time.Duration) *Scope {
	due := b.Until(after)
	s := b.NewScope(parent)
	if s.err == nil {
		b.limit(s, due, after)
	}
	return s
}

// limit ends the scope at due with ErrTimeout, whose text says that it had the time that
// was asked for; 0: as much as the log says.
func (b *Branch) limit(s *Scope, due time.Time, asked time.Duration) {
	s.after = max(asked, 0)
	if !due.After(b.run.now) {
		s.timedOut()
		return
	}
	op := b.newWait(s, event.WaitDeadline, b.Key("timeout"), "", due)
	op.limits, s.due = s, b.run.state.Open(op.Ref).Due // as it is recorded
	// Recorded are whole milliseconds, from a now without fractions: less than two more than
	// was asked for (see Until). Another time is that of code that was changed since, and
	// the one in the log counts: the text stays as it was.
	recorded := s.due.Sub(b.run.present())
	if more := recorded - asked; s != &b.run.root && (asked <= 0 || more < 0 || more >= 2*time.Millisecond) {
		s.after = max(recorded, 0) // a log that somebody has changed may say that it was over before it began
	}
}

// timedOut ends the scope because its own time is over.
func (s *Scope) timedOut() { s.cancel(&timeoutError{s == &s.run.root, s.after}) }

// Cancel ends the scope with ErrCanceled. It may be called from any branch of
// the run, and more than once; once the run has ended or is being unwound it
// does nothing.
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

// cancel ends the scope and those below it, parents first, and then what they
// were doing, in order of creation. Running steps are only told: their recorded
// outcome decides. No code of the user's runs meanwhile.
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
