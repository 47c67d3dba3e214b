package replay

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
	won   int // index of the source, -1: none yet
	value any
	few   [2]subscription // enough for most
}

func (w *waiter) notify(index int, value any) bool {
	if w.won >= 0 || w.b.finished {
		return false
	}
	w.won, w.value = index, value
	w.b.run.wake(w.b)
	return true
}

// wait blocks the branch until one of the sources, none of which has anything
// yet, has something, and returns its index and value. what and which are for
// reports.
func (b *Branch) wait(what, which string, sources ...source) (int, any) {
	w := &b.waiter
	w.b, w.won = b, -1
	subs := w.few[:]
	if len(sources) > len(subs) {
		subs = make([]subscription, len(sources))
	}
	for i, s := range sources {
		subs[i].to, subs[i].index = w, i
		s.subscribe(&subs[i])
	}
	b.waitsFor, b.waitsForKey = what, which
	for w.won < 0 {
		b.suspend()
	}
	b.waitsFor, b.waitsForKey = "", ""
	for i := range sources {
		subs[i].node.remove()
	}
	value := w.value
	w.value = nil
	return w.won, value
}
