package replay

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

type scopeError struct {
	text string
	is   error
}

func (e *scopeError) Error() string        { return e.text }
func (e *scopeError) Is(target error) bool { return target == e.is }

// The ways in which a scope ends.
var (
	ErrCanceled error = &scopeError{"workflow: canceled", context.Canceled}
	ErrTimeout  error = &scopeError{"workflow: timed out", context.DeadlineExceeded}
)

// Scope is what can be canceled at once: operations and the scopes below it.
type Scope struct {
	run      *Run
	parent   *Scope
	children []*Scope
	err      error
	ended    Promise
	// first and last of the operations that are not resolved, in order of creation
	first, last *Op
	deadline    *Op
}

// Err returns nil, ErrCanceled or ErrTimeout.
func (s *Scope) Err() error { return s.err }

// NewScope returns a scope that ends when parent does; a nil parent means
// never. It counts for the run of b.
func (b *Branch) NewScope(parent *Scope) *Scope {
	b.enter()
	s := &Scope{run: b.run, parent: parent}
	if parent == nil {
		return s
	}
	if parent.err != nil {
		s.err = parent.err
		s.ended.done = true
		return s
	}
	parent.children = append(parent.children, s)
	return s
}

// NewDeadline is NewScope with an end of its own: at due the scope ends with
// ErrTimeout. It costs one wait in the log.
func (b *Branch) NewDeadline(parent *Scope, due time.Time) *Scope {
	s := b.NewScope(parent)
	switch {
	case s.err != nil:
	case !due.After(b.run.now):
		s.cancel(ErrTimeout)
	default:
		s.deadline = b.newWait(s, event.WaitDeadline, b.Key("timeout"), "", due)
		s.deadline.onDue = func() { s.cancel(ErrTimeout) }
	}
	return s
}

// Cancel ends the scope with ErrCanceled. It may be called from any branch of
// the run, and more than once.
func (s *Scope) Cancel() {
	r := s.run
	if r.dying || r.err != nil {
		return // the run is being unwound: deferred calls have nothing left to do
	}
	if r.current == nil {
		panic("workflow: a CancelFunc was called from outside of the workflow's code")
	}
	s.cancel(ErrCanceled)
}

// cancel ends the scope and those below it, parents first, and then what they
// were doing, in order of creation. Running steps are only told: their recorded
// outcome decides.
func (s *Scope) cancel(err error) {
	if s.err != nil {
		return
	}
	if s.parent != nil {
		s.parent.children = slices.DeleteFunc(s.parent.children, func(c *Scope) bool { return c == s })
	}
	scopes := s.mark(err, nil)
	var ops []*Op
	for _, sc := range scopes {
		for op := sc.first; op != nil; op = op.next {
			ops = append(ops, op)
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
	for _, c := range s.children {
		if c.err == nil {
			all = c.mark(err, all)
		}
	}
	s.children = nil
	return all
}

// add appends op to the operations that are not resolved.
func (s *Scope) add(op *Op) {
	op.scope, op.prev = s, s.last
	if s.last == nil {
		s.first = op
	} else {
		s.last.next = op
	}
	s.last = op
}

func (s *Scope) remove(op *Op) {
	if op.prev == nil {
		s.first = op.next
	} else {
		op.prev.next = op.next
	}
	if op.next == nil {
		s.last = op.prev
	} else {
		op.next.prev = op.prev
	}
	op.prev, op.next = nil, nil
}
