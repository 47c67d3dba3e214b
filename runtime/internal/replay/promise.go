package replay

// Promise is a result that is not there yet. It is resolved once.
type Promise struct {
	done  bool
	value any
	scope *Scope     // under which it is being made
	parts []*Promise // of a Gather: what it is made from
	subs  []subscription
}

// subscription says who wants to know, and as which of the things he waits for.
type subscription struct {
	to    subscriber
	index int
}

// subscriber is told when something it subscribed to is there. taken is false
// if it no longer cares: then somebody else may have it.
type subscriber interface {
	notify(index int, value any) (taken bool)
}

// source is what a branch can wait for.
type source interface {
	subscribe(s subscriber, index int)
	unsubscribe(s subscriber)
}

// NewPromise returns a promise that code under the scope will resolve.
func NewPromise(s *Scope) *Promise { return &Promise{scope: s} }

// Resolve sets the value and makes those who wait for it runnable, in the order
// in which they came.
func (p *Promise) Resolve(value any) { p.resolve(value) }

// Done reports whether the promise is resolved.
func (p *Promise) Done() bool { return p.done }

// Value returns what it was resolved with, nil before.
func (p *Promise) Value() any { return p.value }

// resolve sets the value and tells the subscribers in the order in which they came.
func (p *Promise) resolve(value any) {
	p.done, p.value = true, value
	subs := p.subs
	p.subs = nil
	for _, s := range subs {
		s.to.notify(s.index, value)
	}
}

func (p *Promise) subscribe(s subscriber, index int) {
	p.subs = append(p.subs, subscription{s, index})
}

func (p *Promise) unsubscribe(s subscriber) { p.subs = removeSubscriber(p.subs, s) }

func removeSubscriber(subs []subscription, s subscriber) []subscription {
	for i := range subs {
		if subs[i].to == s {
			copy(subs[i:], subs[i+1:])
			subs[len(subs)-1] = subscription{}
			return subs[:len(subs)-1]
		}
	}
	return subs
}

// waiter is one blocked call of a branch. The first of its sources that has
// something wins; the others then have nothing to give to it.
type waiter struct {
	b     *Branch
	won   int // index of the source, -1: none yet
	value any
}

func (w *waiter) notify(index int, value any) bool {
	if w.won >= 0 {
		return false
	}
	w.won, w.value = index, value
	w.b.run.wake(w.b)
	return true
}

// wait blocks the branch until one of the sources, none of which has anything
// yet, has something, and returns its index and value. what is for reports.
func (b *Branch) wait(what string, sources ...source) (int, any) {
	w := &waiter{b: b, won: -1}
	for i, s := range sources {
		s.subscribe(w, i)
	}
	b.blocked = what
	for w.won < 0 {
		b.suspend()
	}
	b.blocked = ""
	for _, s := range sources {
		s.unsubscribe(w)
	}
	return w.won, w.value
}

// Await blocks until p is resolved and returns its value; or until the scope
// ends, but only if p is not itself under a scope that has ended: what is being
// canceled is waited for, so that its outcome decides.
func (b *Branch) Await(s *Scope, p *Promise, what string) (any, error) {
	b.enter()
	if p.done {
		return p.value, nil
	}
	for {
		if s.err != nil && !p.canceling() {
			return nil, s.err
		}
		if s.err != nil {
			_, v := b.wait(what, p)
			return v, nil
		}
		if won, v := b.wait(what, p, &s.ended); won == 0 {
			return v, nil
		}
	}
}

// canceling reports whether what makes the promise has been told to stop.
func (p *Promise) canceling() bool {
	if p.parts == nil {
		return p.scope != nil && p.scope.err != nil
	}
	for _, part := range p.parts {
		if !part.done && !part.canceling() {
			return false
		}
	}
	return true
}

// Gather resolves a promise of its own from the ends of others.
type Gather struct {
	Promise
	left int
	stop func(index int, value any) bool
}

// NewGather returns a promise that is resolved once all of ps are (with the
// value -1), or as soon as stop says so of one of them (with its index). Those
// that are resolved already are asked first, in the order of the list.
func NewGather(ps []*Promise, stop func(index int, value any) bool) *Gather {
	g := &Gather{left: len(ps), stop: stop}
	g.parts = ps
	for i, p := range ps {
		if p.done {
			g.notify(i, p.value)
		} else {
			p.subscribe(g, i)
		}
	}
	if g.left == 0 && !g.done {
		g.resolve(-1)
	}
	return g
}

func (g *Gather) notify(index int, value any) bool {
	g.left--
	switch {
	case g.done:
	case g.stop != nil && g.stop(index, value):
		g.resolve(index)
	case g.left == 0:
		g.resolve(-1)
	}
	return true
}
