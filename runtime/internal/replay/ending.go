package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Ending describes the end of a run. Type is terminal, and the other fields are as in
// [event.Event].
type Ending struct {
	Type    event.Type
	Payload []byte
	Failure *event.Failure
	Queue   string // queue in which the run continues as new; empty means its own queue
}

func (r *Run) requestCancel(e *event.Event) {
	switch {
	case r.state.Run != event.StatePending:
		r.root.cancel(ErrCanceled)
	case len(r.feed) > 0 && r.feed[0].Type.Terminal() && r.feed[0].By != "":
		// A client has ended the run instead of a worker, and its event is no command.
	case e.Failure != nil:
		r.end(Ending{Type: event.RunFailed, Failure: e.Failure})
	default:
		r.end(Ending{Type: event.RunCanceled, Failure: &event.Failure{Code: event.CodeCanceled, Message: strings.TrimSuffix("canceled before it started: "+e.Reason, ": ")}})
	}
}

// end appends the terminal event of the ending to the log.
func (r *Run) end(how Ending) {
	r.strayed()
	r.abortOnError()
	asked := event.Event{Type: how.Type, Payload: how.Payload, Failure: how.Failure}
	if how.Type == event.RunContinued {
		asked.Next = event.NextRunID(r.id, r.state.Seq+1, r.now)
		if how.Queue != "" {
			asked.Spec = &event.Spec{Queue: how.Queue}
		}
	}
	rec := r.command(&asked, func(rec *event.Event) string { return diffResult(rec, &asked) })
	r.ended = rec != nil
}

// diffResult returns the difference of two results. It returns "" if they are equivalent.
func diffResult(recorded, asked *event.Event) string {
	if was, is := recorded.Failure, asked.Failure; was != nil && is != nil && was.Code != is.Code {
		return fmt.Sprintf("- %s: %s\n+ %s: %s", was.Code, was.Message, is.Code, is.Message)
	}
	return DiffJSON(recorded.Payload, asked.Payload)
}

// fallen returns the ending of a run whose code has returned how. If the run was deadlocked, the
// ending is the failure of the deadlock.
func (r *Run) fallen(how Ending) Ending {
	if r.deadlock == nil || how.Failure == r.deadlock {
		return how
	}
	f := *r.deadlock
	if how.Failure != nil {
		f.Causes = append(slices.Clip(f.Causes), how.Failure)
	}
	return Ending{Type: event.RunFailed, Failure: &f}
}

// crashed ends the run because a branch has panicked. The registered compensations are executed
// nevertheless. The other branches are unwound before, because they may wait for events that never
// happen.
func (r *Run) crashed(how Ending) {
	switch {
	case r.windup.undo != nil:
		r.windup.undo.finish(how.Failure)
	case r.windup.begun:
		r.unwindBut(r.windup.by)
	case r.undos.n > 0:
		r.windup.begun = true
		r.unwindBut(nil)
		r.open(r.name+"/undo", func(b *Branch) {
			ending := b.compensate(r.fallen(how))
			b.awaitClosing()
			r.end(ending)
		})
	default:
		r.end(r.fallen(how))
	}
}

// crashUnknown describes the end of a branch if printing its panic value ends the coroutine.
var crashUnknown = crash{text: "its value calls runtime.Goexit when it is printed"}

// panicked returns the ending of a run whose branch has panicked.
func (b *Branch) panicked(c *crash) Ending {
	stack := c.stack
	if p, ok := c.value.(*recordPanicError); ok {
		stack = []byte(p.failure.Stack)
	}
	if opened := b.opened.position(); opened != "" {
		stack = fmt.Appendf(stack, "branch %s was opened at\n\t%s\n", b.path, opened)
	}
	return Ending{Type: event.RunFailed, Failure: failure.Panicked(fmt.Sprintf("panic in branch %s: %s", b.path, c.text), stack)}
}

// forget removes a branch that has ended.
func (r *Run) forget(b *Branch) {
	b.finished = true
	b.waiter.over()
	b.place.remove()
	b.runnable.remove()
	b.co, b.code, b.ordinals, b.rng, b.chacha = nil, nil, ordinals{}, nil, nil
	if r.branches.n == 1 {
		r.windup.alone.notifyAll(nil)
	}
}

// unwind ends all branches, newest first. The run cannot continue after that.
func (r *Run) unwind() {
	r.unwindBut(nil)
	r.dying = true
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
			r.forget(b) // the code of the branch has not begun
		default:
			r.resume(b)
		}
	}
	r.dying = false
}
