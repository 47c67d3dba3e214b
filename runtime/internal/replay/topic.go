package replay

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// topic contains the messages of one name that the code has not received, or the branches that wait
// for a message.
type topic struct {
	subscribers
	unread []*event.Event
	closed bool // whether no further message will arrive
}

// close makes all waits for a message return.
func (t *topic) close() {
	t.closed = true
	t.notifyAll((*event.Event)(nil))
}

// push passes the message to the branch that has waited longest. If no branch waits, it keeps the
// message.
func (t *topic) push(e *event.Event) {
	for notified := true; notified; {
		var taken bool
		if taken, notified = t.notifyFirst(e); taken {
			return
		}
	}
	t.unread = append(t.unread, e)
}

func (t *topic) pop() *event.Event {
	e := t.unread[0]
	t.unread[0] = nil
	if t.unread = t.unread[1:]; len(t.unread) == 0 {
		t.unread = nil
	}
	return e
}

func (r *Run) topic(name string) *topic {
	t := r.topics[name]
	if t == nil {
		if r.topics == nil {
			r.topics = map[string]*topic{}
		}
		t = &topic{}
		r.topics[name] = t
	}
	return t
}

// Unread calls yield for each message, payload and ask that the code has not received, in the order
// of the log.
func (r *Run) Unread(yield func(*event.Event) bool) {
	all := append(slices.Clone(r.missed), r.asks.waiting...)
	for _, t := range r.topics {
		all = append(all, t.unread...)
	}
	for _, h := range r.hooks.open {
		all = append(all, h.unread...)
	}
	for i := range r.control.late {
		switch e := &r.control.late[i]; e.Type {
		case event.MessageReceived, event.HookReceived, event.HookMissed, event.AskReceived, event.AskAccepted:
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *event.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range all {
		if !yield(e) {
			return
		}
	}
}

// TryReceive returns the next message if it has arrived. Otherwise it returns nil.
func (b *Branch) TryReceive(name string) *event.Event {
	b.enter()
	t := b.run.topic(name)
	if len(t.unread) == 0 {
		return nil
	}
	e := t.pop()
	b.received(e)
	return e
}

// PutBack puts back a message that the code has received from a topic, so that it is the next
// message. If the code does not receive it again, the run as which this run continues receives it.
func (b *Branch) PutBack(name string, e *event.Event) {
	b.enter()
	t := b.run.topic(name)
	t.unread = slices.Insert(t.unread, 0, e)
}

// Receive returns the next message of a topic. With a zero due it waits without limit. Otherwise it
// returns ErrNotInTime when due is reached. If the scope ends first, it returns the error of the
// scope.
func (b *Branch) Receive(s *Scope, name string, due time.Time) (*event.Event, error) {
	b.enter()
	e, err := b.receive(s, b.run.topic(name), event.WaitMessage, name, due)
	b.received(e)
	return e, err
}

// ErrClosed is the error of a receive from a closed hook.
var ErrClosed = errors.New("the hook is closed")

// receive is the implementation of Receive and ReceiveHook.
func (b *Branch) receive(s *Scope, t *topic, kind event.WaitKind, name string, due time.Time) (*event.Event, error) {
	what := "a message of topic "
	if kind == event.WaitHook {
		what = "a payload of hook "
	}
	switch {
	case s.err != nil:
		return nil, s.err
	case len(t.unread) > 0:
		b.takes(what, name)
		return t.pop(), nil
	case t.closed:
		return nil, ErrClosed
	case !due.IsZero() && !due.After(b.run.now):
		return nil, ErrNotInTime
	}
	op := b.newWait(s, kind, b.Key("receive."+name), name, due)
	if won, v := b.wait(what, name, op, t); won == 1 {
		e := v.(*event.Event)
		b.endWait(op, outcomeOf(e))
		if e == nil {
			return nil, ErrClosed
		}
		b.takes(what, name)
		return e, nil
	}
	if op.Canceled != nil {
		return nil, op.Canceled
	}
	return nil, ErrNotInTime
}

// outcomeOf returns the outcome of a wait that has received e. If e is nil, the topic was closed.
func outcomeOf(e *event.Event) event.Outcome {
	if e == nil {
		return event.OutcomeCanceled
	}
	return event.OutcomeReceived
}

// losers lists the messages that were received by branches that had lost a race. If code calls
// First in a loop and opens a new receive in each iteration, it loses messages this way, and
// observes only an endless wait.
type losers struct{ all []loser }

type loser struct {
	makes *Promise
	text  string
}

// WatchLosers makes the run record the messages that losers of races receive. Each record reads the
// stack, so it is meant for tests.
func (r *Run) WatchLosers() {
	if r.losers == nil {
		r.losers = &losers{}
	}
}

// Losers describes the messages that were received by branches that had lost a race and whose
// results were not awaited afterwards. It contains each text once.
func (r *Run) Losers() []string {
	if r.losers == nil {
		return nil
	}
	var all []string
	for _, l := range r.losers.all {
		if l.makes.lost && !slices.Contains(all, l.text) {
			all = append(all, l.text)
		}
	}
	return all
}

// Makes records that the branch resolves the promise p.
func (b *Branch) Makes(p *Promise) { b.makes, p.maker = p, b }

// takes records that the branch has received a message, if it has lost a race.
func (b *Branch) takes(what, name string) {
	if l := b.run.losers; l != nil && b.makes != nil && b.makes.lost {
		l.all = append(l.all, loser{b.makes, what + name + " at " + here()})
	}
}
