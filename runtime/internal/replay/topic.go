package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// topic holds the messages of one name that the code has not taken yet, or the
// branches that wait for one.
type topic struct {
	unread []*event.Event
	subs   subscribers
}

func (t *topic) subscribe(s *subscription) { t.subs.subscribe(s) }

// push gives the message to whoever has waited longest, or keeps it.
func (t *topic) push(e *event.Event) {
	for told := true; told; {
		var taken bool
		if taken, told = t.subs.tell(e); taken {
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

// Unread calls yield for each message that the code has not taken, in the order
// of the log.
func (r *Run) Unread(yield func(*event.Event) bool) {
	var all []*event.Event
	for _, t := range r.topics {
		all = append(all, t.unread...)
	}
	for i := range r.control.late {
		if e := &r.control.late[i]; e.Type == event.MessageReceived {
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
	if won, v := b.wait("a message of topic ", name, op, t); won == 1 {
		b.endWait(op, event.OutcomeReceived)
		return v.(*event.Event), nil
	}
	if op.Canceled != nil {
		return nil, op.Canceled
	}
	return nil, ErrTimeout
}
