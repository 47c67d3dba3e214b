package replay

import (
	"slices"
	"strconv"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// Handler answers the asks with one name.
type Handler struct {
	// Validate returns the reason if an ask is refused, and nil otherwise. It is called once for
	// each ask, when the ask arrives, and must not have side effects.
	Validate func(payload []byte) *event.Failure
	// Answer is the code that answers an ask. It runs in a new branch for each ask.
	Answer func(b *Branch, payload []byte) ([]byte, *event.Failure)

	path   string
	opened *Trace
	n      int // number of answers that have begun
}

// asks contains the asks that a run has received.
type asks struct {
	handlers map[string]*Handler
	waiting  []*event.Event // asks without a handler, in order
	open     int            // number of asks that are being answered
	closed   bool           // whether new asks wait
	answered subscribers    // notified when no ask is being answered
}

// Handle makes h answer the asks of the given name, including asks that wait. A second call
// replaces the handler.
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

// handler returns the handler for a name, or nil if there is none.
func (r *Run) handler(name string) *Handler {
	if r.asks.closed || r.windup.begun || r.ended || r.dying || r.err != nil {
		return nil
	}
	return r.asks.handlers[name]
}

// Judge validates an ask that has arrived and is not recorded. handled is false if there is no
// handler. The ask then waits in the log.
func (r *Run) Judge(name string, payload []byte) (refusal *event.Failure, handled bool) {
	h := r.handler(name)
	if h == nil {
		return nil, false
	}
	return r.validate(h, name, payload), true
}

// validate calls the user's function that validates an ask.
func (r *Run) validate(h *Handler, name string, payload []byte) (refusal *event.Failure) {
	what := "the validation of ask " + name
	if c := r.aside(what, func() { refusal = h.Validate(slices.Clone(payload)) }); c != nil {
		return failure.Panicked("panic in "+what+": "+c.text, c.stack)
	}
	return refusal
}

// aside calls a user function on a separate coroutine. It returns nil if the function has returned,
// and otherwise how it ended. So neither a panic nor a Goexit of the function ends the driver or a
// branch. The function must not wait. Errors name it by what.
func (r *Run) aside(what string, f func()) *crash {
	was := r.pure
	r.pure = what
	co := r.pool.get()
	co.job = func(*Branch) { f() }
	co.resume()
	r.pure = was
	c := co.crash
	if c == nil && co.exited {
		c = &crashUnknown
	}
	r.pool.put(co)
	return c
}

// question passes an ask in the log to its handler, or lets it wait.
func (r *Run) question(e *event.Event) {
	h := r.handler(e.Name)
	switch {
	case h == nil:
		r.asks.waiting = append(r.asks.waiting, e)
	case e.Type == event.AskAccepted || !r.refuse(h, e):
		r.answer(h, e)
	}
}

// refuse validates an ask that had to wait for its handler, and reports whether it is refused. In a
// replay the log determines the result.
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

// answer opens the branch that answers an ask.
func (r *Run) answer(h *Handler, e *event.Event) {
	h.n++
	r.asks.open++
	path := h.path + "/answer#" + strconv.Itoa(h.n)
	r.open(path, func(b *Branch) {
		b.answers = true
		b.received(e)
		payload, failed := h.Answer(b, slices.Clone(e.Payload))
		b.enter()
		asked := event.Event{Type: event.AskAnswered, Ref: e.Seq, Key: string(e.Item), Payload: payload, Failure: failed}
		r.command(&asked, func(rec *event.Event) string { return diffResult(rec, &asked) })
		if r.asks.open--; r.asks.open == 0 {
			r.asks.answered.notifyAll(nil)
		}
	}).opened = h.opened
}

const waitsForAnswers = "the answers to the questions"

// CloseAsks makes later asks wait for a call of [Branch.Handle], or for the run as which this run
// continues. It blocks until all accepted asks are answered.
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

// AskNotice requests a notice from another run when a caller should read a value of that run again;
// see [event.Notice]. The scope must not have ended. The operation ends with the notice, or with a
// failure if the request is refused.
func (b *Branch) AskNotice(s *Scope, key string, to event.RunID, payload []byte) *Op {
	b.enter()
	asked := event.Event{
		Type: event.MessageSent, Name: event.NoticeTopic, Key: key, Next: to, Item: event.NoticeItem(b.run.id, key), Payload: payload,
	}
	return b.run.newOp(s, b.run.command(&asked, func(rec *event.Event) string { return DiffJSON(rec.Payload, payload) }))
}

// AwaitNotice blocks until the operation has ended. It returns the error of the scope if the scope
// ends first, or ErrNotInTime when due is reached. With a zero due it waits without limit.
func (b *Branch) AwaitNotice(s *Scope, op *Op, what string, due time.Time) error {
	b.enter()
	switch {
	case op.done:
		return nil
	case s.err != nil:
		return s.err
	case due.IsZero():
		if won, _ := b.wait(what, "", op, &s.ended); won == 1 {
			return s.err
		}
		return nil
	case !due.After(b.run.now):
		return ErrNotInTime
	}
	timer := b.newWait(s, event.WaitSleep, b.Key("after"), "", due)
	won, _ := b.wait(what, "", op, &s.ended, timer)
	switch {
	case won != 0 && s.err != nil:
		return s.err
	case won == 2:
		return ErrNotInTime
	}
	b.endWait(timer, event.OutcomeCanceled)
	return nil
}
