package redisstore

import (
	"sync"

	"github.com/flowgen/flowgen/runtime/store"
)

// names remembers what codes stand for, so that a record is read without asking
// for them. Codes are computed from what they stand for and never change.
type names struct {
	mu       sync.RWMutex
	classes  map[string]store.Class
	codes    map[store.Class]string
	sessions map[string]store.SessionID
}

// namesLimit bounds each of the maps: what is forgotten is asked for again.
const namesLimit = 10_000

func newNames() *names {
	return &names{classes: map[string]store.Class{}, codes: map[store.Class]string{}, sessions: map[string]store.SessionID{}}
}

func (n *names) class(code string) (store.Class, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c, ok := n.classes[code]
	return c, ok
}

func (n *names) session(code string) (store.SessionID, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	s, ok := n.sessions[code]
	return s, ok
}

// codeOf returns the code of a class.
func (n *names) codeOf(c store.Class) string {
	n.mu.RLock()
	code, known := n.codes[c]
	n.mu.RUnlock()
	if known {
		return code
	}
	code = classCode(c)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keepClass(code, c)
	return code
}

func (n *names) learnClass(code string, c store.Class) {
	if _, known := n.class(code); known {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keepClass(code, c)
}

// keepClass remembers a class. The lock is held.
func (n *names) keepClass(code string, c store.Class) {
	if len(n.classes) >= namesLimit {
		clear(n.classes)
		clear(n.codes)
	}
	n.classes[code], n.codes[c] = c, code
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
