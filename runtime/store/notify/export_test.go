package notify

// Left counts everything that is kept for those who wait, and for sessions.
func (ws *Waiters) Left() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.all) + len(ws.idle) + len(ws.unread)
}
