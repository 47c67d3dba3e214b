package replay

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

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
	if i, msg, ok := b.ready(cases); ok {
		return i, msg, nil
	}
	if s.err != nil {
		return -1, nil, s.err
	}
	sources, ops := b.openCases(s, cases)
	won, v := b.wait("select", "", append(sources, &s.ended)...)
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
	if cases[won].Topic == "" {
		return won, nil, nil
	}
	return won, v.(*event.Event), nil
}

// ready takes from the first of the cases that has something already.
func (b *Branch) ready(cases []Case) (int, *event.Event, bool) {
	for i, c := range cases {
		switch {
		case c.Promise != nil:
			if c.Promise.done {
				return i, nil, true
			}
		case c.Topic != "":
			if t := b.run.topic(c.Topic); len(t.unread) > 0 {
				return i, t.pop(), true
			}
		case !c.Due.After(b.run.now):
			return i, nil, true
		}
	}
	return -1, nil, false
}

// openCases creates the waits of the cases that need one.
func (b *Branch) openCases(s *Scope, cases []Case) ([]source, []*Op) {
	sources := make([]source, len(cases), len(cases)+1)
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
