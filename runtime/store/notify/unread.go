package notify

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// unread is the state of the inboxes of the runs that a session owns.
type unread struct {
	open    bool // the session is live, and belongs to this process
	waiters []*Waiter
	told    map[event.RunID]int64    // number of the newest item that the session has seen, by run
	untold  map[event.RunID]struct{} // runs that no Wait has returned yet
}

// unreadOf returns the state of a session, and creates it if necessary.
func (ws *Waiters) unreadOf(session store.SessionID) *unread {
	u := ws.unread[session]
	if u == nil {
		u = &unread{}
		ws.unread[session] = u
	}
	return u
}

func (ws *Waiters) tidy(session store.SessionID) {
	if u := ws.unread[session]; u != nil && !u.open && len(u.waiters) == 0 {
		delete(ws.unread, session)
	}
}

// OpenSession begins to record the unread items of a session, even while it does not wait.
func (ws *Waiters) OpenSession(session store.SessionID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.unreadOf(session).open = true
}

// CloseSession ends the recording for a session.
func (ws *Waiters) CloseSession(session store.SessionID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if u := ws.unread[session]; u != nil {
		u.open = false
		ws.tidy(session)
	}
}

// Unread announces an item in the inbox of an owned run. A store that may announce the same item
// twice numbers the items; 0 means that it does not.
func (ws *Waiters) Unread(session store.SessionID, run event.RunID, seq int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	u := ws.unread[session]
	if u == nil || seq != 0 && seq <= u.told[run] {
		return
	}
	if seq != 0 {
		u.remember(run, seq)
	}
	if u.untold == nil {
		u.untold = map[event.RunID]struct{}{}
	}
	u.untold[run] = struct{}{}
	for _, w := range u.waiters {
		signal(w.call.ready)
	}
}

func (u *unread) remember(run event.RunID, seq int64) {
	if u.told == nil {
		u.told = map[event.RunID]int64{}
	}
	u.told[run] = seq
}

// Known records that the session has seen all items of a run up to seq.
func (ws *Waiters) Known(session store.SessionID, run event.RunID, seq int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if u := ws.unread[session]; u != nil {
		u.remember(run, max(seq, u.told[run]))
		delete(u.untold, run)
	}
}

// Read records that the inbox of a run is empty.
func (ws *Waiters) Read(session store.SessionID, run event.RunID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if u := ws.unread[session]; u != nil {
		delete(u.untold, run)
	}
}

// Lost records that the session no longer owns a run.
func (ws *Waiters) Lost(session store.SessionID, run event.RunID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if u := ws.unread[session]; u != nil {
		delete(u.untold, run)
		delete(u.told, run)
	}
}

// Sessions returns the sessions that wait.
func (ws *Waiters) Sessions() []store.SessionID {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	var all []store.SessionID
	for session, u := range ws.unread {
		if len(u.waiters) > 0 {
			all = append(all, session)
		}
	}
	return all
}

// hasUnread reports whether there is an item that no Wait has returned.
func (w *Waiter) hasUnread() bool {
	for _, session := range w.sessions {
		if len(w.of.unread[session].untold) > 0 {
			return true
		}
	}
	return false
}

// take adds the runs with unread items, each once, to the result of a Wait.
func (w *Waiter) take(woken *store.Woken) {
	for _, session := range w.sessions {
		u := w.of.unread[session]
		for run := range u.untold {
			woken.Unread = append(woken.Unread, run)
		}
		clear(u.untold)
	}
}
