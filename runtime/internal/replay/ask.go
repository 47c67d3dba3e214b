package replay

import (
	"slices"
	"strconv"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Handler answers what others ask under one name.
type Handler struct {
	// Validate says why a question is refused; nil: it is not. It is called once for
	// each question, when that comes, and must not change anything.
	Validate func(payload []byte) *event.Failure
	// Answer is the code that answers, in a branch of its own for each question.
	Answer func(b *Branch, payload []byte) ([]byte, *event.Failure)

	path   string
	opened *Trace
	n      int // answers that were begun
}

// asks are the questions of a run.
type asks struct {
	handlers map[string]*Handler
	waiting  []*event.Event // nothing can answer them yet, in order
	open     int            // being answered
	closed   bool           // nothing is accepted
	answered notifier       // tells that none is open
}

// Handle answers what is asked under the name from now on, also what is waiting
// already. A second call replaces the handler.
func (b *Branch) Handle(name string, h *Handler) {
	b.enter()
	r := b.run
	h.path, h.opened = b.Key("ask."+name), Here(1)
	if r.asks.handlers == nil {
		r.asks.handlers = map[string]*Handler{}
	}
	r.asks.handlers[name] = h
	r.asks.closed = false
	waiting := r.asks.waiting
	r.asks.waiting = nil
	for _, e := range waiting {
		if e.Name == name {
			r.question(e)
		} else {
			r.asks.waiting = append(r.asks.waiting, e)
		}
	}
}

// handler returns who answers under a name, nil if nobody does.
func (r *Run) handler(name string) *Handler {
	if r.asks.closed || r.windup.begun || r.ended || r.dying || r.err != nil {
		return nil
	}
	return r.asks.handlers[name]
}

// Judge validates a question that has come and is not recorded yet. handled is false
// if nobody can: then it waits in the log.
func (r *Run) Judge(name string, payload []byte) (refusal *event.Failure, handled bool) {
	h := r.handler(name)
	if h == nil {
		return nil, false
	}
	return r.validate(h, name, payload), true
}

// validate calls the users' function that judges a question.
func (r *Run) validate(h *Handler, name string, payload []byte) (refusal *event.Failure) {
	what := "the validation of ask " + name
	if c := r.aside(what, func() { refusal = h.Validate(slices.Clone(payload)) }); c != nil {
		return failure.Panicked("panic in "+what+": "+c.text, c.stack)
	}
	return refusal
}

// aside calls a function of the users' on a coroutine of its own, and returns how it
// ended if it did not return: whatever it does, it ends neither the driver nor a branch.
// It may not wait; what names it in the error.
func (r *Run) aside(what string, f func()) *crash {
	was := r.pure
	r.pure = what
	co := r.pool.get()
	co.job = f
	co.resume()
	r.pure = was
	c := co.crash
	if c == nil && co.exited {
		c = &crashUnknown
	}
	r.pool.put(co)
	return c
}

// question takes a question that is in the log.
func (r *Run) question(e *event.Event) {
	h := r.handler(e.Name)
	switch {
	case h == nil:
		r.asks.waiting = append(r.asks.waiting, e)
	case e.Type == event.AskAccepted || !r.refuse(h, e):
		r.answer(h, e)
	}
}

// refuse validates a question that had to wait, and reports whether it was refused.
// In a replay the log says so.
func (r *Run) refuse(h *Handler, e *event.Event) bool {
	r.halt()
	asked := event.Event{Type: event.AskRefused, Ref: e.Seq, Key: string(e.Item)}
	if len(r.feed) > 0 {
		if rec := &r.feed[0]; rec.Type != event.AskRefused || rec.Ref != e.Seq {
			return false
		}
	} else if asked.Failure = r.validate(h, e.Name, e.Payload); asked.Failure == nil {
		return false
	}
	r.command(&asked, nil)
	return true
}

// answer opens the branch that answers a question.
func (r *Run) answer(h *Handler, e *event.Event) {
	h.n++
	r.asks.open++
	path := h.path + "/answer#" + strconv.Itoa(h.n)
	r.open(path, func(b *Branch) {
		b.answers = true
		payload, failed := h.Answer(b, slices.Clone(e.Payload))
		b.enter()
		asked := event.Event{Type: event.AskAnswered, Ref: e.Seq, Key: string(e.Item), Payload: payload, Failure: failed}
		r.command(&asked, func(rec *event.Event) string {
			if rec.Failure != nil && failed != nil && rec.Failure.Code != failed.Code {
				return describeFailures(rec.Failure, failed)
			}
			return sameJSON(rec.Payload, payload)
		})
		if r.asks.open--; r.asks.open == 0 {
			r.asks.answered.tell()
		}
	}).opened = h.opened
}

const waitsForAnswers = "the answers to what was asked"

// CloseAsks lets what is asked from now on wait for a [Branch.Handle], or for the run
// that this one continues as, and blocks until what was accepted is answered.
func (b *Branch) CloseAsks() {
	b.enter()
	if b.answers {
		panic(&MisuseError{"workflow: CloseAsks was called by the code that answers a question: it would wait for itself"})
	}
	a := &b.run.asks
	a.closed = true
	for a.open > 0 {
		b.wait(waitsForAnswers, "", &a.answered)
	}
}
