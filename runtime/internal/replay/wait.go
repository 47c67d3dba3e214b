package replay

import "slices"

// A source is an object for which a branch can wait.
type source interface {
	subscribe(s *subscription)
}

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

// suspend returns control to the driver until the branch is resumed.
func (b *Branch) suspend() {
	b.ignored = 0
	b.co.suspend()
	for b.run.asking { // the branch was resumed only to report its position
		b.run.position = b.position()
		b.co.suspend()
	}
	if b.run.dying {
		b.co.exit()
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

// subscribers are a source that notifies its subscribers in the order in which they subscribed.
type subscribers struct{ list list[subscription] }

func (l *subscribers) subscribe(s *subscription) { l.list.push(&s.node, s) }

// notifyFirst removes the oldest subscription and notifies its subscriber. notified is false if
// there is no subscription. The notified subscriber may remove other subscriptions.
func (l *subscribers) notifyFirst(value any) (taken, notified bool) {
	s := l.list.pop()
	if s == nil {
		return false, false
	}
	return s.to.notify(s.index, value), true
}

func (l *subscribers) notifyAll(value any) {
	for notified := true; notified; {
		_, notified = l.notifyFirst(value)
	}
}

// Promise is a result that is resolved once, possibly later.
type Promise struct {
	subscribers
	done   bool
	value  any
	scope  *Scope  // scope under which the value is being computed
	gather *Gather // the Gather that the promise is part of as its embedded Promise; nil if none
	maker  *Branch // the branch that resolves the promise; nil if none
	op     *Op     // the operation whose end or start resolves the promise; nil if none
	// lost is set if a Gather of which the promise is a part ended before the promise was resolved,
	// and the promise was not awaited after that.
	lost bool
}

// NewPromise returns a promise that code under the scope will resolve.
func NewPromise(s *Scope) *Promise { return &Promise{scope: s} }

// Resolve sets the value and makes the waiting branches runnable, in the order in which they began
// to wait.
func (p *Promise) Resolve(value any) {
	p.done, p.value = true, value
	p.notifyAll(value)
}

// Done reports whether the promise was resolved.
func (p *Promise) Done() bool { return p.done }

// Value returns the value of the promise. It returns nil if the promise was not resolved.
func (p *Promise) Value() any { return p.value }

// Await blocks until p is resolved and returns its value. If the scope ends first, Await returns
// the error of the scope. The exception is a p whose own scope has ended: its work is being
// canceled, and Await waits for the outcome.
func (b *Branch) Await(s *Scope, p *Promise, what string) (any, error) {
	b.enter()
	b.heed(s)
	p.lost = false
	// The conditions are checked after each wait. The end of the scope may have made the branch
	// runnable, and other branches may have changed the conditions before this branch runs.
	for !p.done {
		b.awaits = awaits{scope: s, promise: p}
		var won int
		switch {
		case s.err == nil:
			won, _ = b.wait(what, "", p, &s.ended)
		case p.canceling():
			won, _ = b.wait(what, "", p)
		default:
			p.abandon()
			return nil, s.err
		}
		if won == wonReleased && !p.done {
			p.abandon()
			return nil, ErrDeadlock
		}
	}
	return p.value, nil
}

// canceling reports whether the work that resolves the promise was canceled.
func (p *Promise) canceling() bool {
	if p.gather == nil {
		return p.scope != nil && p.scope.err != nil
	}
	for _, part := range p.gather.parts {
		if !part.done && !part.canceling() {
			return false
		}
	}
	return true
}

// abandon ends the subscriptions of a Gather that is not awaited any longer.
func (p *Promise) abandon() {
	if p.gather != nil {
		p.gather.detach()
	}
}

// Gather is a promise that is resolved from other promises. It may be awaited at most once, because
// a Gather whose Await ended with the scope is never resolved.
type Gather struct {
	Promise
	parts []*Promise
	subs  []subscription
	left  int
	stop  func(index int, value any) bool
}

// NewGather returns a promise that is resolved with the value -1 when all of ps are resolved. If
// stop returns true for one of them, the promise is resolved at once with its index. Promises that
// are resolved at the call are checked first, in the order of the list.
func NewGather(ps []*Promise, stop func(index int, value any) bool) *Gather {
	g := &Gather{parts: ps, left: len(ps), stop: stop}
	g.gather = g
	for i, p := range ps {
		p.lost = false
		if p.done && !g.done {
			g.notify(i, p.value)
		}
	}
	if g.left == 0 && !g.done {
		g.Resolve(-1)
	}
	if g.done {
		return g
	}
	g.subs = make([]subscription, len(ps))
	for i, p := range ps {
		if !p.done {
			g.subs[i].to, g.subs[i].index = g, i
			p.subscribe(&g.subs[i])
		}
	}
	return g
}

func (g *Gather) notify(index int, value any) bool {
	g.left--
	switch {
	case g.stop != nil && g.stop(index, value):
		g.finish(index)
	case g.left == 0:
		g.finish(-1)
	}
	return true
}

func (g *Gather) finish(value int) {
	g.detach()
	if value >= 0 {
		for _, p := range g.parts {
			p.lost = !p.done
		}
	}
	g.Resolve(value)
}

// detach ends the subscriptions of the Gather, so that they do not accumulate in long-lived
// promises.
func (g *Gather) detach() {
	for i := range g.subs {
		g.subs[i].node.remove()
	}
	g.subs = nil
}
