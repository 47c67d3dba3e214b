package redisstore

import (
	"sync"

	"github.com/flowgen/flowgen/runtime/store"
)

// names remembers what codes stand for, so that a record is read without asking
// for them. Codes are computed from what they stand for and never change.
type names struct {
	mu       sync.RWMutex
	routes   map[string]store.Route
	codes    map[store.Route]string
	sessions map[string]store.SessionID
}

// namesLimit bounds each of the maps: what is forgotten is asked for again.
const namesLimit = 10_000

func newNames() *names {
	return &names{routes: map[string]store.Route{}, codes: map[store.Route]string{}, sessions: map[string]store.SessionID{}}
}

func (n *names) route(code string) (store.Route, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c, ok := n.routes[code]
	return c, ok
}

func (n *names) session(code string) (store.SessionID, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	s, ok := n.sessions[code]
	return s, ok
}

// codeOf returns the code of a route.
func (n *names) codeOf(c store.Route) string {
	n.mu.RLock()
	code, known := n.codes[c]
	n.mu.RUnlock()
	if known {
		return code
	}
	code = routeCode(c)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keepRoute(code, c)
	return code
}

func (n *names) learnRoute(code string, c store.Route) {
	if _, known := n.route(code); known {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keepRoute(code, c)
}

// keepRoute remembers a route. The lock is held.
func (n *names) keepRoute(code string, c store.Route) {
	if len(n.routes) >= namesLimit {
		clear(n.routes)
		clear(n.codes)
	}
	n.routes[code], n.codes[c] = c, code
}

func (n *names) learnSession(code string, s store.SessionID) {
	if _, known := n.session(code); known {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.sessions) >= namesLimit {
		clear(n.sessions)
	}
	n.sessions[code] = s
}
