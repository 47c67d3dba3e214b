package notify

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// unread records which runs of a session have unread items.
type unread struct {
	open    bool // the session is open, and this process has opened it
	waiters []*Waiter
	told    map[event.RunID]int64    // number of the newest announced item, by run
	untold  map[event.RunID]struct{} // runs with unread items that no Wait has returned
}

// unreadOf returns the entry of a session. It creates the entry if necessary.
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

// OpenSession begins to record unread items of a session, even while no Wait of the session is in
// progress.
func (ws *Waiters) OpenSession(session store.SessionID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	ws.unreadOf(session).open = true
}

// CloseSession stops the recording for a session.
func (ws *Waiters) CloseSession(session store.SessionID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if u := ws.unread[session]; u != nil {
		u.open = false
		ws.tidy(session)
	}
}

// Unread announces an item in the inbox of an owned run. If a store may announce the same item
// twice, it must number the items. Otherwise seq is 0.
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

// Known records that the session has seen the items of a run up to the number seq.
func (ws *Waiters) Known(session store.SessionID, run event.RunID, seq int64) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if u := ws.unread[session]; u != nil {
		u.remember(run, max(seq, u.told[run]))
		delete(u.untold, run)
	}
}

// Read records that the session has read all items of a run.
func (ws *Waiters) Read(session store.SessionID, run event.RunID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if u := ws.unread[session]; u != nil {
		delete(u.untold, run)
	}
}

// Lost discards the record of the unread items of a run that the session has lost.
func (ws *Waiters) Lost(session store.SessionID, run event.RunID) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if u := ws.unread[session]; u != nil {
		delete(u.untold, run)
		delete(u.told, run)
	}
}

// Sessions returns the sessions for which a Wait is in progress.
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

// hasUnread reports whether the Wait has unread items to return.
func (w *Waiter) hasUnread() bool {
	for _, session := range w.sessions {
		if len(w.of.unread[session].untold) > 0 {
			return true
		}
	}
	return false
}

// take adds the runs with unread items to the result of a Wait. Each run is returned once.
func (w *Waiter) take(woken *store.Woken) {
	for _, session := range w.sessions {
		u := w.of.unread[session]
		for run := range u.untold {
			woken.Unread = append(woken.Unread, run)
		}
		clear(u.untold)
	}
}
