package replay

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Panic is the value with which the code of a branch panicked.
type Panic struct {
	Branch string // path of the branch
	Opened string // position at which it was opened, as file:line; empty for the main branch
	Value  any
	Stack  []byte
}

// open adds a branch. Its code begins when the driver resumes the branch.
func (r *Run) open(path string, f func(*Branch)) *Branch {
	b := &Branch{run: r, path: path, code: f}
	r.branches.push(&b.place, b)
	r.wake(b)
	return b
}

func (r *Run) wake(b *Branch) {
	if b.runnable.in == nil && !b.finished {
		r.queue.push(&b.runnable, b)
	}
}

// drain resumes runnable branches, first in first out, until all are blocked or the run has ended.
func (r *Run) drain() {
	for r.err == nil && !r.ended && r.control.halted == nil {
		b := r.queue.pop()
		if b == nil {
			return
		}
		r.resume(b)
	}
}

// resume runs a branch until it blocks or ends.
func (r *Run) resume(b *Branch) {
	if b.co == nil {
		b.co = r.pool.get()
		b.co.job, b.co.branch = b.code, b
	}
	r.current = b
	ended := b.co.resume()
	r.current = nil
	if r.strayed(); !ended {
		return
	}
	co := b.co
	crash := co.crash
	if co.exited && crash == nil && !co.dying {
		crash = &crashUnknown
	}
	r.forget(b)
	r.pool.put(co)
	switch {
	case r.dying || r.err != nil || r.ended:
	case b.failed != nil:
		r.crashed(Ending{Type: event.RunFailed, Failure: b.failed})
	case crash != nil:
		r.crashed(panicEnding(crash, &Panic{Branch: b.path, Opened: b.opened.position(), Value: crash.value, Stack: crash.stack}))
	}
}

// crashUnknown describes the end of a branch if printing its panic value ends the coroutine.
var crashUnknown = crash{text: "its value calls runtime.Goexit when it is printed"}

func panicEnding(c *crash, p *Panic) Ending {
	if rp, ok := p.Value.(*recordPanicError); ok {
		p.Stack = []byte(rp.failure.Stack)
	}
	stack := p.Stack
	if p.Opened != "" {
		stack = fmt.Appendf(stack, "branch %s was opened at\n\t%s\n", p.Branch, p.Opened)
	}
	return Ending{Type: event.RunFailed, Failure: failure.Panicked(fmt.Sprintf("panic in branch %s: %s", p.Branch, c.text), stack)}
}

// forget removes a branch that has ended.
func (r *Run) forget(b *Branch) {
	b.finished = true
	b.waiter.over()
	b.place.remove()
	b.runnable.remove()
	b.co, b.code, b.ordinals, b.rng, b.chacha = nil, nil, ordinals{}, nil, nil
	if r.branches.n == 1 {
		r.windup.alone.tell()
	}
}

// unwind ends all branches, newest first. The run cannot continue after that.
func (r *Run) unwind() {
	r.dying = true
	for r.branches.last != nil {
		b := r.branches.last.item
		if b.co == nil {
			r.forget(b) // the code of the branch has not begun
			continue
		}
		r.resume(b)
	}
}

// unwindBut ends all branches except keep, newest first, while the run continues.
func (r *Run) unwindBut(keep *Branch) {
	r.dying = true
	for n := r.branches.last; n != nil; {
		b := n.item
		n = n.prev
		switch {
		case b == keep:
		case b.co == nil:
			r.forget(b)
		default:
			r.resume(b)
		}
	}
	r.dying = false
}

// Branches returns the number of open branches.
func (r *Run) Branches() int { return r.branches.n }

// Blocked describes the wait of each open branch with its position, oldest first.
func (r *Run) Blocked() []string {
	var all []string
	for n := r.branches.first; n != nil; n = n.next {
		b := n.item
		what := "nothing: it can continue"
		if b.waitsFor != "" {
			what = b.waitsFor + b.waitsForKey
			if at := r.where(b); at != "" {
				what += " at " + at
			}
		}
		all = append(all, fmt.Sprintf("branch %s waits for %s", b.path, what))
	}
	return all
}

// where returns the position of the call that blocks a branch. It resumes the branch to get the
// position.
func (r *Run) where(b *Branch) string {
	if r.current != nil || r.dying {
		return ""
	}
	r.asking = true
	b.co.resume()
	r.asking = false
	return r.position
}
