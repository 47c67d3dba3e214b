package replay

import "slices"

// subscription is the interest of a subscriber in one of the sources for which it waits, with the
// index of that source.
type subscription struct {
	node  node[subscription]
	to    subscriber
	index int
}

// subscriber is notified when a source to which it subscribed has a value. taken is false if it no
// longer needs one; the value then goes to another subscriber.
type subscriber interface {
	notify(index int, value any) (taken bool)
}

// A source is something that a branch can wait for.
type source interface {
	subscribe(s *subscription)
}

// subscribers are notified in the order in which they subscribed.
type subscribers struct{ list list[subscription] }

func (l *subscribers) subscribe(s *subscription) { l.list.push(&s.node, s) }

// tell ends the oldest subscription and notifies its subscriber. told is false if there is none.
// The notified subscriber may end other subscriptions.
func (l *subscribers) tell(value any) (taken, told bool) {
	s := l.list.pop()
	if s == nil {
		return false, false
	}
	return s.to.notify(s.index, value), true
}

// waiter is the blocked call of a branch. The first of its sources with a value wins; it takes
// nothing from the others.
type waiter struct {
	b     *Branch
	won   int // index of the winning source, or one of the constants below
	value any
	few   [2]subscription // enough for most waits
	// outside reports that one of the sources gets its value from outside of the code. The run
	// counts the branches with such waits.
	outside bool
}

// wonNone means that no source has won yet, wonReleased that the wait ended because it is part of a
// deadlock.
const wonNone, wonReleased = -1, -2

// release ends the wait without a value.
func (w *waiter) release() {
	w.won = wonReleased
	w.b.run.wake(w.b)
}

// over removes the wait from the count of the run.
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

// wait blocks the branch until one of the sources has a value, and returns the source's index and
// the value. None of them may have a value at the call. The index is wonReleased if the wait is
// part of a deadlock. what and which describe the wait in reports.
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

// list is a doubly linked list whose nodes are parts of its items, so adding and removing take
// constant time and allocate nothing. The zero list is empty.
type list[T any] struct {
	first, last *node[T]
	n           int
}

// node is an item's node in a list. The zero node is in no list.
type node[T any] struct {
	item       *T
	in         *list[T]
	prev, next *node[T]
}

// push appends item, whose node is n and is in no list.
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

// pop removes and returns the first item, or returns nil if the list is empty.
func (l *list[T]) pop() *T {
	if l.first == nil {
		return nil
	}
	item := l.first.item
	l.first.remove()
	return item
}

// remove removes the item from its list, if it is in one.
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
