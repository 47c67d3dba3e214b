package notify

// Left returns the number of entries that are kept for waiters and for sessions.
func (ws *Waiters) Left() int {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	return len(ws.all) + len(ws.idle) + len(ws.unread)
}
