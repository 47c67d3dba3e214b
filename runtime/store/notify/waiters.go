package notify

import (
	"slices"
	"sync"

	"github.com/flowgen/flowgen/runtime/store"
)

// Waiters holds the Waits that are blocked in one partition, and the unread items that they
// must tell of. All methods are safe for concurrent use; none but Call.Wait blocks.
type Waiters struct {
	mu     sync.Mutex
	all    map[*Waiter]struct{}
	idle   map[store.Route][]*Waiter // without a wake, longest wait first
	unread map[store.SessionID]*unread
}

// Waiter is one Wait in one partition.
type Waiter struct {
	of       *Waiters
	call     *Call
	sessions []store.SessionID

	// Guarded by the mutex of the Waiters:
	routes   []store.Route // in whose lists it is
	known    int64         // due times from here on are known; 0: all are
	promised bool          // it gets a wake if a transaction commits
	claim    bool          // it has a wake
	due      bool
	rests    bool // it has looked
}

// NewWaiters returns the waiters of a partition in which nobody waits yet.
func NewWaiters() *Waiters {
	return &Waiters{
		all:    map[*Waiter]struct{}{},
		idle:   map[store.Route][]*Waiter{},
		unread: map[store.SessionID]*unread{},
	}
}

// join adds a waiter.
func (ws *Waiters) join(w *Waiter, routes []store.Route) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.all[w] = struct{}{}
	for _, session := range w.sessions {
		u := ws.unreadOf(session)
		u.waiters = append(u.waiters, w)
	}
	for _, c := range routes {
		if !slices.Contains(w.routes, c) {
			w.routes = append(w.routes, c)
			ws.idle[c] = append(ws.idle[c], w)
		}
	}
}

// Wake gives the wake of a route to the waiter that has been there for longest. It reports
// whether there is one: if not, the store must keep the wake.
func (ws *Waiters) Wake(route store.Route) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.longest(route)
	if w == nil {
		return false
	}
	w.give()
	return true
}

// Promise is Wake in a transaction that may fail: the waiter is not given the wake before
// Grant, and does not return before Grant or Withdraw. Nil: there is none.
func (ws *Waiters) Promise(route store.Route) *Waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.longest(route)
	if w != nil {
		w.promised = true
	}
	return w
}

// longest returns the waiter that has waited for longest, and has no wake.
func (ws *Waiters) longest(route store.Route) *Waiter {
	for _, w := range ws.idle[route] {
		if !w.promised {
			return w
		}
	}
	return nil
}

// Grant keeps a promise.
func (w *Waiter) Grant() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.promised = false
	w.give()
}

// Withdraw takes back a promise.
func (w *Waiter) Withdraw() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.promised = false
	signal(w.call.ready)
}

// Claim gives the waiter a wake that the store has kept.
func (w *Waiter) Claim() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.give()
}

// give gives a waiter a wake. One is enough: it leaves the others to others.
func (w *Waiter) give() {
	w.claim = true
	w.forgo()
	signal(w.call.ready)
}

// forgo takes the waiter out of the lists of its routes.
func (w *Waiter) forgo() {
	for _, c := range w.routes {
		rest := w.of.idle[c]
		if i := slices.Index(rest, w); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		}
		if w.of.idle[c] = rest; len(rest) == 0 {
			delete(w.of.idle, c)
		}
	}
	w.routes = nil
}

// WakeAll makes all who wait for a route claim whose sessions may; nil: all of them.
func (ws *Waiters) WakeAll(route store.Route, may func(store.SessionID) bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range slices.Clone(ws.idle[route]) {
		if may == nil || slices.ContainsFunc(w.sessions, may) {
			w.give()
		}
	}
}

// WakeEverybody makes all claim who wait for any route.
func (ws *Waiters) WakeEverybody() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		if len(w.routes) > 0 {
			w.give()
		}
	}
}

// Serve reports whether a waiter may take the wake of a route. One that was promised another
// may yet be disappointed.
func (ws *Waiters) Serve(route store.Route) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.idle[route]) > 0
}

// Due announces an earliest due time, in milliseconds, to those who know only of later ones.
func (ws *Waiters) Due(at int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		if w.known == 0 || at < w.known {
			w.due = true
			signal(w.call.ready)
		}
	}
}

// Found tells the waiter the earliest due time that was there when it looked, 0: none. If its
// Wait does not say what it knows, it knows this one.
func (w *Waiter) Found(due int64) {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	switch {
	case w.known == 0:
		w.known = due
	case due != 0 && due < w.known:
		w.due = true
		signal(w.call.ready)
	}
}

// hasSignal reports whether there is anything that the Wait should return.
func (w *Waiter) hasSignal() bool { return !w.promised && (w.claim || w.due || w.hasUnread()) }

// Any reports whether anybody waits.
func (ws *Waiters) Any() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.all) > 0
}

// Blocked returns how many waiters there are, and how many of them have looked and have
// nothing to return.
func (ws *Waiters) Blocked() (all, resting int) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		if w.rests && !w.promised && !w.hasSignal() {
			resting++
		}
	}
	return len(ws.all), resting
}
