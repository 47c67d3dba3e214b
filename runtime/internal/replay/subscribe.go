package replay

import "slices"

// subscription registers a subscriber with one of the sources for which it waits. index is the
// index of the source.
type subscription struct {
	node  node[subscription]
	to    subscriber
	index int
}

// subscriber is notified when a source to which it has subscribed has a value. notify reports false
// if the subscriber does not need a value any longer. The value then goes to another subscriber.
type subscriber interface {
	notify(index int, value any) (taken bool)
}

// A source is an object for which a branch can wait.
type source interface {
	subscribe(s *subscription)
}

// subscribers are notified in the order in which they subscribed.
type subscribers struct{ list list[subscription] }

func (l *subscribers) subscribe(s *subscription) { l.list.push(&s.node, s) }

// tell removes the oldest subscription and notifies its subscriber. told is false if there is no
// subscription. The notified subscriber may remove other subscriptions.
func (l *subscribers) tell(value any) (taken, told bool) {
	s := l.list.pop()
	if s == nil {
		return false, false
	}
	return s.to.notify(s.index, value), true
}

// waiter is the wait of a blocked branch. The first of its sources with a value wins, and the wait
// takes nothing from the other sources.
type waiter struct {
	b     *Branch
	won   int // index of the winning source, or one of the constants below
	value any
	few   [2]subscription // memory for the subscriptions of most waits
	// outside is set if one of the sources gets its value from outside of the code. The run counts
	// the branches with such waits.
	outside bool
}

// wonNone means that no source has won so far. wonReleased means that the wait ended because it was
// part of a deadlock.
const wonNone, wonReleased = -1, -2

// release ends the wait without a value.
func (w *waiter) release() {
	w.won = wonReleased
	w.b.run.wake(w.b)
}

// over removes the wait from the run's count of waits for outside events.
func (w *waiter) over() {
	if w.outside {
		w.outside = false
		w.b.run.outside--
	}
}

func (w *waiter) notify(index int, value any) bool {
	if w.won != wonNone || w.b.finished {
		return false
	}
	w.won, w.value = index, value
	w.b.run.wake(w.b)
	return true
}

// wait blocks the branch until one of the sources has a value. It returns the index of the source
// and the value. No source may have a value at the call. The index is wonReleased if the wait is
// part of a deadlock. Reports describe the wait by what and which.
func (b *Branch) wait(what, which string, sources ...source) (int, any) {
	w := &b.waiter
	w.b, w.won = b, wonNone
	subs := w.few[:]
	if len(sources) > len(subs) {
		subs = make([]subscription, len(sources))
	}
	for i, s := range sources {
		subs[i].to, subs[i].index = w, i
		s.subscribe(&subs[i])
	}
	b.waitsFor, b.waitsForKey = what, which
	w.outside = slices.ContainsFunc(sources, func(s source) bool { return outside(b.run, s) })
	if w.outside {
		b.run.outside++
	}
	for w.won == wonNone {
		b.suspend()
	}
	w.over()
	b.waitsFor, b.waitsForKey, b.awaits = "", "", awaits{}
	for i := range sources {
		subs[i].node.remove()
	}
	value := w.value
	w.value = nil
	return w.won, value
}

// list is a doubly linked list whose nodes are fields of its items. So adding and removing an item
// take constant time and do not allocate. The zero list is empty.
type list[T any] struct {
	first, last *node[T]
	n           int
}

// node is the node of an item in a list. The zero node is in no list.
type node[T any] struct {
	item       *T
	in         *list[T]
	prev, next *node[T]
}

// push appends item. Its node n must not be in a list.
func (l *list[T]) push(n *node[T], item *T) {
	*n = node[T]{item: item, in: l, prev: l.last}
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	l.n++
}

// pop removes and returns the first item. It returns nil if the list is empty.
func (l *list[T]) pop() *T {
	if l.first == nil {
		return nil
	}
	item := l.first.item
	l.first.remove()
	return item
}

// remove removes the item from its list. It does nothing if the item is in no list.
func (n *node[T]) remove() {
	if n.in == nil {
		return
	}
	if n.prev == nil {
		n.in.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		n.in.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.in.n--
	*n = node[T]{}
}
