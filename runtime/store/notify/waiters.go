package notify

import (
	"slices"
	"sync"

	"github.com/flowgen/flowgen/runtime/store"
)

// Waiters contains the calls of Wait that are blocked in one partition, and the unread items that
// they must return. All methods are safe for concurrent use. Only Call.Wait blocks.
type Waiters struct {
	mu     sync.Mutex
	all    map[*Waiter]struct{}
	idle   map[store.Route][]*Waiter // waiters without a wake, by route, longest wait first
	unread map[store.SessionID]*unread
}

// Waiter is the part of a call of Wait in one partition.
type Waiter struct {
	of       *Waiters
	call     *Call
	sessions []store.SessionID

	// Guarded by the mutex of the Waiters:
	routes   []store.Route // routes in whose idle lists the waiter is
	known    int64         // only due times before this time end the wait; every due time if 0
	promised bool          // the waiter gets a wake if a transaction commits
	claim    bool          // the waiter has a wake
	due      bool
	rests    bool // the waiter has checked the partition
}

// NewWaiters returns the waiters of a partition, without a waiter.
func NewWaiters() *Waiters {
	return &Waiters{
		all:    map[*Waiter]struct{}{},
		idle:   map[store.Route][]*Waiter{},
		unread: map[store.SessionID]*unread{},
	}
}

// join adds a waiter for the given routes.
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

// Wake gives the wake of a route to the waiter that has waited longest. It returns false if there
// is no waiter; the store must then keep the wake.
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

// Promise is like Wake within a transaction that may fail. The waiter gets the wake only by Grant,
// and does not return before Grant or Withdraw is called. Promise returns nil if there is no
// waiter.
func (ws *Waiters) Promise(route store.Route) *Waiter {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := ws.longest(route)
	if w != nil {
		w.promised = true
	}
	return w
}

// longest returns the waiter that has waited longest, without the waiters that were promised a
// wake.
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

// give gives the waiter a wake and removes it from all lists, so that other waiters get further
// wakes.
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

// WakeAll gives a wake to all waiters for a route that have a session for which may returns true.
// If may is nil, it gives a wake to all waiters for the route.
func (ws *Waiters) WakeAll(route store.Route, may func(store.SessionID) bool) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for _, w := range slices.Clone(ws.idle[route]) {
		if may == nil || slices.ContainsFunc(w.sessions, may) {
			w.give()
		}
	}
}

// WakeEverybody gives a wake to all waiters that have a route.
func (ws *Waiters) WakeEverybody() {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		if len(w.routes) > 0 {
			w.give()
		}
	}
}

// Serve reports whether a waiter for the route exists. The waiter may not get the wake of the route
// if it was promised another wake.
func (ws *Waiters) Serve(route store.Route) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.idle[route]) > 0
}

// Due announces a new earliest due time, in milliseconds, to the waiters with a later known due
// time.
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

// Found passes the earliest due time of the partition to the waiter, or 0 if there is none. The
// store calls it during its check. If the Wait has no end time, only due times before this one end
// the wait.
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

// hasSignal reports whether the Wait has something to return.
func (w *Waiter) hasSignal() bool { return !w.promised && (w.claim || w.due || w.hasUnread()) }

// Any reports whether there is a waiter.
func (ws *Waiters) Any() bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.all) > 0
}

// Blocked returns the number of waiters, and the number of those that have checked the partition
// and have nothing to return.
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
