package replay

import "slices"

// subscription says who wants to know, and as which of the things he waits for.
type subscription struct {
	node  node[subscription]
	to    subscriber
	index int
}

// subscriber is told when something it subscribed to is there. taken is false
// if it no longer cares: then somebody else may have it.
type subscriber interface {
	notify(index int, value any) (taken bool)
}

// A source is something that a branch can wait for.
type source interface {
	subscribe(s *subscription)
}

// subscribers are told in the order in which they came.
type subscribers struct{ list list[subscription] }

func (l *subscribers) subscribe(s *subscription) { l.list.push(&s.node, s) }

// tell ends the subscription that is the oldest and tells it; it reports false
// when there is none left. Whoever is told may end others.
func (l *subscribers) tell(value any) (taken, told bool) {
	s := l.list.pop()
	if s == nil {
		return false, false
	}
	return s.to.notify(s.index, value), true
}

// waiter is the blocked call of a branch. The first of its sources that has
// something wins; the others then have nothing to give to it.
type waiter struct {
	b     *Branch
	won   int // index of the source, or one of those below
	value any
	few   [2]subscription // enough for most
	// outside says that one of the sources has something from outside of the code: the
	// run counts how many branches wait so.
	outside bool
}

// No source has won yet; the wait is over all the same, because it is part of a deadlock.
const wonNone, wonReleased = -1, -2

// release ends the wait without anything.
func (w *waiter) release() {
	w.won = wonReleased
	w.b.run.wake(w.b)
}

// over ends the wait for the count of the run.
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

// wait blocks the branch until one of the sources, none of which has anything
// yet, has something, and returns its index and value; wonReleased if it is part of a deadlock.
// what and which are for reports.
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
