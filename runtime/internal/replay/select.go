package replay

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// Case is one of the alternatives of a Select. Exactly one field is set.
type Case struct {
	Promise *Promise
	Topic   string
	Hook    *Hook
	Due     time.Time
}

// inbox returns the topic of a case for a message or a hook payload, with the kind of its wait and
// its name. The topic is nil for other cases.
func (c *Case) inbox(r *Run) (*topic, event.WaitKind, string) {
	switch {
	case c.Topic != "":
		return r.topic(c.Topic), event.WaitMessage, c.Topic
	case c.Hook != nil:
		return &c.Hook.topic, event.WaitHook, c.Hook.Name
	}
	return nil, 0, ""
}

// Select blocks until one of the cases has a value, and takes that value. It takes nothing from the
// other cases. If several cases have a value, the first in the list wins. Select returns the index
// of the winner. If the winner is a topic or a hook, Select also returns the message, which is nil
// if the hook is closed. If the scope ends first, Select returns the error of the scope.
func (b *Branch) Select(s *Scope, cases []Case) (int, *event.Event, error) {
	b.enter()
	if i, msg, ok := b.ready(cases); ok {
		b.took(cases[i].Hook, msg)
		return i, msg, nil
	}
	if s.err != nil {
		return -1, nil, s.err
	}
	sources, ops := b.openCases(s, cases)
	b.awaits = awaits{scope: s, cases: cases, selects: true}
	won, v := b.wait("select", "", append(sources, &s.ended)...)
	if won == wonReleased {
		return -1, nil, ErrDeadlock
	}
	// If a value was taken before the scope ended, Select returns it even if this branch runs only
	// after the end of the scope.
	message := won < len(cases) && (cases[won].Topic != "" || cases[won].Hook != nil)
	if won == len(cases) || ops[won] != nil && ops[won].Canceled != nil && !message {
		return -1, nil, s.err
	}
	var got *event.Event
	if message {
		got = v.(*event.Event)
		b.took(cases[won].Hook, got)
	}
	for i, op := range ops {
		switch {
		case op == nil:
		case i == won && message:
			b.endWait(op, outcomeOf(got))
		default:
			b.endWait(op, event.OutcomeCanceled)
		}
	}
	return won, got, nil
}

// ready takes the value of the first case that has a value. It reports false if none has.
func (b *Branch) ready(cases []Case) (int, *event.Event, bool) {
	for i, c := range cases {
		switch {
		case c.Promise != nil:
			if c.Promise.done {
				return i, nil, true
			}
		case c.Topic != "" || c.Hook != nil:
			t, _, _ := c.inbox(b.run)
			if len(t.unread) > 0 {
				return i, t.pop(), true
			}
			if t.closed {
				return i, nil, true
			}
		case !c.Due.After(b.run.now):
			return i, nil, true
		}
	}
	return -1, nil, false
}

// openCases creates the waits of the cases that need a wait in the log.
func (b *Branch) openCases(s *Scope, cases []Case) ([]source, []*Op) {
	sources := make([]source, len(cases), len(cases)+1)
	ops := make([]*Op, len(cases))
	for i, c := range cases {
		switch {
		case c.Promise != nil:
			sources[i] = c.Promise
		case c.Topic != "" || c.Hook != nil:
			t, kind, name := c.inbox(b.run)
			ops[i] = b.newWait(s, kind, b.Key("receive."+name), name, time.Time{})
			sources[i] = t
		default:
			ops[i] = b.newWait(s, event.WaitSleep, b.Key("after"), "", c.Due)
			sources[i] = ops[i]
		}
	}
	return sources, ops
}
