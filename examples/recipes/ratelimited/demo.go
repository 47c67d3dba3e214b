package ratelimited

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Service simulates a service with a quota. After Quota requests, it rejects all requests for a
// second.
type Service struct {
	Quota int

	mu          sync.Mutex
	used        int
	closed      time.Time // time until which requests are rejected
	sent        map[string]bool
	busy, early int
}

// ServeHTTP accepts a request or responds with status 429.
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

// Counts returns the number of contacts that were sent and the number of responses with status 429.
// early is the number of requests that arrived before the requested delay was over.
func (s *Service) Counts() (sent, busy, early int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent), s.busy, s.early
}

// Listen serves HTTP on a free port of this machine until stop is called.
func (s *Service) Listen() (url string, stop func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(l) }() // Serve returns an error when the server is closed.
	return "http://" + l.Addr().String(), func() { _ = server.Close() }, nil
}

// Run sends twelve contacts to a service that accepts five requests in a row.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) (err error) {
	crm := &Service{Quota: 5}
	url, stop, err := crm.Listen()
	if err != nil {
		return err
	}
	defer stop()
	w := worker.New(client, worker.Config{})
	Register(w, &Contacts{CRM: url})
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { defer cancel(); worked <- w.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	var names []string
	for i := range 12 {
		names = append(names, fmt.Sprint("contact-", i))
	}
	if _, err := Publish.Execute(ctx, client, names); err != nil {
		return err
	}
	sent, busy, early := crm.Counts()
	_, err = fmt.Fprintf(out, "%d contacts are sent, %d requests were answered with 429, %d came before Retry-After was over\n", sent, busy, early)
	return err
}
