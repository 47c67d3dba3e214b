package notify

// Left returns the number of remaining entries for waiters and sessions.
func (ws *Waiters) Left() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.all) + len(ws.idle) + len(ws.unread)
}
