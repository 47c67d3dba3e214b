package replay

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// topic holds the messages of one name that the code has not taken yet, or the
// branches that wait for one.
type topic struct {
	unread []*event.Event
	subs   []subscription
}

func (t *topic) subscribe(s subscriber, index int) { t.subs = append(t.subs, subscription{s, index}) }

func (t *topic) unsubscribe(s subscriber) { t.subs = removeSubscriber(t.subs, s) }

// push gives the message to whoever has waited longest, or keeps it.
func (t *topic) push(e *event.Event) {
	for len(t.subs) > 0 {
		s := t.subs[0]
		t.subs = t.subs[1:]
		if s.to.notify(s.index, e) {
			return
		}
	}
	t.unread = append(t.unread, e)
}

func (t *topic) pop() *event.Event {
	e := t.unread[0]
	t.unread[0] = nil
	t.unread = t.unread[1:]
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

// Unread calls yield for each message that the code has not taken, by topic in
// no particular order, and within a topic in the order in which they came.
func (r *Run) Unread(yield func(*event.Event) bool) {
	for _, t := range r.topics {
		for _, e := range t.unread {
			if !yield(e) {
				return
			}
		}
	}
}

// TryReceive takes a message that is there already, or returns nil.
func (b *Branch) TryReceive(name string) *event.Event {
	b.enter()
	if t := b.run.topic(name); len(t.unread) > 0 {
		return t.pop()
	}
	return nil
}

// Receive takes the next message of a topic. A zero due waits without limit;
// otherwise the error is ErrTimeout when it is reached. It returns the error of
// the scope if that ends first.
func (b *Branch) Receive(s *Scope, name string, due time.Time) (*event.Event, error) {
	b.enter()
	if s.err != nil {
		return nil, s.err
	}
	t := b.run.topic(name)
	if len(t.unread) > 0 {
		return t.pop(), nil
	}
	if !due.IsZero() && !due.After(b.run.now) {
		return nil, ErrTimeout
	}
	op := b.newWait(s, event.WaitMessage, b.Key("receive."+name), name, due)
	if won, v := b.wait("a message of topic "+name, op, t); won == 1 {
		b.endWait(op, event.OutcomeReceived)
		return v.(*event.Event), nil
	}
	if op.Canceled != nil {
		return nil, op.Canceled
	}
	return nil, ErrTimeout
}

// Case is one of the things a Select waits for; exactly one field is set.
type Case struct {
	Promise *Promise
	Topic   string
	Due     time.Time
}

// Select blocks until one of the cases has something, and takes it; from the
// others nothing is taken. If several have something at once, the first in the
// list wins. It returns the index of the winner, and the message if it was a
// topic. It returns the error of the scope if that ends first.
func (b *Branch) Select(s *Scope, cases []Case) (int, *event.Event, error) {
	b.enter()
	for i, c := range cases {
		switch {
		case c.Promise != nil:
			if c.Promise.done {
				return i, nil, nil
			}
		case c.Topic != "":
			if t := b.run.topic(c.Topic); len(t.unread) > 0 {
				return i, t.pop(), nil
			}
		case !c.Due.After(b.run.now):
			return i, nil, nil
		}
	}
	if s.err != nil {
		return -1, nil, s.err
	}
	sources, ops := b.openCases(s, cases)
	won, v := b.wait("select", append(sources, &s.ended)...)
	// What was taken before the scope ended stays taken, even if this branch
	// runs only after that.
	if won == len(cases) || ops[won] != nil && ops[won].Canceled != nil && cases[won].Topic == "" {
		return -1, nil, s.err
	}
	for i, op := range ops {
		switch {
		case op == nil:
		case i == won && cases[i].Topic != "":
			b.endWait(op, event.OutcomeReceived)
		default:
			b.endWait(op, event.OutcomeCanceled)
		}
	}
	msg, _ := v.(*event.Event)
	if cases[won].Topic == "" {
		msg = nil
	}
	return won, msg, nil
}

// openCases creates the waits of the cases that need one.
func (b *Branch) openCases(s *Scope, cases []Case) ([]source, []*Op) {
	sources := make([]source, len(cases))
	ops := make([]*Op, len(cases))
	for i, c := range cases {
		switch {
		case c.Promise != nil:
			sources[i] = c.Promise
		case c.Topic != "":
			ops[i] = b.newWait(s, event.WaitMessage, b.Key("receive."+c.Topic), c.Topic, time.Time{})
			sources[i] = b.run.topic(c.Topic)
		default:
			ops[i] = b.newWait(s, event.WaitSleep, b.Key("after"), "", c.Due)
			sources[i] = ops[i]
		}
	}
	return sources, ops
}
