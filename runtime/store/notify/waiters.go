package notify

import (
	"slices"
	"sync"

	"github.com/flowgen/flowgen/runtime/store"
)

// Waiters contains the calls of Wait that are blocked in one partition, and the unread items that
// they must return. All methods are safe for concurrent use; none but Call.Wait blocks.
type Waiters struct {
	mu     sync.Mutex
	all    map[*Waiter]struct{}
	idle   map[store.Route][]*Waiter // waiters without a wake, the longest wait first
	unread map[store.SessionID]*unread
}

// Waiter is one Wait in one partition.
type Waiter struct {
	of       *Waiters
	call     *Call
	sessions []store.SessionID

	// Guarded by the mutex of the Waiters:
	routes   []store.Route // routes in whose idle lists it is
	known    int64         // only earlier due times end the wait; 0: any due time does
	promised bool          // it gets a wake if a transaction commits
	claim    bool          // it has a wake
	due      bool
	rests    bool // it has checked the partition
}

// NewWaiters returns the waiters of a partition, without any waiter.
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

// Wake gives the wake of a route to the waiter that has waited longest. It reports whether there is
// one: if not, the store must keep the wake.
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

// Promise is Wake in a transaction that may fail: the waiter does not get the wake before Grant,
// and does not return before Grant or Withdraw. It returns nil if there is no waiter.
func (ws *Waiters) Promise(route store.Route) *Waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.longest(route)
	if w != nil {
		w.promised = true
	}
	return w
}

// longest returns the waiter that has waited longest and was not promised a wake.
func (ws *Waiters) longest(route store.Route) *Waiter {
	for _, w := range ws.idle[route] {
		if !w.promised {
			return w
		}
	}
	return nil
}

// Grant gives the waiter the promised wake.
func (w *Waiter) Grant() {
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.promised = false
	w.give()
}

// Withdraw cancels a promise.
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

// give gives a waiter a wake. One is enough, so it leaves the lists and other waiters get further
// ones.
func (w *Waiter) give() {
	w.claim = true
	w.forgo()
	signal(w.call.ready)
}

// forgo removes the waiter from the lists of its routes.
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

// WakeAll gives a wake to all waiters for a route with a session for which may returns true; a nil
// may means all of them.
func (ws *Waiters) WakeAll(route store.Route, may func(store.SessionID) bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range slices.Clone(ws.idle[route]) {
		if may == nil || slices.ContainsFunc(w.sessions, may) {
			w.give()
		}
	}
}

// WakeEverybody gives a wake to all waiters with a route.
func (ws *Waiters) WakeEverybody() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		if len(w.routes) > 0 {
			w.give()
		}
	}
}

// Serve reports whether a waiter may take the wake of a route. A waiter that was promised another
// wake may still not get that one.
func (ws *Waiters) Serve(route store.Route) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.idle[route]) > 0
}

// Due announces an earliest due time, in milliseconds, to the waiters that know only later ones.
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

// Found passes the waiter the earliest due time at its check, 0 for none. If its Wait has no Until,
// only due times before this one end the wait.
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

// Any reports whether there is a waiter.
func (ws *Waiters) Any() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.all) > 0
}

// Blocked returns the number of waiters, and how many of them have checked the partition and have
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
