package ratelimited

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// Service stands for a service with a quota. After Quota requests it is closed for a second.
type Service struct {
	Quota int

	mu          sync.Mutex
	used        int
	closed      time.Time // until then
	sent        map[string]bool
	busy, early int
}

// ServeHTTP admits a request, or answers 429.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch now := time.Now(); {
	case now.Before(s.closed):
		s.early++
	case s.used == s.Quota:
		s.used, s.closed = 0, now.Add(time.Second)
	default:
		s.used++
		if s.sent == nil {
			s.sent = map[string]bool{}
		}
		s.sent[r.URL.Path] = true
		return
	}
	s.busy++
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(http.StatusTooManyRequests)
}

// Counts returns how many contacts were sent, how many requests were answered with 429, and how many
// of these came before the service was open again.
func (s *Service) Counts() (sent, busy, early int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent), s.busy, s.early
}

// Listen serves on a port of this machine until stop is called.
func (s *Service) Listen() (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }() // returns an error when closed
	return "http://" + l.Addr().String(), func() { _ = server.Close() }, nil
}
